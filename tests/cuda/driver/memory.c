/* cuMemAlloc and its kin: blocks of device addresses, each in a range of its own, that belong to a context. */
#include "driver.h"

#define PITCH 512

static CUresult allocate(enum kind kind, enum space space, uint64_t bytes, uint64_t *address) {
    struct context *context;
    TRY(current_context(&context));
    NEED(bytes);
    REFUSE_IF(kind != KIND_MANAGED && !is_room(context->device, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = new_block(CLASS_DEVICE, kind, space, context->device, bytes);
    REFUSE_IF(!block, CUDA_ERROR_OUT_OF_MEMORY);
    block->context = context;
    *address = block->entry.key;
    return CUDA_SUCCESS;
}

static CUresult allocate_pitch(enum space space, uint64_t width, uint64_t height, unsigned element, uint64_t *pitch,
                               uint64_t *address) {
    NEED(width && height && (element == 4 || element == 8 || element == 16));
    REFUSE_IF(width > UINT32_MAX || height > UINT32_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    *pitch = (width + PITCH - 1) & -(uint64_t)PITCH;
    return allocate(KIND_PITCH, space, *pitch * height, address);
}

ENTRY(cuMemAlloc_v2)(CUdeviceptr *address, size_t bytes) {
    ENTER();
    NEED(address);
    uint64_t found;
    TRY(allocate(KIND_LINEAR, SPACE_DEVICE, bytes, &found));
    *address = found;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAlloc)(CUdeviceptr_v1 *address, unsigned int bytes) {
    ENTER();
    NEED(address);
    uint64_t found;
    TRY(allocate(KIND_LINEAR, SPACE_LOW, bytes, &found));
    *address = found;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAllocPitch_v2)(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element) {
    ENTER();
    NEED(address && pitch);
    uint64_t found, rounded;
    TRY(allocate_pitch(SPACE_DEVICE, width, height, element, &rounded, &found));
    *address = found;
    *pitch = rounded;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAllocPitch)(CUdeviceptr_v1 *address, unsigned int *pitch, unsigned int width, unsigned int height,
                       unsigned int element) {
    ENTER();
    NEED(address && pitch);
    uint64_t found, rounded;
    TRY(allocate_pitch(SPACE_LOW, width, height, element, &rounded, &found));
    *address = found;
    *pitch = rounded;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAllocManaged)(CUdeviceptr *address, size_t bytes, unsigned int flags) {
    ENTER();
    NEED(address && flags);
    uint64_t found;
    TRY(allocate(KIND_MANAGED, SPACE_MANAGED, bytes, &found));
    *address = found;
    return CUDA_SUCCESS;
}

CUresult free_device_block(struct block *block, struct point when) {
    switch (block->kind) {
    case KIND_POOL:
    case KIND_IMPORTED_POOL: return free_pool_block(block, when);
    case KIND_GRAPH: return free_graph_block(block);
    case KIND_IPC: return CUDA_ERROR_INVALID_VALUE;
    default: end_block(block); return CUDA_SUCCESS;
    }
}

ENTRY(cuMemFree_v2)(CUdeviceptr address) {
    ENTER();
    struct context *context;
    TRY(current_context(&context));
    if (!address) return CUDA_SUCCESS;
    struct block *block = find(CLASS_DEVICE, address);
    NEED(block);
    return free_device_block(block, (struct point){0});
}

ENTRY(cuMemFree)(CUdeviceptr_v1 address) {
    ENTER();
    return cuMemFree_v2(address);
}

ENTRY(cuMemGetAddressRange_v2)(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    ENTER();
    struct block *block = block_around(CLASS_DEVICE, address);
    REFUSE_IF(!block, CUDA_ERROR_NOT_FOUND);
    if (base) *base = block->entry.key;
    if (bytes) *bytes = block->bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuPointerGetAttribute)(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER();
    struct block *block = block_around(CLASS_DEVICE, address);
    NEED(value && block);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(CUmemorytype *)value = CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = block->device == NO_DEVICE ? -1 : block->device; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)value = (CUmemoryPool)pool_of_block(block); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetInfo_v2)(size_t *free, size_t *total) {
    ENTER();
    struct context *context;
    TRY(current_context(&context));
    NEED(free && total);
    *total = devices[context->device].memory;
    *free = *total - driver_bytes(context->device);
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetInfo)(unsigned int *free, unsigned int *total) {
    ENTER();
    NEED(free && total);
    size_t wide_free, wide_total;
    TRY(cuMemGetInfo_v2(&wide_free, &wide_total));
    *free = wide_free < UINT32_MAX ? wide_free : UINT32_MAX;
    *total = wide_total < UINT32_MAX ? wide_total : UINT32_MAX;
    return CUDA_SUCCESS;
}
