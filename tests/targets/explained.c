// A block of 64 MiB in a span: a quarter of it is touched, and the span says what is resident then. Before and after it,
// the program holds something else.
#include "memtrace.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static void touch(volatile char *place, long bytes) {
    for (long at = 0; at < bytes; at += PAGE) place[at] = 1;
}

// Rss by /proc/self/smaps_rollup, without allocating anything.
static long resident(void) {
    static char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    long length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    char *line = strstr(text, "\nRss:");
    return line ? atol(line + 5) * 1024 : 0;
}

static char *quarter(long bytes) {
    char *block = malloc(bytes);
    touch(block, bytes / 4);
    return block;
}

int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    resident();
    // Held throughout, and touched as a whole.
    char *held = malloc(8 * MIB);
    touch(held, 8 * MIB);
    long before = resident();

    uint64_t span = memtrace_span_begin("quarter", NULL, 0, NULL, 0);
    char *block = quarter(64 * MIB);
    long during = resident();
    free(block);
    memtrace_span_end(span, NULL, 0);

    // Lower than before: the peak of this span is not the process's.
    span = memtrace_span_begin("less", NULL, 0, NULL, 0);
    block = quarter(16 * MIB);
    long less = resident();
    free(block);
    memtrace_span_end(span, NULL, 0);

    printf("%ld %ld %ld\n", before, during, less);
    free(held);
    return 0;
}
