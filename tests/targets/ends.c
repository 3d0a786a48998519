/* Allocates 1000 blocks of 20000 to 20999 bytes, releases the first 500, prints "up" and ends.
 * Usage: ends return|exit|_exit|quick_exit|pthread_exit|kill|segv|abort|interrupted|waiting|flood */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *later(void *unused) {
    usleep(20000);
    free(malloc(30000));
    return unused;
}

static void at_the_end(void) { free(malloc(40000)); }

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal) {
    (void)signal;
    interrupts++;
}

/* Says of each Ctrl-C that it came, and ends after the second. */
static int interrupted(void) {
    for (int reported = 0; reported < 2;) {
        if (interrupts > reported) printf("interrupt %d\n", ++reported), fflush(stdout);
        else usleep(1000);
    }
    return 9;
}

/* Many events, once a line has come. */
static int flood(void) {
    char line[8];
    if (read(0, line, sizeof line) < 1) return 1;
    for (int i = 0; i < 1500000; i++) free(malloc(16 + i % 3000));
    puts("finished");
    return 5;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    void *blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = malloc(20000 + i);
    for (int i = 0; i < 500; i++) free(blocks[i]);
    atexit(at_the_end);
    at_quick_exit(at_the_end);
    if (!strcmp(how, "interrupted")) signal(SIGINT, on_interrupt);
    puts("up");
    fflush(stdout);
    if (!strcmp(how, "exit")) exit(7);
    if (!strcmp(how, "_exit")) _exit(7);
    if (!strcmp(how, "quick_exit")) quick_exit(7);
    if (!strcmp(how, "pthread_exit")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, later, NULL)) return 1;
        pthread_exit(NULL);
    }
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "interrupted")) return interrupted();
    if (!strcmp(how, "waiting")) for (;;) pause();
    if (!strcmp(how, "flood")) return flood();
    return 7;
}
