/* The part of CUPTI that the stand-in has, for where NVIDIA's cupti_activity.h is not installed. */
#ifndef CUPTI_ACTIVITY_H
#define CUPTI_ACTIVITY_H
#include "../cuda.h"

#define CUPTIAPI
#define RECORD __attribute__((packed, aligned(8)))

typedef enum {
    CUPTI_SUCCESS = 0,
    CUPTI_ERROR_INVALID_PARAMETER = 1,
    CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
    CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
} CUptiResult;
typedef enum { CUPTI_ACTIVITY_KIND_MEMORY2 = 49 } CUpti_ActivityKind;
typedef enum {
    CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION = 1,
    CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE = 2,
} CUpti_ActivityMemoryOperationType;
typedef enum {
    CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN = 0,
    CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
    CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3,
    CUPTI_ACTIVITY_MEMORY_KIND_ARRAY = 4,
    CUPTI_ACTIVITY_MEMORY_KIND_MANAGED = 5,
} CUpti_ActivityMemoryKind;
typedef enum { CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID = 0 } CUpti_ActivityMemoryPoolType;

typedef struct RECORD {
    CUpti_ActivityKind kind;
} CUpti_Activity;
typedef struct RECORD {
    CUpti_ActivityKind kind;
    CUpti_ActivityMemoryOperationType memoryOperationType;
    CUpti_ActivityMemoryKind memoryKind;
    uint32_t correlationId;
    uint64_t address, bytes, timestamp, PC;
    uint32_t processId, deviceId, contextId, streamId;
    const char *name;
    uint32_t isAsync, pad1;
    struct RECORD {
        CUpti_ActivityMemoryPoolType memoryPoolType;
        uint32_t pad2;
        uint64_t address, releaseThreshold;
        union {
            uint64_t size, processId;
        } pool;
        uint64_t utilizedSize;
    } memoryPoolConfig;
    const char *source;
} CUpti_ActivityMemory4;

typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *most);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                                  size_t valid);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped);
CUptiResult cuptiGetResultString(CUptiResult result, const char **text);
#endif
