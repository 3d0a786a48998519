/* Graphs whose nodes allocate and free. An allocation node has its address from the moment it is added; there is memory behind
 * it from when the graph runs to when it is freed, out of what the device has reserved for all graphs, in steps of 32 MiB. */
#include "driver.h"

#define STEP (32 * MIB)

struct node {
    struct entry entry;
    struct graph *graph;
    CUgraphNodeType type;
    uint64_t address;
    struct node *next;
};
struct run {
    struct entry entry;
    struct graph *graph;
    bool frees_on_launch;
};

static uint64_t used_on(int device) { return counts[device][KIND_GRAPH_USED].live; }
static uint64_t reserved_on(int device) { return counts[device][KIND_GRAPH_RESERVED].live; }

static void raise(uint64_t *high, uint64_t now) {
    if (now > *high) *high = now;
}

static void set_backed(struct block *block, bool backed) {
    block->backed = backed;
    count_bytes(block->device, KIND_GRAPH_USED, backed ? (int64_t)block->bytes : -(int64_t)block->bytes);
    raise(&devices[block->device].graph_used_high, used_on(block->device));
}

static void set_reserved(int device, uint64_t bytes) {
    count_bytes(device, KIND_GRAPH_RESERVED, bytes - reserved_on(device));
    raise(&devices[device].graph_reserved_high, bytes);
}

static uint64_t in_steps(uint64_t bytes) { return (bytes + STEP - 1) / STEP * STEP; }

static struct block *block_at(uint64_t address) {
    struct block *block = find(CLASS_DEVICE, address);
    return block && block->kind == KIND_GRAPH ? block : NULL;
}

static struct graph *live_graph(CUgraph handle) {
    struct graph *graph = find(CLASS_GRAPH, KEY(handle));
    return graph && !graph->destroyed ? graph : NULL;
}

static CUresult add_node(struct graph *graph, CUgraphNodeType type, uint64_t address, CUgraphNode *handle) {
    struct node *node = new_entry(CLASS_NODE, sizeof *node);
    node->graph = graph;
    node->type = type;
    node->address = address;
    *graph->last = node;
    graph->last = &node->next;
    *handle = (CUgraphNode)node;
    return CUDA_SUCCESS;
}

/* A graph lives until both it and what was made to run from it are destroyed; memory that is then still behind its
 * addresses lives until it is freed. */
static void end_if_unused(struct graph *graph) {
    if (!graph->destroyed || graph->instantiated) return;
    for (struct node *node = graph->first, *next; node; node = next) {
        next = node->next;
        struct block *block = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? block_at(node->address) : NULL;
        if (block && block->backed) block->owner = NULL;
        else if (block) end_block(block);
        drop(node);
    }
    drop(graph);
}

ENTRY(cuGraphCreate)(CUgraph *handle, unsigned int flags) {
    ENTER();
    NEED(handle && !flags);
    struct graph *graph = new_entry(CLASS_GRAPH, sizeof *graph);
    graph->last = &graph->first;
    *handle = (CUgraph)graph;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphDestroy)(CUgraph handle) {
    ENTER();
    struct graph *graph = live_graph(handle);
    NEED(graph);
    graph->destroyed = true;
    end_if_unused(graph);
    return CUDA_SUCCESS;
}

CUresult add_allocation(struct graph *graph, int device, uint64_t bytes, CUdeviceptr *address, CUgraphNode *node) {
    NEED_DEVICE(device);
    NEED(bytes);
    REFUSE_IF(bytes > devices[device].memory, CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = new_block(CLASS_DEVICE, KIND_GRAPH, SPACE_DEVICE, device, bytes);
    REFUSE_IF(!block, CUDA_ERROR_OUT_OF_MEMORY);
    block->owner = graph;
    *address = block->entry.key;
    return add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, block->entry.key, node);
}

CUresult add_free(struct graph *graph, CUdeviceptr address, CUgraphNode *node) {
    struct block *block = block_at(address);
    NEED(block && !block->has_free_node);
    block->has_free_node = true;
    block->freed_by_owner = block->owner == graph;
    return add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, address, node);
}

ENTRY(cuGraphAddEmptyNode)(CUgraphNode *node, CUgraph handle, const CUgraphNode *after, size_t count) {
    ENTER();
    struct graph *graph = live_graph(handle);
    NEED(node && graph && (after || !count));
    return add_node(graph, CU_GRAPH_NODE_TYPE_EMPTY, 0, node);
}

