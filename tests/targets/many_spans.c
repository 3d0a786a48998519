/* Many short spans of few operators and shapes, inside a long one, in several processes.
 *
 * Usage: many_spans SPANS PROCESSES
 * Each process has its share of the SPANS, number i of operator_(i / 50 % 20) over (100 + i % 50) x 200
 * doubles. Each allocates 5000 + i % 50 bytes, which it releases unless i is a multiple of 1000; the
 * first of each operator also leaves 6000 bytes. Around those of a process is the span "all".
 * When all processes have done that, the first prints "done" and waits for the end of its input.
 */
#include "memtrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void call(long i) {
    char name[32];
    snprintf(name, sizeof name, "operator_%ld", i / 50 % 20);
    uint64_t shape[] = {100 + i % 50, 200};
    memtrace_array input = {"values", "<f8", 2, shape, NULL};
    memtrace_param window = {"window", "9"};
    uint64_t span = memtrace_span_begin(name, &input, 1, &window, 1);
    if (i < 1000 && i % 50 == 0)
        kept = malloc(6000);
    kept = malloc(5000 + i % 50);
    if (i % 1000 != 0)
        free(kept);
    memtrace_array output = {"result", "<f8", 2, shape, NULL};
    memtrace_span_end(span, &output, 1);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int processes = atoi(argv[2]), is_first = 1;
    for (int child = 1; is_first && child < processes; child++)
        is_first = fork() != 0;
    uint64_t all = memtrace_span_begin("all", NULL, 0, NULL, 0);
    for (long i = 0; i < atol(argv[1]) / processes; i++)
        call(i);
    memtrace_span_end(all, NULL, 0);
    if (!is_first)
        return 0;
    while (wait(NULL) > 0)
        ;
    puts("done");
    fflush(stdout);
    getchar();
    return 0;
}
