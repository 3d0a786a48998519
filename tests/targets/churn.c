/* Deterministic use of the heap for a check against another tool. Usage: churn mixed|grow|zero|small */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2000 };
static void *slots[SLOTS];

/* Knuth's MMIX generator: the same numbers in every run, without a library's own allocations. */
static uint32_t below(uint32_t limit) {
    static uint64_t state = 42;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % limit;
}

static void *one_of_many(size_t bytes) {
    void *block = NULL;
    switch (below(6)) {
    case 0: return calloc(1 + below(4), bytes);
    case 1: return aligned_alloc(64, (bytes + 63) / 64 * 64);
    case 2: return posix_memalign(&block, 256, bytes) ? NULL : block;
    case 3: return memalign(32, bytes);
    case 4: return realloc(NULL, bytes);
    default: return malloc(bytes);
    }
}

static void mixed(void) {
    for (int i = 0; i < 60000; i++) {
        void **slot = &slots[below(SLOTS)];
        uint32_t bytes = 1 + below(below(20) ? 900 : 90000);
        if (*slot && below(3) == 0) {
            *slot = realloc(*slot, bytes);
        } else {
            free(*slot);
            *slot = one_of_many(bytes);
        }
    }
}

/* Grows past the mmap threshold, where glibc moves blocks with mremap, and shrinks again. */
static void grow(void) {
    char *block = NULL;
    for (size_t bytes = 16; bytes < 40000000; bytes += bytes / 3 + 1) block = realloc(block, bytes);
    for (size_t bytes = 30000000; bytes > 100; bytes /= 2) block = reallocarray(block, bytes / 8, 8);
    slots[0] = block;
}

/* realloc(p, 0) frees in glibc and returns NULL; malloc(0) gives a block. */
static void zero(void) {
    for (int i = 0; i < 500; i++) {
        if (realloc(malloc(1 << 20), 0)) exit(1);
        slots[i] = malloc(0);
        slots[i + 500] = calloc(0, 8);
    }
}

static void small(void) {
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < SLOTS; i++) {
            free(slots[i]);
            slots[i] = malloc(1 + (i * 7 + round) % 64);
        }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "mixed")) mixed();
    else if (!strcmp(what, "grow")) grow();
    else if (!strcmp(what, "zero")) zero();
    else if (!strcmp(what, "small")) small();
    else return 2;
    for (int i = 0; i < SLOTS; i += 2) free(slots[i]);
    puts(what);
    return 0;
}
