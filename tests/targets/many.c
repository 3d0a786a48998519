/*   many COUNT [PROGRAM]    children, eight at a time; each executes the program, or has a block of 12,345 bytes
 *   many                    ends at once
 *
 * A child of a child is left behind first. When all others have ended it has a block of 5,000,003 bytes, its first. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 8, LATE_BYTES = 5000003 };

static void use(size_t bytes) {
    void *volatile block = malloc(bytes);
    memset(block, 1, bytes);
}

/* Waits until the other end of the first pipe is closed; the second is open until it has ended. */
static void leave_behind(int others[2], int own[2]) {
    char nothing;
    if (pipe(others) || pipe(own)) _exit(1);
    if (fork() == 0) {
        if (fork() == 0) {
            close(others[1]);
            (void)!read(others[0], &nothing, 1);
            use(LATE_BYTES);
            exit(0);
        }
        _exit(0);
    }
    close(own[1]);
    wait(NULL);
}

int main(int argc, char **argv) {
    int others[2], own[2], running = 0;
    char nothing;
    if (argc < 2) return 0;
    leave_behind(others, own);
    for (int child = 0; child < atoi(argv[1]); child++) {
        if (running == AT_ONCE && wait(NULL) > 0) running--;
        if (fork() == 0) {
            close(others[1]), close(own[0]);
            if (argc > 2) execl(argv[2], argv[2], (char *)NULL);
            use(12345);
            exit(0);
        }
        running++;
    }
    while (running-- > 0) wait(NULL);
    close(others[1]);
    (void)!read(own[0], &nothing, 1);
    return 0;
}
