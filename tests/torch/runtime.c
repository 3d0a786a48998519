/* What PyTorch's CUDA build needs beside tests/cuda/runtime/common.c.
 *
 * Memory has addresses and nothing behind them. So all of PyTorch's code on the host runs as it
 * would with an H100, its caching allocator included: an oracle for what it allocates.
 *
 * STANDIN_MEMORY: bytes of the device (80 GiB). STANDIN_NONE: there is no GPU. */
#include "standin.h"

enum { NO_DEVICE = 100, MOST_BLOCKS = 1 << 16, PAGE = 2 << 20 };

static size_t used;
static uint64_t next_address = 0x7f0000000000ull, next_range = 0x600000000000ull;
static struct {
  uint64_t address;
  size_t size;
} blocks[MOST_BLOCKS];
static int count;

/* Not when it is loaded: a process that is forked later may have a device of another size. */
static size_t total(void) {
  const char *memory = getenv("STANDIN_MEMORY");
  return memory == NULL ? 80ull << 30 : strtoull(memory, NULL, 10);
}

/* Memory */

int cudaMalloc(void **out, size_t size) {
  if (used + size > total() || count == MOST_BLOCKS) return OUT_OF_MEMORY;
  *out = (void *)next_address;
  blocks[count].address = next_address;
  blocks[count++].size = size;
  next_address += (size + PAGE - 1) / PAGE * PAGE;
  used += size;
  return 0;
}

int cudaFree(void *address) {
  for (int i = 0; i < count; i++) {
    if (blocks[i].address != (uint64_t)address) continue;
    used -= blocks[i].size;
    blocks[i] = blocks[--count];
    break;
  }
  return 0;
}

int cudaMemGetInfo(size_t *left, size_t *all) {
  *left = total() - used;
  *all = total();
  return 0;
}

int cudaHostAlloc(void **out, size_t size, unsigned flags) {
  *out = malloc(size);
  return *out == NULL ? OUT_OF_MEMORY : 0;
}

int cudaFreeHost(void *address) {
  free(address);
  return 0;
}

int cudaPointerGetAttributes(void *out, const void *address) {
  memset(out, 0, 24);
  return 0;
}

int cuMemAddressReserve(uint64_t *out, size_t size) {
  *out = next_range;
  next_range += size + (1ull << 30);
  return 0;
}

int cuMemCreate(uint64_t *handle, size_t size) { /* a handle is its size */
  if (used + size > total()) return OUT_OF_MEMORY;
  used += size;
  *handle = size;
  return 0;
}

int cuMemRelease(uint64_t handle) {
  used -= handle;
  return 0;
}

/* The device: an H100, as far as PyTorch asks */

int cudaGetDeviceCount(int *out) {
  *out = getenv("STANDIN_NONE") == NULL;
  return *out ? 0 : NO_DEVICE;
}

int cudaGetDevice(int *out) {
  *out = 0;
  return getenv("STANDIN_NONE") == NULL ? 0 : NO_DEVICE;
}

int cudaSetDevice(int device) { return getenv("STANDIN_NONE") == NULL ? 0 : NO_DEVICE; }

int cudaGetDeviceProperties(void *out, int device) { /* offsets of CUDA 13 */
  memset(out, 0, 1008);
  put_properties(out, total());
  put(out, 384, 132, 4);      /* multiProcessorCount */
  put(out, 596, 52428800, 4); /* l2CacheSize */
  put(out, 604, 2048, 4);     /* maxThreadsPerMultiProcessor */
  put(out, 624, 233472, 8);   /* sharedMemPerMultiprocessor */
  put(out, 632, 65536, 4);    /* regsPerMultiprocessor */
  put(out, 672, 232448, 8);   /* sharedMemPerBlockOptin */
  put(out, 688, 32, 4);       /* maxBlocksPerMultiProcessor */
  return 0;
}

int cudaRuntimeGetVersion(int *out) {
  *out = 13020;
  return 0;
}

int cudaDriverGetVersion(int *out) { return cudaRuntimeGetVersion(out); }

/* Handles, none of which means anything */

int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority) { return new_handle(out); }
int cudaEventCreateWithFlags(void **out, unsigned flags) { return new_handle(out); }

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, void *results, int *found) {
  *found = 1;
  return 0;
}

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}

int cudaStreamIsCapturing(void *stream, int *out) { return *out = 0; }
int cudaStreamGetCaptureInfo(void *stream, int *out) { return *out = 0; }

/* The driver's functions, as PyTorch asks for them by name */

static int nothing(void) { return 0; }

int cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                     uint64_t flags, int *found) {
  void *function = dlsym(RTLD_DEFAULT, name);
  *out = function != NULL ? function : (void *)nothing;
  if (found != NULL) *found = 0;
  return 0;
}
