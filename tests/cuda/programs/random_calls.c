/* Random calls that are all legal, or fail as they must.
 *
 *     random_calls ROAD SEED STEPS ordered|free
 *
 * A few processes of several threads each allocate, free, and hand what they have to each other, in contexts on both devices.
 * ordered: one call at a time, so that every recorder sees the same peak; free: all at once.
 *
 * To add a kind of memory, write how it is made and how it ends and add a row to `kinds`. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

#define THREADS 4
#define ITEMS 24   /* of each thread, and as many that all share */
#define CHILDREN 2

struct item {
    const struct kind *kind; /* NULL: there is none */
    uint64_t handle, range;
    size_t bytes;
    void *extra;
};

struct worker {
    uint64_t random;
    CUcontext contexts[2];
    struct item items[ITEMS];
};

static struct item shared[ITEMS];
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER, sharing = PTHREAD_MUTEX_INITIALIZER;
static bool ordered;
static int steps;
static CUmemoryPool pools[2];

static uint64_t below(struct worker *worker, uint64_t limit) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random % limit;
}

/* Small ones are many, large ones few. */
static size_t some_bytes(struct worker *worker) { return 1 + below(worker, (uint64_t)1 << (4 + below(worker, 19))); }

static bool may_fail(CUresult result) {
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    return result == CUDA_SUCCESS;
}

static bool make_linear(struct worker *worker, struct item *item) {
    CUdeviceptr_v1 old;
    if (below(worker, 8)) return may_fail(cu.cuMemAlloc_v2((CUdeviceptr *)&item->handle, item->bytes));
    bool made = may_fail(cu.cuMemAlloc(&old, item->bytes));
    if (made) item->handle = old;
    return made;
}
static bool make_pitch(struct worker *worker, struct item *item) {
    size_t pitch, width = 1 + below(worker, 5000), height = 1 + below(worker, 99);
    return may_fail(cu.cuMemAllocPitch_v2((CUdeviceptr *)&item->handle, &pitch, width, height, 8));
}
static bool make_managed(struct worker *worker, struct item *item) {
    (void)worker;
    return may_fail(cu.cuMemAllocManaged((CUdeviceptr *)&item->handle, item->bytes, CU_MEM_ATTACH_GLOBAL));
}
static bool make_pooled(struct worker *worker, struct item *item) {
    CUdeviceptr *address = (CUdeviceptr *)&item->handle;
    switch (below(worker, 4)) {
    case 0: return may_fail(cu.cuMemAllocFromPoolAsync(address, item->bytes, pools[below(worker, 2)], NULL));
    case 1: return may_fail(cu.cuMemAllocFromPoolAsync_ptsz(address, item->bytes, pools[below(worker, 2)], NULL));
    case 2: return may_fail(cu.cuMemAllocAsync_ptsz(address, item->bytes, NULL));
    default: return may_fail(cu.cuMemAllocAsync(address, item->bytes, CU_STREAM_PER_THREAD));
    }
}
static void free_device(struct worker *worker, struct item *item) {
    switch (below(worker, 3)) {
    case 0: DO(cu.cuMemFreeAsync(item->handle, NULL)); break;
    case 1: DO(cu.cuMemFreeAsync_ptsz(item->handle, NULL)); break;
    default: DO(cu.cuMemFree_v2(item->handle));
    }
}

static bool make_host(struct worker *worker, struct item *item) {
    if (below(worker, 2)) return may_fail(cu.cuMemAllocHost_v2(&item->extra, item->bytes));
    return may_fail(cu.cuMemHostAlloc(&item->extra, item->bytes, CU_MEMHOSTALLOC_PORTABLE));
}
static void free_host(struct worker *worker, struct item *item) {
    (void)worker;
    DO(cu.cuMemFreeHost(item->extra));
}

static bool make_registered(struct worker *worker, struct item *item) {
    (void)worker;
    EXPECT((item->extra = malloc(item->bytes)) != NULL);
    DO(cu.cuMemHostRegister_v2(item->extra, item->bytes, 0));
    return true;
}
static void free_registered(struct worker *worker, struct item *item) {
    (void)worker;
    DO(cu.cuMemHostUnregister(item->extra));
    free(item->extra);
}

