/* State of the stand-in for NVIDIA's driver. All of it is behind one lock, which every exported function takes by ENTER. */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H
#include <stdbool.h>
#include <string.h>

#include "../cuda.h"
#include "../standin.h"

#pragma GCC visibility push(hidden) /* only the driver's functions and those of standin.h are exported */

#define DEVICES_MAX 8
#define NO_DEVICE DEVICES_MAX /* host memory, in what is counted per device */
#define MIB ((uint64_t)1 << 20)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* An exported function. Its hidden second name is what cuGetProcAddress hands out: a preloaded library that exports the same
 * name replaces what this library calls by that name, as it does for every library, but not what is found by it. */
#define HIDDEN(name) standin_own_##name
#define ENTRY(name)                                                                             \
    extern __typeof__(name) HIDDEN(name) __attribute__((alias(#name), visibility("hidden"))); \
    CUresult name

/* Begins an exported function: refuses where the driver is not initialised or a failure is due, and holds the lock. */
#define ENTER()                                                                \
    bool entered __attribute__((cleanup(standin_leave))) = false;              \
    do {                                                                       \
        static struct call call = {.name = __func__};                          \
        CUresult refused = standin_enter(&call, &entered);                     \
        if (refused) return refused;                                           \
    } while (0)
#define TRY(call)                                                              \
    do {                                                                       \
        CUresult tried = (call);                                               \
        if (tried) return tried;                                               \
    } while (0)
#define REFUSE_IF(condition, error)                                            \
    do {                                                                       \
        if (condition) return error;                                           \
    } while (0)
#define NEED(condition) REFUSE_IF(!(condition), CUDA_ERROR_INVALID_VALUE)

struct call {
    const char *name;
    uint64_t entered;
    struct call *next;
    bool known;
};
CUresult standin_enter(struct call *call, bool *entered);
void standin_leave(bool *entered);
extern struct call *standin_calls;
extern int standin_process; /* that called cuInit; 0 before */

/* entries.c: what programs name by addresses and handles. Memory of a dropped entry is that of the next new one. */
enum class {
    CLASS_DEVICE,      /* a range of device addresses that is one block */
    CLASS_HOST,        /* what cuMemHostAlloc gave */
    CLASS_REGISTERED,  /* what cuMemHostRegister was given */
    CLASS_ARRAY,
    CLASS_MIPMAP,
    CLASS_PHYSICAL,
    CLASS_RESERVATION, /* of device addresses */
    CLASS_MAPPING,     /* in a reservation */
    CLASS_CONTEXT,
    CLASS_STREAM,
    CLASS_EVENT,
    CLASS_POOL,
    CLASS_GRAPH,
    CLASS_NODE,
    CLASS_RUN,         /* an executable graph */
    CLASSES,
};

struct entry {
    uint64_t key;
    enum class class;
    struct entry *chain, *next, *previous;
};
#define KEY(pointer) ((uint64_t)(uintptr_t)(pointer))
/* A new entry, zero but for its class; its key is its own address until it is given another. */
void *new_entry(enum class class, size_t bytes);
void set_key(void *entry, uint64_t key);
void *find(enum class class, uint64_t key);
void drop(void *entry);
struct entry *first(enum class class);

/* counts.c: the oracle. */
enum kind {
    KIND_LINEAR,
    KIND_PITCH,
    KIND_MANAGED,
    KIND_HOST,
    KIND_REGISTERED,
    KIND_ARRAY,
    KIND_MIPMAP,
    KIND_POOL,
    KIND_PHYSICAL,
    KIND_IMPORTED_PHYSICAL,
    KIND_IPC,
    KIND_IMPORTED_POOL,
    KIND_GRAPH,         /* addresses of allocation nodes, whether or not there is memory behind them */
    KIND_MAPPED,
    KIND_POOL_RESERVED, /* no blocks from here on */
    KIND_POOL_USED,     /* blocks of pools as the pools round them */
    KIND_GRAPH_RESERVED,
    KIND_GRAPH_USED,
    KINDS,
};
struct count {
    uint64_t live, peak, blocks, acquired, acquired_bytes;
};
extern struct count counts[DEVICES_MAX + 1][KINDS];
extern const char *const kind_names[KINDS];
void count_block(int device, enum kind kind, uint64_t bytes);
void uncount_block(int device, enum kind kind, uint64_t bytes);
void count_bytes(int device, enum kind kind, int64_t change);
uint64_t driver_bytes(int device);

/* blocks.c */
enum space { SPACE_DEVICE, SPACE_LOW, SPACE_MANAGED, SPACE_VIRTUAL, SPACES };
struct range {
    uint64_t address;
    uint8_t space, order;
};
bool take_range(enum space space, uint64_t bytes, struct range *range);
void give_range(struct range range);

struct context;
struct block {
    struct entry entry;
    enum kind kind;
    int device;
    struct context *context; /* NULL: it outlives contexts */
    uint64_t bytes, charged; /* charged: bytes of a pool's block as the pool rounds */
    struct range range;
    void *owner;             /* a pool's segment, physical memory, a graph, a mipmap */
    uint64_t offset;
    unsigned references, mappings;
    bool backed, has_free_node, freed_by_owner; /* of a graph */
    bool exportable;
};
/* A counted block in a range of its own; NULL if there is not that much memory left. */
struct block *new_block(enum class class, enum kind kind, enum space space, int device, uint64_t bytes);
struct block *count_new(struct block *block);
void end_block(struct block *block);
struct block *block_around(enum class class, uint64_t address);
bool is_room(int device, uint64_t bytes);

/* watcher.c */
void tell(const struct block *block, bool made);

/* devices.c */
struct device {
    char name[32];
    uint64_t memory;
    struct context *primary;
    struct pool *default_pool, *pool;
    uint64_t graph_reserved_high, graph_used_high;
};
extern struct device devices[DEVICES_MAX];
extern int device_count;
#define NEED_DEVICE(device) REFUSE_IF((device) < 0 || (device) >= device_count, CUDA_ERROR_INVALID_DEVICE)

/* contexts.c */
struct context {
    struct entry entry;
    int device;
    bool primary;
    unsigned retained;
    uint64_t generation; /* of this context among those at its address */
};
CUresult current_context(struct context **context);

/* How far the work of a stream has come; without a context, whatever there is has been done. */
struct point {
    struct context *context;
    uint64_t stream, order;
};

/* memory.c, host.c */
CUresult free_device_block(struct block *block, struct point when);
void end_host_blocks(struct context *context);

/* streams.c */
void end_streams(struct context *context);
struct stream {
    struct entry entry;
    struct context *context;
    struct graph *capturing;
};
struct event {
    struct entry entry;
    struct context *context;
    struct point recorded;
};
struct point point_of_stream(CUstream stream, struct context *context); /* its last request */
struct point point_of_context(struct context *context);
bool is_reached(struct point work, struct point reached);
CUresult context_of_stream(CUstream stream, struct context **context);
/* What a `_ptsz` function means. */
static inline CUstream own_stream(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }
struct graph *capture_of_stream(CUstream stream);

/* shares.c: what another process can be given */
struct share {
    uint64_t magic, address, bytes;
    int process, device;
};
struct share share_of(uint64_t address, uint64_t bytes, int device);
bool is_share(const struct share *share);
CUresult export_share(struct share share, CUmemAllocationHandleType type, void *file);
CUresult import_share(struct share *share, CUmemAllocationHandleType type, void *file);

/* pools.c */
struct pool {
    struct entry entry;
    int device;
    bool is_default, imported, destroyed, exportable;
    uint64_t threshold, most, reserved, reserved_high, used, used_high, blocks;
    int switches[3]; /* REUSE_... */
    struct segment *segments;
};
struct pool *new_pool(int device);
CUresult free_pool_block(struct block *block, struct point when);
struct pool *pool_of_block(const struct block *block); /* NULL: it is of none, or of another process's */
void settle_pools(struct point reached); /* what was given back until then, anybody can have */
void pools_at_synchronisation(struct point reached);
extern uint64_t dead_pools_asked; /* queries of a pool that was destroyed */

/* graphs.c */
struct graph {
    struct entry entry;
    struct node *first, **last;
    bool destroyed, instantiated;
};
CUresult add_allocation(struct graph *graph, int device, uint64_t bytes, CUdeviceptr *address, CUgraphNode *node);
CUresult add_free(struct graph *graph, CUdeviceptr address, CUgraphNode *node);
CUresult free_graph_block(struct block *block);

#pragma GCC visibility pop
#endif
