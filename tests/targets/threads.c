/* Threads that allocate, and blocks that another thread frees. Usage: threads THREADS BLOCKS */
#include <pthread.h>
#include <stdlib.h>

static long blocks;
static void **shared;

static void *work(void *argument) {
    long self = (long)argument;
    for (long i = 0; i < blocks; i++) free(malloc(16 + (i * 37 + self) % 5000));
    for (long i = 0; i < 100; i++) shared[self * 100 + i] = malloc(10000 + i);
    return NULL;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 4;
    blocks = argc > 2 ? atol(argv[2]) : 100000;
    shared = malloc(sizeof *shared * threads * 100);
    pthread_t *ids = malloc(sizeof *ids * threads);
    for (long i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, (void *)i);
    for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (long i = 0; i < threads * 100; i++) free(shared[i]);
    free(ids);
    free(shared);
    return 0;
}
