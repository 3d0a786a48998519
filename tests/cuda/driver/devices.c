/* cuInit, the devices, errors, and the way into every other function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

#define VERSION 12090
#define FAILURES_MAX 32

struct device devices[DEVICES_MAX];
int device_count, standin_process;
struct call *standin_calls;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct failure {
    char function[64];
    unsigned calls_left;
    CUresult result;
} failures[FAILURES_MAX];
static int failure_count;

/* For test programs: the nth call of a function from now on (1: the next) does nothing and returns this. */
void standin_fail(const char *function, unsigned nth, int result) {
    pthread_mutex_lock(&lock);
    if (failure_count == FAILURES_MAX || !nth) abort();
    struct failure *failure = &failures[failure_count++];
    snprintf(failure->function, sizeof failure->function, "%s", function);
    failure->calls_left = nth;
    failure->result = result;
    pthread_mutex_unlock(&lock);
}

static CUresult failure_of(const char *function) {
    CUresult due = CUDA_SUCCESS;
    for (int f = 0; f < failure_count; f++) {
        if (strcmp(failures[f].function, function) != 0 || --failures[f].calls_left) continue;
        due = failures[f].result;
        failures[f--] = failures[--failure_count];
    }
    return due;
}

/* A process that was forked from one that uses the driver cannot use it. */
CUresult standin_enter(struct call *call, bool *entered) {
    REFUSE_IF(standin_process == 0 || standin_process != getpid(), CUDA_ERROR_NOT_INITIALIZED);
    pthread_mutex_lock(&lock);
    *entered = true;
    call->entered++;
    if (!call->known) {
        call->known = true;
        call->next = standin_calls;
        standin_calls = call;
    }
    return failure_count ? failure_of(call->name) : CUDA_SUCCESS;
}

void standin_leave(bool *entered) {
    if (*entered) pthread_mutex_unlock(&lock);
}

/* STANDIN_MEMORY: bytes of each device, with commas. */
static void find_devices(void) {
    const char *memory = getenv("STANDIN_MEMORY");
    if (!memory) memory = "1073741824,1073741824";
    while (*memory && device_count < DEVICES_MAX) {
        struct device *device = &devices[device_count];
        char *end;
        device->memory = strtoull(memory, &end, 10);
        snprintf(device->name, sizeof device->name, "Stand-in %d", device_count);
        device->pool = device->default_pool = new_pool(device_count);
        device->default_pool->is_default = true;
        device->primary = new_entry(CLASS_CONTEXT, sizeof *device->primary);
        device->primary->device = device_count++;
        device->primary->primary = true;
        memory = *end == ',' ? end + 1 : "";
    }
}

/* STANDIN_FAIL: function:nth:result, with commas. */
static void read_failures(void) {
    const char *text = getenv("STANDIN_FAIL");
    char function[64];
    unsigned nth;
    int result, length;
    while (text && sscanf(text, "%63[^:]:%u:%d%n", function, &nth, &result, &length) == 3) {
        standin_fail(function, nth, result);
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
}

ENTRY(cuInit)(unsigned int flags) {
    NEED(flags == 0);
    if (standin_process == 0) {
        pthread_mutex_lock(&lock);
        if (standin_process == 0) {
            find_devices();
            read_failures();
            standin_process = getpid();
        }
        pthread_mutex_unlock(&lock);
    }
    ENTER();
    return device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

ENTRY(cuDriverGetVersion)(int *version) {
    NEED(version);
    *version = VERSION;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetCount)(int *count) {
    ENTER();
    NEED(count);
    *count = device_count;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGet)(CUdevice *device, int ordinal) {
    ENTER();
    NEED(device);
    NEED_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetName)(char *name, int length, CUdevice device) {
    ENTER();
    NEED(name && length > 0);
    NEED_DEVICE(device);
    snprintf(name, length, "%s", devices[device].name);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetUuid_v2)(CUuuid *uuid, CUdevice device) {
    ENTER();
    NEED(uuid);
    NEED_DEVICE(device);
    memset(uuid, 0x5a, sizeof *uuid);
    uuid->bytes[15] = device;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetUuid)(CUuuid *uuid, CUdevice device) {
    ENTER();
    return cuDeviceGetUuid_v2(uuid, device);
}

ENTRY(cuDeviceTotalMem_v2)(size_t *bytes, CUdevice device) {
    ENTER();
    NEED(bytes);
    NEED_DEVICE(device);
    *bytes = devices[device].memory;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceTotalMem)(unsigned int *bytes, CUdevice device) {
    ENTER();
    NEED(bytes);
    NEED_DEVICE(device);
    uint64_t memory = devices[device].memory;
    *bytes = memory < UINT32_MAX ? memory : UINT32_MAX;
    return CUDA_SUCCESS;
}

/* As an H100 answers, but for the number of its multiprocessors; 0 for all others. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
#define ATTRIBUTE(name, value) {CU_DEVICE_ATTRIBUTE_##name, value}
    ATTRIBUTE(MAX_THREADS_PER_BLOCK, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_X, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_Y, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_Z, 64),
    ATTRIBUTE(MAX_GRID_DIM_X, INT32_MAX),
    ATTRIBUTE(MAX_GRID_DIM_Y, 65535),
    ATTRIBUTE(MAX_GRID_DIM_Z, 65535),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10),
    ATTRIBUTE(WARP_SIZE, 32),
    ATTRIBUTE(MAX_REGISTERS_PER_BLOCK, 65536),
    ATTRIBUTE(CLOCK_RATE, 1980000),
    ATTRIBUTE(MULTIPROCESSOR_COUNT, 16),
    ATTRIBUTE(MEMORY_CLOCK_RATE, 2619000),
    ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH, 5120),
    ATTRIBUTE(L2_CACHE_SIZE, 50 << 20),
    ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, 2048),
    ATTRIBUTE(UNIFIED_ADDRESSING, 1),
    ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, 9),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10),
    ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536),
    ATTRIBUTE(MANAGED_MEMORY, 1),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10),
    ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
    ATTRIBUTE(MEMORY_POOLS_SUPPORTED, 1),
#undef ATTRIBUTE
};

ENTRY(cuDeviceGetAttribute)(int *value, CUdevice_attribute attribute, CUdevice device) {
    ENTER();
    NEED(value);
    NEED_DEVICE(device);
    *value = 0;
    for (size_t a = 0; a < LENGTH(attributes); a++)
        if (attributes[a].attribute == attribute) *value = attributes[a].value;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
#define ROW(name, value, text) {name, #name, text},
    CUDA_RESULTS(ROW)
#undef ROW
};

ENTRY(cuGetErrorName)(CUresult error, const char **text) {
    NEED(text);
    *text = NULL;
    for (size_t r = 0; r < LENGTH(results); r++)
        if (results[r].result == error) *text = results[r].name;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGetErrorString)(CUresult error, const char **text) {
    NEED(text);
    *text = NULL;
    for (size_t r = 0; r < LENGTH(results); r++)
        if (results[r].result == error) *text = results[r].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
