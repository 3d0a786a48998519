/* What the phases of all_calls have in common. Device 0 is the one that phases use unless they say otherwise; each
 * makes its own contexts. */
#ifndef CALLS_H
#define CALLS_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roads.h"

#define MIB ((size_t)1 << 20)

/* The call must return this. */
#define GIVES(result, call)                                                                     \
    do {                                                                                        \
        CUresult got = (call);                                                                  \
        if (got != (result)) {                                                                  \
            fprintf(stderr, "%s:%d: %s gives %d, not %s\n", __FILE__, __LINE__, #call, got, #result); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)
#define DO(call) GIVES(CUDA_SUCCESS, call)
#define INVALID(call) GIVES(CUDA_ERROR_INVALID_VALUE, call)
#define NO_MEMORY(call) GIVES(CUDA_ERROR_OUT_OF_MEMORY, call)
#define EXPECT(condition)                                                                       \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition);                 \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#define PHASES(X)                                                                               \
    X(processes) X(devices) X(linear) X(old_names) X(host) X(arrays) X(contexts) X(primary)     \
    X(pools) X(pool_streams) X(pool_ends) X(stream_names) X(physical) X(graphs) X(captures) X(injected) X(threads) X(held)
#define DECLARE_PHASE(name) void name##_phase(void);
PHASES(DECLARE_PHASE)
#undef DECLARE_PHASE

static inline CUcontext new_context(CUdevice device) {
    CUcontext context;
    DO(cu.cuCtxCreate_v2(&context, 0, device));
    return context;
}

static inline CUdeviceptr allocated(size_t bytes) {
    CUdeviceptr address;
    DO(cu.cuMemAlloc_v2(&address, bytes));
    return address;
}

static inline CUmemPoolProps pool_on(CUdevice device) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    return properties;
}

static inline CUmemAllocationProp physical_on(CUdevice device) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    return properties;
}
#endif
