/* Prints errno after every call that is wrapped, whether it succeeded or failed; it is 4321 before. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOW(call)                                                             \
    do {                                                                       \
        errno = 4321;                                                          \
        int failed = (call);                                                   \
        int after = errno;                                                     \
        fprintf(stdout, "%s: %d, errno %d\n", #call, failed, after);           \
    } while (0)

static void *block, *page, *other;
static volatile size_t absurd = SIZE_MAX / 2;

int main(void) {
    int rw = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    SHOW((block = malloc(10)) == NULL);
    SHOW((block = realloc(block, 100000)) == NULL);
    SHOW(realloc(block, absurd) == NULL);
    SHOW(reallocarray(block, absurd, 3) == NULL);
    SHOW((block = reallocarray(block, 7, 3)) == NULL);
    SHOW(realloc(block, 0) == NULL);
    SHOW((free(malloc(1 << 20)), 0));
    SHOW((free(NULL), 0));
    SHOW((block = calloc(7, 9)) == NULL);
    SHOW(calloc(absurd, 3) == NULL);
    SHOW(malloc(absurd) == NULL);
    SHOW(posix_memalign(&block, 64, 100));
    SHOW(posix_memalign(&block, 3, 100));
    SHOW(posix_memalign(&block, 64, absurd));
    SHOW(aligned_alloc(64, 128) == NULL);
    SHOW(aligned_alloc(64, absurd) == NULL);
    SHOW(memalign(64, absurd) == NULL);
    SHOW(valloc(100) == NULL);
    SHOW(pvalloc(absurd) == NULL);
    SHOW((page = mmap(0, 8192, rw, flags, -1, 0)) == MAP_FAILED);
    SHOW(mmap(0, 0, rw, flags, -1, 0) == MAP_FAILED);
    SHOW(mmap(0, 4096, rw, MAP_PRIVATE, 999, 0) == MAP_FAILED);
    SHOW(mmap((char *)page + 1, 4096, rw, flags | MAP_FIXED, -1, 0) == MAP_FAILED);
    SHOW(mremap(page, 8192, 1UL << 60, 0) == MAP_FAILED);
    SHOW(mremap((char *)page + 1, 8192, 4096, 0) == MAP_FAILED);
    SHOW((other = mremap(page, 8192, 1 << 20, MREMAP_MAYMOVE)) == MAP_FAILED);
    SHOW(munmap((char *)other + 1, 4096));
    SHOW(munmap(other, 1 << 20));
    SHOW(sbrk(4096) == (void *)-1);
    SHOW(sbrk(1L << 50) == (void *)-1);
    SHOW(brk((void *)1));
    SHOW(execl("/no/such/program", "x", (char *)0));
    SHOW(execlp("no-such-program-anywhere", "x", (char *)0));
    /* Often enough for the ring to fill and be waited for. */
    long changed = 0;
    for (long i = 0; i < 400000; i++) {
        errno = 4321;
        void *small = malloc(24);
        changed += errno != 4321;
        free(small);
        changed += errno != 4321;
    }
    printf("changed %ld\n", changed);
    return 0;
}
