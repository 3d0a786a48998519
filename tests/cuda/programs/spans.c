/* Operators that allocate on a device, one inside the other, and a pool of the program's own. Sizes are those that
 * test_cuda_record.py expects.
 *
 *     spans ROAD [hold|hold-inside]
 *
 * hold: waits for a line before it ends; hold-inside: in the last operator. */
#include "calls.h"

#include "../../../include/memtrace.h"

static uint64_t begin(const char *name) { return memtrace_span_begin(name, NULL, 0, NULL, 0); }
static void end(uint64_t span) { memtrace_span_end(span, NULL, 0); }

static void nested(void) {
    CUdeviceptr before = allocated(1 * MIB), block;
    uint64_t outer = begin("outer");
    allocated(10 * MIB);
    uint64_t inner = begin("inner");
    block = allocated(20 * MIB);
    DO(cu.cuMemFree_v2(block));
    allocated(5 * MIB);
    end(inner);
    DO(cu.cuMemFree_v2(before));
    allocated(8 * MIB);
    end(outer);
    uint64_t failing = begin("failing");
    NO_MEMORY(cu.cuMemAlloc_v2(&block, (size_t)1 << 40));
    INVALID(cu.cuMemFree_v2(12345));
    end(failing);
}

static void hold(void) {
    puts("holding");
    fflush(stdout);
    getchar();
}

/* Blocks of memory that is requested in one piece. */
static void pool(bool waits) {
    uint64_t first = begin("first of pool");
    CUdeviceptr arena = allocated(64 * MIB);
    memtrace_device_block(arena, 3 * MIB, 0, 64 * MIB, 3 * MIB);
    memtrace_device_block(arena + 4 * MIB, 6 * MIB, 0, 64 * MIB, 9 * MIB);
    memtrace_device_block(arena, 0, 0, 64 * MIB, 6 * MIB);
    memtrace_device_block(arena + 16 * MIB, 2 * MIB, 0, 64 * MIB, 8 * MIB);
    end(first);
    uint64_t second = begin("second of pool");
    memtrace_device_block(arena + 32 * MIB, 7 * MIB, 0, 64 * MIB, 15 * MIB);
    if (waits) hold();
    end(second);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    open_road(arguments[1]);
    DO(cu.cuInit(0));
    new_context(0);
    end(begin("early"));
    nested();
    const char *wanted = count > 2 ? arguments[2] : "";
    pool(strcmp(wanted, "hold-inside") == 0);
    if (strcmp(wanted, "hold") == 0) hold();
    return 0;
}
