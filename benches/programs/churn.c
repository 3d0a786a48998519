/* Blocks that are allocated and freed at the end of many different call stacks.
 *
 *     churn random|fifo THREADS PAIRS [BLOCKS [SMALLEST LARGEST [PATHS]]]
 *
 * Every thread keeps BLOCKS blocks alive and makes PAIRS pairs of calls: it frees one (random: any; fifo: the oldest)
 * and allocates another in its place. A descent of DEPTH frames takes one of PATHS (32) ways through three functions, and
 * makes four pairs in each frame of its lower half: about 12 frames and some 700 distinct stacks for a block, or 24 with
 * one path. There are 16 sizes: with hundreds, heaptrack 1.4's interpreter runs out of memory on so many pairs of size and stack (its hash
 * collides: https://bugs.kde.org/show_bug.cgi?id=477018).
 *
 * Writes what the work cost, start and end of the program apart, to the file that BENCH_SECTION names: nanoseconds of
 * CPU, of time, and the number of calls. Built as a library too, so that a Python program can be its host. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { DEPTH = 12, SIZES = 16 };

struct work {
    void **blocks;
    uint32_t count, next, smallest, step, paths;
    int fifo;
    long left; /* pairs */
    uint64_t state;
};

/* Knuth's MMIX generator: the same numbers in every run, and cheap beside malloc. */
static inline uint32_t draw(struct work *work) {
    work->state = work->state * 6364136223846793005u + 1442695040888963407u;
    return work->state >> 32;
}

static inline uint32_t below(uint32_t random, uint32_t limit) { return (uint64_t)random * limit >> 32; }

static inline void **turn(struct work *work) {
    if (!work->fifo) return &work->blocks[below(draw(work), work->count)];
    work->next = work->next + 1 == work->count ? 0 : work->next + 1;
    return &work->blocks[work->next];
}

static inline __attribute__((always_inline)) void pair(struct work *work) {
    void **block = turn(work);
    free(*block);
    uint32_t bytes = work->smallest + work->step * below(draw(work), SIZES);
    *block = malloc(bytes);
    *(char *)*block = (char)bytes;
    work->left--;
}

/* Code after the deeper call keeps every frame on the stack; noipa keeps the three functions three. */
#define FRAME(name, first, second)                                                                                    \
    static __attribute__((noipa)) void name(struct work *work, uint32_t path, int depth) {                            \
        int works = depth > DEPTH / 2;                                                                                 \
        if (works) {                                                                                                   \
            pair(work);                                                                                                \
            pair(work);                                                                                                \
        }                                                                                                              \
        if (depth < DEPTH) {                                                                                           \
            if (path & 1) first(work, path >> 1 | path << 31, depth + 1);                                              \
            else second(work, path >> 1 | path << 31, depth + 1);                                                      \
        }                                                                                                              \
        if (works) {                                                                                                   \
            pair(work);                                                                                                \
            pair(work);                                                                                                \
        }                                                                                                              \
        __asm__ volatile("" ::: "memory");                                                                             \
    }

static void one(struct work *, uint32_t, int);
static void two(struct work *, uint32_t, int);
static void three(struct work *, uint32_t, int);
FRAME(one, two, three)
FRAME(two, three, one)
FRAME(three, one, two)

static void *thread(void *argument) {
    struct work *work = argument;
    while (work->left > 0) one(work, draw(work) % work->paths * 0x9e3779b9u, 1);
    return NULL;
}

static long nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void say(long cpu, long wall, long calls) {
    const char *path = getenv("BENCH_SECTION");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) return;
    fprintf(out, "%ld %ld %ld\n", cpu, wall, calls);
    fclose(out);
}

static long argument(int argc, char **argv, int index, long otherwise) {
    return argc > index ? strtol(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int fifo = !strcmp(argv[1], "fifo");
    int threads = argument(argc, argv, 2, 1);
    long pairs = argument(argc, argv, 3, 1), blocks = argument(argc, argv, 4, 20000);
    long smallest = argument(argc, argv, 5, 16), largest = argument(argc, argv, 6, 256);
    long paths = argument(argc, argv, 7, 32);
    if (threads < 1 || paths < 1 || blocks < 1 || smallest < 1 || largest < smallest) return 2;
    struct work *works = calloc(threads, sizeof *works);
    pthread_t *ids = calloc(threads, sizeof *ids);
    for (int i = 0; i < threads; i++) {
        works[i] = (struct work){calloc(blocks, sizeof(void *)), blocks, 0, smallest, (largest - smallest) / (SIZES - 1), paths, fifo, pairs, i};
        for (long j = 0; j < blocks; j++) works[i].blocks[j] = malloc(smallest);
    }
    long cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), wall = nanoseconds(CLOCK_MONOTONIC);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, thread, &works[i])) return 1;
    thread(&works[0]);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = nanoseconds(CLOCK_MONOTONIC) - wall;
    long calls = 0;
    for (int i = 0; i < threads; i++) calls += 2 * (pairs - works[i].left);
    say(cpu, wall, calls);
    return 0;
}
