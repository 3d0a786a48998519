/* Threads that hand addresses over as fast as they can: half of them allocate into a queue without
 * locks, the others release from it; sizes repeat, so that an address is used again at once.
 * Usage: handover THREADS BLOCKS [yield]: with `yield`, threads give the processor up between call and publishing the block. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 64

static _Atomic(void *) places[PLACES];
static long blocks;
static int yields;
static atomic_long released;
static long threads;

static void *makes(void *argument) {
    long self = (long)argument;
    for (long i = 0; i < blocks; i++) {
        void *block = malloc(41 + i % 3 * 16);
        if (!block) abort();
        if (yields && i % 16 == 0) sched_yield();
        for (long at = self + i;; at++) {
            void *empty = 0;
            if (atomic_compare_exchange_weak(&places[at % PLACES], &empty, block)) break;
            if (at % PLACES == 0) sched_yield();
        }
    }
    return 0;
}

static void *ends(void *argument) {
    for (long at = (long)argument; atomic_load(&released) < blocks * (threads / 2); at++) {
        void *block = atomic_exchange(&places[at % PLACES], 0);
        if (!block) {
            if (at % PLACES == 0) sched_yield();
            continue;
        }
        free(block);
        atomic_fetch_add(&released, 1);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    threads = atol(argv[1]);
    blocks = atol(argv[2]) / (threads / 2);
    yields = argc > 3 && !strcmp(argv[3], "yield");
    pthread_t ids[64];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&ids[i], 0, i < threads / 2 ? makes : ends, (void *)i)) return 1;
    for (long i = 0; i < threads; i++) pthread_join(ids[i], 0);
    return 0;
}
