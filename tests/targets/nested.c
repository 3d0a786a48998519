/* Mapping calls from a signal handler while the program reallocates in a loop. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static void handler(int signal) {
    (void)signal;
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
}

int main(void) {
    for (int i = 0; i < 2000; i++) {
        char *block = malloc(100000);
        if (i % 10 == 0) handler(0);
        block = realloc(block, 100000);
        free(block);
    }
    return 0;
}
