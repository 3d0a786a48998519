/* The oracle of a random program: what the calls of a process image add up to, counted beside each call.
 *
 * It allocates nothing. Heap blocks are a list; mappings are a table of pages, so that cuts, gaps and
 * replacements need no thought here. What a child inherited over fork stays in both, marked, and counts
 * for nothing until it is released. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define BLOCKS 256
#define PAGES (1U << 14)
#define STARTS 32
#define FIELD_PAGES 128UL

enum kind {
    MALLOC,
    CALLOC,
    REALLOC,
    ALIGNED,
    MAP_ANON_PRIVATE,
    MAP_ANON_SHARED,
    MAP_OF_FILE,
    MAP_COPY_OF_FILE,
    MAP_NO_ACCESS,
    MAP_COMMITTED,
    KINDS
};
static const char *const kind_names[KINDS] = {
    [MALLOC] = "malloc",
    [CALLOC] = "calloc",
    [REALLOC] = "realloc",
    [ALIGNED] = "aligned",
    [MAP_ANON_PRIVATE] = "map_anonymous",
    [MAP_ANON_SHARED] = "map_shared",
    [MAP_OF_FILE] = "map_file",
    [MAP_COPY_OF_FILE] = "map_file_private",
    [MAP_NO_ACCESS] = "map_reserved",
    [MAP_COMMITTED] = "map_committed",
};

struct block {
    void *address;
    size_t bytes;
    enum kind kind;
    bool inherited;
};

struct page {
    uintptr_t address; /* 0: this place of the table was never used */
    uint16_t bytes;    /* requested ones: fewer than PAGE in a mapping's last page; 0: not mapped */
    uint8_t kind;
    bool inherited;
    uint32_t mapping; /* the how-manieth of its world it belongs to */
};

/* What one thread at a time works on: everything in lock-step, a thread's own part otherwise. */
struct world {
    uint64_t random;
    struct block blocks[BLOCKS];
    int block_count;
    struct page pages[PAGES];
    uintptr_t starts[STARTS]; /* of the latest mappings whose address the kernel chose */
    unsigned start_count;
    uint32_t mapping_count;
    char *field; /* FIELD_PAGES pages where the kernel puts nothing by itself: gaps in it stay gaps */
    uint64_t calls[KINDS], requested[KINDS];
    int64_t heap, peak_heap, mapped, peak_mapped;
    uint64_t inherited_releases;
};

/* Blocks on their way from one world to another, to be released there. */
static struct block parcels[16];
static int parcel_count;

/* Leaves with a status that says which line was not as expected. */
static void expect(bool fine, int line) {
    if (!fine) {
        dprintf(2, "random_program: unexpected at line %d\n", line);
        _exit(70);
    }
}
#define EXPECT(fine) expect(fine, __LINE__)

/* SplitMix64 (Steele, Lea, Flood 2014): a number below `bound`. */
static uint64_t below(struct world *world, uint64_t bound) {
    uint64_t z = world->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % bound;
}

/* A call returned a heap block, or failed to. */
static void acquired(struct world *world, void *address, size_t bytes, enum kind kind) {
    if (!address) return;
    world->blocks[world->block_count++] = (struct block){address, bytes, kind, false};
    world->calls[kind]++;
    world->requested[kind] += bytes;
    world->heap += bytes;
    if (world->heap > world->peak_heap) world->peak_heap = world->heap;
}

/* A block is about to be released, or was by a realloc. */
static void released(struct world *world, int index) {
    struct block *block = &world->blocks[index];
    if (block->inherited) world->inherited_releases++;
    else world->heap -= block->bytes;
    *block = world->blocks[--world->block_count];
}

static struct page *page_at(struct world *world, uintptr_t address) {
    unsigned place = address / PAGE % PAGES;
    for (unsigned tries = 0; tries < PAGES; tries++, place = (place + 1) % PAGES) {
        struct page *page = &world->pages[place];
        if (page->address == 0) page->address = address;
        if (page->address == address) return page;
    }
    EXPECT(!"the table of pages is full");
    return 0;
}

/* Nothing is mapped in this range any more. */
static void unmapped(struct world *world, uintptr_t start, size_t bytes) {
    for (uintptr_t at = start; at < start + bytes; at += PAGE) {
        struct page *page = page_at(world, at);
        if (!page->inherited) world->mapped -= page->bytes;
        page->bytes = 0;
    }
}

/* A call mapped this range, whatever was there before. */
static void mapped(struct world *world, uintptr_t start, size_t bytes, enum kind kind) {
    unmapped(world, start, bytes);
    world->mapping_count++;
    for (size_t done = 0; done < bytes; done += PAGE) {
        struct page *page = page_at(world, start + done);
        page->bytes = bytes - done < PAGE ? bytes - done : PAGE;
        page->kind = kind;
        page->inherited = false;
        page->mapping = world->mapping_count;
    }
    uintptr_t field = (uintptr_t)world->field;
    if (start < field || start >= field + FIELD_PAGES * PAGE) {
        world->starts[world->start_count++ % STARTS] = start;
    }
    world->calls[kind]++;
    world->requested[kind] += bytes;
    world->mapped += bytes;
    if (world->mapped > world->peak_mapped) world->peak_mapped = world->mapped;
}

