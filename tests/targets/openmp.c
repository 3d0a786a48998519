/* Parallel regions in two spans, one after the other: the team's threads are started in the first. Each thread
 * allocates a block of 10 MB (times the number of the span) while all of them are there. */
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include "memtrace.h"

static void work(const char *name, size_t bytes) {
    uint64_t span = memtrace_span_begin(name, NULL, 0, NULL, 0);
#pragma omp parallel num_threads(4)
    {
        void *block = malloc(bytes);
#pragma omp barrier
        free(block);
    }
    memtrace_span_end(span, NULL, 0);
}

int main(void) {
    work("first", 10000000);
    work("second", 20000000);
#pragma omp parallel num_threads(4)
    free(malloc(30000000));
    return 0;
}
