/* Runs a command within a limit of processor time, without a core, and writes how it ended to a descriptor: its
 * status (-N: by signal N), seconds of processor time, peak in kB. A process has the peak of the one that executed it:
 * this one is small.
 *     launched DESCRIPTOR SECONDS COMMAND... */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    pid_t child = fork();
    if (child == 0) {
        rlim_t most = (rlim_t)atol(argv[2]);
        struct rlimit time = {most, most}, core = {0, 0};
        setrlimit(RLIMIT_CPU, &time);
        setrlimit(RLIMIT_CORE, &core);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (wait4(child, &status, 0, &used) != child) return 1;
    int ended = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    double taken = seconds(used.ru_utime) + seconds(used.ru_stime);
    return dprintf(atoi(argv[1]), "[%d, %f, %ld]", ended, taken, used.ru_maxrss) < 0;
}
