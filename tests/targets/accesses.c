// Blocks that come to lie where others were, each touched in every page: by the main thread, by another, by a child;
// or `accesses THREADS`: by so many threads at once.
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 12 };

// Each larger than the last, by two pages; freed at once, so that the next takes its place.
static void *work(void *first) {
    for (long round = 0; round < ROUNDS; round++) {
        long bytes = (long)first + 2 * PAGE * round;
        volatile char *block = malloc(bytes);
        for (long at = 0; at < bytes; at += PAGE) block[at] = 1;
        free((void *)block);
    }
    return 0;
}

static int at_once(int count) {
    pthread_t threads[count];
    for (int i = 0; i < count; i++) pthread_create(&threads[i], 0, work, (void *)(1 << 20));
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    return 0;
}

int main(int argc, char **argv) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10); // a mapping for each, so that each is touched anew
    if (argc > 1) return at_once(atoi(argv[1]));
    pthread_t thread;
    pthread_create(&thread, 0, work, (void *)(1 << 20));
    work((void *)(2 << 20));
    pthread_join(thread, 0);
    if (!fork()) {
        work((void *)(3 << 20));
        exit(0);
    }
    wait(0);
}
