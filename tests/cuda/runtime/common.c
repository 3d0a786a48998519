/* A CUDA runtime without a GPU, as far as frameworks ask the same of it: an H100 whose kernels do nothing, and from which
 * zeros come back. What no file here defines is a function that returns 0 (see tests/end_to_end/cuda_runtime.py). */
#include "standin.h"

static uintptr_t last_handle = 0x1000;

int new_handle(void **out) {
  *out = (void *)__atomic_add_fetch(&last_handle, 16, __ATOMIC_RELAXED);
  return 0;
}

void put(void *base, size_t offset, uint64_t value, size_t size) {
  memcpy((char *)base + offset, &value, size);
}

/* Copies */

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
  if (kind == DEVICE_TO_HOST) memset(to, 0, size);
  return 0;
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
  return cudaMemcpyAsync(to, from, size, kind, NULL);
}

/* The device */

void put_properties(void *out, size_t memory) {
  static const struct {
    short offset, size;
    uint64_t value;
  } fields[] = {
      {296, 8, 49152},  /* sharedMemPerBlock */
      {304, 4, 65536},  /* regsPerBlock */
      {308, 4, 32},     /* warpSize */
      {320, 4, 1024},   /* maxThreadsPerBlock */
      {324, 4, 1024},   /* maxThreadsDim */
      {328, 4, 1024},
      {332, 4, 64},
      {336, 4, 2147483647}, /* maxGridSize */
      {340, 4, 65535},
      {344, 4, 65535},
      {360, 4, 9},      /* major */
  };
  strcpy(out, "stand-in");
  put(out, 288, memory, 8);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    put(out, fields[i].offset, fields[i].value, fields[i].size);
}

int cudaDeviceGetAttribute(int *out, int attribute, int device) {
  switch (attribute) {
    case 1: *out = 1024; break;           /* threads of a block */
    case 5: *out = 2147483647; break;     /* blocks of a grid */
    case 8: *out = 49152; break;          /* shared memory of a block */
    case 10: *out = 32; break;            /* threads of a warp */
    case 12: *out = 65536; break;         /* registers of a block */
    case 16: *out = 132; break;           /* multiprocessors */
    case 39: *out = 2048; break;          /* threads of a multiprocessor */
    case 75: *out = 9; break;             /* major */
    case 76: *out = 0; break;             /* minor */
    case 81: *out = 233472; break;        /* shared memory of a multiprocessor */
    case 97: *out = 232448; break;        /* shared memory of a block that asks for it */
    default: *out = 1;
  }
  return 0;
}

int cudaFuncGetAttributes(void *out, const void *function) {
  memset(out, 0, 64);
  put(out, 24, 1024, 4); /* maxThreadsPerBlock */
  put(out, 28, 32, 4);   /* numRegs */
  put(out, 32, 90, 4);   /* ptxVersion */
  put(out, 36, 90, 4);   /* binaryVersion */
  return 0;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out) {
  *out = 2;
  return 0;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out) {
  *out = 2;
  return 0;
}

const char *cudaGetErrorString(int error) { return "an error of the stand-in runtime"; }
const char *cudaGetErrorName(int error) { return "stand-in"; }

/* Handles */

int cublasCreate_v2(void **out) { return new_handle(out); }
int cublasLtCreate(void **out) { return new_handle(out); }
int cusolverDnCreate(void **out) { return new_handle(out); }
int cusparseCreate(void **out) { return new_handle(out); }