static bool make_array(struct worker *worker, struct item *item) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {1 + below(worker, 300), below(worker, 300), below(worker, 9), CU_AD_FORMAT_HALF, 2, 0};
    return may_fail(cu.cuArray3DCreate_v2((CUarray *)&item->handle, &shape));
}
static void free_array(struct worker *worker, struct item *item) {
    (void)worker;
    DO(cu.cuArrayDestroy((CUarray)item->handle));
}

static bool make_mipmap(struct worker *worker, struct item *item) {
    CUDA_ARRAY3D_DESCRIPTOR shape = {1 + below(worker, 300), below(worker, 300), 0, CU_AD_FORMAT_FLOAT, 1, 0};
    return may_fail(cu.cuMipmappedArrayCreate((CUmipmappedArray *)&item->handle, &shape, below(worker, 12)));
}
static void free_mipmap(struct worker *worker, struct item *item) {
    (void)worker;
    DO(cu.cuMipmappedArrayDestroy((CUmipmappedArray)item->handle));
}

/* Mapped at once, with or without keeping the handle. */
static bool make_physical(struct worker *worker, struct item *item) {
    CUmemAllocationProp properties = physical_on(below(worker, 2));
    item->bytes = (1 + below(worker, 8)) * 2 * MIB;
    if (!may_fail(cu.cuMemCreate((CUmemGenericAllocationHandle *)&item->handle, item->bytes, &properties, 0))) return false;
    DO(cu.cuMemAddressReserve((CUdeviceptr *)&item->range, item->bytes, 0, 0, 0));
    DO(cu.cuMemMap(item->range, item->bytes, 0, item->handle, 0));
    if (!below(worker, 2)) return true;
    DO(cu.cuMemRelease(item->handle));
    item->handle = 0;
    return true;
}
static void free_physical(struct worker *worker, struct item *item) {
    CUmemGenericAllocationHandle again;
    bool retained = below(worker, 2);
    if (retained) DO(cu.cuMemRetainAllocationHandle(&again, (void *)item->range));
    if (item->handle && below(worker, 2)) {
        DO(cu.cuMemRelease(item->handle));
        item->handle = 0;
    }
    DO(cu.cuMemUnmap(item->range, item->bytes));
    DO(cu.cuMemAddressFree(item->range, item->bytes));
    if (item->handle) DO(cu.cuMemRelease(item->handle));
    if (retained) DO(cu.cuMemRelease(again));
}

/* A graph that has run and left a block. */
static bool make_graph(struct worker *worker, struct item *item) {
    CUgraph graph;
    CUgraphExec run;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS wishes = {.poolProps = pool_on(below(worker, 2)), .bytesize = item->bytes};
    DO(cu.cuGraphCreate(&graph, 0));
    DO(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wishes));
    item->handle = wishes.dptr;
    wishes.bytesize = some_bytes(worker);
    DO(cu.cuGraphAddMemAllocNode(&node, graph, &node, 1, &wishes));
    DO(cu.cuGraphAddMemFreeNode(&node, graph, &node, 1, wishes.dptr));
    DO(cu.cuGraphInstantiateWithFlags(&run, graph, 0));
    bool ran = may_fail(cu.cuGraphLaunch(run, NULL));
    DO(cu.cuGraphExecDestroy(run));
    DO(cu.cuGraphDestroy(graph));
    return ran;
}
static void free_graph(struct worker *worker, struct item *item) {
    free_device(worker, item);
    if (!below(worker, 4)) DO(cu.cuDeviceGraphMemTrim(below(worker, 2)));
}

static const struct kind {
    int weight;
    bool (*make)(struct worker *worker, struct item *item);
    void (*end)(struct worker *worker, struct item *item);
} kinds[] = {
    {8, make_linear, free_device},    {2, make_pitch, free_device}, {2, make_managed, free_device},
    {8, make_pooled, free_device},    {2, make_host, free_host},    {2, make_registered, free_registered},
    {2, make_array, free_array},      {1, make_mipmap, free_mipmap}, {3, make_physical, free_physical},
    {2, make_graph, free_graph},
};

static const struct kind *some_kind(struct worker *worker) {
    int left = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) left += kinds[k].weight;
    left = below(worker, left);
    const struct kind *kind = kinds;
    while ((left -= kind->weight) >= 0) kind++;
    return kind;
}

static void change(struct worker *worker, struct item *item) {
    if (item->kind) {
        item->kind->end(worker, item);
        item->kind = NULL;
        return;
    }
    const struct kind *kind = some_kind(worker);
    *item = (struct item){.bytes = some_bytes(worker)};
    if (kind->make(worker, item)) item->kind = kind;
}