/* A call made what is of one kind in this range another one's; what a child inherited stays what it was. */
static void converted(struct world *world, uintptr_t start, size_t bytes, enum kind from, enum kind to) {
    bool any = false;
    for (uintptr_t at = start; at < start + bytes; at += PAGE) {
        struct page *page = page_at(world, at);
        if (!page->bytes || page->inherited || page->kind != from) continue;
        if (!any) world->mapping_count++;
        any = true;
        page->kind = to;
        page->mapping = world->mapping_count;
        world->requested[to] += page->bytes;
    }
    world->calls[to] += any;
}

/* In a forked child: all there is came from the parent, and nothing has been done yet. */
static void inherit(struct world *world, uint64_t seed) {
    for (int i = 0; i < parcel_count; i++) parcels[i].inherited = true;
    for (int i = 0; i < world->block_count; i++) world->blocks[i].inherited = true;
    for (unsigned i = 0; i < PAGES; i++) {
        if (world->pages[i].bytes) world->pages[i].inherited = true;
    }
    memset(world->calls, 0, sizeof world->calls);
    memset(world->requested, 0, sizeof world->requested);
    world->heap = world->peak_heap = world->mapped = world->peak_mapped = 0;
    world->inherited_releases = 0;
    world->random = seed;
}

/* The oracle must agree with the kernel: mincore(2) fails with ENOMEM where nothing is mapped. */
static void compare_with_kernel(struct world *world) {
    unsigned char resident;
    for (uintptr_t at = 0; world->field && at < FIELD_PAGES * PAGE; at += PAGE) {
        bool there = mincore(world->field + at, PAGE, &resident) == 0;
        EXPECT(there == (page_at(world, (uintptr_t)world->field + at)->bytes > 0));
    }
    for (unsigned i = 0; i < PAGES; i++) {
        const struct page *page = &world->pages[i];
        if (page->bytes) EXPECT(mincore((void *)page->address, PAGE, &resident) == 0);
    }
}

static char line[1 << 20];
static size_t line_length;

static void put(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line_length += vsnprintf(line + line_length, sizeof line - line_length, format, arguments);
    va_end(arguments);
    EXPECT(line_length < sizeof line);
}

static void put_per_kind(const char *name, const uint64_t *values) {
    put(",\"%s\":{", name);
    for (int kind = 0; kind < KINDS; kind++) {
        put("%s\"%s\":%llu", kind ? "," : "", kind_names[kind], (unsigned long long)values[kind]);
    }
    put("}");
}

static void put_blocks(const struct block *blocks, int count) {
    for (const struct block *block = blocks; block < blocks + count; block++) {
        if (block->inherited) continue;
        put("[%llu,%zu,\"%s\"],", (unsigned long long)(uintptr_t)block->address, block->bytes,
            kind_names[block->kind]);
    }
}

static void put_pages(const struct page *pages) {
    for (const struct page *page = pages; page < pages + PAGES; page++) {
        if (!page->bytes || page->inherited) continue;
        put("[%llu,%u,\"%s\"],", (unsigned long long)page->address, page->bytes, kind_names[page->kind]);
    }
}

/* Appends a line of JSON: what memtrace must have recorded of this image. Peaks are known only where all was
 * done in one order, in the first world. Lists end in null, so that each of their elements has a comma. */
static void write_oracle(int file, const char *origin, uint64_t seed, bool ordered, struct world *worlds,
                         int count) {
    uint64_t calls[KINDS] = {0}, requested[KINDS] = {0}, inherited_releases = 0;
    for (int w = 0; w < count; w++) {
        compare_with_kernel(&worlds[w]);
        for (int kind = 0; kind < KINDS; kind++) {
            calls[kind] += worlds[w].calls[kind];
            requested[kind] += worlds[w].requested[kind];
        }
        inherited_releases += worlds[w].inherited_releases;
    }
    line_length = 0;
    put("{\"pid\":%d,\"origin\":\"%s\",\"seed\":%llu", getpid(), origin, (unsigned long long)seed);
    if (ordered) {
        put(",\"peak_heap\":%lld,\"peak_mapped\":%lld", (long long)worlds->peak_heap,
            (long long)worlds->peak_mapped);
    }
    put(",\"inherited_releases\":%llu", (unsigned long long)inherited_releases);
    put_per_kind("calls", calls);
    put_per_kind("requested", requested);
    put(",\"blocks\":[");
    put_blocks(parcels, parcel_count);
    for (int w = 0; w < count; w++) put_blocks(worlds[w].blocks, worlds[w].block_count);
    put("null],\"pages\":[");
    for (int w = 0; w < count; w++) put_pages(worlds[w].pages);
    put("null]}\n");
    EXPECT(write(file, line, line_length) == (ssize_t)line_length);
}

#endif
