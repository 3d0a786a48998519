/* Every function of the stand-in: its exported name, the name that cuGetProcAddress knows it by, since which CUDA, 1 if it
 * is the one for programs with a default stream per thread, and its parameters. */
#ifndef STANDIN_FUNCTIONS_H
#define STANDIN_FUNCTIONS_H

#define CUDA_FUNCTIONS(X) CUDA_DEVICES(X) CUDA_CONTEXTS(X) CUDA_STREAMS(X) CUDA_MEMORY(X) CUDA_ARRAYS(X) CUDA_POOLS(X) CUDA_VIRTUAL(X) CUDA_GRAPHS(X)

#define CUDA_DEVICES(X)                                                                                                  \
    X(cuInit, "cuInit", 2000, 0, (unsigned int flags))                                                                   \
    X(cuDriverGetVersion, "cuDriverGetVersion", 2020, 0, (int *version))                                                 \
    X(cuGetErrorName, "cuGetErrorName", 6000, 0, (CUresult error, const char **text))                                    \
    X(cuGetErrorString, "cuGetErrorString", 6000, 0, (CUresult error, const char **text))                                \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, 0, (const char *symbol, void **function, int version, cuuint64_t flags)) \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0,                                                                 \
      (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status))      \
    X(cuDeviceGet, "cuDeviceGet", 2000, 0, (CUdevice *device, int ordinal))                                              \
    X(cuDeviceGetCount, "cuDeviceGetCount", 2000, 0, (int *count))                                                       \
    X(cuDeviceGetName, "cuDeviceGetName", 2000, 0, (char *name, int length, CUdevice device))                            \
    X(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, 0, (CUuuid *uuid, CUdevice device))                                      \
    X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, 0, (CUuuid *uuid, CUdevice device))                                  \
    X(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, 0, (unsigned int *bytes, CUdevice device))                             \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0, (size_t *bytes, CUdevice device))                                \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0, (int *value, CUdevice_attribute attribute, CUdevice device))

#define CUDA_CONTEXTS(X)                                                                                                 \
    X(cuCtxCreate, "cuCtxCreate", 2000, 0, (CUcontext *context, unsigned int flags, CUdevice device))                    \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0, (CUcontext *context, unsigned int flags, CUdevice device))                 \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0,                                                                           \
      (CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned int flags, CUdevice device))             \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0,                                                                           \
      (CUcontext *context, CUctxCreateParams *wishes, unsigned int flags, CUdevice device))                              \
    X(cuCtxDestroy, "cuCtxDestroy", 2000, 0, (CUcontext context))                                                        \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, (CUcontext context))                                                     \
    X(cuCtxPushCurrent, "cuCtxPushCurrent", 2000, 0, (CUcontext context))                                                \
    X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, 0, (CUcontext context))                                             \
    X(cuCtxPopCurrent, "cuCtxPopCurrent", 2000, 0, (CUcontext * context))                                                \
    X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, 0, (CUcontext * context))                                             \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0, (CUcontext context))                                                  \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0, (CUcontext * context))                                                \
    X(cuCtxGetDevice, "cuCtxGetDevice", 2000, 0, (CUdevice * device))                                                    \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0, (void))                                                             \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, (CUcontext * context, CUdevice device))             \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0, (CUdevice device))                                \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, (CUdevice device))                            \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, (CUdevice device))                                    \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, (CUdevice device))                                \
    X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, 0, (CUdevice device, unsigned int *flags, int *active))

