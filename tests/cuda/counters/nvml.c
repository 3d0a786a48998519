/* A stand-in for NVML: another process's memory on each device, and this one's: a context, and what the driver has taken. Of
 * devices and processes it knows what the stand-in for the driver reports. STANDIN_NVML is a way to be different:
 *   none      no driver
 *   mig       the device is a part of one
 *   hidden    this process is not listed, as in a container
 *   namesake  another process has this one's number, as in a container
 *   silent    processes are listed without their memory
 *   deaf      neither lists processes nor memory
 *   more      counts more than there is */
#include <nvml.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../standin.h"

#define MIB (1ULL << 20)
#define CONTEXT (310 * MIB)
#define OTHER_PID 1
#define OTHER (77 * MIB)
#define TOTAL (80LL << 30)

static bool is(const char *way) {
    const char *asked = getenv("STANDIN_NVML");
    return asked && strcmp(asked, way) == 0;
}

static unsigned long long own_bytes(nvmlDevice_t device) {
    uint64_t bytes;
    unsigned contexts;
    standin_device((int)(intptr_t)device - 1, &bytes, &contexts);
    if (is("more")) bytes += bytes / 64;
    return contexts ? contexts * CONTEXT + bytes : 0;
}

nvmlReturn_t nvmlInit_v2(void) { return is("none") ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t result) {
    return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Some Error";
}

/* Their last byte is the device's number. */
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    const char *start = is("mig") ? "MIG-5a5a5a5a-5a5a-" : "GPU-5a5a5a5a-5a5a-";
    if (strncmp(uuid, start, strlen(start)) != 0 || strlen(uuid) != 40) return NVML_ERROR_NOT_FOUND;
    *device = (nvmlDevice_t)(intptr_t)(1 + strtol(uuid + 38, NULL, 16));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes) {
    nvmlProcessInfo_t found[2];
    memset(found, 0xa5, sizeof found); /* what lies between the members is anything */
    unsigned int own = !is("hidden") && (is("namesake") || own_bytes(device)), room = *count;
    found[0].pid = OTHER_PID;
    found[0].usedGpuMemory = OTHER;
    found[1].pid = getpid();
    found[1].usedGpuMemory = is("namesake") ? OTHER : own_bytes(device);
    if (is("silent")) found[0].usedGpuMemory = found[1].usedGpuMemory = NVML_VALUE_NOT_AVAILABLE;
    if (is("deaf")) return NVML_ERROR_INVALID_ARGUMENT;
    *count = 1 + own;
    if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(processes, found, *count * sizeof *found);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    if (is("deaf")) return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = TOTAL;
    memory->used = OTHER + own_bytes(device);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}
