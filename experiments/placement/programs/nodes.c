/* Blocks by every function, some of them of threads, one of a forked child; and on which NUMA nodes
 * their pages are.
 *
 *     nodes ROUNDS
 *
 * Prints sums. On standard error, for each block of each round, the nodes of its pages in runs, as
 * move_pages(2) tells them: "pages ROUND BYTES 0x300 1x12". The child's are of round -1.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAIN = 8, THREADS = 4, BLOCKS = MAIN + THREADS, PAGE = 4096, MOST_PAGES = 2048 };

/* All differ: a block is known by its size. */
static const size_t sizes[BLOCKS] = {6291456, 4194304, 3000000, 2097152, 1048576, 524288,
                                     200000,  65536,   5242880, 2500000, 700000,  131072};
enum { TICK = 100000, PASSING = 1500000, OF_CHILD = 900000 };

static unsigned char *blocks[BLOCKS];

static unsigned sum(const unsigned char *block, size_t bytes) {
    unsigned all = 0;
    for (size_t at = 0; at < bytes; at++) all = all * 31 + block[at];
    return all;
}

static unsigned char *filled(void *block, size_t bytes) {
    unsigned state = (unsigned)bytes;
    for (size_t at = 0; at < bytes; at++) {
        state = state * 1664525 + 1013904223;
        ((unsigned char *)block)[at] = (unsigned char)(state >> 24);
    }
    return block;
}

static void say_pages(int round, const void *block, size_t bytes) {
    static void *pages[MOST_PAGES];
    static int nodes[MOST_PAGES];
    uintptr_t begin = (uintptr_t)block & ~(uintptr_t)(PAGE - 1), end = (uintptr_t)block + bytes;
    size_t count = 0;
    for (uintptr_t at = begin; at < end; at += PAGE) pages[count++] = (void *)at;
    if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) != 0) abort();
    fprintf(stderr, "pages %d %zu", round, bytes);
    for (size_t at = 0, from = 0; at < count; at++)
        if (at + 1 == count || nodes[at + 1] != nodes[at]) {
            fprintf(stderr, " %dx%zu", nodes[at], at + 1 - from);
            from = at + 1;
        }
    fputc('\n', stderr);
}

static void *allocated(size_t at) {
    size_t bytes = sizes[at];
    void *block = NULL;
    switch (at % 4) {
    case 0: return malloc(bytes);
    case 1: return calloc(1, bytes);
    case 2: return memalign(64, bytes);
    default: return posix_memalign(&block, 4096, bytes) ? NULL : block;
    }
}

static void *work(void *argument) {
    size_t at = (size_t)argument;
    blocks[at] = filled(allocated(at), sizes[at]);
    return NULL;
}

static void child(void) {
    for (int at = 0; at < BLOCKS; at++) say_pages(-1, blocks[at], sizes[at]);
    unsigned char *own = filled(malloc(OF_CHILD), OF_CHILD);
    memset(blocks[0], 1, sizes[0] / 2);
    say_pages(-1, own, OF_CHILD);
    printf("child %u %u\n", sum(own, OF_CHILD), sum(blocks[0], sizes[0]));
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    free(own);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 4;
    for (size_t at = 0; at < MAIN; at++) work((void *)at);
    pthread_t threads[THREADS];
    for (size_t at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, work, (void *)(MAIN + at));
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    for (int round = 0; round < rounds; round++) {
        unsigned char *tick = filled(malloc(TICK), TICK), *passing = filled(malloc(PASSING), PASSING);
        unsigned all = sum(tick, TICK) + sum(passing, PASSING);
        for (int at = 0; at < BLOCKS; at++) {
            all = all * 31 + sum(blocks[at], sizes[at]);
            say_pages(round, blocks[at], sizes[at]);
            blocks[at][round] ^= (unsigned char)(all >> 16 | 1);
        }
        say_pages(round, passing, PASSING);
        printf("%d %u\n", round, all);
        free(tick), free(passing);
    }
    fflush(stdout);
    pid_t forked = fork();
    if (forked == 0) {
        child();
        return 0;
    }
    int status;
    waitpid(forked, &status, 0);
    printf("%d %u\n", status, sum(blocks[0], sizes[0]));
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    return 0;
}
