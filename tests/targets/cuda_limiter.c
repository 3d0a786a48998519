// A library that limits what programs may have of a GPU, as those do that share one: it answers for dlsym.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

static void *next_dlsym(void *handle, const char *name) {
    void *(*next)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next(handle, name);
}

int cuMemAlloc_v2(uint64_t *block, size_t bytes) {
    int (*next)(uint64_t *, size_t) =
        next_dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    return bytes > 1000000 ? 2 : next(block, bytes);
}

void *dlsym(void *handle, const char *name) {
    return strcmp(name, "cuMemAlloc_v2") ? next_dlsym(handle, name) : (void *)cuMemAlloc_v2;
}
