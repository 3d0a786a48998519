/* Virtual memory management and graphs. */
#include "calls.h"

static size_t free_on_device(void) {
    size_t free_bytes, total;
    DO(cu.cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static CUdeviceptr reserved(size_t bytes) {
    CUdeviceptr address;
    DO(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static CUmemGenericAllocationHandle created(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = physical_on(0);
    DO(cu.cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

void physical_phase(void) {
    CUcontext context = new_context(0);
    size_t before = free_on_device(), grain;
    CUmemAllocationProp properties = physical_on(0), same;
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle first, second, again;
    DO(cu.cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT(grain == 2 * MIB);
    CUdeviceptr range = reserved(16 * grain);
    first = created(4 * grain);
    DO(cu.cuMemMap(range, 4 * grain, 0, first, 0));
    DO(cu.cuMemMap(range + 8 * grain, 4 * grain, 0, first, 0)); /* twice, but held once */
    DO(cu.cuMemSetAccess(range, 4 * grain, &access, 1));
    EXPECT(before - free_on_device() == 4 * grain);
    INVALID(cu.cuMemMap(range + grain, grain, 0, first, 0));
    DO(cu.cuMemRelease(first));
    INVALID(cu.cuMemRelease(first));
    DO(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + grain + 5)));
    EXPECT(again == first);
    INVALID(cu.cuMemRetainAllocationHandle(&second, (void *)(uintptr_t)(range + 5 * grain)));
    INVALID(cu.cuMemUnmap(range, grain));
    DO(cu.cuMemUnmap(range, 4 * grain));
    DO(cu.cuMemUnmap(range + 8 * grain, 4 * grain));
    EXPECT(before - free_on_device() == 4 * grain); /* unmapped, but not released */
    DO(cu.cuMemMap(range, 4 * grain, 0, again, 0));
    DO(cu.cuMemGetAllocationPropertiesFromHandle(&same, again));
    EXPECT(same.location.id == 0 && same.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    DO(cu.cuMemRelease(again));
    EXPECT(before - free_on_device() == 4 * grain); /* released, but mapped */
    second = created(2 * grain);
    DO(cu.cuMemMap(range + 4 * grain, 2 * grain, 0, second, 0));
    DO(cu.cuMemRelease(second));
    INVALID(cu.cuMemAddressFree(range, 16 * grain));
    DO(cu.cuMemUnmap(range, 6 * grain)); /* both at once */
    EXPECT(before == free_on_device());
    DO(cu.cuMemAddressFree(range, 16 * grain));
    INVALID(cu.cuMemCreate(&first, grain + 1, &properties, 0));
    NO_MEMORY(cu.cuMemCreate(&first, (size_t)1 << 50, &properties, 0));
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    properties.location.id = 0;
    DO(cu.cuMemCreate(&first, grain, &properties, 0));
    EXPECT(before == free_on_device()); /* the host's */
    DO(cu.cuMemRelease(first));
    first = created(grain);
    DO(cu.cuCtxDestroy_v2(context)); /* which does not own it */
    DO(cu.cuMemRelease(first));
}

static size_t graph_memory(CUgraphMem_attribute attribute) {
    cuuint64_t value;
    DO(cu.cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static CUgraphNode allocation_in(CUgraph graph, size_t bytes, CUdeviceptr *address) {
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS wishes = {.poolProps = pool_on(0), .bytesize = bytes};
    DO(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wishes));
    *address = wishes.dptr;
    return node;
}

void graphs_phase(void) {
    CUcontext context = new_context(0);
    CUgraph graph, other;
    CUgraphExec run, other_run;
    CUgraphNode node, first, second;
    CUdeviceptr inside, outside, elsewhere;
    cuuint64_t none = 0;
    DO(cu.cuGraphCreate(&graph, 0));
    first = allocation_in(graph, 20 * MIB, &inside);
    second = allocation_in(graph, 30 * MIB, &outside);
    DO(cu.cuGraphAddEmptyNode(&node, graph, (CUgraphNode[]){first, second}, 2));
    DO(cu.cuGraphAddMemFreeNode(&node, graph, &first, 1, inside));
    INVALID(cu.cuGraphAddMemFreeNode(&node, graph, &first, 1, inside));
    INVALID(cu.cuGraphAddMemFreeNode(&node, graph, NULL, 0, inside + 1));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    INVALID(cu.cuMemFree_v2(outside)); /* nothing behind it yet */
    DO(cu.cuGraphInstantiateWithFlags(&run, graph, 0));
    INVALID(cu.cuGraphInstantiateWithFlags(&other_run, graph, 0));
    DO(cu.cuGraphLaunch(run, NULL));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 30 * MIB);
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 50 * MIB);
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 64 * MIB);
    INVALID(cu.cuGraphLaunch(run, NULL)); /* not before it is freed */
    DO(cu.cuMemFreeAsync(outside, NULL));
    INVALID(cu.cuMemFreeAsync(outside, NULL));
    DO(cu.cuGraphLaunch_ptsz(run, NULL));
    /* Freed by another graph. */
    CUgraphNodeParams wishes = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {outside}};
    DO(cu.cuGraphCreate(&other, 0));
    DO(cu.cuGraphAddNode(&node, other, NULL, 0, &wishes));
    wishes = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = {.poolProps = pool_on(0), .bytesize = 1000}};
    DO(cu.cuGraphAddNode_v2(&node, other, NULL, NULL, 0, &wishes));
    elsewhere = wishes.alloc.dptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    DO(cu.cuGraphInstantiateWithParams(&other_run, other, &how));
    DO(cu.cuGraphLaunch(other_run, NULL));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 1000);
    DO(cu.cuGraphDestroy(other));
    DO(cu.cuGraphExecDestroy(other_run));
    DO(cu.cuMemFree_v2(elsewhere)); /* it outlived its graph */
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphDestroy(graph));
    INVALID(cu.cuGraphDestroy(graph));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 64 * MIB);
    DO(cu.cuDeviceGraphMemTrim(0));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
    DO(cu.cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &none));
    /* The older ways to make one that runs. */
    DO(cu.cuGraphCreate(&graph, 0));
    DO(cu.cuGraphInstantiate(&run, graph, NULL, NULL, 0));
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphInstantiate_v2(&run, graph, NULL, NULL, 0));
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphInstantiateWithParams_ptsz(&run, graph, &how));
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphDestroy(graph));
    DO(cu.cuCtxDestroy_v2(context));
}

