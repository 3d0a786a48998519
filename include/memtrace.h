/* memtrace.h: name the operators that your program runs (C, C++).
 *
 * A program that includes this header links and runs unchanged without memtrace:
 * nothing has to be linked, and outside of `memtrace -- program` a span costs one test
 * of a pointer. Under memtrace every memtrace_span_begin/_end pair becomes a span in
 * the trace, and its working peak, input and output can be fitted as a law.
 *
 *     uint64_t shape[] = {200, 180, 150};
 *     memtrace_array volume = {"volume", "<f4", 3, shape, data};
 *     memtrace_param window = {"window", "9"};
 *     uint64_t span = memtrace_span_begin("semblance", &volume, 1, &window, 1);
 *     ... run the operator ...
 *     memtrace_array result = {"result", "<f4", 3, shape, out};
 *     memtrace_span_end(span, &result, 1);
 *
 * A pool of device memory (GPUs) reports its blocks with memtrace_device_block: what it has
 * handed out then counts in place of what it has reserved.
 *
 * Spans nest, per thread; end the inner one first, on the thread that began it. What the
 * arguments point to is read during the call and never kept. Strings are UTF-8. One span's
 * description is limited to 8 KiB; a longer one is not recorded.
 *
 * Fortran has a module of its own (memtrace.f90, next to this file), Rust a crate (memtrace-span).
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef MEMTRACE_H
#define MEMTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An array that goes into or comes out of an operator. */
typedef struct memtrace_array {
    const char *name;      /* of the argument; NULL or "" if it has none */
    const char *dtype;     /* NumPy's notation with byte order: "<f4", ">i2", "|u1", "<c16" */
    int ndim;              /* how many axes */
    const uint64_t *shape; /* ndim lengths, slowest axis first (C order) */
    const void *data;      /* the first element; NULL if unknown */
} memtrace_array;

/* A parameter that the memory an operator needs may depend on. */
typedef struct memtrace_param {
    const char *key;
    const char *value; /* as text: "9", "0.5", "hann" */
} memtrace_param;

/* Weak, and on x86-64 reached through the GOT: without `noplt` a link of code that is not
 * position independent would settle the absent function as NULL before any probe is there. */
#define MEMTRACE_WEAK __attribute__((weak))
#if defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(noplt)
#undef MEMTRACE_WEAK
#define MEMTRACE_WEAK __attribute__((weak, noplt))
#endif
#endif

/* What the preloaded probe exports; absent (NULL) in a program that is not recorded. */
extern uint64_t memtrace_probe_span_begin(const char *name, const memtrace_array *inputs,
                                          size_t n_inputs, const memtrace_param *params,
                                          size_t n_params) __asm__("memtrace_span_begin")
    MEMTRACE_WEAK;
extern void memtrace_probe_span_end(uint64_t id, const memtrace_array *outputs, size_t n_outputs)
    __asm__("memtrace_span_end") MEMTRACE_WEAK;

extern void memtrace_probe_device_block(uint64_t address, uint64_t bytes, uint32_t device,
                                        uint64_t reserved, uint64_t used)
    __asm__("memtrace_device_block") MEMTRACE_WEAK;

/* Begins a span of the operator `name`. Returns its id, 0 if it is not recorded.
 * `inputs` and `params` may be NULL when their number is 0. */
static inline uint64_t memtrace_span_begin_(const char *name, const memtrace_array *inputs,
                                            size_t n_inputs, const memtrace_param *params,
                                            size_t n_params) {
    return memtrace_probe_span_begin
               ? memtrace_probe_span_begin(name, inputs, n_inputs, params, n_params)
               : 0;
}

/* Ends the span `id` (0 is ignored) and says what came out of the operator. */
static inline void memtrace_span_end_(uint64_t id, const memtrace_array *outputs,
                                      size_t n_outputs) {
    if (id != 0 && memtrace_probe_span_end)
        memtrace_probe_span_end(id, outputs, n_outputs);
}

/* A pool of memory on the device `device` (its ordinal) has handed out a block, or, with `bytes` 0,
 * taken it back. `reserved` and `used` are what it has reserved of the device now, and what of that
 * it has handed out. */
static inline void memtrace_device_block_(uint64_t address, uint64_t bytes, uint32_t device,
                                          uint64_t reserved, uint64_t used) {
    if (memtrace_probe_device_block)
        memtrace_probe_device_block(address, bytes, device, reserved, used);
}

/* The names to call: the probe's functions carry them in the symbol table. */
#define memtrace_span_begin memtrace_span_begin_
#define memtrace_span_end memtrace_span_end_
#define memtrace_device_block memtrace_device_block_

#ifdef __cplusplus
}
#endif

#endif
