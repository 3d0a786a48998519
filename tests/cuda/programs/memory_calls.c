/* Devices, linear memory, names of before CUDA 3.2, host memory, arrays. */
#include "calls.h"

void devices_phase(void) {
    int count, version, value;
    size_t bytes;
    unsigned int few;
    CUdevice device;
    char name[64];
    CUuuid first, second;
    const char *text;
    void *none;
    CUdriverProcAddressQueryResult status;
    DO(cu.cuDriverGetVersion(&version));
    DO(cu.cuDeviceGetCount(&count));
    EXPECT(version >= 12000 && count >= 2);
    DO(cu.cuDeviceGet(&device, 1));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, count));
    DO(cu.cuDeviceGetName(name, sizeof name, 0));
    DO(cu.cuDeviceGetUuid(&first, 0));
    DO(cu.cuDeviceGetUuid_v2(&second, 1));
    EXPECT(memcmp(&first, &second, sizeof first) != 0);
    DO(cu.cuDeviceTotalMem_v2(&bytes, 0));
    DO(cu.cuDeviceTotalMem(&few, 0));
    EXPECT(few == (bytes < UINT32_MAX ? bytes : UINT32_MAX));
    DO(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    EXPECT(value == 1);
    DO(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    DO(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT(strcmp(text, "out of memory") == 0);
    INVALID(cu.cuGetErrorName((CUresult)12345, &text));
    GIVES(CUDA_ERROR_NOT_FOUND, cu.cuGetProcAddress("cuNoSuchCall", &none, 12000, 0));
    DO(cu.cuGetProcAddress_v2("cuMemAllocAsync", &none, 11010, 0, &status));
    EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && none == NULL);
    DO(cu.cuGetProcAddress_v2("", &none, 0, 0, &status)); /* as the CUDA runtime does first */
    EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && none == NULL);
    DO(cu.cuGetProcAddress_v2("cuMemAllocAsync", &none, 12000, 0, NULL)); /* it need not want the status */
    EXPECT(none != NULL);
}

