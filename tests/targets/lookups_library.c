/* What lookups.c looks up. */
#define _GNU_SOURCE
#include <dlfcn.h>

#ifdef OWN
int cuMemAlloc_v2(void) { return 42; }
int cuGetProcAddress_v2(void) { return 43; }
#else
int curious(void) { return 2; }
void *next_of_library(const char *name) { return dlsym(RTLD_NEXT, name); }
#endif
