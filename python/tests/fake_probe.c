/* Stands in for the preloaded probe in unit tests: appends each span event to the
   file that MEMTRACE_TEST_SPANS names, one JSON object per line. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

uint64_t memtrace_span_export(void) {
    uint64_t token = atomic_fetch_add(&next_id, 1);
    append("export", token, "{}", 2);
    return token;
}

void memtrace_span_adopt(uint64_t token) { append("adopt", token, "{}", 2); }

void memtrace_span_activate(uint64_t id) { append("activate", id, "{}", 2); }

/* The filter of docs/python.md: a Py_tracefunc for CPython 3.8 to 3.11 that calls
   `on_match` for calls and returns of functions with a watched name, and reads a few
   words for all others. Under the GIL throughout; `names` stays where it is. */
typedef int (*tracefunc)(void *, char *, int, void *);
static struct {
    tracefunc on_match;
    const char *names; /* each ends in NUL */
    size_t bytes;
    int minor;
} filter;

static int filtered(void *self, char *frame, int what, void *argument) {
    enum { CALL = 0, RETURN = 3, COMPACT_ASCII = 0x60 };
    if (what != CALL && what != RETURN)
        return 0;
    /* PyFrameObject.f_code; from 3.11 f_frame->f_code. PyCodeObject.co_name. */
    char *holder = filter.minor < 11 ? frame : *(char **)(frame + 24);
    char *code = *(char **)(holder + 32);
    char *name = *(char **)(code + (filter.minor < 11 ? 112 : 120));
    size_t length = *(size_t *)(name + 16);
    uint32_t state = *(uint32_t *)(name + 32);
    if ((state & COMPACT_ASCII) != COMPACT_ASCII)
        return filter.on_match(self, frame, what, argument); /* rare: let Python compare */
    for (const char *at = filter.names; at < filter.names + filter.bytes; at += strlen(at) + 1)
        if (strlen(at) == length && memcmp(at, name + 48, length) == 0)
            return filter.on_match(self, frame, what, argument);
    return 0;
}

void *memtrace_python_filter(int minor, const char *names, size_t bytes, void *on_match) {
    if (minor < 8 || minor > 11 || getenv("MEMTRACE_TEST_NO_FILTER"))
        return NULL;
    filter.on_match = (tracefunc)on_match;
    filter.names = names;
    filter.bytes = bytes;
    filter.minor = minor;
    return (void *)filtered;
}