void linear_phase(void) {
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&(CUdeviceptr){0}, 4096));
    CUcontext context = new_context(0);
    CUdeviceptr blocks[8], address, base;
    size_t pitch, bytes, free_before, free_after, total;
    DO(cu.cuMemGetInfo_v2(&free_before, &total));
    for (int b = 0; b < 8; b++) blocks[b] = allocated(1000 + b);
    DO(cu.cuMemGetInfo_v2(&free_after, &total));
    EXPECT(free_before - free_after == 8028);
    DO(cu.cuMemGetAddressRange_v2(&base, &bytes, blocks[3] + 500));
    EXPECT(base == blocks[3] && bytes == 1003);
    DO(cu.cuMemFree_v2(blocks[5]));
    EXPECT(allocated(1024) == blocks[5]); /* at once again */
    DO(cu.cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    DO(cu.cuLaunchKernel_ptsz(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    for (int b = 0; b < 8; b++) DO(cu.cuMemFree_v2(blocks[b]));
    INVALID(cu.cuMemFree_v2(blocks[0]));
    INVALID(cu.cuMemFree_v2(blocks[1] + 1));
    DO(cu.cuMemFree_v2(0));
    INVALID(cu.cuMemAlloc_v2(&address, 0));
    NO_MEMORY(cu.cuMemAlloc_v2(&address, (size_t)1 << 50));
    DO(cu.cuMemAllocPitch_v2(&address, &pitch, 1000, 30, 4));
    EXPECT(pitch == 1024);
    DO(cu.cuMemFree_v2(address));
    INVALID(cu.cuMemAllocPitch_v2(&address, &pitch, 1000, 30, 3));
    NO_MEMORY(cu.cuMemAllocPitch_v2(&address, &pitch, 1 << 30, 1 << 30, 4));
    DO(cu.cuMemAllocManaged(&address, 100000, CU_MEM_ATTACH_GLOBAL));
    memset((void *)(uintptr_t)address, 7, 100000);
    DO(cu.cuMemFree_v2(address));
    INVALID(cu.cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
    /* As much as there is, and one byte more. */
    address = allocated(free_before);
    NO_MEMORY(cu.cuMemAlloc_v2(&base, 1));
    DO(cu.cuMemFree_v2(address));
    DO(cu.cuCtxDestroy_v2(context));
}

/* These write addresses and sizes of 32 bits: what is next to them must stay. */
void old_names_phase(void) {
    CUcontext context, popped;
    DO(cu.cuCtxCreate(&context, 0, 1));
    struct {
        CUdeviceptr_v1 value;
        unsigned int guard;
    } address = {0, 0xabcdef}, pitch = {0, 0xabcdef};
    unsigned int free_bytes, total;
    DO(cu.cuMemAlloc(&address.value, 5000));
    EXPECT(address.value && address.guard == 0xabcdef);
    DO(cu.cuMemFree(address.value));
    DO(cu.cuMemAllocPitch(&address.value, &pitch.value, 600, 20, 16));
    EXPECT(address.value && address.guard == 0xabcdef && pitch.value == 1024 && pitch.guard == 0xabcdef);
    DO(cu.cuMemGetInfo(&free_bytes, &total));
    EXPECT(total - free_bytes == 1024 * 20);
    DO(cu.cuMemFree(address.value));
    INVALID(cu.cuMemFree(address.value));
    INVALID(cu.cuMemAlloc(&address.value, 0));
    void *host;
    DO(cu.cuMemAllocHost(&host, 3000));
    DO(cu.cuMemFreeHost(host));
    host = malloc(10000);
    DO(cu.cuMemHostRegister(host, 10000, 0));
    DO(cu.cuMemHostUnregister(host));
    free(host);
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {100, 20, CU_AD_FORMAT_HALF, 4};
    CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {100, 20, 3, CU_AD_FORMAT_SIGNED_INT8, 1, 0};
    DO(cu.cuArrayCreate(&array, &flat));
    DO(cu.cuArrayDestroy(array));
    DO(cu.cuArray3DCreate(&array, &deep));
    DO(cu.cuArrayDestroy(array));
    CUstream stream;
    CUevent event;
    DO(cu.cuStreamCreate(&stream, 0));
    DO(cu.cuStreamDestroy(stream));
    DO(cu.cuEventCreate(&event, 0));
    DO(cu.cuEventDestroy(event));
    DO(cu.cuCtxPopCurrent(&popped));
    EXPECT(popped == context);
    DO(cu.cuCtxPushCurrent(context));
    DO(cu.cuMemAlloc(&address.value, 7000)); /* ends with its context */
    DO(cu.cuCtxDestroy(context));
    DO(cu.cuDevicePrimaryCtxRetain(&context, 1));
    DO(cu.cuDevicePrimaryCtxReset(1));
    DO(cu.cuDevicePrimaryCtxRelease(1));
}

void host_phase(void) {
    CUcontext context = new_context(0);
    void *host, *other;
    CUdeviceptr device;
    DO(cu.cuMemAllocHost_v2(&host, 12345));
    memset(host, 1, 12345);
    DO(cu.cuMemHostAlloc(&other, 54321, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    DO(cu.cuMemHostGetDevicePointer_v2(&device, other, 0));
    DO(cu.cuMemFreeHost(host));
    INVALID(cu.cuMemFreeHost(host));
    DO(cu.cuMemFreeHost(NULL));
    INVALID(cu.cuMemHostAlloc(&host, 0, 0));
    NO_MEMORY(cu.cuMemHostAlloc(&host, (size_t)1 << 60, 0));
    void *mine = malloc(100000);
    DO(cu.cuMemHostRegister_v2(mine, 100000, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(mine, 100000, 0));
    INVALID(cu.cuMemFreeHost(mine));
    DO(cu.cuMemHostUnregister(mine));
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(mine));
    DO(cu.cuMemHostRegister_v2(mine, 50000, 0)); /* `other` and this end with the context */
    DO(cu.cuCtxDestroy_v2(context));
    free(mine);
}

void arrays_phase(void) {
    CUcontext context = new_context(0);
    CUarray line, flat, deep, layered, sparse, level;
    CUmipmappedArray mipmap, layers;
    CUDA_ARRAY_DESCRIPTOR shape = {1000, 0, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR solid = {64, 32, 16, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0};
    DO(cu.cuArrayCreate_v2(&line, &shape));
    shape.Height = 10;
    DO(cu.cuArrayCreate_v2(&flat, &shape));
    DO(cu.cuArray3DCreate_v2(&deep, &solid));
    DO(cu.cuMipmappedArrayCreate(&mipmap, &solid, 3));
    solid.Flags = CUDA_ARRAY3D_LAYERED;
    DO(cu.cuArray3DCreate_v2(&layered, &solid));
    DO(cu.cuMipmappedArrayCreate(&layers, &solid, 100)); /* no more than there can be */
    DO(cu.cuMipmappedArrayGetLevel(&level, mipmap, 2));
    INVALID(cu.cuMipmappedArrayGetLevel(&level, mipmap, 3));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuArrayDestroy(level));
    solid.Flags = CUDA_ARRAY3D_SPARSE;
    DO(cu.cuArray3DCreate_v2(&sparse, &solid));
    solid.NumChannels = 3;
    INVALID(cu.cuArray3DCreate_v2(&level, &solid));
    shape.Width = 0;
    INVALID(cu.cuArrayCreate_v2(&level, &shape));
    CUDA_ARRAY3D_DESCRIPTOR huge = {100000, 100000, 1000, CU_AD_FORMAT_FLOAT, 4, 0};
    NO_MEMORY(cu.cuArray3DCreate_v2(&level, &huge));
    NO_MEMORY(cu.cuMipmappedArrayCreate(&mipmap, &huge, 2));
    DO(cu.cuArrayDestroy(line));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuArrayDestroy(line));
    DO(cu.cuArrayDestroy(deep));
    DO(cu.cuArrayDestroy(sparse));
    DO(cu.cuMipmappedArrayDestroy(mipmap));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuMipmappedArrayDestroy(mipmap));
    DO(cu.cuCtxDestroy_v2(context)); /* with `flat`, `layered` and `layers` */
}
