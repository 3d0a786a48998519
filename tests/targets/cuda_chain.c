/* A library that stands in front of the driver too: it asks for the next definition and counts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static int calls;

int cuMemAlloc_v2(unsigned long *address, size_t bytes) {
    static int (*next)(unsigned long *, size_t);
    if (!next) next = (int (*)(unsigned long *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    calls++;
    return next(address, bytes);
}

__attribute__((destructor)) static void report(void) { fprintf(stderr, "%d calls\n", calls); }
