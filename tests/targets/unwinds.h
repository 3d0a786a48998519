/* Compares the stack that the probe reports, remembered or not, with libgcc's unwinding of it, wherever it is called. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))
/* Keeps a call from becoming a jump. */
#define AFTER __asm__ volatile("" ::: "memory")
#define FRAMES_MAX 256
#define STACKS 1024

/* As in probe-lib/src/intercept/tested.rs. */
struct reported {
    uint32_t number, is_new, is_complete, count;
    uint64_t frames[FRAMES_MAX];
};

#ifdef __cplusplus
extern "C" {
#endif
void memtrace_report_stack(struct reported *) __attribute__((weak));
extern unsigned long checked, remembered, wrong, cut;
void check(void);
#ifdef __cplusplus
}
#endif

#ifdef UNWINDS_MAIN
unsigned long checked, remembered, wrong, cut;
static __thread struct reported *known;
static __thread int busy;

struct list {
    uint64_t count, frames[FRAMES_MAX];
};

static _Unwind_Reason_Code each(struct _Unwind_Context *context, void *argument) {
    struct list *list = (struct list *)argument;
    int interrupted = 0;
    uint64_t address = _Unwind_GetIPInfo(context, &interrupted);
    if (address == 0 || list->count == FRAMES_MAX)
        return _URC_END_OF_STACK;
    list->frames[list->count++] = address + (interrupted ? 1 : 0);
    return _URC_NO_REASON;
}

static void show(const char *who, const uint64_t *frames, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        Dl_info about = {0};
        dladdr((void *)(frames[i] - 1), &about);
        fprintf(stderr, "%s %2lu %#lx %s\n", who, (unsigned long)i, (unsigned long)frames[i],
                about.dli_sname ? about.dli_sname : "?");
    }
}

NOINLINE void check(void) {
    if (busy || !memtrace_report_stack)
        return;
    busy = 1;
    /* Not on the stack: it may be a small one. */
    static __thread struct reported reported;
    static __thread struct list list;
    if (!known)
        known = (struct reported *)calloc(STACKS, sizeof *known);
    memtrace_report_stack(&reported);
    list.count = 0;
    _Unwind_Backtrace(each, &list);
    struct reported *now = &known[reported.number];
    if (reported.is_new)
        *now = reported;
    __atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&remembered, !reported.is_new, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cut, !now->is_complete, __ATOMIC_RELAXED);
    /* Both begin in this function, at calls of their own. One that was cut says so. */
    int same = now->is_complete ? now->count == list.count : now->count <= list.count;
#ifdef __aarch64__
    /* libgcc ends where a linker's stub was interrupted; the probe goes on by frame records. */
    same |= now->count > list.count;
#endif
    for (uint64_t i = 1; same && i < now->count && i < list.count; i++)
        same = now->frames[i] == list.frames[i];
    if (!same && __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED) < 4) {
        fprintf(stderr, "stack %u, %s\n", reported.number, reported.is_new ? "new" : "remembered");
        show("probe ", now->frames, now->count);
        show("libgcc", list.frames, list.count);
    }
    busy = 0;
    AFTER;
}
#endif
