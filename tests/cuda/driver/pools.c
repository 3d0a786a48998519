/* Stream-ordered allocation. A pool reserves memory in segments of 32 MiB, or more for a larger block, and cuts blocks of
 * multiples of 512 bytes from them, first fit. What a stream gives back only that stream can have again, until the program has
 * waited for it. Segments without blocks then go back, as long as the pool has more than its release threshold, and when the
 * pool is trimmed. A destroyed pool keeps all it has until its last block is freed. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

#define SEGMENT (32 * MIB)
#define GRAIN 512

struct piece { /* of a segment; pieces lie end to end in order */
    uint64_t offset, bytes;
    bool taken;
    struct point given_back; /* in a stream; {0}: anybody can have it */
    struct piece *next;
};
struct segment {
    struct pool *pool;
    struct range range;
    uint64_t bytes;
    struct piece *pieces;
    struct segment *next;
};

static bool is_free(const struct piece *piece) { return !piece->taken && !piece->given_back.context; }

/* A later request, in a stream, comes after it. */
static bool is_in_order(struct point given_back, struct point now) {
    return !given_back.context || (given_back.context == now.context && given_back.stream == now.stream);
}

static uint64_t round_up(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

static struct pool *live_pool(CUmemoryPool handle) {
    struct pool *pool = find(CLASS_POOL, KEY(handle));
    return pool && !pool->destroyed ? pool : NULL;
}

static struct piece *new_piece(uint64_t offset, uint64_t bytes, struct piece *next) {
    struct piece *piece = malloc(sizeof *piece);
    if (!piece) abort();
    *piece = (struct piece){.offset = offset, .bytes = bytes, .next = next};
    return piece;
}

static void change_reserved(struct pool *pool, int64_t change) {
    pool->reserved += change;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    count_bytes(pool->device, KIND_POOL_RESERVED, change);
}

static void change_used(struct pool *pool, int64_t change) {
    pool->used += change;
    if (pool->used > pool->used_high) pool->used_high = pool->used;
    count_bytes(pool->device, KIND_POOL_USED, change);
}

static struct segment *new_segment(struct pool *pool, uint64_t bytes) {
    bytes = round_up(bytes, SEGMENT);
    struct range range;
    if (pool->most && pool->reserved + bytes > pool->most) return NULL;
    if (!is_room(pool->device, bytes) || !take_range(SPACE_DEVICE, bytes, &range)) return NULL;
    struct segment *segment = malloc(sizeof *segment);
    if (!segment) abort();
    *segment = (struct segment){pool, range, bytes, new_piece(0, bytes, NULL), NULL};
    struct segment **last = &pool->segments;
    while (*last) last = &(*last)->next;
    *last = segment;
    change_reserved(pool, bytes);
    return segment;
}

static bool is_unused(const struct segment *segment) {
    return is_free(segment->pieces) && segment->pieces->bytes == segment->bytes;
}

static void give_segment(struct pool *pool, struct segment **at) {
    struct segment *segment = *at;
    *at = segment->next;
    give_range(segment->range);
    change_reserved(pool, -(int64_t)segment->bytes);
    for (struct piece *piece = segment->pieces, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(segment);
}

/* Gives unused segments back while more than `keep` is reserved; what stays may be less than that only if it may go below. */
static void shrink(struct pool *pool, uint64_t keep, bool may_go_below) {
    struct segment **at = &pool->segments;
    while (*at) {
        struct segment *segment = *at;
        bool enough = may_go_below ? pool->reserved > keep : pool->reserved >= keep + segment->bytes;
        if (enough && is_unused(segment)) give_segment(pool, at);
        else at = &segment->next;
    }
}

/* Joins what is free and lies side by side. */
static void join_all(struct segment *segment) {
    for (struct piece *piece = segment->pieces; piece;) {
        struct piece *next = piece->next;
        if (!next || !is_free(piece) || !is_free(next)) {
            piece = next;
            continue;
        }
        piece->bytes += next->bytes;
        piece->next = next->next;
        free(next);
    }
}

static void settle(struct segment *segment, struct point reached) {
    for (struct piece *piece = segment->pieces; piece; piece = piece->next)
        if (is_reached(piece->given_back, reached)) piece->given_back = (struct point){0};
    join_all(segment);
}

void settle_pools(struct point reached) {
    for (struct entry *entry = first(CLASS_POOL); entry; entry = entry->next) {
        struct pool *pool = (struct pool *)entry;
        for (struct segment *segment = pool->segments; segment; segment = segment->next) settle(segment, reached);
    }
}

void pools_at_synchronisation(struct point reached) {
    settle_pools(reached);
    for (struct entry *entry = first(CLASS_POOL); entry; entry = entry->next) {
        struct pool *pool = (struct pool *)entry;
        if (!pool->destroyed) shrink(pool, pool->threshold, true);
    }
}

static void end_if_last(struct pool *pool) {
    if (!pool->destroyed || pool->blocks) return;
    while (pool->segments) give_segment(pool, &pool->segments);
    drop(pool);
}

static struct piece *fit(struct pool *pool, uint64_t bytes, struct point now, struct segment **found) {
    for (struct segment *segment = pool->segments; segment; segment = segment->next) {
        *found = segment;
        for (struct piece *piece = segment->pieces; piece; piece = piece->next)
            if (!piece->taken && piece->bytes >= bytes && is_in_order(piece->given_back, now)) return piece;
    }
    *found = new_segment(pool, bytes);
    return *found ? (*found)->pieces : NULL;
}

static struct block *cut_block(struct pool *pool, uint64_t bytes, struct point now) {
    uint64_t rounded = round_up(bytes, GRAIN);
    struct segment *segment;
    struct piece *piece = fit(pool, rounded, now, &segment);
    if (!piece) return NULL;
    if (piece->bytes > rounded) {
        piece->next = new_piece(piece->offset + rounded, piece->bytes - rounded, piece->next);
        piece->next->given_back = piece->given_back;
    }
    piece->bytes = rounded;
    piece->given_back = (struct point){0};
    piece->taken = true;
    struct block *block = new_entry(CLASS_DEVICE, sizeof *block);
    block->kind = KIND_POOL;
    block->device = pool->device;
    block->bytes = bytes;
    block->charged = rounded;
    block->owner = segment;
    block->offset = piece->offset;
    set_key(block, segment->range.address + piece->offset);
    count_new(block);
    pool->blocks++;
    change_used(pool, rounded);
    return block;
}

static void give_piece(struct segment *segment, uint64_t offset, struct point when) {
    struct piece *piece = segment->pieces;
    while (piece->offset != offset) piece = piece->next;
    piece->taken = false;
    piece->given_back = when;
    join_all(segment);
}

CUresult free_pool_block(struct block *block, struct point when) {
    if (block->kind == KIND_IMPORTED_POOL) {
        end_block(block);
        return CUDA_SUCCESS;
    }
    struct segment *segment = block->owner;
    struct pool *pool = segment->pool;
    give_piece(segment, block->offset, when);
    change_used(pool, -(int64_t)block->charged);
    pool->blocks--;
    end_block(block);
    end_if_last(pool);
    return CUDA_SUCCESS;
}

struct pool *pool_of_block(const struct block *block) {
    return block->kind == KIND_POOL ? ((struct segment *)block->owner)->pool : NULL;
}

struct pool *new_pool(int device) {
    struct pool *pool = new_entry(CLASS_POOL, sizeof *pool);
    pool->device = device;
    for (size_t s = 0; s < LENGTH(pool->switches); s++) pool->switches[s] = 1;
    return pool;
}

ENTRY(cuMemAllocFromPoolAsync)(CUdeviceptr *address, size_t bytes, CUmemoryPool handle, CUstream stream) {
    ENTER();
    NEED(address && bytes);
    struct context *context;
    struct pool *pool = live_pool(handle);
    NEED(pool && !pool->imported);
    TRY(context_of_stream(stream, &context));
    struct graph *graph = capture_of_stream(stream);
    CUgraphNode node;
    if (graph) return add_allocation(graph, pool->device, bytes, address, &node);
    REFUSE_IF(pool->device != NO_DEVICE && bytes > devices[pool->device].memory, CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = cut_block(pool, bytes, point_of_stream(stream, context));
    REFUSE_IF(!block, CUDA_ERROR_OUT_OF_MEMORY);
    *address = block->entry.key;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAllocFromPoolAsync_ptsz)(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    ENTER();
    return cuMemAllocFromPoolAsync(address, bytes, pool, own_stream(stream));
}

ENTRY(cuMemAllocAsync)(CUdeviceptr *address, size_t bytes, CUstream stream) {
    ENTER();
    struct context *context;
    TRY(context_of_stream(stream, &context));
    return cuMemAllocFromPoolAsync(address, bytes, (CUmemoryPool)devices[context->device].pool, stream);
}

ENTRY(cuMemAllocAsync_ptsz)(CUdeviceptr *address, size_t bytes, CUstream stream) {
    ENTER();
    return cuMemAllocAsync(address, bytes, own_stream(stream));
}

ENTRY(cuMemFreeAsync)(CUdeviceptr address, CUstream stream) {
    ENTER();
    struct context *context;
    TRY(context_of_stream(stream, &context));
    if (!address) return CUDA_SUCCESS;
    struct graph *graph = capture_of_stream(stream);
    CUgraphNode node;
    if (graph) return add_free(graph, address, &node);
    struct block *block = find(CLASS_DEVICE, address);
    NEED(block);
    return free_device_block(block, point_of_stream(stream, context));
}

ENTRY(cuMemFreeAsync_ptsz)(CUdeviceptr address, CUstream stream) {
    ENTER();
    return cuMemFreeAsync(address, own_stream(stream));
}

ENTRY(cuDeviceGetDefaultMemPool)(CUmemoryPool *pool, CUdevice device) {
    ENTER();
    NEED(pool);
    NEED_DEVICE(device);
    *pool = (CUmemoryPool)devices[device].default_pool;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice device) {
    ENTER();
    NEED(pool);
    NEED_DEVICE(device);
    *pool = (CUmemoryPool)devices[device].pool;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceSetMemPool)(CUdevice device, CUmemoryPool handle) {
    ENTER();
    NEED_DEVICE(device);
    struct pool *pool = live_pool(handle);
    NEED(pool && !pool->imported && pool->device == device);
    devices[device].pool = pool;
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolCreate)(CUmemoryPool *handle, const CUmemPoolProps *properties) {
    ENTER();
    NEED(handle && properties && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
    bool on_host = properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    NEED(on_host || properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    if (!on_host) NEED_DEVICE(properties->location.id);
    struct pool *pool = new_pool(on_host ? NO_DEVICE : properties->location.id);
    pool->most = properties->maxSize;
    pool->exportable = properties->handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *handle = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolDestroy)(CUmemoryPool handle) {
    ENTER();
    struct pool *pool = live_pool(handle);
    NEED(pool && !pool->is_default);
    for (int device = 0; device < device_count; device++)
        if (devices[device].pool == pool) devices[device].pool = devices[device].default_pool;
    pool->destroyed = true;
    end_if_last(pool);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolTrimTo)(CUmemoryPool handle, size_t keep) {
    ENTER();
    struct pool *pool = live_pool(handle);
    NEED(pool);
    shrink(pool, keep, false);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc *accesses, size_t count) {
    ENTER();
    NEED(live_pool(pool) && (accesses || !count));
    return CUDA_SUCCESS;
}

uint64_t dead_pools_asked;

/* STANDIN_SLOW_POOLS: microseconds until a pool answers. */
static void take_time(void) {
    const char *slow = getenv("STANDIN_SLOW_POOLS");
    if (slow) usleep(atoi(slow));
}

/* What a real driver does with the handle of a pool that is gone is not said anywhere. */
ENTRY(cuMemPoolGetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    take_time();
    ENTER();
    struct pool *pool = live_pool(handle);
    dead_pools_asked += !pool;
    NEED(pool && value);
    cuuint64_t *bytes = value;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = pool->switches[attribute - 1]; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *bytes = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *bytes = pool->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *bytes = pool->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *bytes = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *bytes = pool->used_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolSetAttribute)(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
    ENTER();
    struct pool *pool = live_pool(handle);
    NEED(pool && value);
    cuuint64_t *bytes = value;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->switches[attribute - 1] = *(int *)value; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *bytes; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: NEED(!*bytes); pool->reserved_high = pool->reserved; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: NEED(!*bytes); pool->used_high = pool->used; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
