/* Contexts: a stack of them per thread, one primary per device, and the end of what is in them. */
#include "driver.h"

#define STACK_MAX 64

static __thread struct {
    struct context *context;
    uint64_t generation;
} stack[STACK_MAX];
static __thread int depth;
static uint64_t generations;

CUresult current_context(struct context **context) {
    REFUSE_IF(depth == 0 || !stack[depth - 1].context, CUDA_ERROR_INVALID_CONTEXT);
    *context = stack[depth - 1].context;
    REFUSE_IF((*context)->generation != stack[depth - 1].generation, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return CUDA_SUCCESS;
}

static CUresult push(struct context *context) {
    NEED(depth < STACK_MAX);
    stack[depth].context = context;
    stack[depth++].generation = context->generation;
    return CUDA_SUCCESS;
}

static struct context *live_context(CUcontext handle) {
    struct context *context = find(CLASS_CONTEXT, KEY(handle));
    return context && context->generation ? context : NULL;
}

static void end_blocks_of(struct context *context, enum class class) {
    for (struct entry *entry = first(class), *next; entry; entry = next) {
        next = entry->next;
        if (((struct block *)entry)->context == context) end_block((struct block *)entry);
    }
}

/* Neither physical memory nor blocks of pools and graphs belong to a context. */
static void end_all_in(struct context *context) {
    end_blocks_of(context, CLASS_DEVICE);
    end_blocks_of(context, CLASS_REGISTERED);
    end_blocks_of(context, CLASS_ARRAY);
    end_blocks_of(context, CLASS_MIPMAP);
    end_host_blocks(context);
    end_streams(context);
}

static CUresult create(CUcontext *handle, CUdevice device) {
    NEED(handle);
    NEED_DEVICE(device);
    struct context *context = new_entry(CLASS_CONTEXT, sizeof *context);
    context->device = device;
    context->generation = ++generations;
    *handle = (CUcontext)context;
    return push(context);
}

ENTRY(cuCtxCreate)(CUcontext *context, unsigned int flags, CUdevice device) {
    ENTER();
    return cuCtxCreate_v2(context, flags, device);
}

ENTRY(cuCtxCreate_v2)(CUcontext *context, unsigned int flags, CUdevice device) {
    ENTER();
    (void)flags;
    return create(context, device);
}

ENTRY(cuCtxCreate_v3)(CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned int flags, CUdevice device) {
    ENTER();
    (void)flags;
    NEED(!affinities == !count);
    return create(context, device);
}

ENTRY(cuCtxCreate_v4)(CUcontext *context, CUctxCreateParams *wishes, unsigned int flags, CUdevice device) {
    ENTER();
    (void)wishes, (void)flags;
    return create(context, device);
}

ENTRY(cuCtxDestroy_v2)(CUcontext handle) {
    ENTER();
    struct context *context = live_context(handle);
    REFUSE_IF(!context || context->primary, CUDA_ERROR_INVALID_CONTEXT);
    if (depth && stack[depth - 1].context == context) depth--;
    end_all_in(context);
    context->generation = 0;
    drop(context);
    return CUDA_SUCCESS;
}

ENTRY(cuCtxDestroy)(CUcontext context) {
    ENTER();
    return cuCtxDestroy_v2(context);
}

ENTRY(cuCtxPushCurrent_v2)(CUcontext handle) {
    ENTER();
    struct context *context = live_context(handle);
    REFUSE_IF(!context, CUDA_ERROR_INVALID_CONTEXT);
    return push(context);
}

ENTRY(cuCtxPushCurrent)(CUcontext context) {
    ENTER();
    return cuCtxPushCurrent_v2(context);
}

ENTRY(cuCtxPopCurrent_v2)(CUcontext *context) {
    ENTER();
    REFUSE_IF(depth == 0, CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context) *context = (CUcontext)stack[depth].context;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxPopCurrent)(CUcontext *context) {
    ENTER();
    return cuCtxPopCurrent_v2(context);
}

ENTRY(cuCtxSetCurrent)(CUcontext handle) {
    ENTER();
    struct context *context = live_context(handle);
    REFUSE_IF(handle && !context, CUDA_ERROR_INVALID_CONTEXT);
    if (depth) depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

ENTRY(cuCtxGetCurrent)(CUcontext *context) {
    ENTER();
    NEED(context);
    *context = depth ? (CUcontext)stack[depth - 1].context : NULL;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetDevice)(CUdevice *device) {
    ENTER();
    NEED(device);
    struct context *context;
    TRY(current_context(&context));
    *device = context->device;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxSynchronize)(void) {
    ENTER();
    struct context *context;
    TRY(current_context(&context));
    pools_at_synchronisation(point_of_context(context));
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxRetain)(CUcontext *context, CUdevice device) {
    ENTER();
    NEED(context);
    NEED_DEVICE(device);
    struct context *primary = devices[device].primary;
    if (!primary->generation) primary->generation = ++generations;
    primary->retained++;
    *context = (CUcontext)primary;
    return CUDA_SUCCESS;
}

/* The handle of a primary context is the same when it is retained again. */
ENTRY(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
    ENTER();
    NEED_DEVICE(device);
    struct context *primary = devices[device].primary;
    REFUSE_IF(!primary->retained, CUDA_ERROR_INVALID_CONTEXT);
    if (--primary->retained == 0) {
        end_all_in(primary);
        primary->generation = 0;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxRelease)(CUdevice device) {
    ENTER();
    return cuDevicePrimaryCtxRelease_v2(device);
}

ENTRY(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
    ENTER();
    NEED_DEVICE(device);
    end_all_in(devices[device].primary);
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxReset)(CUdevice device) {
    ENTER();
    return cuDevicePrimaryCtxReset_v2(device);
}

ENTRY(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned int *flags, int *active) {
    ENTER();
    NEED(flags && active);
    NEED_DEVICE(device);
    *flags = 0;
    *active = devices[device].primary->generation != 0;
    return CUDA_SUCCESS;
}
