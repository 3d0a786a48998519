/* Starts itself as another process, in every way the C library has.
 *
 * Usage: starts HOW ENVIRONMENT, with ENVIRONMENT one of
 *   inherit  the environment as it is
 *   own      ONE=1 and "TWO=two words" alone, passed to the call or, where it takes none, put into environ
 *   preload  the same and a preload variable of its own
 *   empty    NULL
 *   nowhere  the program does not exist: the call must fail with ENOENT
 * The child allocates 3,000,000 bytes, prints its environment and exits with 3, as does the parent then. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(void) {
    char *volatile block = malloc(3000000);
    for (char **entry = environ; entry && *entry; entry++) puts(*entry);
    free(block);
    return 3;
}

/* Returns only if the call failed; 0 if `how` is none of these. */
static int execute(const char *how, char *path, char **env) {
    char *arguments[] = {path, "child", NULL};
    int passes = !strcmp(how, "execle") || !strcmp(how, "execvpe") || !strcmp(how, "execve")
                 || !strcmp(how, "fexecve") || !strcmp(how, "execveat");
    if (!passes) environ = env;
    if (!strcmp(how, "execl")) return execl(path, path, "child", (char *)0);
    if (!strcmp(how, "execlp")) return execlp(path, path, "child", (char *)0);
    if (!strcmp(how, "execle")) return execle(path, path, "child", (char *)0, env);
    if (!strcmp(how, "execv")) return execv(path, arguments);
    if (!strcmp(how, "execvp")) return execvp(path, arguments);
    if (!strcmp(how, "execvpe")) return execvpe(path, arguments, env);
    if (!strcmp(how, "execve")) return execve(path, arguments, env);
    if (!strcmp(how, "execveat")) return execveat(AT_FDCWD, path, arguments, env, 0);
    if (!strcmp(how, "fexecve")) return fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, env);
    return 0;
}

/* The pid, or 0 with errno set. */
static pid_t spawn(const char *how, char *path, char **env) {
    char *arguments[] = {path, "child", NULL};
    pid_t pid = 0;
    if (!strcmp(how, "posix_spawn")) errno = posix_spawn(&pid, path, NULL, NULL, arguments, env);
    else if (!strcmp(how, "posix_spawnp")) errno = posix_spawnp(&pid, path, NULL, NULL, arguments, env);
    else if (!strcmp(how, "vfork")) {
        pid = vfork();
        if (pid == 0) {
            execve(path, arguments, env);
            _exit(errno);
        }
    } else {
        pid = fork();
        if (pid == 0) {
            if (execute(how, path, env) == 0) _exit(99);
            _exit(errno);
        }
    }
    return errno ? 0 : pid;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    if (argc < 3) return 98;
    char *own[] = {"ONE=1", "TWO=two words", NULL, NULL};
    char **env = own, *path = argv[0];
    if (!strcmp(argv[2], "inherit")) env = environ;
    if (!strcmp(argv[2], "preload")) own[2] = "LD_PRELOAD=libm.so.6";
    if (!strcmp(argv[2], "empty")) env = NULL;
    if (!strcmp(argv[2], "nowhere")) path = "/no/such/program";
    int status = 0;
    free(malloc(2000000));
    errno = 0;
    pid_t pid = spawn(argv[1], path, env);
    if (pid == 0) return errno;
    waitpid(pid, &status, 0);
    free(malloc(2000001)); /* the parent goes on as before */
    return WEXITSTATUS(status);
}
