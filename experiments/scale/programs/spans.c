/* Spans of twenty operators at fifty shapes, from several processes: spans PROCESSES SPANS
 * Prints the seconds of CPU that the loops of all processes took. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memtrace.h"

enum { OPERATORS = 20, SHAPES = 50, NAME_BYTES = 32 };

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Some microseconds of work, which touches what the operator needs. */
static double work(float *block, size_t items, long seed) {
    double sum = 0;
    for (size_t i = 0; i < items; i++)
        block[i] = (float)(i ^ (size_t)seed);
    for (size_t i = 0; i < items; i += 16)
        sum += block[i];
    return sum;
}

static double spans(long count) {
    static char names[OPERATORS][NAME_BYTES];
    volatile double kept = 0;
    for (int operator = 0; operator < OPERATORS; operator++)
        snprintf(names[operator], NAME_BYTES, "scale:operator_%d", operator);
    double start = cpu_seconds();
    for (long call = 0; call < count; call++) {
        int operator = (int)(call % OPERATORS);
        uint64_t shape[] = {20 + (uint64_t)(call / OPERATORS % SHAPES), 10 + (uint64_t)operator};
        size_t items = shape[0] * shape[1];
        memtrace_array input = {"volume", "<f4", 2, shape, NULL};
        uint64_t span = memtrace_span_begin(names[operator], &input, 1, NULL, 0);
        float *result = malloc(items * sizeof *result), *temporary = malloc(2 * items * sizeof *result);
        if (!result || !temporary)
            abort();
        kept += work(temporary, 2 * items, call) + work(result, items, call);
        free(temporary);
        memtrace_array output = {"result", "<f4", 2, shape, result};
        memtrace_span_end(span, &output, 1);
        free(result);
    }
    return cpu_seconds() - start;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int processes = atoi(argv[1]);
    long count = atol(argv[2]) / processes;
    double *seconds = mmap(NULL, processes * sizeof *seconds, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds == MAP_FAILED)
        return 1;
    for (int process = 0; process < processes; process++)
        if (fork() == 0) {
            seconds[process] = spans(count);
            exit(0);
        }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    double sum = 0;
    for (int process = 0; process < processes; process++)
        sum += seconds[process];
    printf("%.6f\n", sum);
    return failed != 0;
}
