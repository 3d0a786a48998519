/* A parent, a child that frees what it inherited and allocates its own, and one that execs. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child")) {
        free(malloc(3000000));
        return 3;
    }
    char *inherited = malloc(1000000);
    int status = 0, sum = 0;
    if (fork() == 0) {
        free(inherited);
        void *own = malloc(2000000);
        free(own);
        _exit(1);
    }
    wait(&status);
    sum += WEXITSTATUS(status);
    if (fork() == 0) {
        execl(argv[0], argv[0], "child", (char *)0);
        _exit(99);
    }
    wait(&status);
    sum += WEXITSTATUS(status);
    free(inherited);
    return sum;
}
