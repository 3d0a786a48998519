/* The oracle: what is allocated now and was at most, from the driver's own state, as one line of JSON. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

const char *const kind_names[KINDS] = {
    "linear",   "pitch",         "managed",       "host",           "registered", "array",
    "mipmap",   "pool",          "physical",      "imported physical", "ipc",     "imported pool",
    "graph",    "mapped",        "pool reserved", "pool used",      "graph reserved", "graph used",
};
struct count counts[DEVICES_MAX + 1][KINDS];

/* Sums over kinds: what the driver has taken from a device, and how much of that programs hold. */
static const enum kind in_driver[] = {KIND_LINEAR,   KIND_PITCH,         KIND_ARRAY,         KIND_MIPMAP,
                                      KIND_PHYSICAL, KIND_POOL_RESERVED, KIND_GRAPH_RESERVED};
static const enum kind in_used[] = {KIND_LINEAR,   KIND_PITCH, KIND_ARRAY,     KIND_MIPMAP,
                                    KIND_PHYSICAL, KIND_POOL,  KIND_GRAPH_USED};
static struct sum {
    uint64_t live, peak;
} driver_sums[DEVICES_MAX + 1], used_sums[DEVICES_MAX + 1], driver_all, used_all;

static bool has(const enum kind *kinds, size_t count, enum kind kind) {
    while (count--)
        if (kinds[count] == kind) return true;
    return false;
}

static void add(struct sum *sum, int64_t change) {
    sum->live += change;
    if (sum->live > sum->peak) sum->peak = sum->live;
}

void count_bytes(int device, enum kind kind, int64_t change) {
    struct count *count = &counts[device][kind];
    count->live += change;
    if (count->live > count->peak) count->peak = count->live;
    if (device == NO_DEVICE) return;
    if (has(in_driver, LENGTH(in_driver), kind)) {
        add(&driver_sums[device], change);
        add(&driver_all, change);
    }
    if (has(in_used, LENGTH(in_used), kind)) {
        add(&used_sums[device], change);
        add(&used_all, change);
    }
}

void count_block(int device, enum kind kind, uint64_t bytes) {
    counts[device][kind].blocks++;
    counts[device][kind].acquired++;
    counts[device][kind].acquired_bytes += bytes;
    count_bytes(device, kind, bytes);
}

void uncount_block(int device, enum kind kind, uint64_t bytes) {
    counts[device][kind].blocks--;
    count_bytes(device, kind, -(int64_t)bytes);
}

uint64_t driver_bytes(int device) { return driver_sums[device].live; }

static void print_sum(FILE *out, const char *name, struct sum sum) {
    fprintf(out, "\"%s\": {\"live\": %lu, \"peak\": %lu}, ", name, sum.live, sum.peak);
}

static void print_kinds(FILE *out, int device) {
    const char *comma = "";
    fprintf(out, "\"kinds\": {");
    for (int kind = 0; kind < KINDS; kind++) {
        struct count *count = &counts[device][kind];
        if (!count->peak && !count->acquired) continue;
        fprintf(out, "%s\"%s\": {\"live\": %lu, \"peak\": %lu", comma, kind_names[kind], count->live, count->peak);
        if (kind < KIND_POOL_RESERVED)
            fprintf(out, ", \"blocks\": %lu, \"acquired\": %lu, \"acquired_bytes\": %lu", count->blocks,
                    count->acquired, count->acquired_bytes);
        fprintf(out, "}");
        comma = ", ";
    }
    fprintf(out, "}");
}

static void print_blocks(FILE *out) {
    const char *comma = "";
    fprintf(out, "\"blocks\": [");
    for (enum class class = 0; class <= CLASS_MAPPING; class++) {
        for (struct entry *entry = first(class); entry; entry = entry->next) {
            struct block *block = (struct block *)entry;
            if (class == CLASS_RESERVATION) continue;
            int device = block->device == NO_DEVICE ? -1 : block->device;
            fprintf(out, "%s[\"%s\", %d, %lu, %lu]", comma, kind_names[block->kind], device, entry->key, block->bytes);
            comma = ", ";
        }
    }
    fprintf(out, "]");
}

static void print_calls(FILE *out) {
    const char *comma = "";
    fprintf(out, "\"calls\": {");
    for (struct call *call = standin_calls; call; call = call->next) {
        fprintf(out, "%s\"%s\": %lu", comma, call->name, call->entered);
        comma = ", ";
    }
    fprintf(out, "}");
}

/* For test programs: appends the oracle's line to the file. */
void standin_report(const char *path) {
    bool locked __attribute__((cleanup(standin_leave))) = false;
    struct call none = {.name = "standin_report", .known = true};
    if (standin_enter(&none, &locked)) return;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "{\"pid\": %d, ", getpid());
    print_sum(out, "driver", driver_all);
    print_sum(out, "used", used_all);
    fprintf(out, "\"devices\": [");
    for (int device = 0; device < device_count; device++) {
        fprintf(out, "%s{\"name\": \"%s\", \"memory\": %lu, ", device ? ", " : "", devices[device].name,
                devices[device].memory);
        print_sum(out, "driver", driver_sums[device]);
        print_sum(out, "used", used_sums[device]);
        print_kinds(out, device);
        fprintf(out, "}");
    }
    fprintf(out, "], \"host\": {");
    print_kinds(out, NO_DEVICE);
    fprintf(out, "}, \"dead_pools_asked\": %lu, ", dead_pools_asked);
    print_blocks(out);
    fprintf(out, ", ");
    print_calls(out);
    fprintf(out, "}\n");
    fclose(out);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, text, bytes) != (ssize_t)bytes) abort();
    close(file);
    free(text);
}

static __attribute__((destructor)) void report_at_exit(void) {
    const char *path = getenv("STANDIN_REPORT");
    if (path && standin_process == getpid()) standin_report(path);
}
