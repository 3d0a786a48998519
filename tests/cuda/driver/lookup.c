/* cuGetProcAddress: by name without suffix, the newest function that the caller's CUDA knows. */
#include "driver.h"

#define DECLARE_OWN(symbol, base, version, per_thread, parameters) \
    extern __typeof__(symbol) HIDDEN(symbol) __attribute__((visibility("hidden")));
CUDA_FUNCTIONS(DECLARE_OWN)

static const struct function {
    const char *base;
    int version;
    bool per_thread;
    void *address;
} functions[] = {
#define ROW(symbol, base, version, per_thread, parameters) {base, version, per_thread, (void *)HIDDEN(symbol)},
    CUDA_FUNCTIONS(ROW)
};

/* In order of preference: made for a default stream per thread if that is requested, then the newest. */
static bool is_better(const struct function *function, const struct function *than) {
    if (!than) return true;
    if (function->per_thread != than->per_thread) return function->per_thread;
    return function->version > than->version;
}

ENTRY(cuGetProcAddress_v2)(const char *symbol, void **address, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult *status) {
    cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    NEED(symbol && address && !(flags & ~known) && flags != known);
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, is_known = false;
    const struct function *best = NULL;
    for (size_t f = 0; f < LENGTH(functions); f++) {
        const struct function *function = &functions[f];
        if (strcmp(function->base, symbol) != 0) continue;
        is_known = true;
        if (function->version > version || (function->per_thread && !per_thread)) continue;
        if (is_better(function, best)) best = function;
    }
    *address = best ? best->address : NULL;
    if (status) {
        if (best) *status = CU_GET_PROC_ADDRESS_SUCCESS;
        else *status = is_known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return CUDA_SUCCESS;
}

/* Before CUDA 12, a name that is not found is an error. */
ENTRY(cuGetProcAddress)(const char *symbol, void **address, int version, cuuint64_t flags) {
    TRY(cuGetProcAddress_v2(symbol, address, version, flags, NULL));
    return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
