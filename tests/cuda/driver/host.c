/* Host memory that cannot be paged out: the driver's own, and the program's that is registered with it. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "driver.h"

ENTRY(cuMemHostAlloc)(void **address, size_t bytes, unsigned int flags) {
    ENTER();
    (void)flags;
    struct context *context;
    TRY(current_context(&context));
    NEED(address && bytes);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REFUSE_IF(mapped == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = new_entry(CLASS_HOST, sizeof *block);
    block->kind = KIND_HOST;
    block->device = NO_DEVICE;
    block->bytes = bytes;
    block->context = context;
    set_key(block, KEY(mapped));
    count_new(block);
    *address = mapped;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAllocHost_v2)(void **address, size_t bytes) {
    ENTER();
    return cuMemHostAlloc(address, bytes, 0);
}

ENTRY(cuMemAllocHost)(void **address, unsigned int bytes) {
    ENTER();
    return cuMemHostAlloc(address, bytes, 0);
}

static void end_host_block(struct block *block) {
    munmap((void *)block->entry.key, block->bytes);
    end_block(block);
}

void end_host_blocks(struct context *context) {
    for (struct entry *entry = first(CLASS_HOST), *next; entry; entry = next) {
        next = entry->next;
        if (((struct block *)entry)->context == context) end_host_block((struct block *)entry);
    }
}

ENTRY(cuMemFreeHost)(void *address) {
    ENTER();
    if (!address) return CUDA_SUCCESS;
    struct block *block = find(CLASS_HOST, KEY(address));
    NEED(block);
    end_host_block(block);
    return CUDA_SUCCESS;
}

ENTRY(cuMemHostRegister_v2)(void *address, size_t bytes, unsigned int flags) {
    ENTER();
    (void)flags;
    struct context *context;
    TRY(current_context(&context));
    NEED(address && bytes);
    bool known = block_around(CLASS_REGISTERED, KEY(address)) || block_around(CLASS_HOST, KEY(address));
    REFUSE_IF(known, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    struct block *block = new_entry(CLASS_REGISTERED, sizeof *block);
    block->kind = KIND_REGISTERED;
    block->device = NO_DEVICE;
    block->bytes = bytes;
    block->context = context;
    set_key(count_new(block), KEY(address));
    return CUDA_SUCCESS;
}

ENTRY(cuMemHostRegister)(void *address, size_t bytes, unsigned int flags) {
    ENTER();
    return cuMemHostRegister_v2(address, bytes, flags);
}

ENTRY(cuMemHostUnregister)(void *address) {
    ENTER();
    struct block *block = find(CLASS_REGISTERED, KEY(address));
    REFUSE_IF(!block, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    end_block(block);
    return CUDA_SUCCESS;
}

ENTRY(cuMemHostGetDevicePointer_v2)(CUdeviceptr *device, void *address, unsigned int flags) {
    ENTER();
    NEED(device && !flags);
    NEED(block_around(CLASS_HOST, KEY(address)) || block_around(CLASS_REGISTERED, KEY(address)));
    *device = KEY(address);
    return CUDA_SUCCESS;
}