static void hand_over(struct worker *worker) {
    struct item *mine = &worker->items[below(worker, ITEMS)], *ours = &shared[below(worker, ITEMS)];
    pthread_mutex_lock(&sharing);
    struct item taken = *ours;
    *ours = *mine;
    *mine = taken;
    pthread_mutex_unlock(&sharing);
}

/* What must fail and leave nothing. */
static void fail(struct worker *worker) {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = physical_on(below(worker, 2));
    NO_MEMORY(cu.cuMemAlloc_v2(&address, (size_t)1 << 40));
    NO_MEMORY(cu.cuMemAllocAsync(&address, (size_t)1 << 40, NULL));
    NO_MEMORY(cu.cuMemCreate(&handle, (size_t)1 << 40, &properties, 0));
    INVALID(cu.cuMemFree_v2(12345));
    INVALID(cu.cuMemFreeAsync(12345, NULL));
    DO(cu.cuMemFree_v2(0));
}

/* A context that ends with blocks in it. */
static void pass_through_context(struct worker *worker) {
    CUdeviceptr address;
    CUcontext context = new_context(below(worker, 2));
    for (int left = below(worker, 5); left; left--) may_fail(cu.cuMemAlloc_v2(&address, some_bytes(worker)));
    if (below(worker, 2)) DO(cu.cuMemAllocManaged(&address, some_bytes(worker), CU_MEM_ATTACH_GLOBAL));
    DO(cu.cuCtxDestroy_v2(context));
}

static void trim(struct worker *worker) {
    cuuint64_t threshold = below(worker, 3) * 32 * MIB;
    CUmemoryPool pool = pools[below(worker, 2)];
    DO(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    DO(cu.cuMemPoolTrimTo(pool, below(worker, 64) * MIB));
}

static void step(struct worker *worker) {
    switch (below(worker, 24)) {
    case 0: DO(cu.cuCtxSetCurrent(worker->contexts[below(worker, 2)])); break;
    case 1: DO(cu.cuCtxSynchronize()); break;
    case 2: DO(cu.cuStreamSynchronize(NULL)); break;
    case 3: fail(worker); break;
    case 4: pass_through_context(worker); break;
    case 5: trim(worker); break;
    case 6:
    case 7: hand_over(worker); break;
    default: change(worker, &worker->items[below(worker, ITEMS)]);
    }
}

static CUcontext contexts[2];

static void *work(void *argument) {
    struct worker *worker = argument;
    DO(cu.cuCtxPushCurrent_v2(worker->contexts[0]));
    for (int done = 0; done < steps; done++) {
        if (ordered) pthread_mutex_lock(&order);
        step(worker);
        if (ordered) pthread_mutex_unlock(&order);
    }
    /* Half of what is left stays. */
    for (int i = 0; i < ITEMS; i += 2) {
        if (ordered) pthread_mutex_lock(&order);
        if (worker->items[i].kind) change(worker, &worker->items[i]);
        if (ordered) pthread_mutex_unlock(&order);
    }
    return NULL;
}

static void run(uint64_t seed) {
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    DO(cu.cuInit(0));
    for (int device = 0; device < 2; device++) {
        CUmemPoolProps properties = pool_on(device);
        DO(cu.cuMemPoolCreate(&pools[device], &properties));
        DO(cu.cuDevicePrimaryCtxRetain(&contexts[device], device));
    }
    for (int t = 0; t < THREADS; t++) {
        workers[t].random = (seed + 1) * 0x9e3779b97f4a7c15 + t;
        memcpy(workers[t].contexts, contexts, sizeof contexts);
        EXPECT(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++) EXPECT(pthread_join(threads[t], NULL) == 0);
    DO(cu.cuMemPoolDestroy(pools[0])); /* with what it has left */
    if (seed % 2) DO(cu.cuDevicePrimaryCtxReset_v2(1));
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    open_road(arguments[1]);
    uint64_t seed = strtoull(arguments[2], NULL, 10);
    steps = atoi(arguments[3]);
    ordered = strcmp(arguments[4], "ordered") == 0;
    int children = seed % (CHILDREN + 1), status;
    for (int child = 0; child < children; child++) {
        if (fork() == 0) {
            run(seed + 1000 * (child + 1));
            exit(0);
        }
    }
    run(seed);
    while (children--) EXPECT(wait(&status) > 0 && status == 0);
    return 0;
}
