/* Load on a recording, and what it must have seen of it. Usage:
 *
 *   stress threads THREADS CALLS     each thread makes so many calls of the allocator
 *   stress handed THREADS CALLS      threads hand blocks to each other through one place
 *   stress processes COUNT           short-lived children, at most 8 at a time
 *   stress soak SECONDS              threads and children come and go
 *   stress hold BLOCKS               so many live blocks at one time
 *
 * Prints how many blocks it has requested and how many children it had. Blocks have sizes with the remainder 3
 * modulo 8, which the C library never asks for; every child asks for one block of 12,345 bytes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4096, AT_ONCE = 8 };
static void *_Atomic slots[SLOTS];
static _Atomic long blocks;
static long children, running, calls;
static char *self;

/* Knuth's MMIX generator: no lock and no library's own allocations. */
static uint32_t below(uint64_t *state, uint32_t limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

/* The next thread that draws the same slot frees the block, mostly another one. */
static void put(uint64_t *random, void *block) { free(atomic_exchange(&slots[below(random, SLOTS)], block)); }

static void empty(void) {
    for (int i = 0; i < SLOTS; i++) free(atomic_exchange(&slots[i], NULL));
}

static void *crowd(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (long call = 0; call < calls; call += 4) {
        put(&random, malloc(3 + 8 * below(&random, 200)));
        free(calloc(1, 3 + 8 * below(&random, 20)));
    }
    blocks += (calls + 3) / 4 * 2;
    return NULL;
}

/* Every block changes its size where it is, and is at once another thread's. */
static void *hand(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (long call = 0; call < calls; call += 4) {
        free(atomic_exchange(&slots[0], realloc(malloc(27), 19)));
        for (volatile uint32_t turns = below(&random, 64); turns; turns--) continue;
    }
    blocks += (calls + 3) / 4 * 2;
    return NULL;
}

static void run_threads(void *(*work)(void *), long count) {
    pthread_t ids[count];
    for (long i = 0; i < count; i++) pthread_create(&ids[i], NULL, work, (void *)i);
    for (long i = 0; i < count; i++) pthread_join(ids[i], NULL);
    empty();
}

static int child(void) {
    memset(malloc(12345), 1, 12345);
    return 0;
}

static void reap(int options) {
    while (running > 0) {
        int status;
        if (waitpid(-1, &status, options) <= 0) return;
        if (status) exit(1);
        running--;
        if (!options) return;
    }
}

static void beget(void) {
    extern char **environ;
    char *command[] = {self, "child", NULL};
    pid_t pid = 0;
    if (running == AT_ONCE) reap(0);
    if (children % 3 == 0) {
        if (posix_spawn(&pid, self, NULL, NULL, command, environ)) exit(1);
    } else if ((pid = fork()) == 0) {
        if (children % 3 == 1) _exit(child());
        execv(self, command);
        _exit(127);
    }
    children++;
    running++;
}

static void wait_for_all(void) {
    while (running) reap(0);
}

/* Pareto's law with the exponent 1: a few blocks of megabytes among many of a few bytes. */
static size_t heavy_tailed(uint64_t *random) { return 3 + 8 * (size_t)((2 << 20) / (1 + below(random, 1 << 20))); }

static void map_and_unmap(uint64_t *random) {
    size_t page = 4096, bytes = page * (2 + below(random, 600));
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map[0] = 1;
    munmap(map + page, page); /* a hole at first */
    munmap(map, bytes);
}

/* Lives for some tens of milliseconds. */
static void *worker(void *seed) {
    uint64_t random = (uintptr_t)seed;
    for (int round = below(&random, 20); round >= 0; round--) {
        for (int i = 0; i < 100; i++) {
            void *block = malloc(heavy_tailed(&random));
            put(&random, realloc(block, heavy_tailed(&random)));
        }
        blocks += 200;
        map_and_unmap(&random);
        usleep(1000 + below(&random, 3000));
    }
    return NULL;
}

static void soak(double seconds) {
    pthread_t ids[AT_ONCE];
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    long round = 0;
    do {
        if (round >= AT_ONCE) pthread_join(ids[round % AT_ONCE], NULL);
        pthread_create(&ids[round % AT_ONCE], NULL, worker, (void *)round);
        round++;
        reap(WNOHANG);
        beget();
        usleep(5000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    for (long i = round < AT_ONCE ? 0 : round - AT_ONCE; i < round; i++) pthread_join(ids[i % AT_ONCE], NULL);
    wait_for_all();
    empty();
}

static void hold(long count) {
    void **held = mmap(NULL, count * sizeof *held + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < count; i++) held[i] = malloc(19);
    for (long i = 0; i < count; i++) free(held[i]);
    blocks += count;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    self = argv[0];
    if (argc == 2 && !strcmp(what, "child")) return child();
    if (argc < 3) return 2;
    calls = argc > 3 ? atol(argv[3]) : 0;
    if (!strcmp(what, "threads")) run_threads(crowd, atol(argv[2]));
    else if (!strcmp(what, "handed")) run_threads(hand, atol(argv[2]));
    else if (!strcmp(what, "soak")) soak(atof(argv[2]));
    else if (!strcmp(what, "hold")) hold(atol(argv[2]));
    else if (!strcmp(what, "processes")) {
        while (children < atol(argv[2])) beget();
        wait_for_all();
        usleep(1500000); /* The tracer may be two hundred processes behind. */
    } else return 2;
    printf("{\"blocks\": %ld, \"children\": %ld}\n", blocks, children);
    return 0;
}
