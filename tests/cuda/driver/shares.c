/* What one process can give another: IPC handles, physical memory and pools. A handle says what it is a handle to; nothing
 * is shared behind it, since device memory cannot be read directly. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

#define MAGIC 0x6e69646e617473

struct share share_of(uint64_t address, uint64_t bytes, int device) {
    return (struct share){.magic = MAGIC, .address = address, .bytes = bytes, .process = getpid(), .device = device};
}

bool is_share(const struct share *share) {
    return share->magic == MAGIC && (share->device < device_count || share->device == NO_DEVICE);
}

CUresult export_share(struct share share, CUmemAllocationHandleType type, void *file) {
    NEED(file && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    int descriptor = memfd_create("standin", MFD_CLOEXEC);
    REFUSE_IF(descriptor < 0, CUDA_ERROR_UNKNOWN);
    REFUSE_IF(pwrite(descriptor, &share, sizeof share, 0) != sizeof share, CUDA_ERROR_UNKNOWN);
    *(int *)file = descriptor;
    return CUDA_SUCCESS;
}

/* `file` is the descriptor itself. */
CUresult import_share(struct share *share, CUmemAllocationHandleType type, void *file) {
    NEED(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    NEED(pread((int)(intptr_t)file, share, sizeof *share, 0) == sizeof *share && is_share(share));
    return CUDA_SUCCESS;
}

ENTRY(cuIpcGetMemHandle)(CUipcMemHandle *handle, CUdeviceptr address) {
    ENTER();
    struct block *block = block_around(CLASS_DEVICE, address);
    NEED(handle && block && (block->kind == KIND_LINEAR || block->kind == KIND_PITCH));
    struct share share = share_of(block->entry.key, block->bytes, block->device);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &share, sizeof share);
    return CUDA_SUCCESS;
}

static struct block *opened(struct context *context, const struct share *share) {
    for (struct entry *entry = first(CLASS_DEVICE); entry; entry = entry->next) {
        struct block *block = (struct block *)entry;
        bool same = block->offset == share->address && block->owner == (void *)(intptr_t)share->process;
        if (block->kind == KIND_IPC && block->context == context && same) return block;
    }
    return NULL;
}

/* Opened again in the same context, it is the same address with one more reference. */
ENTRY(cuIpcOpenMemHandle_v2)(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
    ENTER();
    NEED(address && flags <= CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    struct context *context;
    TRY(current_context(&context));
    struct share share;
    memcpy(&share, &handle, sizeof share);
    NEED(is_share(&share));
    REFUSE_IF(share.process == getpid(), CUDA_ERROR_INVALID_CONTEXT);
    struct block *block = opened(context, &share);
    if (block) {
        block->references++;
    } else {
        block = new_block(CLASS_DEVICE, KIND_IPC, SPACE_DEVICE, share.device, share.bytes);
        REFUSE_IF(!block, CUDA_ERROR_OUT_OF_MEMORY);
        block->context = context;
        block->offset = share.address;
        block->owner = (void *)(intptr_t)share.process;
    }
    *address = block->entry.key;
    return CUDA_SUCCESS;
}

ENTRY(cuIpcOpenMemHandle)(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
    ENTER();
    return cuIpcOpenMemHandle_v2(address, handle, flags);
}

ENTRY(cuIpcCloseMemHandle)(CUdeviceptr address) {
    ENTER();
    struct block *block = find(CLASS_DEVICE, address);
    NEED(block && block->kind == KIND_IPC);
    if (--block->references == 0) end_block(block);
    return CUDA_SUCCESS;
}

static struct pool *shared_pool(CUmemoryPool handle) {
    struct pool *pool = find(CLASS_POOL, KEY(handle));
    return pool && !pool->destroyed ? pool : NULL;
}

ENTRY(cuMemPoolExportToShareableHandle)(void *handle, CUmemoryPool exported, CUmemAllocationHandleType type,
                                        unsigned long long flags) {
    ENTER();
    struct pool *pool = shared_pool(exported);
    NEED(pool && pool->exportable && !flags);
    return export_share(share_of(KEY(pool), 0, pool->device), type, handle);
}

ENTRY(cuMemPoolImportFromShareableHandle)(CUmemoryPool *handle, void *shared, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
    ENTER();
    NEED(handle && !flags);
    struct share share;
    TRY(import_share(&share, type, shared));
    struct pool *pool = new_pool(share.device);
    pool->imported = true;
    *handle = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolExportPointer)(CUmemPoolPtrExportData *data, CUdeviceptr address) {
    ENTER();
    struct block *block = block_around(CLASS_DEVICE, address);
    NEED(data && block && block->kind == KIND_POOL);
    struct share share = share_of(block->entry.key, block->bytes, block->device);
    memset(data, 0, sizeof *data);
    memcpy(data, &share, sizeof share);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolImportPointer)(CUdeviceptr *address, CUmemoryPool handle, CUmemPoolPtrExportData *data) {
    ENTER();
    struct pool *pool = shared_pool(handle);
    NEED(address && data && pool && pool->imported);
    struct share share;
    memcpy(&share, data, sizeof share);
    NEED(is_share(&share));
    struct block *block = new_block(CLASS_DEVICE, KIND_IMPORTED_POOL, SPACE_DEVICE, share.device, share.bytes);
    REFUSE_IF(!block, CUDA_ERROR_OUT_OF_MEMORY);
    *address = block->entry.key;
    return CUDA_SUCCESS;
}
