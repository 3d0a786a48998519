/* Looks names up by every way that dlsym(3) has, as if there was no other library in between. The argument is a
 * library that has functions named as two of the driver's; the program is linked with another that asks for the next
 * definition (both are lookups_library.c). The driver itself is opened in the end, if there is one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *next_of_library(const char *name);

static int failures;

#define EXPECT(condition)                                                   \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                     \
        }                                                                   \
    } while (0)

static void *opened(const char *name, int mode) {
    void *library = dlopen(name, mode | RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return library;
}

static void not_there(void *handle, const char *name) {
    dlerror();
    EXPECT(dlsym(handle, name) == NULL);
    const char *error = dlerror();
    EXPECT(error && strstr(error, name));
}

static void *there(void *handle, const char *name) {
    dlerror();
    errno = 77;
    void *address = dlsym(handle, name);
    EXPECT(address && !dlerror() && errno == 77);
    return address;
}

/* The library has one too, behind this. */
int curious(void) { return 1; }

int main(int count, char **arguments) {
    if (count < 2) return 2;
    void *program = opened(NULL, 0), *own = opened(arguments[1], RTLD_LOCAL);
    /* Without a driver, no library has its functions. */
    not_there(RTLD_DEFAULT, "cuMemAlloc_v2");
    not_there(program, "cuMemAlloc_v2");
    not_there(RTLD_NEXT, "cuNothing");
    not_there(RTLD_DEFAULT, "c");
    not_there(RTLD_DEFAULT, "");
    /* Another library's functions of the same name are its own. */
    int (*alloc)(void) = (int (*)(void))there(own, "cuMemAlloc_v2");
    EXPECT(alloc() == 42);
    int (*ask)(void) = (int (*)(void))there(own, "cuGetProcAddress_v2");
    EXPECT(ask() == 43);
    /* What comes after the caller depends on who that is. */
    EXPECT(there(RTLD_DEFAULT, "curious") == (void *)curious);
    EXPECT(there(RTLD_NEXT, "curious") != (void *)curious);
    EXPECT(next_of_library("curious") == NULL && next_of_library("strlen") == there(RTLD_DEFAULT, "strlen"));
    EXPECT(next_of_library("cuMemAlloc_v2") == NULL);
    EXPECT(dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5") != NULL);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver) {
        EXPECT(there(driver, "cuMemAlloc_v2") != (void *)alloc);
        EXPECT(dlsym(driver, "cuMemAlloc_v3") == NULL && dlerror());
        EXPECT((void *)alloc == dlsym(own, "cuMemAlloc_v2"));
        EXPECT(there(RTLD_DEFAULT, "cuMemAlloc_v2") == there(driver, "cuMemAlloc_v2"));
        EXPECT(there(program, "cuMemAlloc_v2") == there(driver, "cuMemAlloc_v2"));
        there(driver, "cuInit");
    }
    puts(driver ? "driver" : "no driver");
    return failures ? 1 : 0;
}
