/* Reallocates in a loop. Compiled with -DLIBRARY it is an allocator whose realloc maps memory on the way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef LIBRARY
void *realloc(void *block, size_t bytes) {
    static void *(*next)(void *, size_t);
    if (!next) next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
    return next(block, bytes);
}
#else
int main(void) {
    for (int i = 0; i < 2000; i++) free(realloc(malloc(100000), 100001));
    return 0;
}
#endif