ENTRY(cuGraphAddMemAllocNode)(CUgraphNode *node, CUgraph handle, const CUgraphNode *after, size_t count,
                              CUDA_MEM_ALLOC_NODE_PARAMS *wishes) {
    ENTER();
    struct graph *graph = live_graph(handle);
    NEED(node && graph && wishes && (after || !count));
    NEED(wishes->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
    NEED(wishes->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    return add_allocation(graph, wishes->poolProps.location.id, wishes->bytesize, &wishes->dptr, node);
}

ENTRY(cuGraphAddMemFreeNode)(CUgraphNode *node, CUgraph handle, const CUgraphNode *after, size_t count, CUdeviceptr address) {
    ENTER();
    struct graph *graph = live_graph(handle);
    NEED(node && graph && (after || !count));
    return add_free(graph, address, node);
}

ENTRY(cuGraphAddNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraphNodeParams *wishes) {
    ENTER();
    NEED(wishes);
    switch (wishes->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return cuGraphAddMemAllocNode(node, graph, after, count, &wishes->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(node, graph, after, count, wishes->free.dptr);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(node, graph, after, count);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

ENTRY(cuGraphAddNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                         size_t count, CUgraphNodeParams *wishes) {
    ENTER();
    NEED(!edges);
    return cuGraphAddNode(node, graph, after, count, wishes);
}

ENTRY(cuGraphInstantiateWithFlags)(CUgraphExec *handle, CUgraph source, unsigned long long flags) {
    ENTER();
    struct graph *graph = live_graph(source);
    NEED(handle && graph && !graph->instantiated);
    struct run *run = new_entry(CLASS_RUN, sizeof *run);
    run->graph = graph;
    run->frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    graph->instantiated = true;
    *handle = (CUgraphExec)run;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphInstantiateWithParams)(CUgraphExec *run, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wishes) {
    ENTER();
    NEED(wishes);
    return cuGraphInstantiateWithFlags(run, graph, wishes->flags);
}

ENTRY(cuGraphInstantiateWithParams_ptsz)(CUgraphExec *run, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wishes) {
    ENTER();
    return cuGraphInstantiateWithParams(run, graph, wishes);
}

ENTRY(cuGraphInstantiate_v2)(CUgraphExec *run, CUgraph graph, CUgraphNode *failed, char *log, size_t length) {
    ENTER();
    (void)failed, (void)log, (void)length;
    return cuGraphInstantiateWithFlags(run, graph, 0);
}

ENTRY(cuGraphInstantiate)(CUgraphExec *run, CUgraph graph, CUgraphNode *failed, char *log, size_t length) {
    ENTER();
    return cuGraphInstantiate_v2(run, graph, failed, log, length);
}

ENTRY(cuGraphExecDestroy)(CUgraphExec handle) {
    ENTER();
    struct run *run = find(CLASS_RUN, KEY(handle));
    NEED(run);
    run->graph->instantiated = false;
    end_if_unused(run->graph);
    drop(run);
    return CUDA_SUCCESS;
}

/* Whether the graph can run now, and the most that is then behind addresses on each device. */
static CUresult look_ahead(const struct run *run, uint64_t most[DEVICES_MAX]) {
    uint64_t live[DEVICES_MAX];
    for (int device = 0; device < device_count; device++) live[device] = most[device] = used_on(device);
    for (struct node *node = run->graph->first; node; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_EMPTY) continue;
        struct block *block = block_at(node->address);
        NEED(block);
        int device = block->device;
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            NEED(!block->backed || run->frees_on_launch);
            if (!block->backed) live[device] += block->bytes;
            raise(&most[device], live[device]);
        } else {
            NEED(block->backed || block->freed_by_owner);
            live[device] -= block->bytes;
        }
    }
    return CUDA_SUCCESS;
}

ENTRY(cuGraphLaunch)(CUgraphExec handle, CUstream stream) {
    ENTER();
    struct context *context;
    struct run *run = find(CLASS_RUN, KEY(handle));
    NEED(run);
    TRY(context_of_stream(stream, &context));
    uint64_t most[DEVICES_MAX];
    TRY(look_ahead(run, most));
    for (int device = 0; device < device_count; device++) {
        most[device] = in_steps(most[device]);
        bool grows = most[device] > reserved_on(device);
        REFUSE_IF(grows && !is_room(device, most[device] - reserved_on(device)), CUDA_ERROR_OUT_OF_MEMORY);
    }
    for (int device = 0; device < device_count; device++)
        if (most[device] > reserved_on(device)) set_reserved(device, most[device]);
    for (struct node *node = run->graph->first; node; node = node->next) {
        bool backed = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        struct block *block = block_at(node->address);
        if (!block || block->backed == backed) continue;
        set_backed(block, backed);
        if (!backed && !block->owner) end_block(block);
    }
    return CUDA_SUCCESS;
}

ENTRY(cuGraphLaunch_ptsz)(CUgraphExec run, CUstream stream) {
    ENTER();
    return cuGraphLaunch(run, stream);
}

/* By cuMemFree or cuMemFreeAsync, after the graph has run. */
CUresult free_graph_block(struct block *block) {
    NEED(block->backed && !block->freed_by_owner);
    set_backed(block, false);
    if (!block->owner) end_block(block);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetGraphMemAttribute)(CUdevice device, CUgraphMem_attribute attribute, void *value) {
    ENTER();
    NEED(value);
    NEED_DEVICE(device);
    cuuint64_t *bytes = value;
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *bytes = used_on(device); break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *bytes = devices[device].graph_used_high; break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *bytes = reserved_on(device); break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *bytes = devices[device].graph_reserved_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceSetGraphMemAttribute)(CUdevice device, CUgraphMem_attribute attribute, void *value) {
    ENTER();
    NEED_DEVICE(device);
    NEED(value && !*(cuuint64_t *)value);
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: devices[device].graph_used_high = used_on(device); break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: devices[device].graph_reserved_high = reserved_on(device); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGraphMemTrim)(CUdevice device) {
    ENTER();
    NEED_DEVICE(device);
    set_reserved(device, in_steps(used_on(device)));
    return CUDA_SUCCESS;
}