/* While a stream is captured, allocations are nodes of a graph. */
void captures_phase(void) {
    CUcontext context = new_context(0);
    CUstream stream;
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUgraphExec run;
    CUdeviceptr inside, outside;
    DO(cu.cuStreamCreate(&stream, 0));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    DO(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    DO(cu.cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    DO(cu.cuMemAllocAsync(&inside, 2 * MIB, stream));
    DO(cu.cuMemAllocAsync(&outside, 3 * MIB, stream));
    DO(cu.cuMemFreeAsync(inside, stream));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(stream));
    DO(cu.cuStreamEndCapture(stream, &graph));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(stream, &graph));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);
    DO(cu.cuGraphInstantiateWithFlags(&run, graph, 0));
    DO(cu.cuGraphLaunch(run, stream));
    EXPECT(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 3 * MIB);
    DO(cu.cuMemFreeAsync(outside, stream));
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphDestroy(graph));
    DO(cu.cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    DO(cu.cuStreamEndCapture_ptsz(stream, &graph));
    DO(cu.cuStreamIsCapturing_ptsz(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    DO(cu.cuGraphDestroy(graph));
    DO(cu.cuDeviceGraphMemTrim(0));
    DO(cu.cuStreamDestroy_v2(stream));
    DO(cu.cuCtxDestroy_v2(context));
}
