/* Contexts that end with blocks in them, primary ones, failures on demand, blocks that threads hand to each other. */
#include <pthread.h>

#include "calls.h"

static CUdevice current_device(void) {
    CUdevice device;
    DO(cu.cuCtxGetDevice(&device));
    return device;
}

void contexts_phase(void) {
    CUcontext first = new_context(0), second, current;
    CUdeviceptr in_first = allocated(10 * MIB), in_second, in_pool;
    DO(cu.cuCtxCreate_v3(&second, NULL, 0, 0, 1));
    EXPECT(current_device() == 1);
    in_second = allocated(20 * MIB);
    DO(cu.cuMemFree_v2(in_first)); /* from another context */
    DO(cu.cuCtxSetCurrent(first));
    EXPECT(current_device() == 0);
    allocated(30 * MIB);
    void *host;
    DO(cu.cuMemAllocHost_v2(&host, 1000));
    DO(cu.cuMemAllocAsync(&in_pool, 1000, NULL));
    CUstream stream;
    DO(cu.cuStreamCreateWithPriority(&stream, 0, 0));
    DO(cu.cuCtxPushCurrent_v2(second));
    DO(cu.cuCtxDestroy_v2(first)); /* which is not current: its blocks end, the pool's stay */
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamDestroy_v2(stream));
    EXPECT(current_device() == 1);
    DO(cu.cuMemFree_v2(in_second));
    INVALID(cu.cuMemFree_v2(in_second));
    DO(cu.cuMemFreeAsync(in_pool, NULL));
    DO(cu.cuCtxSynchronize());
    DO(cu.cuCtxPopCurrent_v2(&current));
    EXPECT(current == second);
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemAlloc_v2(&in_first, 1));
    DO(cu.cuCtxSetCurrent(NULL)); /* as popping does */
    DO(cu.cuCtxPopCurrent_v2(NULL));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPopCurrent_v2(NULL));
    DO(cu.cuCtxGetCurrent(&current));
    EXPECT(current == NULL);
    DO(cu.cuCtxDestroy_v2(second));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy_v2(second));
    DO(cu.cuCtxCreate_v4(&current, NULL, 0, 1));
    EXPECT(current == second || current == first); /* the handle of one that is no more */
    allocated(5 * MIB);
    DO(cu.cuCtxDestroy_v2(current));
}

void primary_phase(void) {
    CUcontext context, again;
    unsigned int flags;
    int active;
    DO(cu.cuDevicePrimaryCtxRetain(&context, 0));
    DO(cu.cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT(context == again);
    DO(cu.cuCtxSetCurrent(context));
    CUdeviceptr block = allocated(40 * MIB), in_pool;
    DO(cu.cuMemAllocAsync(&in_pool, 3000, NULL));
    DO(cu.cuDevicePrimaryCtxReset_v2(0));
    INVALID(cu.cuMemFree_v2(block));
    DO(cu.cuMemFreeAsync(in_pool, NULL)); /* pools' blocks belong to no context */
    DO(cu.cuStreamSynchronize(NULL));
    block = allocated(50 * MIB);
    DO(cu.cuDevicePrimaryCtxRelease_v2(0));
    DO(cu.cuMemFree_v2(block));
    allocated(60 * MIB);
    DO(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active);
    DO(cu.cuDevicePrimaryCtxRelease_v2(0)); /* the last: it ends */
    DO(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(!active);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemAlloc_v2(&block, 1));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy_v2(context));
    DO(cu.cuDevicePrimaryCtxRetain(&again, 0));
    EXPECT(context == again);
    DO(cu.cuCtxSetCurrent(again));
    block = allocated(1000);
    DO(cu.cuMemFree_v2(block));
    DO(cu.cuDevicePrimaryCtxRelease_v2(0));
    DO(cu.cuCtxSetCurrent(NULL));
}

