// Memory that no call has allocated: variables with a value and without, and a stack. Held until it has been read.
#include <sys/prctl.h>
#include <unistd.h>

#ifndef HELD_SECONDS
#define HELD_SECONDS 0.6
#endif

enum { MIB = 1 << 20, PAGE = 4096 };

static char zeroes[8 * MIB];
static char values[4 * MIB] = {1};

static void touch(volatile char *place, long bytes) {
    for (long at = 0; at < bytes; at += PAGE) place[at] = 1;
}

int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char stack[MIB];
    touch(zeroes, 5 * MIB);
    touch(values, 4 * MIB);
    touch(stack, MIB);
    usleep(HELD_SECONDS * 1e6);
    return stack[0] - 1;
}
