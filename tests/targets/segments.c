/* The break moved by sbrk and brk, segments of shared memory, and memory given back by madvise. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define MIB (1UL << 20)

static void check(int ok) {
    if (!ok) _exit(1);
}

int main(void) {
    check(sbrk(0) != (void *)-1);
    char *first = sbrk(3 * MIB);
    memset(first, 1, 3 * MIB);
    check(brk(first + 5 * MIB) == 0);
    memset(first + 3 * MIB, 1, 2 * MIB);
    check(sbrk(-(long)MIB) == first + 5 * MIB);
    check(brk(first + 2 * MIB) == 0);
    check(brk((void *)-1L) == -1);

    int id = shmget(IPC_PRIVATE, 7 * MIB + 100, IPC_CREAT | 0600);
    check(id >= 0);
    char *one = shmat(id, 0, 0), *two = shmat(id, 0, SHM_RDONLY);
    check(one != (void *)-1 && two != (void *)-1 && shmctl(id, IPC_RMID, 0) == 0);
    memset(one, 1, 7 * MIB);
    check(shmdt(two) == 0 && shmdt(two) == -1);

    char *mapped = mmap(0, 11 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 11 * MIB);
    check(madvise(mapped, 11 * MIB, MADV_DONTNEED) == 0);
    memset(mapped, 1, MIB);
    check(madvise(first, 1, 12345) == -1);
    return 0;
}
