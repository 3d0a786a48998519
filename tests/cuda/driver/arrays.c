/* Arrays and mipmapped arrays: memory behind handles. Sparse arrays and those whose memory is mapped later take none. */
#include "driver.h"

#define NO_MEMORY (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static uint64_t or_one(uint64_t extent) { return extent ? extent : 1; }

static unsigned format_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    }
    return 0;
}

/* Bytes of the finest `levels` levels: each has half the extents of the one before; layers and faces stay. */
static CUresult bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels, uint64_t *bytes) {
    NEED(shape && shape->Width && format_bytes(shape->Format));
    NEED(shape->NumChannels == 1 || shape->NumChannels == 2 || shape->NumChannels == 4);
    NEED(shape->Width <= 1 << 17 && shape->Height <= 1 << 17 && shape->Depth <= 1 << 14);
    uint64_t width = shape->Width, height = or_one(shape->Height), depth = or_one(shape->Depth);
    bool layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    *bytes = 0;
    for (; levels; levels--) {
        *bytes += width * height * depth * shape->NumChannels * format_bytes(shape->Format);
        width = or_one(width / 2);
        height = or_one(height / 2);
        depth = layered ? depth : or_one(depth / 2);
    }
    if (shape->Flags & NO_MEMORY) *bytes = 0;
    return CUDA_SUCCESS;
}

static CUresult create(enum class class, enum kind kind, uint64_t bytes, struct block **created) {
    struct context *context;
    TRY(current_context(&context));
    REFUSE_IF(!is_room(context->device, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = new_entry(class, sizeof *block);
    block->kind = kind;
    block->device = context->device;
    block->bytes = bytes;
    block->context = context;
    *created = count_new(block);
    return CUDA_SUCCESS;
}

ENTRY(cuArray3DCreate_v2)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    ENTER();
    NEED(array);
    uint64_t bytes;
    struct block *block;
    TRY(bytes_of(shape, 1, &bytes));
    TRY(create(CLASS_ARRAY, KIND_ARRAY, bytes, &block));
    *array = (CUarray)block;
    return CUDA_SUCCESS;
}

ENTRY(cuArray3DCreate)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape) {
    ENTER();
    NEED(shape);
    CUDA_ARRAY3D_DESCRIPTOR wide = {shape->Width,  shape->Height,      shape->Depth,
                                    shape->Format, shape->NumChannels, shape->Flags};
    return cuArray3DCreate_v2(array, &wide);
}

ENTRY(cuArrayCreate_v2)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
    ENTER();
    NEED(shape);
    CUDA_ARRAY3D_DESCRIPTOR deep = {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0};
    return cuArray3DCreate_v2(array, &deep);
}

ENTRY(cuArrayCreate)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape) {
    ENTER();
    NEED(shape);
    CUDA_ARRAY3D_DESCRIPTOR deep = {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0};
    return cuArray3DCreate_v2(array, &deep);
}

ENTRY(cuArrayDestroy)(CUarray array) {
    ENTER();
    struct block *block = find(CLASS_ARRAY, KEY(array));
    REFUSE_IF(!block, CUDA_ERROR_INVALID_HANDLE);
    end_block(block);
    return CUDA_SUCCESS;
}

static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    bool layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t largest = shape->Width > shape->Height ? shape->Width : shape->Height;
    if (!layered && shape->Depth > largest) largest = shape->Depth;
    unsigned levels = 1;
    while (largest /= 2) levels++;
    return levels;
}

ENTRY(cuMipmappedArrayCreate)(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels) {
    ENTER();
    NEED(mipmap && shape);
    unsigned most = most_levels(shape);
    if (levels > most) levels = most;
    if (!levels) levels = 1;
    uint64_t bytes;
    struct block *block;
    TRY(bytes_of(shape, levels, &bytes));
    TRY(create(CLASS_MIPMAP, KIND_MIPMAP, bytes, &block));
    block->references = levels;
    *mipmap = (CUmipmappedArray)block;
    return CUDA_SUCCESS;
}

/* The level's array belongs to the mipmapped array: it is no memory of its own, and cannot be destroyed. */
ENTRY(cuMipmappedArrayGetLevel)(CUarray *array, CUmipmappedArray mipmap, unsigned int level) {
    ENTER();
    struct block *block = find(CLASS_MIPMAP, KEY(mipmap));
    REFUSE_IF(!block, CUDA_ERROR_INVALID_HANDLE);
    NEED(array && level < block->references);
    *array = (CUarray)((char *)block + 1 + level);
    return CUDA_SUCCESS;
}

ENTRY(cuMipmappedArrayDestroy)(CUmipmappedArray mipmap) {
    ENTER();
    struct block *block = find(CLASS_MIPMAP, KEY(mipmap));
    REFUSE_IF(!block, CUDA_ERROR_INVALID_HANDLE);
    end_block(block);
    return CUDA_SUCCESS;
}
