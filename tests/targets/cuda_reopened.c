// Looks whether there is a driver, closes it, and opens it again when it cannot come to where it was.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver == NULL || dlsym(driver, "cuMemAlloc_v2") == NULL) {
        return 1;
    }
    dlclose(driver);
    for (int i = 0; i < 64; i++) {
        mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*initialise)(unsigned) = dlsym(driver, "cuInit");
    int (*create)(void **, unsigned, int) = dlsym(driver, "cuCtxCreate_v2");
    int (*allocate)(uint64_t *, size_t) = dlsym(driver, "cuMemAlloc_v2");
    void *context;
    uint64_t block;
    initialise(0);
    create(&context, 0, 0);
    printf("%d\n", allocate(&block, 1 << 20));
    return 0;
}
