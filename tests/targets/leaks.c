/* What lives when main returns or exit is called, and is freed by functions that run at exit. */
#include <stdlib.h>
#include <string.h>

#include "memtrace.h"

static char *kept;

static void tidy_up(void) { free(kept); }

#define OWN __attribute__((noinline)) static

OWN void keep(void) { kept = memset(malloc(20000000), 1, 20000000); }

OWN void grow(int count) {
    for (int i = 0; i < count; i++) {
        uint64_t span = memtrace_span_begin("grow", 0, 0, 0, 0);
        memset(malloc(1000000), 1, 1000000);
        free(malloc(3000000));
        memtrace_span_end(span, 0, 0);
    }
}

int main(int argc, char **argv) {
    atexit(tidy_up);
    free(malloc(50000000));
    keep();
    grow(4);
    if (argc > 1) {
        exit(strcmp(argv[1], "exit") == 0 ? 0 : 1);
    }
    return 0;
}
