/* A few spans, blocks and mappings: what the seeds of fuzz/corpus are recordings of. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memtrace.h"

static char *kept;

static void work(size_t n) {
    uint64_t shape[] = {n / 10, 10};
    memtrace_array input = {"x", "<f4", 2, shape, 0};
    memtrace_param window = {"window", "9"};
    uint64_t span = memtrace_span_begin("small:work", &input, 1, &window, 1);
    char *first = malloc(n), *second = calloc(n, 2);
    memset(first, 1, n);
    second = realloc(second, n * 3);
    char *mapped = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 1 << 16);
    munmap(mapped, 1 << 20);
    free(second);
    free(first);
    memtrace_span_end(span, &input, 1);
}

int main(void) {
    for (size_t n = 1000; n < 5000; n += 1000)
        work(n);
    kept = malloc(100000);
    return 0;
}
