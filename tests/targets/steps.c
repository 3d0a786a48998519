// Takes and gives back memory in random steps, in threads that stay, and says the most that was resident after a step,
// by /proc/self/smaps_rollup. A step only takes or only gives back. Usage: steps SEED [STEPS]
// Statically linked: what no probe changes is known to the page.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "resident.h"

static size_t page;
enum { REGIONS = 24, MOST_PAGES = 700, THREADS = 4 };

static struct region {
    char *place;
    size_t bytes;
} regions[REGIONS];
static struct worker {
    pthread_t id;
    sem_t go, done;
} workers[THREADS];
static void (*step)(struct region *);
static struct region *chosen;
static int threads, zero, memory;

static void map(struct region *region, int flags, int file) {
    region->bytes = (size_t)(1 + rand() % MOST_PAGES) * page;
    region->place = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (region->place == MAP_FAILED) abort();
}

static void touch(struct region *region, size_t stride) {
    for (size_t at = 0; at < region->bytes; at += stride) ((volatile char *)region->place)[at] = 1;
}

static void anonymous(struct region *region) {
    map(region, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    touch(region, page);
}

static void sparse(struct region *region) {
    map(region, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    touch(region, 3 * page);
}

static void populated(struct region *region) { map(region, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1); }

static void shared(struct region *region) {
    map(region, MAP_SHARED | MAP_ANONYMOUS, -1);
    touch(region, page);
}

static void file(struct region *region) {
    map(region, MAP_PRIVATE, memory);
    touch(region, 2 * page);
}

static void huge(struct region *region) {
    region->bytes = 4 << 20;
    region->place = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(region->place, region->bytes, MADV_HUGEPAGE);
    touch(region, page);
}

static void by_kernel(struct region *region) {
    map(region, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (size_t at = 0; at < region->bytes;) at += read(zero, region->place + at, region->bytes - at);
}

static void unmap(struct region *region) {
    munmap(region->place, region->bytes);
    region->place = NULL;
}

static void give_back(struct region *region) {
    madvise(region->place, region->bytes, MADV_DONTNEED);
}

static void (*const taking[])(struct region *) = {anonymous, sparse, populated, shared, file, huge, by_kernel};
enum { WAYS = sizeof taking / sizeof *taking };

static void *work(void *own) {
    struct worker *worker = own;
    for (;;) {
        sem_wait(&worker->go);
        step(chosen);
        sem_post(&worker->done);
    }
}

static void run(void (*what)(struct region *), struct region *region, int thread) {
    step = what, chosen = region;
    if (thread == threads) {
        step(chosen);
        return;
    }
    sem_post(&workers[thread].go);
    sem_wait(&workers[thread].done);
}

// Everything once in every thread: later, only steps change what is resident.
static void warm(void) {
    for (int thread = 0; thread <= threads; thread++)
        for (int way = 0; way < WAYS; way++) {
            run(taking[way], regions, thread);
            run(give_back, regions, thread);
            run(unmap, regions, thread);
            resident();
        }
}

int main(int count, char **arguments) {
    page = sysconf(_SC_PAGESIZE);
    int seed = count > 1 ? atoi(arguments[1]) : 1, steps = count > 2 ? atoi(arguments[2]) : 60;
    srand(seed);
    threads = seed % (THREADS + 1);
    zero = open("/dev/zero", O_RDONLY);
    memory = memfd_create("steps", 0);
    if (zero < 0 || memory < 0 || ftruncate(memory, MOST_PAGES * page)) abort();
    for (int i = 0; i < threads; i++) {
        sem_init(&workers[i].go, 0, 0);
        sem_init(&workers[i].done, 0, 0);
        if (pthread_create(&workers[i].id, NULL, work, &workers[i])) abort();
    }
    warm();
    long most = 0;
    for (int i = 0; i < steps; i++) {
        struct region *region = &regions[rand() % REGIONS];
        int thread = rand() % (threads + 1);
        if (!region->place) run(taking[rand() % WAYS], region, thread);
        else run(rand() % 4 ? unmap : give_back, region, thread);
        long now = resident();
        most = now > most ? now : most;
    }
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].place) unmap(&regions[i]);
    printf("%ld\n", most);
    return 0;
}
