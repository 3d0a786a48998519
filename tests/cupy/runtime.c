/* What CuPy needs beside tests/cuda/runtime/common.c.
 *
 * Memory, streams and events are the driver's: the functions of the runtime find those of the driver as CUDA's own runtime does, by
 * cuGetProcAddress, which they find by dlsym. Programs are compiled to nothing, and kernels do nothing. */
#include <stdio.h>

#include "standin.h"

typedef uintptr_t word;
typedef int (*function)(word, word, word, word, word, word);

enum { VERSION = 12020, NOT_FOUND = 500 };

/* The driver */

static function driver(const char *name) {
  static int (*ask)(const char *, function *, int, uint64_t, int *);
  if (ask == NULL) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&ask = dlsym(library, "cuGetProcAddress_v2");
  }
  function found = NULL;
  ask(name, &found, VERSION, 0, NULL);
  return found;
}

#define ASK(name) ({ static function known; if (known == NULL) known = driver(name); known; })

static __thread int current;
static __thread int is_ready;

/* The device's primary context becomes the thread's, as at a thread's first call of the runtime. */
static int enter(void) {
  if (is_ready) return 0;
  word context;
  int error = ASK("cuInit")(0, 0, 0, 0, 0, 0);
  if (!error) error = ASK("cuDevicePrimaryCtxRetain")((word)&context, current, 0, 0, 0, 0);
  if (!error) error = ASK("cuCtxSetCurrent")(context, 0, 0, 0, 0, 0);
  is_ready = error == 0;
  return error;
}

/* Functions with the same arguments as the driver's: results have the same numbers, too. */
#define SAME(name, as)                                             \
  int name(word a, word b, word c, word d, word e, word f) {       \
    int error = enter();                                           \
    function found = ASK(as);                                      \
    return error ? error : found ? found(a, b, c, d, e, f) : NOT_FOUND; \
  }

