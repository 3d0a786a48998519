/* 100 MiB that processes share, or that each has of its own of a file.
 *
 *     shared_memory WAY PROCESSES FILE
 *
 * WAY: shm, memfd, file (shared), private (the same file, each with pages of its own), segment, anonymous, handed (a
 * memfd whose first process lets go of it before the others do), windows (a memfd, mapped half by half). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define BYTES (100 * MIB)

#ifndef HELD_SECONDS
#define HELD_SECONDS 3
#endif

static const int RW = PROT_READ | PROT_WRITE;
static int file = -1, segment = -1, together[2], done[2];

static void check(int fine, int line) {
    if (!fine) _exit(line);
}
#define CHECK(fine) check(fine, __LINE__)

static char *map(const char *way) {
    if (segment >= 0) return shmat(segment, 0, 0);
    int flags = strcmp(way, "private") ? MAP_SHARED : MAP_PRIVATE;
    if (strcmp(way, "anonymous") == 0) flags |= MAP_ANONYMOUS;
    if (strcmp(way, "windows")) return mmap(0, BYTES, RW, flags, file, 0);
    char *place = mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned long half = 0; half < BYTES; half += BYTES / 2) {
        CHECK(mmap(place + half, BYTES / 2, RW, flags | MAP_FIXED, file, half) == place + half);
    }
    return place;
}

/* Maps, writes, and holds what it has until all have. */
static void hold(const char *way) {
    char c = 0, *memory = map(way);
    CHECK(memory != MAP_FAILED);
    memset(memory, 1, BYTES);
    CHECK(write(together[1], &c, 1) == 1 && read(done[0], &c, 1) == 1);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    const char *way = argv[1];
    int processes = atoi(argv[2]);
    CHECK(pipe(together) == 0 && pipe(done) == 0);
    if (strcmp(way, "shm") == 0) {
        file = shm_open(argv[3], O_RDWR | O_CREAT | O_EXCL, 0600);
        CHECK(shm_unlink(argv[3]) == 0);
    } else if (strcmp(way, "file") == 0 || strcmp(way, "private") == 0) {
        file = open(argv[3], O_RDWR | O_CREAT, 0600);
    } else if (strcmp(way, "segment") == 0) {
        segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    } else if (strcmp(way, "anonymous")) {
        file = memfd_create("shared", 0);
    }
    CHECK(file < 0 || ftruncate(file, BYTES) == 0);
    int is_handed = strcmp(way, "handed") == 0;
    char *first = is_handed ? map(way) : 0;
    if (is_handed) memset(first, 1, BYTES);
    for (int child = 1; child < processes; child++) {
        if (fork() == 0) {
            hold(way);
            _exit(0);
        }
    }
    if (!is_handed) {
        char c = 0, *memory = map(way);
        CHECK(memory != MAP_FAILED && write(together[1], &c, 1) == 1);
        memset(memory, 1, BYTES);
    }
    for (int i = is_handed; i < processes; i++) {
        char c;
        CHECK(read(together[0], &c, 1) == 1);
    }
    /* What is written of a private file is known by snapshots, a hundred times as far apart as one takes (2 to 10 ms). */
    if (strcmp(way, "private") == 0) sleep(HELD_SECONDS);
    if (is_handed) munmap(first, BYTES);
    for (int child = 1; child < processes; child++) CHECK(write(done[1], "", 1) == 1);
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
    if (segment >= 0) shmctl(segment, IPC_RMID, 0);
    return 0;
}
