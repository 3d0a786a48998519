/* Stream-ordered allocation: pools that grow, shrink, are trimmed, and end with blocks in them. */
#include "calls.h"

#define SEGMENT (32 * MIB)

static size_t of(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value;
    DO(cu.cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}
static size_t reserved(CUmemoryPool pool) { return of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
static size_t used(CUmemoryPool pool) { return of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }

static CUdeviceptr from(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr address;
    DO(cu.cuMemAllocFromPoolAsync(&address, bytes, pool, NULL));
    return address;
}

static CUmemoryPool new_pool(CUdevice device) {
    CUmemoryPool pool;
    CUmemPoolProps properties = pool_on(device);
    DO(cu.cuMemPoolCreate(&pool, &properties));
    return pool;
}

void pools_phase(void) {
    CUcontext context = new_context(0);
    CUmemoryPool pool, now;
    CUstream stream;
    CUevent event;
    CUdeviceptr small, large, again, address;
    DO(cu.cuStreamCreate(&stream, 0));
    DO(cu.cuEventCreate(&event, 0));
    DO(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    DO(cu.cuDeviceGetMemPool(&now, 0));
    EXPECT(pool == now);
    size_t before = reserved(pool);
    DO(cu.cuMemAllocAsync(&small, 1000, stream));
    EXPECT(reserved(pool) == before + SEGMENT && used(pool) == 1024);
    DO(cu.cuMemAllocAsync(&large, 40 * MIB, stream));
    EXPECT(reserved(pool) == before + 3 * SEGMENT && used(pool) == 1024 + 40 * MIB);
    DO(cu.cuMemFreeAsync(small, stream));
    DO(cu.cuMemAllocAsync(&again, 600, stream));
    EXPECT(again == small); /* at once */
    DO(cu.cuMemFreeAsync(large, stream));
    EXPECT(reserved(pool) == before + 3 * SEGMENT);
    DO(cu.cuStreamSynchronize(stream));
    EXPECT(reserved(pool) == before + SEGMENT);
    DO(cu.cuMemFree_v2(again)); /* as legal */
    INVALID(cu.cuMemFreeAsync(again, stream));
    DO(cu.cuEventRecord(event, stream));
    DO(cu.cuEventSynchronize(event));
    EXPECT(reserved(pool) == before && of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 3 * SEGMENT);
    /* Above the threshold only. */
    cuuint64_t threshold = 2 * SEGMENT, none = 0;
    DO(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    DO(cu.cuMemAllocAsync(&small, SEGMENT, stream));
    DO(cu.cuMemAllocAsync(&large, SEGMENT, stream));
    DO(cu.cuMemFreeAsync(small, stream));
    DO(cu.cuMemFreeAsync(large, stream));
    DO(cu.cuCtxSynchronize());
    EXPECT(reserved(pool) == 2 * SEGMENT);
    DO(cu.cuMemPoolTrimTo(pool, SEGMENT));
    EXPECT(reserved(pool) == SEGMENT);
    DO(cu.cuMemPoolTrimTo(pool, 0));
    EXPECT(reserved(pool) == 0);
    DO(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
    DO(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    EXPECT(of(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    INVALID(cu.cuMemAllocAsync(&address, 0, stream));
    NO_MEMORY(cu.cuMemAllocAsync(&address, (size_t)1 << 50, stream));
    DO(cu.cuMemFreeAsync(0, stream));
    INVALID(cu.cuMemPoolDestroy(pool));
    large = allocated(3000); /* freed as if it was of a pool */
    DO(cu.cuMemFreeAsync(large, stream));
    DO(cu.cuEventDestroy_v2(event));
    DO(cu.cuStreamDestroy_v2(stream));
    DO(cu.cuCtxDestroy_v2(context));
}

/* What one stream gives back is another's only when the program has waited for it. */
void pool_streams_phase(void) {
    CUcontext context = new_context(0);
    CUmemoryPool pool = new_pool(0);
    CUstream streams[2];
    CUdeviceptr blocks[3], again;
    CUevent event;
    DO(cu.cuEventCreate(&event, 0));
    for (int s = 0; s < 2; s++) {
        DO(cu.cuStreamCreate(&streams[s], 0));
        DO(cu.cuMemAllocFromPoolAsync(&blocks[s], 20 * MIB, pool, streams[s]));
    }
    EXPECT(reserved(pool) == 2 * SEGMENT);
    DO(cu.cuMemAllocFromPoolAsync(&blocks[2], 20 * MIB, pool, streams[1]));
    DO(cu.cuMemFreeAsync(blocks[0], streams[0]));
    DO(cu.cuMemFreeAsync(blocks[1], streams[1]));
    DO(cu.cuEventRecord(event, streams[1]));
    DO(cu.cuMemFreeAsync(blocks[2], streams[1]));
    EXPECT(reserved(pool) == 3 * SEGMENT && used(pool) == 0);
    DO(cu.cuStreamSynchronize(streams[0]));
    EXPECT(reserved(pool) == 2 * SEGMENT); /* what the other gave back is not known to be */
    DO(cu.cuEventSynchronize(event));
    EXPECT(reserved(pool) == SEGMENT);
    DO(cu.cuMemAllocFromPoolAsync(&again, 20 * MIB, pool, streams[0]));
    EXPECT(again != blocks[2] && reserved(pool) == 2 * SEGMENT);
    DO(cu.cuMemFreeAsync(again, streams[0]));
    DO(cu.cuMemAllocFromPoolAsync(&again, 10 * MIB, pool, streams[1]));
    EXPECT(again == blocks[2]);
    DO(cu.cuMemFreeAsync(again, streams[1]));
    DO(cu.cuStreamSynchronize(streams[0]));
    EXPECT(reserved(pool) == SEGMENT);
    DO(cu.cuStreamSynchronize(streams[1]));
    EXPECT(reserved(pool) == 0);
    /* Nor does waiting for another context. */
    DO(cu.cuMemAllocFromPoolAsync(&again, 1000, pool, streams[0]));
    DO(cu.cuMemFreeAsync(again, streams[0]));
    CUcontext other = new_context(1);
    DO(cu.cuCtxSynchronize());
    EXPECT(reserved(pool) == SEGMENT);
    DO(cu.cuStreamSynchronize(streams[0]));
    EXPECT(reserved(pool) == 0);
    DO(cu.cuCtxDestroy_v2(other));
    DO(cu.cuEventDestroy_v2(event));
    for (int s = 0; s < 2; s++) DO(cu.cuStreamDestroy_v2(streams[s]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamSynchronize(streams[0]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuMemAllocFromPoolAsync(&again, 1, pool, streams[0]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventSynchronize(event));
    /* The pool stays, and with it what was reported of it last. */
    DO(cu.cuCtxDestroy_v2(context));
}

void pool_ends_phase(void) {
    CUcontext context = new_context(0);
    CUmemoryPool pool = new_pool(1), limited, on_host, now, same;
    CUdeviceptr first, second, address;
    /* Of the other device than the context's. */
    first = from(pool, 5 * MIB);
    second = from(pool, 50 * MIB);
    int device;
    DO(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, first + 1));
    DO(cu.cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, first));
    EXPECT(device == 1 && now == pool);
    INVALID(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 1));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DO(cu.cuMemPoolSetAccess(pool, &access, 1));
    DO(cu.cuDeviceSetMemPool(1, pool));
    INVALID(cu.cuDeviceSetMemPool(0, pool));
    CUcontext other = new_context(1);
    DO(cu.cuMemAllocAsync(&address, 100, NULL));
    EXPECT(used(pool) == 55 * MIB + 512);
    DO(cu.cuMemFreeAsync(first, NULL));
    DO(cu.cuMemPoolDestroy(pool));
    INVALID(cu.cuMemPoolDestroy(pool));
    INVALID(cu.cuMemAllocFromPoolAsync(&first, 1, pool, NULL));
    DO(cu.cuDeviceGetMemPool(&now, 1));
    EXPECT(now != pool);
    DO(cu.cuMemFreeAsync(address, NULL));
    DO(cu.cuMemFree_v2(second)); /* the last of them: now it ends */
    same = new_pool(0);
    EXPECT(same == pool); /* and its handle is another's */
    address = from(same, 1000);
    DO(cu.cuMemFree_v2(address));
    DO(cu.cuMemPoolDestroy(same));
    CUmemPoolProps properties = pool_on(0);
    properties.maxSize = 2 * SEGMENT;
    DO(cu.cuMemPoolCreate(&limited, &properties));
    first = from(limited, 40 * MIB);
    NO_MEMORY(cu.cuMemAllocFromPoolAsync(&second, 30 * MIB, limited, NULL));
    DO(cu.cuMemFreeAsync(first, NULL));
    DO(cu.cuMemPoolDestroy(limited));
    properties.maxSize = 0;
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    DO(cu.cuMemPoolCreate(&on_host, &properties));
    first = from(on_host, 4 * MIB);
    DO(cu.cuMemFreeAsync(first, NULL));
    DO(cu.cuMemPoolDestroy(on_host));
    properties.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    INVALID(cu.cuMemPoolCreate(&on_host, &properties));
    DO(cu.cuCtxDestroy_v2(other));
    DO(cu.cuCtxDestroy_v2(context));
}

/* The names that programs with a default stream per thread are compiled to. */
void stream_names_phase(void) {
    CUcontext context = new_context(1);
    CUmemoryPool pool = new_pool(1);
    CUevent event;
    CUdeviceptr address;
    DO(cu.cuMemAllocAsync_ptsz(&address, 2000, NULL));
    DO(cu.cuMemFreeAsync_ptsz(address, NULL));
    DO(cu.cuMemAllocFromPoolAsync_ptsz(&address, 3000, pool, NULL));
    DO(cu.cuMemFreeAsync_ptsz(address, NULL));
    INVALID(cu.cuMemFreeAsync_ptsz(address, NULL));
    INVALID(cu.cuMemAllocAsync_ptsz(&address, 0, NULL));
    DO(cu.cuEventCreate(&event, 0));
    DO(cu.cuEventRecord_ptsz(event, NULL));
    DO(cu.cuStreamSynchronize_ptsz(NULL));
    EXPECT(reserved(pool) == 0);
    DO(cu.cuMemPoolDestroy(pool));
    DO(cu.cuCtxDestroy_v2(context));
}