/* Calls that fail though nothing is wrong with them, as they do when a device is lost. */
void injected_phase(void) {
    CUcontext context = new_context(0);
    CUdeviceptr block, kept = allocated(2 * MIB);
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR shape = {256, 256, CU_AD_FORMAT_FLOAT, 1};
    void *host;
    cu.fail("cuMemAlloc_v2", 2, CUDA_ERROR_UNKNOWN);
    block = allocated(MIB);
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuMemAlloc_v2(&block, MIB));
    cu.fail("cuMemFree_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemFree_v2(block));
    DO(cu.cuMemFree_v2(block));
    cu.fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY); /* the driver calls it by itself */
    NO_MEMORY(cu.cuMemAllocHost_v2(&host, 4096));
    DO(cu.cuMemAllocHost_v2(&host, 4096));
    cu.fail("cuMemFreeHost", 1, CUDA_ERROR_UNKNOWN);
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuMemFreeHost(host));
    DO(cu.cuMemFreeHost(host));
    DO(cu.cuArrayCreate_v2(&array, &shape));
    cu.fail("cuArrayDestroy", 1, CUDA_ERROR_UNKNOWN);
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuArrayDestroy(array));
    DO(cu.cuArrayDestroy(array));
    cu.fail("cuMemFreeAsync", 1, CUDA_ERROR_UNKNOWN);
    DO(cu.cuMemAllocAsync(&block, 4 * MIB, NULL));
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuMemFreeAsync(block, NULL));
    DO(cu.cuMemFreeAsync(block, NULL));
    DO(cu.cuStreamSynchronize(NULL));
    cu.fail("cuCtxDestroy_v2", 1, CUDA_ERROR_UNKNOWN);
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuCtxDestroy_v2(context));
    DO(cu.cuMemFree_v2(kept)); /* it was not destroyed */
    DO(cu.cuCtxDestroy_v2(context));
}

#define THREADS 8
#define ROUNDS 2000
#define SHELF 16

static CUcontext shared_context;
static CUdeviceptr shelf[SHELF];

/* Takes what another thread left and leaves a block of its own. */
static void *exchange(void *number) {
    unsigned state = 77 + (unsigned)(uintptr_t)number;
    DO(cu.cuCtxPushCurrent_v2(shared_context));
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1103515245 + 12345;
        CUdeviceptr block;
        if (state >> 16 & 1) block = allocated(512 + (state >> 20));
        else DO(cu.cuMemAllocAsync(&block, 512 + (state >> 20), CU_STREAM_PER_THREAD));
        block = __atomic_exchange_n(&shelf[state >> 8 & (SHELF - 1)], block, __ATOMIC_ACQ_REL);
        if (block && (state >> 17 & 1)) DO(cu.cuMemFree_v2(block));
        else if (block) DO(cu.cuMemFreeAsync(block, NULL));
    }
    DO(cu.cuCtxPopCurrent_v2(NULL));
    return NULL;
}

void threads_phase(void) {
    shared_context = new_context(0);
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++) EXPECT(pthread_create(&threads[t], NULL, exchange, (void *)t) == 0);
    for (int t = 0; t < THREADS; t++) EXPECT(pthread_join(threads[t], NULL) == 0);
    for (int s = 0; s < SHELF; s++) DO(cu.cuMemFree_v2(shelf[s]));
    DO(cu.cuCtxSynchronize());
    DO(cu.cuCtxDestroy_v2(shared_context));
}

/* Of every kind, one that is never freed: what the process still has at its end. */
void held_phase(void) {
    new_context(1);
    CUdeviceptr address;
    size_t pitch;
    void *host;
    CUarray array;
    CUmipmappedArray mipmap;
    CUmemGenericAllocationHandle handle;
    CUDA_ARRAY_DESCRIPTOR shape = {128, 128, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY3D_DESCRIPTOR solid = {16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0};
    CUmemAllocationProp properties = physical_on(1);
    allocated(3 * MIB + 1);
    DO(cu.cuMemAllocPitch_v2(&address, &pitch, 100, 100, 4));
    DO(cu.cuMemAllocManaged(&address, 70000, CU_MEM_ATTACH_GLOBAL));
    DO(cu.cuMemAllocHost_v2(&host, 80000));
    DO(cu.cuArrayCreate_v2(&array, &shape));
    DO(cu.cuMipmappedArrayCreate(&mipmap, &solid, 2));
    DO(cu.cuMemAllocAsync(&address, 90000, NULL));
    DO(cu.cuMemCreate(&handle, 4 * MIB, &properties, 0));
    DO(cu.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    DO(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
    DO(cu.cuMemRelease(handle)); /* still mapped */
    EXPECT((host = malloc(5000)) != NULL);
    DO(cu.cuMemHostRegister_v2(host, 5000, 0));
}
