/* What the parts of a stand-in for the CUDA runtime share. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, DEVICE_TO_HOST = 2 };

#pragma GCC visibility push(hidden)
/* A handle that means nothing. */
int new_handle(void **out);
/* Writes a number into a structure. */
void put(void *base, size_t offset, uint64_t value, size_t size);
/* The fields of cudaDeviceProp that lie in the same place since CUDA 12: of a device with so much memory. */
void put_properties(void *out, size_t memory);
#pragma GCC visibility pop
