// Asks for more than it touches, on one processor: a thread that is moved while the kernel clears a huge page does not
// report the rest of it.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MIB = 1 << 20 };

static void touch(volatile char *place, long bytes) {
    for (long at = 0; at < bytes; at += 4096) place[at] = 1;
}

int main(void) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(sched_getcpu(), &own);
    sched_setaffinity(0, sizeof own, &own);
    char *block = malloc(24 * MIB);
    touch(block, 8 * MIB);
    char *place = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(place, 16 * MIB, MADV_NOHUGEPAGE);
    touch(place, 8 * MIB);
    // At a multiple of a huge page; one touch brings the whole page.
    char *huge = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    huge = (char *)(((uintptr_t)huge + 4 * MIB) & ~(uintptr_t)(2 * MIB - 1));
    huge = mmap(huge, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    madvise(huge, 8 * MIB, MADV_HUGEPAGE);
    huge[0] = 1;
    free(block);
    munmap(place, 16 * MIB);
    munmap(huge, 8 * MIB);
}
