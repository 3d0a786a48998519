// Maps in all ways there are, once a line was written to it: `mapped`. Says what it holds in the end.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char *map(void *place, size_t bytes, int flags) {
    return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

int main(void) {
    static char line[16];
    if (read(0, line, sizeof line) < 0) return 1;
    char *first = map(NULL, 8 * MIB, 0);
    memset(first, 1, 8 * MIB);
    map(first + 2 * MIB, 2 * MIB, MAP_FIXED); // over the middle of it
    munmap(first + 6 * MIB, MIB);             // a hole
    char *moved = mremap(first + 7 * MIB, MIB, 4 * MIB, MREMAP_MAYMOVE);
    memset(moved, 1, 3 * MIB);
    char *end = sbrk(0);
    sbrk(5 * MIB);
    memset(end, 1, 5 * MIB);
    sbrk(-2 * MIB);
    munmap(moved + 3 * MIB, MIB);
    madvise(first, MIB, MADV_DONTNEED);
    int segment = shmget(IPC_PRIVATE, 3 * MIB, IPC_CREAT | 0600);
    char *shared = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    memset(shared, 1, 3 * MIB);
    shmdt(shared);
    mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);        // fails
    mremap(first + 6 * MIB, MIB, 2 * MIB, MREMAP_MAYMOVE);               // fails: nothing is there
    char *third = map(NULL, 6 * MIB, 0);
    munmap(third, 6 * MIB);
    printf("%p %p %p\n", (void *)first, (void *)moved, (void *)end);
    return 5;
}
