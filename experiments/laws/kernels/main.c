/* Calls one kernel of a set at a shape: KERNEL LENGTH,LENGTH CALLS. Every call is a span.
 *
 * Prints the resident peak of the process, in KiB, as its last line. */
#include "kernels.h"

#include "memtrace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double *random_numbers(size_t count) {
    double *numbers = malloc(count * sizeof *numbers);
    uint64_t state = 88172645463325252u + count;
    for (size_t i = 0; numbers && i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers[i] = (double)(state >> 11) / 9007199254740992.0;
    }
    return numbers;
}

static void print_resident_peak(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("resident %ld\n", strtol(line + 6, NULL, 10));
}

static void limit(void) {
    struct rlimit space = {6ull << 30, 6ull << 30};
    setrlimit(RLIMIT_AS, &space);
    alarm(60);
}

int main(int count, char **arguments) {
    unsigned long long rows, columns;
    if (count != 4 || sscanf(arguments[2], "%llu,%llu", &rows, &columns) != 2)
        return 2;
    limit();
    for (const struct kernel *each = kernels; each->name; each++) {
        if (strcmp(each->name, arguments[1]) != 0)
            continue;
        double *numbers = random_numbers(rows * columns), sum = 0;
        uint64_t shape[] = {rows, columns};
        memtrace_array input = {"numbers", "<f8", 2, shape, numbers};
        char name[64];
        snprintf(name, sizeof name, "kernels:%s", each->name);
        for (int call = atoi(arguments[3]); numbers && call > 0; call--) {
            uint64_t span = memtrace_span_begin(name, &input, 1, NULL, 0);
            sum += each->run(numbers, rows, columns);
            memtrace_span_end(span, NULL, 0);
        }
        printf("%s of %s: %g\n", each->name, arguments[2], sum);
        print_resident_peak();
        free(numbers);
        return 0;
    }
    return 2;
}