#define CUDA_STREAMS(X)                                                                                                  \
    X(cuStreamCreate, "cuStreamCreate", 2000, 0, (CUstream * stream, unsigned int flags))                                \
    X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, 0, (CUstream * stream, unsigned int flags, int priority)) \
    X(cuStreamDestroy, "cuStreamDestroy", 2000, 0, (CUstream stream))                                                    \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, (CUstream stream))                                                 \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0, (CUstream stream))                                            \
    X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 1, (CUstream stream))                                       \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0, (CUstream stream, CUstreamCaptureMode mode))            \
    X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 1, (CUstream stream, CUstreamCaptureMode mode))       \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0, (CUstream stream, CUgraph * graph))                            \
    X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 1, (CUstream stream, CUgraph * graph))                       \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, 0, (CUstream stream, CUstreamCaptureStatus * status))           \
    X(cuStreamIsCapturing_ptsz, "cuStreamIsCapturing", 10000, 1, (CUstream stream, CUstreamCaptureStatus * status))      \
    X(cuEventCreate, "cuEventCreate", 2000, 0, (CUevent * event, unsigned int flags))                                    \
    X(cuEventDestroy, "cuEventDestroy", 2000, 0, (CUevent event))                                                        \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, 0, (CUevent event))                                                     \
    X(cuEventRecord, "cuEventRecord", 2000, 0, (CUevent event, CUstream stream))                                         \
    X(cuEventRecord_ptsz, "cuEventRecord", 7000, 1, (CUevent event, CUstream stream))                                    \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, 0, (CUevent event))                                                \
    X(cuLaunchKernel, "cuLaunchKernel", 4000, 0,                                                                         \
      (CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,           \
       unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **parameters, void **extra)) \
    X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, 1,                                                                    \
      (CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,           \
       unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **parameters, void **extra))

#define CUDA_MEMORY(X)                                                                                                   \
    X(cuMemGetInfo, "cuMemGetInfo", 2000, 0, (unsigned int *free, unsigned int *total))                                  \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, (size_t *free, size_t *total))                                           \
    X(cuMemAlloc, "cuMemAlloc", 2000, 0, (CUdeviceptr_v1 * address, unsigned int bytes))                                 \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, (CUdeviceptr * address, size_t bytes))                                       \
    X(cuMemAllocPitch, "cuMemAllocPitch", 2000, 0,                                                                       \
      (CUdeviceptr_v1 * address, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element))    \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0,                                                                    \
      (CUdeviceptr * address, size_t *pitch, size_t width, size_t height, unsigned int element))                         \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, (CUdeviceptr * address, size_t bytes, unsigned int flags))        \
    X(cuMemFree, "cuMemFree", 2000, 0, (CUdeviceptr_v1 address))                                                         \
    X(cuMemFree_v2, "cuMemFree", 3020, 0, (CUdeviceptr address))                                                         \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0, (CUdeviceptr * base, size_t *bytes, CUdeviceptr address)) \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0, (void *value, CUpointer_attribute attribute, CUdeviceptr address)) \
    X(cuMemAllocHost, "cuMemAllocHost", 2000, 0, (void **address, unsigned int bytes))                                   \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0, (void **address, size_t bytes))                                      \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0, (void **address, size_t bytes, unsigned int flags))                     \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, 0, (void *address))                                                          \
    X(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020, 0, (CUdeviceptr * device, void *address, unsigned int flags)) \
    X(cuMemHostRegister, "cuMemHostRegister", 4000, 0, (void *address, size_t bytes, unsigned int flags))                \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0, (void *address, size_t bytes, unsigned int flags))             \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0, (void *address))                                              \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0, (CUipcMemHandle * handle, CUdeviceptr address))                   \
    X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, 0, (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags)) \
    X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, 0, (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags)) \
    X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, 0, (CUdeviceptr address))

#define CUDA_ARRAYS(X)                                                                                                   \
    X(cuArrayCreate, "cuArrayCreate", 2000, 0, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape))                 \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *shape))                 \
    X(cuArray3DCreate, "cuArray3DCreate", 2000, 0, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape))           \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *shape))           \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, 0, (CUarray array))                                                        \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0,                                                         \
      (CUmipmappedArray * mipmap, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels))                            \
    X(cuMipmappedArrayGetLevel, "cuMipmappedArrayGetLevel", 5000, 0, (CUarray * array, CUmipmappedArray mipmap, unsigned int level)) \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0, (CUmipmappedArray mipmap))

