/* What JAX needs beside tests/cuda/runtime/common.c. XLA asks the driver itself for memory and streams (tests/cuda/driver); here are
 * the driver's functions that this stand-in has no part in counting: modules, kernels, copies, events. Programs are compiled to
 * nothing, kernels do nothing, and what is to be called on the host in the order of a stream is called at once. */
#include <stdio.h>

#include "standin.h"

enum { CUDA = 12090 };

/* Programs and kernels */

int cuLinkCreate_v2(unsigned count, void *options, void *values, void **out) { return new_handle(out); }

int cuLinkComplete(void *state, const void **out, size_t *size) {
  static const char binary[] = "of the stand-in";
  *out = binary;
  *size = sizeof binary;
  return 0;
}

int cuModuleLoadDataEx(void **out) { return new_handle(out); }
int cuModuleLoadData(void **out) { return new_handle(out); }
int cuModuleLoadFatBinary(void **out) { return new_handle(out); }
int cuModuleGetFunction(void **out) { return new_handle(out); }
int cuLibraryLoadData(void **out) { return new_handle(out); }
int cuLibraryGetKernel(void **out) { return new_handle(out); }
int cuKernelGetFunction(void **out) { return new_handle(out); }
int cudaGetFuncBySymbol(void **out) { return new_handle(out); }

/* A program's constants: what is copied there is not read. */
int cuModuleGetGlobal_v2(uint64_t *address, size_t *size) {
  *address = 1 << 20;
  if (size != NULL) *size = 1 << 20;
  return 0;
}

int cuFuncGetAttribute(int *out, int attribute) {
  *out = attribute == 0 ? 1024 : 0; /* threads of a block */
  return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out) {
  *out = 2;
  return 0;
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  function(data);
  return 0;
}

/* Copies */

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  memset(to, 0, size);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size) { return cuMemcpyDtoH_v2(to, from, size); }

/* The device */

int cuDeviceGetPCIBusId(char *out, int room, int device) {
  snprintf(out, room, "0000:%02x:00.0", device + 1);
  return 0;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0; }

int cuEventElapsedTime(float *out) {
  *out = 1;
  return 0;
}

int cuEventElapsedTime_v2(float *out) { return cuEventElapsedTime(out); }
int cuDeviceCanAccessPeer(int *out) { return *out = 0; }

/* Versions */

int cudaRuntimeGetVersion(int *out) {
  *out = CUDA;
  return 0;
}

int cudaDriverGetVersion(int *out) { return cudaRuntimeGetVersion(out); }
size_t cudnnGetVersion(void) { return 90800; }
size_t cudnnGetCudartVersion(void) { return CUDA; }

int cudnnGetProperty(int property, int *out) {
  *out = property == 0 ? 9 : property == 1 ? 8 : 0;
  return 0;
}

int nvmlInit_v2(void) { return 9; /* no driver is loaded, says NVML */ }
int nvmlInit(void) { return 9; }
int cudnnCreate(void **out) { return new_handle(out); }

/* This must not be taken for CUPTI: it records nothing. */
int cuptiActivityRegisterCallbacks(void) { return 15; /* CUPTI_ERROR_NOT_INITIALIZED */ }
