/* A thread allocates while a timer's handler maps memory, on a signal stack that lies above the thread's own and that the
 * kernel takes away while the handler runs (SS_AUTODISARM, sigaltstack(2)). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

enum { BLOCKS = 1000000, STACK = 1 << 16 };
static void *high;
static volatile long mapped;

static void *map(size_t bytes) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handler(int signal) {
    (void)signal;
    munmap(map(4096), 4096);
    mapped++;
}

static void *work(void *nothing) {
    stack_t stack = {.ss_sp = high, .ss_size = STACK, .ss_flags = SS_AUTODISARM};
    if (sigaltstack(&stack, NULL)) exit(1);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = syscall(SYS_gettid);
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) exit(1);
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    timer_settime(timer, 0, &often, NULL);
    for (long i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    timer_delete(timer);
    return nothing;
}

int main(void) {
    high = map(STACK);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 1;
    pthread_join(thread, NULL);
    printf("%ld\n", mapped);
    return 0;
}
