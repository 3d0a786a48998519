/* Large blocks by functions of one file: static, exported, and inlined into one another (test_symbols.py). */
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))
#define INLINED static inline __attribute__((always_inline))
/* Keeps a call from becoming a jump. */
#define AFTER __asm__ volatile("" ::: "memory")

static void *volatile kept;

INLINED void innermost(size_t bytes) {
    kept = malloc(bytes);
}

INLINED void inner(size_t bytes) {
    innermost(bytes);
}

static NOINLINE void hidden(size_t bytes) {
    inner(bytes);
    AFTER;
}

NOINLINE void exported(size_t bytes) {
    hidden(bytes);
    AFTER;
}

/* The call that does not return is the last instruction of its function: the return address is in the next one. */
static NOINLINE __attribute__((noreturn)) void leaves(void) {
    exported(500009);
    exit(0);
}

NOINLINE __attribute__((noreturn)) void last(void) {
    leaves();
}

NOINLINE void after_last(void) {
    AFTER;
}

int main(void) {
    exported(500003);
    last();
}
