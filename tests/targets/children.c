/* Becomes a parent. Usage: children fork|_Fork|clone|system|popen|daemon|sleeper
 *
 * The child frees the 1,000,000 bytes it inherited (where it inherits), allocates and touches 3,000,000 and
 * 30,000,000 bytes (heap, mapping) and exits with 3; so does the parent. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *inherited;

static int work(void) {
    free(inherited);
    char *block = malloc(3000000);
    memset(block, 1, 3000000);
    char *map = mmap(0, 30000000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(map, 1, 30000000);
    free(block);
    return 3;
}

/* The daemon has no parent, no terminal and no standard streams, and begins when its ancestors are gone. */
static int daemonize(void) {
    if (fork()) return 3;
    setsid();
    if (fork()) _exit(0);
    for (int stream = 0; stream < 3; stream++) close(stream);
    if (chdir("/")) return 1;
    usleep(400000);
    return work();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    char command[4096];
    snprintf(command, sizeof command, "'%s' child", argv[0]);
    if (!strcmp(how, "child")) return work();
    if (!strcmp(how, "sleeper")) { /* stays for a while, for tests that read it from outside */
        int status = work();
        usleep(300000);
        return status;
    }
    if (!strcmp(how, "system")) return WEXITSTATUS(system(command));
    if (!strcmp(how, "popen")) return WEXITSTATUS(pclose(popen(command, "r")));
    if (!strcmp(how, "daemon")) return daemonize();
    inherited = malloc(1000000);
    pid_t pid = -1;
    if (!strcmp(how, "fork")) pid = fork();
    if (!strcmp(how, "_Fork")) pid = _Fork();
    if (!strcmp(how, "clone")) pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(work());
    int status = 0;
    if (waitpid(pid, &status, 0) < 0) return 99;
    free(inherited);
    return WEXITSTATUS(status);
}
