/* Random calls of mmap(2), munmap(2) and mremap(2). */
#ifndef MAP_CALLS_H
#define MAP_CALLS_H

#include <errno.h>

#include "oracle.h"

static int data_file; /* what file mappings map */

struct range {
    uintptr_t start;
    size_t pages; /* 0: there is none */
};

/* Somewhere in the field, whatever lies there. */
static struct range field_range(struct world *world) {
    size_t pages = 1 + below(world, 12);
    return (struct range){(uintptr_t)world->field + below(world, FIELD_PAGES - pages) * PAGE, pages};
}

/* A range of one kind that is mapped without a gap, inside one mapping or over several. */
static struct range mapped_range(struct world *world) {
    struct range range = field_range(world);
    if (world->start_count && below(world, 2)) {
        unsigned known = world->start_count < STARTS ? world->start_count : STARTS;
        range.start = world->starts[below(world, known)] + below(world, 4) * PAGE;
        range.pages = 1 + below(world, 40);
    }
    const struct page *first = page_at(world, range.start);
    size_t pages = 0;
    for (; pages < range.pages; pages++) {
        const struct page *page = page_at(world, range.start + pages * PAGE);
        if (!page->bytes || page->kind != first->kind || page->inherited != first->inherited) break;
    }
    return (struct range){range.start, pages};
}

/* So many pages, or a bit less: the kernel rounds up, what was requested stays what it was. */
static size_t some_length(struct world *world, size_t pages) {
    return pages * PAGE - (below(world, 3) ? 0 : below(world, PAGE));
}

static void call_mmap(struct world *world) {
    static const struct {
        enum kind kind;
        int protection, flags;
    } sorts[] = {
        {MAP_ANON_PRIVATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS},
        {MAP_ANON_PRIVATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE},
        {MAP_ANON_PRIVATE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS},
        {MAP_ANON_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS},
        {MAP_OF_FILE, PROT_READ, MAP_PRIVATE},
        {MAP_COPY_OF_FILE, PROT_READ | PROT_WRITE, MAP_PRIVATE},
        {MAP_OF_FILE, PROT_READ | PROT_WRITE, MAP_SHARED}, /* on disk: it is not memory */
        {MAP_OF_FILE, PROT_NONE, MAP_PRIVATE},
        {MAP_NO_ACCESS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS},
        {MAP_NO_ACCESS, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE},
    };
    unsigned sort = below(world, sizeof sorts / sizeof *sorts);
    struct range at = field_range(world);
    int flags = sorts[sort].flags;
    switch (below(world, 4)) {
    case 0: /* where the kernel likes */
        at = (struct range){0, 1 + below(world, below(world, 8) ? 24 : 300)};
        break;
    case 1: /* in the field if the place is free */
        flags |= MAP_FIXED_NOREPLACE;
        break;
    default: /* over whatever is there */
        flags |= MAP_FIXED;
    }
    size_t bytes = some_length(world, at.pages);
    int file = flags & MAP_ANONYMOUS ? -1 : data_file;
    off_t offset = file < 0 ? 0 : (off_t)(below(world, 8) * PAGE);
    char *result = mmap((void *)at.start, bytes, sorts[sort].protection, flags, file, offset);
    if (result == MAP_FAILED) {
        EXPECT(flags & MAP_FIXED_NOREPLACE && errno == EEXIST);
        return;
    }
    mapped(world, (uintptr_t)result, bytes, sorts[sort].kind);
}

/* Part of a mapping, several of them, gaps: all is one to munmap. Gaps are looked for in the field only. */
static void call_munmap(struct world *world) {
    struct range range = below(world, 2) ? field_range(world) : mapped_range(world);
    if (range.pages == 0) return;
    size_t bytes = some_length(world, range.pages);
    EXPECT(munmap((void *)range.start, bytes) == 0);
    unmapped(world, range.start, bytes);
}

/* Whether a range can grow or move is the kernel's to say (neighbours, versions); the result decides. */
static void remap(struct world *world, struct range old, size_t new_bytes, int flags, uintptr_t target) {
    enum kind kind = page_at(world, old.start)->kind;
    size_t bytes = old.pages * PAGE;
    char *result = mremap((void *)old.start, bytes, new_bytes, flags, (void *)target);
    if (result == MAP_FAILED) return;
    if (!(flags & MREMAP_DONTUNMAP)) unmapped(world, old.start, bytes);
    mapped(world, (uintptr_t)result, new_bytes, kind);
}

/* What may be moved. Left out: of what a child inherited and moves, memtrace only guesses the kind. */
static struct range movable_range(struct world *world) {
    struct range range = mapped_range(world);
    const struct page *first = page_at(world, range.start);
    if (first->inherited && first->kind != MAP_ANON_PRIVATE) range.pages = 0;
    return range;
}

