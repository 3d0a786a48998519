// Blocks that do not get a mapping of their own, half of each touched; the second lies where the first was.
#include <malloc.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static void touch(volatile char *place, long bytes) {
    for (long at = 0; at < bytes; at += PAGE) place[at] = 1;
}

static char *first(void) {
    char *block = malloc(16 * MIB);
    touch(block, 8 * MIB);
    return block;
}

static char *second(void) {
    char *block = malloc(16 * MIB);
    touch(block, 4 * MIB);
    return block;
}

int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    free(first());
    free(second());
}
