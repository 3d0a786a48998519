/* Large blocks by chains of functions whose names tell the expected stacks (docs: tests/end_to_end/test_sites.py). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps a call from becoming a jump. */
#define AFTER __asm__ volatile("" ::: "memory")

static void *kept;
static volatile int depth_wanted = 3;

NOINLINE void leaf(size_t bytes) {
    kept = malloc(bytes);
    AFTER;
}

NOINLINE void middle(size_t bytes) {
    char local[200];
    memset(local, (int)bytes, sizeof local);
    __asm__ volatile("" ::"r"(local) : "memory");
    leaf(bytes);
    AFTER;
}

NOINLINE void recursive(int depth) {
    if (depth > 0)
        recursive(depth - 1);
    else
        leaf(500003);
    AFTER;
}

NOINLINE int compare(const void *a, const void *b) {
    static int once;
    if (!once++)
        leaf(500009);
    return *(const int *)a - *(const int *)b;
}

NOINLINE void sorts(void) {
    int numbers[4] = {3, 1, 2, 0};
    qsort(numbers, 4, sizeof *numbers, compare);
    AFTER;
}

NOINLINE void handler(int number) {
    leaf(500000 + 11 + (size_t)(number == SIGUSR2));
    AFTER;
}

NOINLINE void raises(int number) {
    raise(number);
    AFTER;
}

NOINLINE void on_another_stack(void) {
    stack_t other = {.ss_sp = malloc(65000), .ss_size = 65000};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    raises(SIGUSR2);
    AFTER;
}

NOINLINE void *in_thread(void *argument) {
    middle(500015);
    AFTER;
    return argument;
}

NOINLINE void *every_kind(void) {
    void *block = calloc(1, 500021);
    block = realloc(block, 500023);
    free(block);
    if (posix_memalign(&block, 64, 500029) != 0)
        return NULL;
    char *map = mmap(NULL, 500031, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map = mremap(map, 500031, 900031, MREMAP_MAYMOVE);
    memset(map, 1, 900031);
    AFTER;
    return map;
}

static ucontext_t caller, coroutine;

NOINLINE void in_coroutine(void) {
    middle(500041);
    AFTER;
}

NOINLINE void switches(void) {
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = malloc(65001);
    coroutine.uc_stack.ss_size = 65001;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, in_coroutine, 0);
    swapcontext(&caller, &coroutine);
    AFTER;
}

int main(int count, char **arguments) {
    middle(500001);
    leaf(500001);
    middle(65535);
    middle(65536);
    recursive(depth_wanted);
    sorts();
    signal(SIGUSR1, handler);
    raises(SIGUSR1);
    on_another_stack();
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    every_kind();
    switches();
    if (count > 1) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        void (*call)(void (*)(size_t)) = (void (*)(void (*)(size_t)))dlsym(library, "from_library");
        call(middle);
    }
    _exit(0);
}
