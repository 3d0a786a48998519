/* All kinds of stacks, each as the probe and as libgcc report it (tests/end_to_end/test_unwinding.py). */
#define UNWINDS_MAIN
#include "unwinds.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

/* Microseconds; a program that is emulated would get no further. */
#ifndef INTERRUPTED_EVERY
#define INTERRUPTED_EVERY 50
#endif

static __thread uint64_t seed = 88172645463325252ull;

static unsigned chance(unsigned most) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed >> 33) % most;
}

static volatile unsigned sink;
NOINLINE void grow(int depth);

NOINLINE void plain(int depth) {
    grow(depth);
    AFTER;
}

NOINLINE void with_locals(int depth) {
    volatile char local[300];
    local[depth] = (char)depth;
    grow(depth);
    sink += local[depth];
}

/* Keeps much in registers that calls preserve, the frame pointer among them. */
NOINLINE unsigned with_registers(int depth, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e) {
    unsigned f = a * b + c, g = c * d + e, h = a ^ e;
    grow(depth);
    unsigned i = f * g + h * a + b;
    grow(depth - 1);
    return i + a + b * c + d * e + f + g + h;
}

NOINLINE void with_alloca(int depth) {
    volatile char *local = alloca(16 + chance(400));
    local[0] = (char)depth;
    grow(depth);
    sink += local[0];
}

NOINLINE void aligned(int depth) {
    volatile char local[64] __attribute__((aligned(64)));
    volatile char *more = alloca(8 + chance(100));
    local[depth & 63] = (char)depth, more[0] = 1;
    grow(depth);
    sink += local[depth & 63] + more[0];
}

static __thread int depth_of_callback;

NOINLINE int compare(const void *a, const void *b) {
    if (depth_of_callback > 0) {
        int depth = depth_of_callback;
        depth_of_callback = 0;
        grow(depth - 1);
    }
    return *(const int *)a - *(const int *)b;
}

NOINLINE void callback(int depth) {
    int numbers[9] = {3, 1, 2, 0, 8, 9, 7, 4, 5};
    depth_of_callback = depth;
    qsort(numbers, 3 + chance(7), sizeof *numbers, compare);
    depth_of_callback = 0;
    AFTER;
}

NOINLINE void raises(int depth) {
    raise(depth & 1 ? SIGUSR1 : SIGUSR2);
    grow(depth - 1);
    AFTER;
}

NOINLINE void with_many_arguments(int depth, int a, int b, int c, int d, int e, int f, int g, int h) {
    grow(depth);
    sink += (unsigned)(a + b + c + d + e + f + g + h);
}

NOINLINE void grow(int depth) {
    if (depth <= 0 || chance(8) == 0) {
        check();
        AFTER;
        return;
    }
    unsigned n = chance(1000);
    switch (chance(9)) {
    case 0: plain(depth - 1); break;
    case 1: with_locals(depth - 1); break;
    case 2: sink += with_registers(depth - 3, n, n + 1, n * 3, n ^ 5, n + 7); break;
    case 3: with_alloca(depth - 1); break;
    case 4: aligned(depth - 1); break;
    case 5: callback(depth - 2); break;
    case 6: raises(depth - 4); break;
    case 7: with_many_arguments(depth - 1, 1, 2, 3, 4, 5, 6, 7, 8); break;
    default: plain(depth - 1); plain(depth - 1);
    }
    AFTER;
}

NOINLINE void deep(int depth) {
    if (depth > 0)
        deep(depth - 1);
    else
        check();
    AFTER;
}

NOINLINE void handler(int number) {
    (void)number;
    check();
    AFTER;
}

static void *in_thread(void *rounds) {
    stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&other, NULL);
    seed += (uintptr_t)&other;
    for (long round = (long)rounds; round > 0; round--) {
        static __thread uint64_t before;
        if (round & 1)
            seed = before;
        before = seed;
        grow(12);
    }
    return NULL;
}

static ucontext_t caller, coroutine;

static void in_coroutine(void) {
    deep(3);
    grow(4);
}

static void switches(void) {
    static char memory[1 << 18];
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = memory;
    coroutine.uc_stack.ss_size = sizeof memory;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, in_coroutine, 0);
    swapcontext(&caller, &coroutine);
}

/* Libraries that take each other's place in memory; their functions have other frames. */
static unsigned long libraries(char **paths, int rounds) {
    void *last = NULL;
    unsigned long same = 0;
    for (int round = 0; round < rounds; round++) {
        void *library = dlopen(paths[round & 1], RTLD_NOW);
        void (*call)(void (*)(void), int) = dlsym(library, "from_library");
        same += (void *)call == last;
        last = (void *)call;
        call(check, 3);
        call(check, 3);
        dlclose(library);
    }
    return same;
}

int main(int count, char **arguments) {
    long rounds = atol(arguments[1]);
    signal(SIGUSR1, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, in_thread, (void *)rounds);
    in_thread((void *)rounds);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int depth = 0; depth < 100; depth++)
        deep(depth % 50 * 4);
    switches();
    unsigned long same = count > 3 ? libraries(arguments + 2, 20) : 0;
    /* Interrupts any instruction whatever. */
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, INTERRUPTED_EVERY}, {0, INTERRUPTED_EVERY}}, NULL);
    for (long round = rounds / 4; round > 0; round--)
        grow(12);
    setitimer(ITIMER_REAL, &(struct itimerval){{0}}, NULL);
    printf("{\"checked\": %lu, \"remembered\": %lu, \"wrong\": %lu, \"cut\": %lu, \"same\": %lu}\n", checked,
           remembered, wrong, cut, same);
    return 0;
}
