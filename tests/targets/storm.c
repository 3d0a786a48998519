/* Signals every 100 or so many microseconds while the main loop allocates.
 * Usage: storm handlers|jumps COUNT [first|MICROSECONDS]
 *
 * With `first` they begin before the first allocation. With -DLIBRARY it is the allocator to link: lock-free,
 * so that, unlike glibc's, it may be used in a signal handler and be left by a jump (signal-safety(7)). */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>

#ifdef LIBRARY
static _Alignas(16) char memory[1 << 30]; /* its pages are only touched as far as it gets */
static size_t used;

void *malloc(size_t bytes) {
    size_t *block = (size_t *)(memory + __atomic_fetch_add(&used, (bytes + 31) & ~15UL, __ATOMIC_RELAXED));
    block[0] = bytes;
    return block + 2;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); } /* never used before: zero */

void *realloc(void *block, size_t bytes) {
    size_t old = block ? ((size_t *)block)[-2] : 0;
    void *moved = malloc(bytes);
    return block ? memcpy(moved, block, old < bytes ? old : bytes) : moved;
}
#else
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile sig_atomic_t calls, armed;
static volatile long rounds;
static sigjmp_buf back;
static int jumps;

static void on_alarm(int signal) {
    (void)signal;
    if (jumps) {
        if (!armed) return;
        armed = 0;
        siglongjmp(back, 1);
    }
    calls++;
    free(malloc(777));
    munmap(mmap(0, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 12288);
}

/* Allocates deep in the stack until a signal jumps out of it, whatever it was doing. */
static __attribute__((noinline)) void deep(int depth) {
    volatile char frame[200];
    frame[0] = (char)depth;
    if (depth) deep(depth - 1);
    else for (armed = 1;; rounds++) free(malloc(48));
    frame[1] = frame[0];
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    jumps = !strcmp(argv[1], "jumps");
    int wanted = atoi(argv[2]);
    int period = argc > 3 ? atoi(argv[3]) : 0;
    if (argc == 3 || period) free(malloc(1));
    if (!period) period = 100;
    signal(SIGALRM, on_alarm);
    struct itimerval fast = {{0, period}, {0, period}}, stop = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, NULL);
    if (jumps) {
        for (volatile int jumped = 0; jumped < wanted; jumped++) {
            if (sigsetjmp(back, 1) == 0) deep(20);
            free(malloc(555));
        }
    } else {
        for (; calls < wanted; rounds++) free(malloc(48));
    }
    setitimer(ITIMER_REAL, &stop, NULL);
    printf("%d %ld\n", (int)calls, rounds);
    return 0;
}
#endif
