/* Streams, events and kernels. Nothing is known to be done before the program has waited for it: for the stream, for an event
 * that was recorded in it since, or for all of its context. */
#define _GNU_SOURCE
#include <unistd.h>

#include "driver.h"

static bool is_default(CUstream stream) { return KEY(stream) <= KEY(CU_STREAM_PER_THREAD); }

CUresult context_of_stream(CUstream handle, struct context **context) {
    if (is_default(handle)) return current_context(context);
    struct stream *stream = find(CLASS_STREAM, KEY(handle));
    REFUSE_IF(!stream, CUDA_ERROR_INVALID_HANDLE);
    *context = stream->context;
    return CUDA_SUCCESS;
}

#define ALL_STREAMS 0
static uint64_t orders;

/* The legacy default stream waits for all others. */
struct point point_of_stream(CUstream handle, struct context *context) {
    uint64_t stream = KEY(handle);
    if (handle == CU_STREAM_PER_THREAD) stream = gettid();
    else if (is_default(handle)) stream = ALL_STREAMS;
    return (struct point){context, stream, ++orders};
}

struct point point_of_context(struct context *context) { return (struct point){context, ALL_STREAMS, ++orders}; }

bool is_reached(struct point work, struct point reached) {
    bool waits_for = reached.stream == ALL_STREAMS || reached.stream == work.stream;
    return !work.context || (work.context == reached.context && waits_for && work.order <= reached.order);
}

struct graph *capture_of_stream(CUstream handle) {
    struct stream *stream = find(CLASS_STREAM, KEY(handle));
    return stream ? stream->capturing : NULL;
}

void end_streams(struct context *context) {
    settle_pools(point_of_context(context));
    for (struct entry *entry = first(CLASS_STREAM), *next; entry; entry = next) {
        next = entry->next;
        if (((struct stream *)entry)->context == context) drop(entry);
    }
    for (struct entry *entry = first(CLASS_EVENT), *next; entry; entry = next) {
        next = entry->next;
        if (((struct event *)entry)->context == context) drop(entry);
    }
}

ENTRY(cuStreamCreateWithPriority)(CUstream *handle, unsigned int flags, int priority) {
    ENTER();
    (void)flags, (void)priority;
    NEED(handle);
    struct context *context;
    TRY(current_context(&context));
    struct stream *stream = new_entry(CLASS_STREAM, sizeof *stream);
    stream->context = context;
    *handle = (CUstream)stream;
    return CUDA_SUCCESS;
}

ENTRY(cuStreamCreate)(CUstream *stream, unsigned int flags) {
    ENTER();
    return cuStreamCreateWithPriority(stream, flags, 0);
}

ENTRY(cuStreamDestroy_v2)(CUstream handle) {
    ENTER();
    struct stream *stream = find(CLASS_STREAM, KEY(handle));
    REFUSE_IF(!stream, CUDA_ERROR_INVALID_HANDLE);
    settle_pools(point_of_stream(handle, stream->context)); /* no call can wait for it any more */
    drop(stream);
    return CUDA_SUCCESS;
}

ENTRY(cuStreamDestroy)(CUstream stream) {
    ENTER();
    return cuStreamDestroy_v2(stream);
}

ENTRY(cuStreamSynchronize)(CUstream stream) {
    ENTER();
    struct context *context;
    TRY(context_of_stream(stream, &context));
    REFUSE_IF(capture_of_stream(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pools_at_synchronisation(point_of_stream(stream, context));
    return CUDA_SUCCESS;
}

ENTRY(cuStreamSynchronize_ptsz)(CUstream stream) {
    ENTER();
    return cuStreamSynchronize(own_stream(stream));
}

ENTRY(cuStreamBeginCapture_v2)(CUstream handle, CUstreamCaptureMode mode) {
    ENTER();
    (void)mode;
    struct stream *stream = find(CLASS_STREAM, KEY(handle));
    REFUSE_IF(is_default(handle), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REFUSE_IF(!stream, CUDA_ERROR_INVALID_HANDLE);
    NEED(!stream->capturing);
    CUgraph graph;
    TRY(cuGraphCreate(&graph, 0));
    stream->capturing = (struct graph *)graph;
    return CUDA_SUCCESS;
}

ENTRY(cuStreamBeginCapture_v2_ptsz)(CUstream stream, CUstreamCaptureMode mode) {
    ENTER();
    return cuStreamBeginCapture_v2(stream, mode);
}

ENTRY(cuStreamEndCapture)(CUstream handle, CUgraph *graph) {
    ENTER();
    struct stream *stream = find(CLASS_STREAM, KEY(handle));
    REFUSE_IF(!stream, CUDA_ERROR_INVALID_HANDLE);
    REFUSE_IF(!stream->capturing, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    NEED(graph);
    *graph = (CUgraph)stream->capturing;
    stream->capturing = NULL;
    return CUDA_SUCCESS;
}

ENTRY(cuStreamEndCapture_ptsz)(CUstream stream, CUgraph *graph) {
    ENTER();
    return cuStreamEndCapture(stream, graph);
}

ENTRY(cuStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER();
    struct context *context;
    TRY(context_of_stream(stream, &context));
    NEED(status);
    *status = capture_of_stream(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

ENTRY(cuStreamIsCapturing_ptsz)(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER();
    return cuStreamIsCapturing(stream, status);
}

ENTRY(cuEventCreate)(CUevent *handle, unsigned int flags) {
    ENTER();
    (void)flags;
    NEED(handle);
    struct context *context;
    TRY(current_context(&context));
    struct event *event = new_entry(CLASS_EVENT, sizeof *event);
    event->context = context;
    *handle = (CUevent)event;
    return CUDA_SUCCESS;
}

ENTRY(cuEventDestroy_v2)(CUevent event) {
    ENTER();
    struct entry *entry = find(CLASS_EVENT, KEY(event));
    REFUSE_IF(!entry, CUDA_ERROR_INVALID_HANDLE);
    drop(entry);
    return CUDA_SUCCESS;
}

ENTRY(cuEventDestroy)(CUevent event) {
    ENTER();
    return cuEventDestroy_v2(event);
}

ENTRY(cuEventRecord)(CUevent handle, CUstream stream) {
    ENTER();
    struct context *context;
    TRY(context_of_stream(stream, &context));
    struct event *event = find(CLASS_EVENT, KEY(handle));
    REFUSE_IF(!event, CUDA_ERROR_INVALID_HANDLE);
    event->recorded = point_of_stream(stream, context);
    return CUDA_SUCCESS;
}

ENTRY(cuEventRecord_ptsz)(CUevent event, CUstream stream) {
    ENTER();
    return cuEventRecord(event, own_stream(stream));
}

ENTRY(cuEventSynchronize)(CUevent handle) {
    ENTER();
    struct event *event = find(CLASS_EVENT, KEY(handle));
    REFUSE_IF(!event, CUDA_ERROR_INVALID_HANDLE);
    pools_at_synchronisation(event->recorded);
    return CUDA_SUCCESS;
}

ENTRY(cuLaunchKernel)(CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                      CUstream stream, void **parameters, void **extra) {
    ENTER();
    (void)kernel, (void)shared, (void)parameters, (void)extra;
    struct context *context;
    TRY(context_of_stream(stream, &context));
    NEED(grid_x && grid_y && grid_z && block_x && block_y && block_z);
    return CUDA_SUCCESS;
}

ENTRY(cuLaunchKernel_ptsz)(CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                           unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                           CUstream stream, void **parameters, void **extra) {
    ENTER();
    return cuLaunchKernel(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}
