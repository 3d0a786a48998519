/* Random calls of the malloc family, as malloc(3) and posix_memalign(3) document them for glibc. */
#ifndef HEAP_CALLS_H
#define HEAP_CALLS_H

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "oracle.h"

/* More than PTRDIFF_MAX: no allocator gives that. Volatile, or the compiler knows it too. */
static volatile size_t impossible = SIZE_MAX / 2 + 12345;

static size_t some_bytes(struct world *world) {
    static const size_t bounds[] = {1, 64, 64, 1024, 1024, 1024, 16384, 16384, 200000, 1 << 20};
    return below(world, bounds[below(world, sizeof bounds / sizeof *bounds)]);
}

static size_t some_alignment(struct world *world) {
    return sizeof(void *) << below(world, 10);
}

/* Frees a block of this thread's choice; it may be any thread's, or the parent's. Block 0 is the marker. */
static void call_free(struct world *world) {
    if (below(world, 16) == 0) free(NULL);
    if (world->block_count < 2) return;
    int index = 1 + below(world, world->block_count - 1);
    void *address = world->blocks[index].address;
    released(world, index);
    free(address);
}

/* Room for one more block. */
static void make_room(struct world *world) {
    while (world->block_count > BLOCKS - 2) call_free(world);
}

static void call_malloc(struct world *world) {
    make_room(world);
    size_t bytes = some_bytes(world);
    acquired(world, malloc(bytes), bytes, MALLOC);
}

static void call_calloc(struct world *world) {
    make_room(world);
    size_t count = below(world, 20), bytes = some_bytes(world) / 16;
    acquired(world, calloc(count, bytes), count * bytes, CALLOC);
}

static void call_strdup(struct world *world) {
    make_room(world);
    static const char text[] = "a text of which an end of some length is copied to the heap";
    const char *end = text + below(world, sizeof text);
    acquired(world, strdup(end), strlen(end) + 1, MALLOC);
}

static void call_aligned(struct world *world) {
    make_room(world);
    size_t bytes = some_bytes(world), alignment = some_alignment(world);
    void *address = NULL;
    switch (below(world, 5)) {
    case 0: address = aligned_alloc(alignment, bytes); break;
    case 1: address = memalign(alignment, bytes); break;
    case 2: address = valloc(bytes); break;
    case 3: address = pvalloc(bytes); break;
    default: EXPECT(posix_memalign(&address, alignment, bytes) == 0);
    }
    acquired(world, address, bytes, ALIGNED);
}

/* realloc and reallocarray: of nothing, to nothing, to more and to less. */
static void call_realloc(struct world *world) {
    make_room(world);
    bool fresh = world->block_count < 2 || below(world, 6) == 0;
    int index = fresh ? 0 : 1 + below(world, world->block_count - 1);
    void *old = fresh ? NULL : world->blocks[index].address;
    size_t count = 1 + below(world, 4), bytes = below(world, 6) ? some_bytes(world) : 0;
    void *address;
    if (count > 1) {
        address = reallocarray(old, count, bytes);
    } else {
        address = realloc(old, bytes);
    }
    EXPECT(address || (old && bytes == 0)); /* realloc(p, 0) frees and returns NULL */
    if (old) released(world, index);
    acquired(world, address, count * bytes, REALLOC);
}

/* Calls that must fail and change nothing. */
static void call_heap_in_vain(struct world *world) {
    static const struct block none;
    const struct block *last = world->block_count ? &world->blocks[world->block_count - 1] : &none;
    void *block = last->address, *nothing = NULL;
    if (last->inherited) return; /* left out: another thread of the parent may have been releasing it */
    switch (below(world, 8)) {
    case 0: EXPECT(!malloc(impossible)); break;
    case 1: EXPECT(!calloc(impossible, 3)); break;
    case 2: EXPECT(!realloc(below(world, 2) ? block : NULL, impossible)); break;
    case 3: EXPECT(!reallocarray(block, impossible, 4)); break;
    case 4: EXPECT(!reallocarray(block, impossible, 1)); break;
    case 5: EXPECT(!aligned_alloc(64, impossible)); break;
    case 6: EXPECT(posix_memalign(&nothing, 3, 100) != 0); break;
    default: EXPECT(posix_memalign(&nothing, 64, impossible) != 0);
    }
}

static pthread_mutex_t parcel_lock = PTHREAD_MUTEX_INITIALIZER;

/* Gives a block to the thread that takes it, to be released there. */
static void give_block(struct world *world) {
    pthread_mutex_lock(&parcel_lock);
    if (world->block_count > 1 && parcel_count < (int)(sizeof parcels / sizeof *parcels)) {
        parcels[parcel_count++] = world->blocks[--world->block_count];
    }
    pthread_mutex_unlock(&parcel_lock);
}

static void take_block(struct world *world) {
    make_room(world);
    pthread_mutex_lock(&parcel_lock);
    if (parcel_count) world->blocks[world->block_count++] = parcels[--parcel_count];
    pthread_mutex_unlock(&parcel_lock);
}

#endif
