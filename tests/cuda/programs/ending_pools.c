/* Pools that end while another thread waits for its own stream.
 *
 *     ending_pools ROAD TIMES */
#include <pthread.h>
#include <stdatomic.h>

#include "calls.h"

static CUcontext context;
static atomic_bool over;

static void *wait_for_own(void *nothing) {
    CUstream stream;
    DO(cu.cuCtxSetCurrent(context));
    DO(cu.cuStreamCreate(&stream, 0));
    while (!over) DO(cu.cuStreamSynchronize(stream));
    DO(cu.cuStreamDestroy_v2(stream));
    return nothing;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    open_road(arguments[1]);
    DO(cu.cuInit(0));
    context = new_context(0);
    CUmemPoolProps properties = pool_on(0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, wait_for_own, NULL) == 0);
    for (int left = atoi(arguments[2]); left; left--) {
        CUmemoryPool pool;
        CUdeviceptr block;
        DO(cu.cuMemPoolCreate(&pool, &properties));
        DO(cu.cuMemAllocFromPoolAsync(&block, MIB, pool, NULL));
        DO(cu.cuMemFreeAsync(block, NULL));
        DO(cu.cuMemPoolDestroy(pool));
    }
    over = true;
    EXPECT(pthread_join(thread, NULL) == 0);
    DO(cu.cuCtxDestroy_v2(context));
    return 0;
}
