/* What a recording must see of a program, counted by the program itself: blocks of 10,007 bytes in two threads, a
 * forked child and an executed one, a mapping that is touched, and a span. Errno is 4321 before each wrapped call. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memtrace.h"

enum { BLOCK = 10007, BLOCKS = 300, MAPPED = 4 << 20 };

static _Atomic int changed;

static void check(void) {
    changed += errno != 4321;
    errno = 4321;
}

static void *work(void *unused) {
    errno = 4321;
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(BLOCK);
        check();
        memset(block, i, BLOCK);
        free(block);
        check();
    }
    return unused;
}

static int child(void) {
    work(NULL);
    return changed ? 1 : 5;
}

int main(int argc, char **argv) {
    if (argc > 1) return child();
    work(NULL);
    uint64_t shape[] = {BLOCKS};
    memtrace_array input = {"blocks", "|u1", 1, shape, NULL};
    uint64_t span = memtrace_span_begin("faulted", &input, 1, NULL, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    memtrace_span_end(span, NULL, 0);
    errno = 4321;
    char *mapped = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check();
    memset(mapped, 1, MAPPED);
    munmap(mapped, MAPPED);
    check();
    int status, sum = 0;
    if (fork() == 0) _exit(child());
    wait(&status);
    sum += WEXITSTATUS(status);
    if (fork() == 0) {
        execl(argv[0], argv[0], "again", NULL);
        _exit(9);
    }
    wait(&status);
    sum += WEXITSTATUS(status);
    printf("children %d, errno changed %d times\n", sum, changed);
    return 3;
}