/* Grows, shrinks, moves to where the kernel likes, or leaves the old range behind. */
static void call_mremap(struct world *world) {
    struct range old = movable_range(world);
    if (old.pages == 0) return;
    int flags = below(world, 3) ? MREMAP_MAYMOVE : 0;
    switch (below(world, 3)) {
    case 0: remap(world, old, some_length(world, old.pages + 1 + below(world, 12)), flags, 0); break;
    case 1: remap(world, old, some_length(world, 1 + below(world, old.pages)), flags, 0); break;
    default: remap(world, old, old.pages * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    }
}

/* Moves one mapping, or a part of one, over whatever is in the field. Several at once would fail before
 * Linux 6.17, where the target may have been unmapped by then. */
static void call_mremap_fixed(struct world *world) {
    struct range old = movable_range(world), target = field_range(world);
    size_t pages = 0;
    uint32_t mapping = page_at(world, old.start)->mapping;
    while (pages < old.pages && page_at(world, old.start + pages * PAGE)->mapping == mapping) pages++;
    old.pages = pages;
    bool apart = old.start + pages * PAGE <= target.start || target.start + target.pages * PAGE <= old.start;
    if (pages == 0 || !apart) return; /* when they overlap, it fails: see call_map_in_vain */
    remap(world, old, some_length(world, target.pages), MREMAP_MAYMOVE | MREMAP_FIXED, target.start);
}

/* Opens and closes whatever lies in a range without gaps, of any kind: only reservations become memory by that,
 * and only such memory becomes a reservation. Code that is written and run by turns changes nothing. */
static void call_mprotect(struct world *world) {
    static const int protections[] = {PROT_NONE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ};
    int protection = protections[below(world, 4)];
    struct range range = below(world, 2) ? field_range(world) : mapped_range(world);
    size_t pages = 0;
    for (; pages < range.pages; pages++) {
        if (!page_at(world, range.start + pages * PAGE)->bytes) break;
    }
    if (pages == 0) return;
    size_t bytes = some_length(world, pages);
    int key = below(world, 2) ? -1 : 0;
    int result = key ? pkey_mprotect((void *)range.start, bytes, protection, key)
                     : mprotect((void *)range.start, bytes, protection);
    EXPECT(result == 0);
    if (protection == PROT_NONE) converted(world, range.start, pages * PAGE, MAP_COMMITTED, MAP_NO_ACCESS);
    if (protection & PROT_WRITE) converted(world, range.start, pages * PAGE, MAP_NO_ACCESS, MAP_COMMITTED);
}

/* Calls that must fail and change nothing, in the middle of live mappings. */
static void call_map_in_vain(struct world *world) {
    struct range range = field_range(world);
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    char *start = (char *)range.start;
    size_t bytes = range.pages * PAGE;
    switch (below(world, 13)) {
    case 0: EXPECT(munmap(start + 1, bytes) != 0); break;
    case 1: EXPECT(munmap(start, 0) != 0); break;
    case 2: EXPECT(munmap(start, 1UL << 60) != 0); break;
    case 3: EXPECT(mmap(start, 0, protection, flags, -1, 0) == MAP_FAILED); break;
    case 4: EXPECT(mmap(start + 1, bytes, protection, flags, -1, 0) == MAP_FAILED); break;
    case 5: EXPECT(mmap(start, 1UL << 60, protection, flags, -1, 0) == MAP_FAILED); break;
    case 6: EXPECT(mmap(start, bytes, protection, MAP_PRIVATE | MAP_FIXED, -1, 0) == MAP_FAILED); break;
    case 7: EXPECT(mremap(start, bytes, 1UL << 60, MREMAP_MAYMOVE) == MAP_FAILED); break;
    case 8: EXPECT(mremap(start + 1, bytes, bytes, MREMAP_MAYMOVE) == MAP_FAILED); break;
    case 10: EXPECT(mprotect(start + 1, bytes, protection) != 0); break;
    case 11: EXPECT(mprotect(start, 1UL << 60, protection) != 0); break;
    case 9: EXPECT(mremap(start, bytes, 0, MREMAP_MAYMOVE) == MAP_FAILED); break;
    default:
        flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        EXPECT(mremap(start, bytes, bytes, flags, start + bytes - PAGE) == MAP_FAILED);
    }
}

/* Reserves the field, at an address far below all that the kernel chooses by itself (from the stack down). */
static void make_field(struct world *world, int number) {
    char *wanted = (char *)(0x200000000000UL + number * (1UL << 30));
    size_t bytes = FIELD_PAGES * PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    EXPECT(mmap(wanted, bytes, PROT_NONE, flags, -1, 0) == wanted);
    world->field = wanted;
    mapped(world, (uintptr_t)wanted, bytes, MAP_NO_ACCESS);
}

#endif
