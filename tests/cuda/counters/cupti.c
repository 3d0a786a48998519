/* A stand-in for CUPTI: its records of memory, made of what the stand-in for the driver reports. They come four to a buffer from a
 * thread of CUPTI's own, the last buffer first: only timestamps tell their order. STANDIN_CUPTI is a way to be different:
 *   refused   does not record
 *   dropped   has no room for one record, and says so
 *   missing   leaves the second allocation out
 *   short     says a byte too little of each
 *   held      leaves releases out */
#include <cupti_activity.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../standin.h"

#define RECORDS_MAX 256
#define PER_BUFFER 4

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_ActivityMemory4 records[RECORDS_MAX];
static size_t count, reported;

static bool is(const char *way) {
    const char *asked = getenv("STANDIN_CUPTI");
    return asked && strcmp(asked, way) == 0;
}

static CUpti_ActivityMemoryKind kind_of(const char *kind) {
    static const struct {
        const char *name;
        CUpti_ActivityMemoryKind kind;
    } kinds[] = {
        {"linear", CUPTI_ACTIVITY_MEMORY_KIND_DEVICE}, {"pitch", CUPTI_ACTIVITY_MEMORY_KIND_DEVICE},
        {"pool", CUPTI_ACTIVITY_MEMORY_KIND_DEVICE},   {"managed", CUPTI_ACTIVITY_MEMORY_KIND_MANAGED},
        {"host", CUPTI_ACTIVITY_MEMORY_KIND_PINNED},   {"array", CUPTI_ACTIVITY_MEMORY_KIND_ARRAY},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kinds[k].name, kind) == 0) return kinds[k].kind;
    return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

static void record(int made, const char *kind, uint64_t address, uint64_t bytes) {
    reported++;
    bool left_out = (is("dropped") && reported == 2) || (is("missing") && reported == 2) || (is("held") && !made);
    if (kind_of(kind) == CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN || left_out) return;
    if (count == RECORDS_MAX) abort();
    CUpti_ActivityMemory4 *next = &records[count++];
    memset(next, 0xa5, sizeof *next); /* the other members are anything */
    next->kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    next->memoryOperationType =
        made ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
    next->memoryKind = kind_of(kind);
    next->address = address;
    next->bytes = bytes - is("short");
    next->timestamp = 1000 * reported;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc on_request,
                                           CUpti_BuffersCallbackCompleteFunc on_complete) {
    request = on_request;
    complete = on_complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    if (is("refused")) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    if (kind != CUPTI_ACTIVITY_KIND_MEMORY2) return CUPTI_ERROR_INVALID_PARAMETER;
    standin_watch(record);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
    if (kind != CUPTI_ACTIVITY_KIND_MEMORY2) return CUPTI_ERROR_INVALID_PARAMETER;
    standin_watch(NULL);
    return CUPTI_SUCCESS;
}

static void *hand_over(void *none) {
    while (count) {
        size_t first = (count - 1) / PER_BUFFER * PER_BUFFER, bytes = (count - first) * sizeof *records, size, most;
        uint8_t *buffer;
        request(&buffer, &size, &most);
        if (!buffer || size < bytes || (uintptr_t)buffer % 8 || most) abort();
        memcpy(buffer, records + first, bytes);
        complete(NULL, 0, buffer, size, bytes);
        count = first;
    }
    return none;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    pthread_t thread;
    if (pthread_create(&thread, NULL, hand_over, NULL) || pthread_join(thread, NULL)) abort();
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    uint8_t *next = *record ? (uint8_t *)*record + sizeof *records : buffer;
    if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped) {
    (void)context, (void)stream;
    *dropped = is("dropped");
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
    *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "some error";
    return CUPTI_SUCCESS;
}