#define CUDA_POOLS(X)                                                                                                    \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 0, (CUmemoryPool * pool, CUdevice device))          \
    X(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, 0, (CUmemoryPool * pool, CUdevice device))                        \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, (CUdevice device, CUmemoryPool pool))                          \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0, (CUdeviceptr * address, size_t bytes, CUstream stream))              \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1, (CUdeviceptr * address, size_t bytes, CUstream stream))         \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0,                                                      \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                         \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1,                                                 \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                         \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, (CUdeviceptr address, CUstream stream))                                \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1, (CUdeviceptr address, CUstream stream))                           \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, (CUmemoryPool * pool, const CUmemPoolProps *properties))             \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, (CUmemoryPool pool))                                               \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0, (CUmemoryPool pool, size_t keep))                                    \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0, (CUmemoryPool pool, const CUmemAccessDesc *accesses, size_t count)) \
    X(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020, 0,                                    \
      (void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags))                       \
    X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0,                                \
      (CUmemoryPool * pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags))                     \
    X(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, 0, (CUmemPoolPtrExportData * data, CUdeviceptr address))  \
    X(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020, 0,                                                        \
      (CUdeviceptr * address, CUmemoryPool pool, CUmemPoolPtrExportData * data))

#define CUDA_VIRTUAL(X)                                                                                                  \
    X(cuMemAddressReserve, "cuMemAddressReserve", 10020, 0,                                                              \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags))               \
    X(cuMemAddressFree, "cuMemAddressFree", 10020, 0, (CUdeviceptr address, size_t bytes))                               \
    X(cuMemCreate, "cuMemCreate", 10020, 0,                                                                              \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties, unsigned long long flags)) \
    X(cuMemRelease, "cuMemRelease", 10020, 0, (CUmemGenericAllocationHandle handle))                                     \
    X(cuMemMap, "cuMemMap", 10020, 0,                                                                                    \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    X(cuMemUnmap, "cuMemUnmap", 10020, 0, (CUdeviceptr address, size_t bytes))                                           \
    X(cuMemSetAccess, "cuMemSetAccess", 10020, 0, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *accesses, size_t count)) \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, 0,                                          \
      (size_t *granularity, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option))             \
    X(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", 10020, 0,                        \
      (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))                                           \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, (CUmemGenericAllocationHandle * handle, void *address)) \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, 0,                                            \
      (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags))     \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0,                                        \
      (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type))

#define CUDA_GRAPHS(X)                                                                                                   \
    X(cuGraphCreate, "cuGraphCreate", 10000, 0, (CUgraph * graph, unsigned int flags))                                   \
    X(cuGraphDestroy, "cuGraphDestroy", 10000, 0, (CUgraph graph))                                                       \
    X(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", 10000, 0,                                                              \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count))                                       \
    X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0,                                                        \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *wishes))   \
    X(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode", 11040, 0,                                                          \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr address))                  \
    X(cuGraphAddNode, "cuGraphAddNode", 12020, 0,                                                                        \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraphNodeParams *wishes))            \
    X(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0,                                                                     \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t count,          \
       CUgraphNodeParams *wishes))                                                                                       \
    X(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0,                                                                \
      (CUgraphExec * run, CUgraph graph, CUgraphNode * failed, char *log, size_t length))                                \
    X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0,                                                             \
      (CUgraphExec * run, CUgraph graph, CUgraphNode * failed, char *log, size_t length))                                \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0,                                              \
      (CUgraphExec * run, CUgraph graph, unsigned long long flags))                                                      \
    X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0,                                            \
      (CUgraphExec * run, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * wishes))                                        \
    X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1,                                       \
      (CUgraphExec * run, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * wishes))                                        \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0, (CUgraphExec run))                                             \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0, (CUgraphExec run, CUstream stream))                                      \
    X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1, (CUgraphExec run, CUstream stream))                                 \
    X(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", 11040, 0,                                            \
      (CUdevice device, CUgraphMem_attribute attribute, void *value))                                                    \
    X(cuDeviceSetGraphMemAttribute, "cuDeviceSetGraphMemAttribute", 11040, 0,                                            \
      (CUdevice device, CUgraphMem_attribute attribute, void *value))                                                    \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0, (CUdevice device))
#endif
