// A block of a graph is freed outside of it, and its memory handed out again.
#include "calls.h"

int main(int count, char **arguments) {
    open_road(count > 1 ? arguments[1] : "dlsym");
    CUcontext context;
    CUgraph graph;
    CUgraphExec runs;
    CUgraphNode node;
    CUdeviceptr block;
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = 1, .location = {1, 0}}, .bytesize = 100 << 20};
    cu.cuInit(0);
    cu.cuCtxCreate_v2(&context, 0, 0);
    cu.cuGraphCreate(&graph, 0);
    cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted);
    cu.cuGraphInstantiateWithFlags(&runs, graph, 0);
    cu.cuGraphLaunch(runs, NULL);
    cu.cuMemFree_v2(wanted.dptr);
    cu.cuMemAlloc_v2(&block, 200 << 20);
    return 0;
}
