/* Ranges of addresses and the blocks in them. Nothing but managed memory can be touched from the host. A range that was
 * given back is the next one to be handed out: the driver reuses addresses at once, and a recorder must keep up. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "driver.h"

#define ORDERS 40
#define SPACE_BYTES ((uint64_t)1 << 38)
#define LOW_BYTES (256 * MIB)

static const unsigned smallest[SPACES] = {9, 9, 12, 21}; /* orders: 512 bytes, a page of the host, one of the device */

static struct ranges {
    uint64_t next, end;
    struct stack {
        uint64_t *addresses;
        size_t count, room;
    } given_back[ORDERS];
} spaces[SPACES];

static void open_space(enum space space) {
    bool low = space == SPACE_LOW; /* whose addresses have 32 bits */
    uint64_t bytes = low ? LOW_BYTES : SPACE_BYTES;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (low ? MAP_32BIT : 0);
    void *base = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
    if (base == MAP_FAILED) abort();
    spaces[space].next = KEY(base);
    spaces[space].end = KEY(base) + bytes;
}

/* Ranges have powers of two of bytes and are aligned to them, up to 2 MiB. */
bool take_range(enum space space, uint64_t bytes, struct range *range) {
    unsigned order = smallest[space];
    while (order < ORDERS && (uint64_t)1 << order < bytes) order++;
    if (order == ORDERS) return false;
    struct ranges *ranges = &spaces[space];
    if (!ranges->end) open_space(space);
    struct stack *stack = &ranges->given_back[order];
    *range = (struct range){.space = space, .order = order};
    uint64_t size = (uint64_t)1 << order;
    if (stack->count) {
        range->address = stack->addresses[--stack->count];
    } else {
        uint64_t alignment = size < 2 * MIB ? size : 2 * MIB;
        uint64_t address = (ranges->next + alignment - 1) & -alignment;
        if (address > ranges->end || ranges->end - address < size) return false;
        range->address = address;
        ranges->next = address + size;
    }
    if (space == SPACE_MANAGED) mprotect((void *)range->address, size, PROT_READ | PROT_WRITE);
    return true;
}

void give_range(struct range range) {
    uint64_t size = (uint64_t)1 << range.order;
    if (range.space == SPACE_MANAGED) {
        madvise((void *)range.address, size, MADV_DONTNEED);
        mprotect((void *)range.address, size, PROT_NONE);
    }
    struct stack *stack = &spaces[range.space].given_back[range.order];
    if (stack->count == stack->room) {
        stack->room = stack->room ? 2 * stack->room : 64;
        stack->addresses = realloc(stack->addresses, stack->room * sizeof *stack->addresses);
        if (!stack->addresses) abort();
    }
    stack->addresses[stack->count++] = range.address;
}

bool is_room(int device, uint64_t bytes) {
    uint64_t taken = driver_bytes(device);
    return device == NO_DEVICE || (bytes <= devices[device].memory && taken <= devices[device].memory - bytes);
}

struct block *new_block(enum class class, enum kind kind, enum space space, int device, uint64_t bytes) {
    struct range range;
    if (!take_range(space, bytes, &range)) return NULL;
    struct block *block = new_entry(class, sizeof *block);
    block->kind = kind;
    block->device = device;
    block->bytes = bytes;
    block->range = range;
    block->references = 1;
    set_key(block, range.address);
    return count_new(block);
}

struct block *count_new(struct block *block) {
    count_block(block->device, block->kind, block->bytes);
    tell(block, true);
    return block;
}

void end_block(struct block *block) {
    uncount_block(block->device, block->kind, block->bytes);
    tell(block, false);
    if (block->range.order) give_range(block->range);
    drop(block);
}

struct block *block_around(enum class class, uint64_t address) {
    for (struct entry *entry = first(class); entry; entry = entry->next) {
        struct block *block = (struct block *)entry;
        if (address >= entry->key && address - entry->key < block->bytes) return block;
    }
    return NULL;
}
