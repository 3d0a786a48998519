/* Mappings that are cut, replaced, moved and refused. Leaves 3 MiB of memory and 1 MiB of reservation. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1UL << 20)

int main(void) {
    int rw = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *a = mmap(0, 8 * MIB, rw, flags, -1, 0);
    memset(a, 1, 8 * MIB);
    munmap(a + 2 * MIB, 4 * MIB);                                     /* a hole: 2 + 2 MiB are left */
    mmap(a, MIB, rw, flags | MAP_FIXED, -1, 0);                       /* replaces the first MiB */
    munmap(a + 7 * MIB, MIB);                                         /* 1 + 1 + 1 MiB are left */
    if (munmap(a + 1, MIB) == 0) return 1;                            /* not aligned: refused */
    char *b = mmap(0, MIB, rw, flags, -1, 0);
    memset(b, 1, MIB);
    b = mremap(b, MIB, 16 * MIB, MREMAP_MAYMOVE);
    memset(b, 1, 16 * MIB);                                           /* 19 MiB: the peak */
    if (mremap(b, 16 * MIB, 1UL << 60, 0) != MAP_FAILED) return 2;    /* refused */
    munmap(b, 16 * MIB);
    mmap(0, MIB, PROT_NONE, flags, -1, 0);
    return 0;
}