SAME(cudaFree, "cuMemFree")
SAME(cudaMallocAsync, "cuMemAllocAsync")
SAME(cudaMallocFromPoolAsync, "cuMemAllocFromPoolAsync")
SAME(cudaFreeAsync, "cuMemFreeAsync")
SAME(cudaMemGetInfo, "cuMemGetInfo")
SAME(cudaHostAlloc, "cuMemHostAlloc")
SAME(cudaFreeHost, "cuMemFreeHost")
SAME(cudaHostRegister, "cuMemHostRegister")
SAME(cudaHostUnregister, "cuMemHostUnregister")
SAME(cudaDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool")
SAME(cudaDeviceGetMemPool, "cuDeviceGetMemPool")
SAME(cudaDeviceSetMemPool, "cuDeviceSetMemPool")
SAME(cudaMemPoolCreate, "cuMemPoolCreate")
SAME(cudaMemPoolDestroy, "cuMemPoolDestroy")
SAME(cudaMemPoolGetAttribute, "cuMemPoolGetAttribute")
SAME(cudaMemPoolSetAttribute, "cuMemPoolSetAttribute")
SAME(cudaMemPoolTrimTo, "cuMemPoolTrimTo")
SAME(cudaDeviceSynchronize, "cuCtxSynchronize")
SAME(cudaStreamCreate, "cuStreamCreate")
SAME(cudaStreamCreateWithFlags, "cuStreamCreate")
SAME(cudaStreamDestroy, "cuStreamDestroy")
SAME(cudaStreamSynchronize, "cuStreamSynchronize")
SAME(cudaStreamIsCapturing, "cuStreamIsCapturing")
SAME(cudaEventCreateWithFlags, "cuEventCreate")
SAME(cudaEventDestroy, "cuEventDestroy")
SAME(cudaEventRecord, "cuEventRecord")
SAME(cudaEventSynchronize, "cuEventSynchronize")
SAME(cudaGetDeviceCount, "cuDeviceGetCount")

static SAME(allocate, "cuMemAlloc")
static SAME(allocate_managed, "cuMemAllocManaged")
static SAME(attribute_of, "cuPointerGetAttribute")

int cudaMalloc(void **out, size_t size) {
  *out = NULL;
  return size == 0 ? 0 : allocate((word)out, size, 0, 0, 0, 0);
}

int cudaMallocManaged(void **out, size_t size, unsigned flags) {
  *out = NULL;
  return size == 0 ? 0 : allocate_managed((word)out, size, flags, 0, 0, 0);
}

int cudaPointerGetAttributes(void *out, const void *address) {
  enum { DEVICE_ORDINAL = 9, ON_DEVICE = 2 };
  int device = 0, error = attribute_of((word)&device, DEVICE_ORDINAL, (word)address, 0, 0, 0);
  memset(out, 0, 24);
  put(out, 0, error ? 0 : ON_DEVICE, 4);
  put(out, 4, device, 4);
  put(out, 8, (uint64_t)address, 8);
  return 0;
}

/* The device */

int cudaGetDevice(int *out) {
  *out = current;
  return 0;
}

int cudaSetDevice(int device) {
  if (device != current) is_ready = 0;
  current = device;
  return enter();
}

int cudaGetDeviceProperties_v2(void *out, int device) { /* offsets of CUDA 12 */
  size_t left, total;
  int error = cudaMemGetInfo((word)&left, (word)&total, 0, 0, 0, 0);
  memset(out, 0, 1032);
  put_properties(out, total);
  put(out, 388, 132, 4); /* multiProcessorCount */
  return error;
}

int cudaRuntimeGetVersion(int *out) {
  *out = VERSION;
  return 0;
}

int cudaDriverGetVersion(int *out) { return cudaRuntimeGetVersion(out); }

int curandCreateGenerator(void **out, int kind) { return new_handle(out); }
int cufftCreate(int *out) { return *out = 0; }

/* Programs and kernels */

int nvrtcVersion(int *major, int *minor) {
  *major = VERSION / 1000;
  *minor = VERSION % 1000 / 10;
  return 0;
}

static const char binary[] = "of the stand-in";

int nvrtcCreateProgram(void **out) { return new_handle(out); }

int nvrtcGetCUBINSize(void *program, size_t *out) {
  *out = sizeof binary;
  return 0;
}

int nvrtcGetCUBIN(void *program, char *out) {
  memcpy(out, binary, sizeof binary);
  return 0;
}

int nvrtcGetPTXSize(void *program, size_t *out) { return nvrtcGetCUBINSize(program, out); }
int nvrtcGetPTX(void *program, char *out) { return nvrtcGetCUBIN(program, out); }

int nvrtcGetProgramLogSize(void *program, size_t *out) {
  *out = 1;
  return 0;
}

int nvrtcGetProgramLog(void *program, char *out) {
  *out = '\0';
  return 0;
}

int nvrtcGetLoweredName(void *program, const char *name, const char **out) {
  *out = name;
  return 0;
}

const char *nvrtcGetErrorString(int error) { return "an error of the stand-in"; }

int cuModuleLoad(void **out) { return new_handle(out); }
int cuModuleLoadData(void **out) { return new_handle(out); }
int cuModuleGetFunction(void **out) { return new_handle(out); }
int cuLinkCreate_v2(unsigned count, void *options, void *values, void **out) { return new_handle(out); }

int cuFuncGetAttribute(int *out, int attribute) {
  *out = 1024;
  return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out) {
  *out = 2;
  return 0;
}

int cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads) {
  *blocks = 264;
  *threads = 1024;
  return 0;
}

/* NVML, as far as Dask-CUDA and distributed ask: one device, and no process on it. */

enum { NOT_SUPPORTED = 3 };

int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) { return new_handle(out); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { return new_handle(out); }
int nvmlDeviceIsMigDeviceHandle(void *device, unsigned *out) { return *out = 0; }
int nvmlDeviceGetMigMode(void *device) { return NOT_SUPPORTED; }
int nvmlDeviceGetIndex(void *device, unsigned *out) { return *out = 0; }
int nvmlDeviceGetUtilizationRates(void *device, void *out) { return NOT_SUPPORTED; }
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count) { return *count = 0; }

int nvmlDeviceGetCount_v2(unsigned *out) {
  *out = 1;
  return 0;
}

static int tell(char *out, unsigned room, const char *text) {
  snprintf(out, room, "%s", text);
  return 0;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned room) { return tell(out, room, "GPU-0"); }
int nvmlDeviceGetName(void *device, char *out, unsigned room) { return tell(out, room, "Stand-in 0"); }
int nvmlSystemGetDriverVersion(char *out, unsigned room) { return tell(out, room, "535"); }

int nvmlDeviceGetCpuAffinity(void *device, unsigned words, uint64_t *out) {
  for (unsigned i = 0; i < words; i++) out[i] = UINT64_MAX;
  return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, uint64_t out[3]) { /* total, free, used */
  const char *memory = getenv("STANDIN_MEMORY");
  out[0] = out[1] = memory == NULL ? 0 : strtoull(memory, NULL, 10);
  out[2] = 0;
  return 0;
}
