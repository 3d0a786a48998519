/* Processes that become others, or have children, with memory of devices; and one that allocates and frees without end. Sizes
 * are those that test_cuda_processes.py expects.
 *
 *     images ROAD exec|failing-exec|fork|spawn|second
 *     images ROAD churn TIMES */
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/memtrace.h"
#include "calls.h"

static char *self, *road;

static void become(const char *what) {
    char *const next[] = {self, road, (char *)what, NULL};
    execv(self, next);
}

static CUdeviceptr begin(void) {
    DO(cu.cuInit(0));
    new_context(0);
    CUdeviceptr block = allocated(10 * MIB), passing = allocated(20 * MIB), pooled;
    DO(cu.cuMemFree_v2(passing));
    DO(cu.cuMemAllocAsync(&pooled, 3 * MIB, NULL));
    memtrace_device_block(block + 4096, 2 * MIB, 0, 10 * MIB, 2 * MIB);
    return block;
}

static void end_child(int status) {
    EXPECT(wait(&status) > 0 && status == 0);
}

static void forked(CUdeviceptr block) {
    if (fork() == 0) {
        /* What it has inherited is its parent's, and the driver refuses it. */
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemFree_v2(block));
        CUdeviceptr own;
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&own, MIB));
        memtrace_device_block(block + 4096, 0, 0, 10 * MIB, 0);
        exit(0);
    }
    end_child(0);
    memtrace_device_block(block + 4096, 0, 0, 10 * MIB, 0);
    DO(cu.cuMemFree_v2(block));
}

static void churn(int times) {
    static CUdeviceptr live[64];
    DO(cu.cuInit(0));
    new_context(0);
    for (int b = 0; b < times; b++) {
        CUdeviceptr *slot = &live[b * 7 % 64];
        if (*slot) DO(cu.cuMemFree_v2(*slot));
        *slot = allocated(512 + (size_t)b % 9999);
    }
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    self = arguments[0], road = arguments[1];
    const char *what = arguments[2];
    open_road(road);
    if (strcmp(what, "second") == 0) {
        DO(cu.cuInit(0));
        new_context(1);
        allocated(7 * MIB);
    } else if (strcmp(what, "churn") == 0) {
        churn(atoi(arguments[3]));
    } else {
        CUdeviceptr block = begin();
        if (strcmp(what, "exec") == 0) become("second");
        if (strcmp(what, "failing-exec") == 0) {
            execl("/nowhere/at/all", "all", NULL);
            DO(cu.cuMemFree_v2(block));
        }
        if (strcmp(what, "fork") == 0) forked(block);
        if (strcmp(what, "spawn") == 0) {
            if (fork() == 0) become("second");
            end_child(0);
        }
    }
    return 0;
}
