/* Allocates and writes to 4 MiB after 4 MiB, COUNT times: in a span at one place, and a fourth of it outside at
 * another. Usage: grows COUNT [killed] */
#include "memtrace.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP (4UL << 20)

static void *touched(size_t bytes) {
    void *block = malloc(bytes);
    if (block) memset(block, 1, bytes);
    return block;
}

__attribute__((noinline)) void *small_part(void) {
    void *volatile part = touched(STEP / 4);
    return part;
}

__attribute__((noinline)) void *large_part(void) {
    void *volatile part = touched(STEP);
    return part;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++) {
        if (!small_part()) return 1;
        uint64_t span = memtrace_span_begin("grow", NULL, 0, NULL, 0);
        if (!large_part()) return 1;
        memtrace_span_end(span, NULL, 0);
    }
    if (argc > 2 && !strcmp(argv[2], "killed")) raise(SIGKILL);
    puts("grown");
    return 0;
}
