/* What other profilers get wrong. Usage: peers CASE; but for `held` ends at once when the memory has been touched. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1UL << 20)

static char *map(size_t bytes, int protection, int flags) {
    char *mapped = mmap(0, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (mapped == MAP_FAILED) exit(1);
    return mapped;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int rw = PROT_READ | PROT_WRITE;
    if (!strcmp(what, "realloc")) {
        for (int i = 0; i < 200; i++) {
            char *volatile block = malloc(MIB);
            memset(block, 1, MIB);
            if (realloc(block, 0)) return 1;
        }
    } else if (!strcmp(what, "mremap")) {
        char *mapped = mremap(map(MIB, rw, 0), MIB, 200 * MIB, MREMAP_MAYMOVE);
        memset(mapped, 1, 200 * MIB);
    } else if (!strcmp(what, "mremap_unmap")) {
        char *mapped = mremap(map(MIB, rw, 0), MIB, 200 * MIB, MREMAP_MAYMOVE);
        memset(mapped, 1, 200 * MIB);
        munmap(mapped, 200 * MIB);
    } else if (!strcmp(what, "sbrk")) {
        memset(sbrk(200 * MIB), 1, 200 * MIB);
    } else if (!strcmp(what, "brk")) {
        char *end = sbrk(0);
        if (brk(end + 200 * MIB)) return 1;
        memset(end, 1, 200 * MIB);
        if (brk(end)) return 1;
    } else if (!strcmp(what, "fixed")) {
        char *range = map(200 * MIB, rw, 0);
        for (int i = 0; i < 5; i++) {
            mmap(range, 200 * MIB, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            memset(range, 1, 200 * MIB);
        }
    } else if (!strcmp(what, "reserve_none")) { /* as jemalloc and Go do */
        char *range = map(1024 * MIB, PROT_NONE, MAP_NORESERVE);
        if (mprotect(range + 64 * MIB, 400 * MIB, rw)) return 1;
        memset(range + 64 * MIB, 1, 400 * MIB);
    } else if (!strcmp(what, "reserve_noreserve")) { /* as mimalloc does in pyarrow */
        char *range = map(1024 * MIB, rw, MAP_NORESERVE);
        memset(range + 64 * MIB, 1, 400 * MIB);
    } else if (!strcmp(what, "killed")) {
        memset(malloc(100 * MIB), 1, 100 * MIB);
        raise(SIGKILL);
    } else if (!strcmp(what, "held")) { /* long enough to be looked at from outside */
        memset(malloc(100 * MIB), 1, 100 * MIB);
        usleep(300000);
    } else {
        return 2;
    }
    return 0;
}
