/* Two nested spans with known sizes, through include/memtrace.h.
 *
 * Usage: spans [n0 n1]
 * "outer" takes an array of n0 x n1 doubles, holds one copy of it through its life and, for the time
 * of "inner", two more: working peak of inner 2 * 8 * n0 * n1, of outer 3 * 8 * n0 * n1 bytes.
 */
#include "memtrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *copied(const double *from, size_t count) {
    double *to = malloc(count * sizeof *to);
    if (!to) {
        fprintf(stderr, "spans: out of memory\n");
        exit(1);
    }
    memcpy(to, from, count * sizeof *to);
    return to;
}

static double inner(const double *values, const uint64_t *shape) {
    memtrace_array input = {"values", "<f8", 2, shape, values};
    uint64_t span = memtrace_span_begin("inner", &input, 1, NULL, 0);
    double *one = copied(values, shape[0] * shape[1]);
    double *two = copied(one, shape[0] * shape[1]);
    double last = two[shape[0] * shape[1] - 1];
    free(one);
    free(two);
    memtrace_span_end(span, NULL, 0);
    return last;
}

int main(int argc, char **argv) {
    uint64_t shape[2] = {argc > 2 ? strtoull(argv[1], NULL, 10) : 100,
                         argc > 2 ? strtoull(argv[2], NULL, 10) : 200};
    size_t count = shape[0] * shape[1];
    double *values = calloc(count, sizeof *values);
    if (!values || count == 0) {
        fprintf(stderr, "spans: needs two positive lengths and memory for them\n");
        return 1;
    }

    memtrace_array input = {"values", "<f8", 2, shape, values};
    memtrace_param param = {"window", "9"};
    uint64_t span = memtrace_span_begin("outer", &input, 1, &param, 1);
    double *result = copied(values, count);
    result[0] = inner(values, shape);
    memtrace_array output = {"result", "<f8", 2, shape, result};
    memtrace_span_end(span, &output, 1);

    printf("%g\n", result[0]);
    free(result);
    free(values);
    return 0;
}
