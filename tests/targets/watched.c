/* Does what each line of its input says and answers "ok": "begin" opens a span of an operator "held" with an input of
 * 100 x 200 doubles and allocates 3,000,000 bytes in it; "grow" allocates and keeps 1,000,000 bytes; "end" releases
 * the 3,000,000 and ends the span. Ends with 3 when no more lines come. */
#include "memtrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static int grow(void) {
    void *volatile more = malloc(1000000);
    if (more) memset(more, 1, 1000000);
    return more != NULL;
}

int main(void) {
    char line[32];
    uint64_t shape[] = {100, 200}, span = 0;
    void *volatile held = NULL;
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "begin\n")) {
            memtrace_array input = {"x", "<f8", 2, shape, NULL};
            span = memtrace_span_begin("held", &input, 1, NULL, 0);
            held = malloc(3000000);
        } else if (!strcmp(line, "grow\n")) {
            if (!grow()) return 1;
        } else if (!strcmp(line, "end\n")) {
            free(held);
            memtrace_span_end(span, NULL, 0);
        }
        puts("ok");
        fflush(stdout);
    }
    return 3;
}
