/* Stands in for the preloaded probe in unit tests: appends each span event to the
   file that MEMTRACE_TEST_SPANS names, one JSON object per line. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_uint_fast64_t next_id = 1;

static void append(const char *what, uint64_t id, const char *json, size_t length) {
    const char *path = getenv("MEMTRACE_TEST_SPANS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "{\"what\":\"%s\",\"id\":%llu,\"size\":%zu,\"json\":%.*s}\n", what,
            (unsigned long long)id, length, (int)length, json);
    fclose(file);
}

uint64_t memtrace_span_begin_json(const char *json, size_t length) {
    uint64_t id = atomic_fetch_add(&next_id, 1);
    append("begin", id, json, length);
    return id;
}

void memtrace_span_end_json(uint64_t id, const char *json, size_t length) {
    append("end", id, json, length);
}
