/* A driver whose functions call each other by their names, and change errno as they like. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

static uint64_t next = 1 << 20;

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    *address = next;
    next += bytes;
    errno = 55;
    return 0;
}

int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned int flags) {
    return flags ? cuMemAlloc_v2(address, bytes) : 1;
}

int cuMemFree_v2(uint64_t address) { return address ? 0 : 1; }
