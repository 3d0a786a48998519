/* Several processes: memory of one that another opens, and children that use the driver, or cannot. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

/* What the exporting process sends to the other. */
struct offer {
    CUipcMemHandle block, pitched;
    CUmemPoolPtrExportData in_pool;
    int pool, physical; /* its file descriptors */
    pid_t process;
};

static void offer_to(int offers, int done) {
    DO(cu.cuInit(0));
    CUcontext context = new_context(0);
    struct offer offer = {.process = getpid()};
    CUdeviceptr block = allocated(7 * MIB), pitched, in_pool;
    size_t pitch;
    char wait;
    DO(cu.cuMemAllocPitch_v2(&pitched, &pitch, 1000, 1000, 8));
    DO(cu.cuIpcGetMemHandle(&offer.block, block));
    DO(cu.cuIpcGetMemHandle(&offer.pitched, pitched + 100));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuIpcOpenMemHandle_v2(&block, offer.block, 0)); /* its own */
    CUmemoryPool pool;
    CUmemPoolProps properties = pool_on(0);
    DO(cu.cuMemPoolCreate(&pool, &properties));
    DO(cu.cuMemAllocFromPoolAsync(&in_pool, 6 * MIB, pool, NULL));
    DO(cu.cuMemPoolExportToShareableHandle(&offer.pool, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    DO(cu.cuMemPoolExportPointer(&offer.in_pool, in_pool));
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp physical = physical_on(0);
    DO(cu.cuMemCreate(&handle, 8 * MIB, &physical, 0));
    DO(cu.cuMemExportToShareableHandle(&offer.physical, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(write(offers, &offer, sizeof offer) == sizeof offer);
    EXPECT(read(done, &wait, 1) == 0); /* the other has closed it */
    DO(cu.cuMemFree_v2(in_pool));
    DO(cu.cuMemPoolDestroy(pool));
    DO(cu.cuMemRelease(handle));
    DO(cu.cuCtxDestroy_v2(context));
    exit(0);
}

static void *file_of(pid_t process, int descriptor) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
    int file = open(path, O_RDONLY);
    EXPECT(file >= 0);
    return (void *)(intptr_t)file;
}

static void open_ipc(const struct offer *offer) {
    CUdeviceptr block, again, pitched;
    DO(cu.cuIpcOpenMemHandle_v2(&block, offer->block, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    DO(cu.cuIpcOpenMemHandle(&again, offer->block, 0)); /* once more: one more reference */
    EXPECT(block == again);
    DO(cu.cuIpcOpenMemHandle_v2(&pitched, offer->pitched, 0)); /* ends with its context */
    EXPECT(pitched != block);
    INVALID(cu.cuMemFree_v2(block));
    DO(cu.cuIpcCloseMemHandle(block));
    DO(cu.cuIpcCloseMemHandle(block));
    INVALID(cu.cuIpcCloseMemHandle(block));
    CUipcMemHandle nothing = {{0}};
    INVALID(cu.cuIpcOpenMemHandle_v2(&block, nothing, 0));
}

static void import(const struct offer *offer) {
    CUmemoryPool pool;
    CUdeviceptr block, other, range;
    void *pool_file = file_of(offer->process, offer->pool), *physical_file = file_of(offer->process, offer->physical);
    CUmemPoolPtrExportData data = offer->in_pool;
    CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    DO(cu.cuMemPoolImportFromShareableHandle(&pool, pool_file, type, 0));
    DO(cu.cuMemPoolImportPointer(&block, pool, &data));
    INVALID(cu.cuMemAllocFromPoolAsync(&other, 1000, pool, NULL));
    DO(cu.cuMemFreeAsync(block, NULL));
    DO(cu.cuMemPoolDestroy(pool));
    CUmemGenericAllocationHandle handle;
    DO(cu.cuMemImportFromShareableHandle(&handle, physical_file, type));
    INVALID(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1, type));
    DO(cu.cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
    DO(cu.cuMemMap(range, 8 * MIB, 0, handle, 0));
    DO(cu.cuMemRelease(handle));
    DO(cu.cuMemUnmap(range, 8 * MIB));
    DO(cu.cuMemAddressFree(range, 8 * MIB));
}

static void share(void) {
    int offers[2], done[2], status;
    EXPECT(pipe(offers) == 0 && pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        offer_to(offers[1], done[0]);
    }
    struct offer offer;
    EXPECT(read(offers[0], &offer, sizeof offer) == sizeof offer);
    DO(cu.cuInit(0));
    CUcontext context = new_context(1);
    open_ipc(&offer);
    import(&offer);
    DO(cu.cuCtxDestroy_v2(context));
    close(done[1]);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void child_of_its_own(void) {
    pid_t child = fork();
    int status;
    if (child == 0) {
        DO(cu.cuInit(0));
        new_context(1);
        CUdeviceptr block = allocated(9 * MIB);
        allocated(11 * MIB); /* for good */
        DO(cu.cuMemFree_v2(block));
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* A child of a process that uses the driver has nothing of it, and can do nothing with it. */
static void child_without(void) {
    CUcontext context = new_context(0);
    CUdeviceptr block = allocated(5 * MIB), other;
    int status;
    pid_t child = fork();
    if (child == 0) {
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&other, 100));
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemFree_v2(block));
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuInit(0));
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    DO(cu.cuMemFree_v2(block));
    DO(cu.cuCtxDestroy_v2(context));
}

void processes_phase(void) {
    int count;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
    child_of_its_own();
    share();
    child_without();
}
