/* Compiled twice, with frames of two sizes. */
#include <stddef.h>
__attribute__((noinline)) static void inner(void (*check)(void), int depth) {
    volatile char local[FRAME];
    local[0] = 1;
    if (depth > 0)
        inner(check, depth - 1);
    else
        check();
    local[1] = 2;
}

void from_library(void (*check)(void), int depth) {
    inner(check, depth);
    __asm__ volatile("" ::: "memory");
}
