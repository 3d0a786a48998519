/* Stands in for the preloaded probe in unit tests: appends each span event to the
   file that MEMTRACE_TEST_SPANS names, one JSON object per line. */
#define _GNU_SOURCE
#include <dlfcn.h>
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
   `entered` and `returned` for functions with a watched name, and reads a few words for
   all others. Under the GIL throughout; all that is passed lives for ever. */
static struct {
    void *entered, *returned;
    const char *names; /* each ends in NUL */
    size_t bytes;
    int minor;
} filter;

#define PYTHON(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, name))

static int called(void *function, void *first, void *second) {
    void *returned = PYTHON(void *, "PyObject_CallFunctionObjArgs", void *, ...)(
        function, first, second, NULL);
    if (returned)
        PYTHON(void, "Py_DecRef", void *)(returned);
    return returned != NULL;
}

/* 3.8 aborts that recurses further after somebody has caught a RecursionError of its limit. */
static int has_room(void) {
    if (filter.minor > 8)
        return 1;
    char *thread = PYTHON(void *, "PyThreadState_Get", void)();
    return *(int *)(thread + 32) + 50 < PYTHON(int, "Py_GetRecursionLimit", void)();
}

/* -1 if the program goes on with what one of its signal handlers has raised. */
static int report(void *function, void *frame, void *result) {
    if (!has_room() || called(function, frame, result))
        return 0;
    void *recursion = *(void **)dlsym(RTLD_DEFAULT, "PyExc_RecursionError");
    int is_own = PYTHON(int, "PyErr_ExceptionMatches", void *)(recursion);
    void *error[3];
    PYTHON(void, "PyErr_Fetch", void **, void **, void **)(&error[0], &error[1], &error[2]);
    if (is_own)
        return 0;
    if (!called(filter.returned, frame, NULL))
        PYTHON(void, "PyErr_Clear", void)();
    PYTHON(void, "PyErr_Restore", void *, void *, void *)(error[0], error[1], error[2]);
    return -1;
}

static int filtered(void *self, char *frame, int what, void *result) {
    enum { CALL = 0, RETURN = 3, COMPACT_ASCII = 0x60 };
    (void)self;
    if (what != CALL && what != RETURN)
        return 0;
    /* PyFrameObject.f_code; from 3.11 f_frame->f_code. PyCodeObject.co_name. */
    char *holder = filter.minor < 11 ? frame : *(char **)(frame + 24);
    char *code = *(char **)(holder + 32);
    char *name = *(char **)(code + (filter.minor < 11 ? 112 : 120));
    size_t length = *(size_t *)(name + 16);
    uint32_t state = *(uint32_t *)(name + 32);
    /* What is not plain ASCII is rare: let Python compare. */
    int is_watched = (state & COMPACT_ASCII) != COMPACT_ASCII;
    for (const char *at = filter.names; at < filter.names + filter.bytes; at += strlen(at) + 1)
        is_watched |= strlen(at) == length && memcmp(at, name + 48, length) == 0;
    if (!is_watched)
        return 0;
    return what == CALL ? report(filter.entered, frame, NULL)
                        : report(filter.returned, frame, result);
}

void *memtrace_python_filter(int minor, const char *names, size_t bytes, void *entered,
                             void *returned) {
    if (minor < 8 || minor > 11)
        return NULL;
    filter.entered = entered;
    filter.returned = returned;
    filter.names = names;
    filter.bytes = bytes;
    filter.minor = minor;
    return (void *)filtered;
}
