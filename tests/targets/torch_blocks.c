/* Two libraries as PyTorch has them: with BASE the one that has the profiler's function, without it one that has an allocator
 * and calls that function by its name. */
#include <stdint.h>

struct device {
    int8_t kind, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes, uint64_t allocated,
                                                            uint64_t reserved, struct device device);

#ifdef BASE
int64_t reported[5];

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes, uint64_t allocated,
                                                            uint64_t reserved, struct device device) {
    reported[0] = (int64_t)block;
    reported[1] = bytes;
    reported[2] = allocated;
    reported[3] = reserved;
    reported[4] = device.kind * 100 + device.index;
}
#else
void report(void *block, int64_t bytes, uint64_t allocated, uint64_t reserved, int kind, int index) {
    struct device device = {kind, index};
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block, bytes, allocated, reserved, device);
}
#endif
