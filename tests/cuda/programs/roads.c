#define _GNU_SOURCE
#include "roads.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver cu;

static const struct row {
    const char *symbol, *base;
    int version;
    bool per_thread;
    size_t offset;
} rows[] = {
#define ROW(symbol, base, version, per_thread, parameters) {#symbol, base, version, per_thread, offsetof(struct driver, symbol)},
    CUDA_FUNCTIONS(ROW)
};

static void give_up(const char *what) {
    fprintf(stderr, "no way to %s\n", what);
    exit(9);
}

#ifdef LINKED
static void by_linking(void) {
#define TAKE(symbol, base, version, per_thread, parameters) cu.symbol = symbol;
    CUDA_FUNCTIONS(TAKE)
    cu.report = standin_report;
    cu.fail = standin_fail;
}
#endif

static void *found(void *library, const char *symbol) {
    void *address = dlsym(library, symbol);
    if (!address) give_up(symbol);
    return address;
}

static void *opened(int mode) {
    void *library = dlopen("libcuda.so.1", mode);
    if (!library) give_up(dlerror());
    cu.report = found(library, "standin_report");
    cu.fail = found(library, "standin_fail");
    return library;
}

static void by_symbols(void *library) {
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        void *address = found(library, rows[r].symbol);
        memcpy((char *)&cu + rows[r].offset, &address, sizeof address);
    }
}

/* As static runtimes do; `old` and `new` are the two forms of cuGetProcAddress, of which one is null. */
static void by_asking(__typeof__(cuGetProcAddress) *old, __typeof__(cuGetProcAddress_v2) *new) {
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        void *address = NULL;
        cuuint64_t flags = rows[r].per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : r % 2;
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        CUresult result = new ? new(rows[r].base, &address, rows[r].version, flags, &status)
                              : old(rows[r].base, &address, rows[r].version, flags);
        if (result || status || !address) give_up(rows[r].symbol);
        memcpy((char *)&cu + rows[r].offset, &address, sizeof address);
    }
}

/* As the CUDA runtime does: what asking leads to is asked for the way to ask, in both forms. */
static __typeof__(cuGetProcAddress_v2) *asked_for(void *library) {
    __typeof__(cuGetProcAddress_v2) *new = (__typeof__(cuGetProcAddress_v2) *)found(library, "cuGetProcAddress_v2");
    void *old = NULL, *newer = NULL;
    if (new("cuGetProcAddress", &old, 11030, 0, NULL) || !old) give_up("cuGetProcAddress");
    if (((__typeof__(cuGetProcAddress) *)old)("cuGetProcAddress", &newer, 12000, 0) || !newer) give_up("cuGetProcAddress_v2");
    return (__typeof__(cuGetProcAddress_v2) *)newer;
}

void open_road(const char *road) {
    if (strcmp(road, "linked") == 0) {
#ifdef LINKED
        by_linking();
#else
        give_up("what is not linked");
#endif
    } else if (strcmp(road, "dlsym") == 0) {
        by_symbols(opened(RTLD_NOW | RTLD_LOCAL));
    } else if (strcmp(road, "default") == 0) {
        opened(RTLD_LAZY | RTLD_GLOBAL);
        by_symbols(RTLD_DEFAULT);
    } else if (strcmp(road, "ask") == 0) {
        by_asking((__typeof__(cuGetProcAddress) *)found(opened(RTLD_NOW), "cuGetProcAddress"), NULL);
    } else if (strcmp(road, "ask_v2") == 0) {
        by_asking(NULL, (__typeof__(cuGetProcAddress_v2) *)found(opened(RTLD_NOW), "cuGetProcAddress_v2"));
    } else if (strcmp(road, "ask_for_asking") == 0) {
        by_asking(NULL, asked_for(opened(RTLD_NOW)));
    } else {
        give_up(road);
    }
}
