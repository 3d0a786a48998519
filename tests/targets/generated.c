/* Calls through code that it has generated, and says so to perf: /tmp/perf-PID.map. With "fork", a child does;
 * with a path, that file is a link to it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void in_first(void) {
    kept = malloc(500003);
    __asm__ volatile("" ::: "memory");
}

static void in_second(void) {
    kept = malloc(500009);
    __asm__ volatile("" ::: "memory");
}

static void works(const char *elsewhere) {
    /* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
    static const unsigned char calls[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, calls, sizeof calls);
    memcpy(code + 64, calls, sizeof calls);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);

    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    unlink(path);
    if (elsewhere && symlink(elsewhere, path) != 0) exit(1);
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx first thing\n", (unsigned long)code, sizeof calls);
    fprintf(map, "%lx %zx second thing\n", (unsigned long)code + 64, sizeof calls);
    fclose(map);

    /* The holders of a large mapping are read before it ends. */
    size_t large = 4 << 20;
    memset(mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, large);
    ((void (*)(void (*)(void)))code)(in_first);
    ((void (*)(void (*)(void)))(code + 64))(in_second);
    printf("%s\n", path);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        if (fork() == 0) {
            works(NULL);
            return 0;
        }
        wait(NULL);
        return 0;
    }
    works(argc > 1 ? argv[1] : NULL);
}
