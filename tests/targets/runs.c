/* Runs its arguments as a child, and exits as that does. */
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int status = 0;
    pid_t child = fork();
    if (argc < 2 || child < 0) return 1;
    if (child == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
