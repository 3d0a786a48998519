/* Two threads allocate at different depths; a vforked child of the first allocates before that one has. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 17, BLOCKS = 20000, DEPTH = 40 };
static atomic_int ready, done;

__attribute__((noipa)) static void *deep(unsigned depth) {
    void *block = depth ? deep(depth - 1) : malloc(BYTES);
    __asm__ volatile("");
    return block;
}

__attribute__((noipa)) static void *worker(void *nothing) {
    for (unsigned i = 0; !done; i++) {
        free(deep(i * 2654435761u % DEPTH));
        ready = 1;
    }
    return nothing;
}

__attribute__((noipa)) static void child(void) {
    free(deep(DEPTH));
    _exit(0);
}

__attribute__((noipa)) static void beget(void) {
    pid_t pid = vfork();
    if (pid == 0) child();
    waitpid(pid, NULL, 0);
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL)) return 1;
    while (!ready) usleep(100);
    beget();
    for (unsigned i = 0; i < BLOCKS; i++) free(deep(i * 2654435761u % DEPTH));
    done = 1;
    pthread_join(thread, NULL);
    return 0;
}
