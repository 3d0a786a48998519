/* The first thread ends at once; another maps 64 MiB, touches them and ends the process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *work(void *nothing) {
    (void)nothing;
    usleep(100000);
    char *memory = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    memset(memory, 1, 64 << 20);
    exit(0);
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 1;
    pthread_exit(NULL);
}
