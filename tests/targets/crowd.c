/* Threads that are alive at one time. Each acquires and releases blocks, and holds one until all of them do. Prints
   where memory that is shared with a recorder lies. Usage: crowd THREADS BLOCKS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 12345

static pthread_barrier_t all;
static long blocks;

static void *work(void *unused) {
    for (long i = 0; i < blocks; i++) free(malloc(BYTES));
    void *held = malloc(BYTES);
    pthread_barrier_wait(&all);
    free(held);
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int threads = atoi(argv[1]);
    blocks = atol(argv[2]);
    pthread_t *ids = calloc(threads, sizeof *ids);
    long least = sysconf(_SC_THREAD_STACK_MIN); /* 128 KiB on Arm */
    pthread_attr_t small;
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, least > 64 << 10 ? least : 64 << 10)) return 1;
    pthread_barrier_init(&all, 0, threads);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], &small, work, 0)) return 1;
    for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, " rw-s ") && strstr(line, "memfd:memtrace")) fputs(line, stdout);
    return 0;
}
