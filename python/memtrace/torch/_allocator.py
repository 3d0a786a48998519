"""A simulator of PyTorch's CUDA caching allocator.

The rules are those of c10/cuda/CUDACachingAllocator.cpp: requests are rounded; a block
comes from the smallest free one that is large enough and is cut from it, or from a new segment of
the driver; free neighbours become one block; segments stay reserved. Nothing here needs PyTorch.
"""

from bisect import bisect_left, insort

from ._settings import LARGE_SEGMENT, MIN_BLOCK, Settings

SMALL = 1 << 20  # the largest request that is served from small segments
SMALL_SEGMENT = 2 << 20
OWN_SEGMENT = 10 << 20  # from here on a request has a segment of its own
ROUND_LARGE = 2 << 20


class OutOfMemory(Exception):
    """A request that neither the cache nor the device has room for.

    Attributes:
        requested: Its bytes.
    """

    def __init__(self, requested, allocated, reserved, capacity):
        super().__init__(
            f"{requested:,} bytes do not fit: {allocated:,} are allocated and {reserved:,} "
            f"reserved of {capacity:,}"
        )
        self.requested = requested


class Block:
    """A piece of a segment, in use or free, with its neighbours; or a range that is not mapped."""

    __slots__ = (
        "address",
        "age",
        "mapped",
        "next",
        "pool",
        "prev",
        "requested",
        "size",
        "stream",
        "used",
    )

    def __init__(self, address, size, pool, stream, mapped=True):
        self.address, self.size, self.mapped = address, size, mapped
        self.pool, self.stream = pool, stream
        self.prev = self.next = None
        self.used, self.requested, self.age = False, 0, 0

    @property
    def is_split(self):
        return self.prev is not None or self.next is not None


class _Pool:
    """The free blocks for small or for large requests: by stream, size and address."""

    def __init__(self, small):
        self.small, self.free, self.unmapped, self.searches = small, [], [], 0

    def put(self, block):
        block.age = self.searches
        insort(self.free, (block.stream, block.size, block.address, block))

    def take(self, block):
        del self.free[bisect_left(self.free, (block.stream, block.size, block.address))]

    def put_unmapped(self, block):
        insort(self.unmapped, (block.stream, block.address, block))

    def take_unmapped(self, block):
        del self.unmapped[bisect_left(self.unmapped, (block.stream, block.address))]

    def has(self, at, stream):
        """True if the free block at this position is one of the stream."""
        return 0 <= at < len(self.free) and self.free[at][0] == stream


class Allocator:
    """Allocates addresses, and counts as `torch.cuda` does.

    Args:
        settings: As PYTORCH_CUDA_ALLOC_CONF has them.
        capacity: Bytes that the driver can give (default: no limit); free segments are released
            before a request fails.

    Attributes:
        allocated: Bytes of blocks in use.
        allocated_peak: The most of them.
        reserved: Bytes of segments.
        reserved_peak: The most of them.
        requested: Bytes of blocks in use, as requested.
    """

    def __init__(self, settings=None, capacity=None):
        self.settings = settings or Settings()
        self.capacity = float("inf") if capacity is None else capacity
        self.allocated = self.allocated_peak = 0
        self.reserved = self.reserved_peak = 0
        self.requested = 0
        self._small, self._large = _Pool(small=True), _Pool(small=False)
        self._blocks = {}  # in use, by address
        self._segments = {}  # first block of each, by its address
        self._next = 1 << 45

    def malloc(self, size, stream=0):
        """Allocates a block.

        Args:
            size: Bytes.
            stream: The number of the stream that uses it.

        Returns:
            Its address.

        Raises:
            OutOfMemory: There is no room.
        """
        rounded = self.settings.rounded(size)
        pool = self._small if rounded <= SMALL else self._large
        block = self._cached(pool, rounded, stream)
        if block is None:
            block = self._reserve(pool, rounded, stream)
        if self._is_worth_splitting(block, rounded):
            block = self._split(block, rounded)
        block.used, block.requested = True, size
        self._blocks[block.address] = block
        self.allocated += block.size
        self.requested += size
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        return block.address

    def free(self, address):
        """Frees a block.

        Args:
            address: Its address.

        Raises:
            KeyError: No block is in use at this address.
        """
        block = self._blocks.pop(address)
        self.allocated -= block.size
        self.requested -= block.requested
        block.used = False
        for neighbour in (block.prev, block.next):
            self._merge(block, neighbour)
        block.pool.put(block)

    def size_of(self, address):
        """How large the block in use at an address is."""
        return self._blocks[address].size

    def empty_cache(self):
        """Releases every segment without a block in use to the driver."""
        for pool in (self._small, self._large):
            for *_, block in list(pool.free):
                if self.settings.expandable_segments:
                    self._unmap(block)
                elif not block.is_split:
                    self._release(block)

    def reset_peaks(self):
        """From here on the peaks count anew."""
        self.allocated_peak, self.reserved_peak = self.allocated, self.reserved

    def segments(self):
        """Each segment as a list of its blocks (address, size, in use), by address."""
        found = []
        for _, block in sorted(self._segments.items()):
            pieces = []
            while block is not None:
                if block.mapped:
                    pieces.append((block.address, block.size, block.used))
                block = block.next
            found.append(pieces)
        return found

    # Free blocks -----------------------------------------------------------------

    def _cached(self, pool, size, stream):
        """The free block that serves best, taken from its pool."""
        pool.searches += 1
        at = bisect_left(pool.free, (stream, size))
        if not pool.has(at, stream):
            return None
        if self.settings.expandable_segments:
            # What a block can grow to counts as its size.
            while pool.has(at + 1, stream) and _room(pool.free[at + 1]) < _room(pool.free[at]):
                at += 1
        found = pool.free[at][-1]
        limit = self.settings.max_split_size
        if size < limit <= found.size:
            return None
        if size >= limit and found.size >= size + self.settings.max_non_split_rounding:
            return None
        del pool.free[at]
        return found

    def _is_worth_splitting(self, block, size):
        rest = block.size - size
        if block.pool.small or self.settings.expandable_segments:
            return rest >= MIN_BLOCK
        return size < self.settings.max_split_size and rest > SMALL

    def _split(self, rest, size):
        """Cuts a block off the front; what is left is free."""
        block = Block(rest.address, size, rest.pool, rest.stream)
        _insert(block, rest.prev, rest)
        if rest.address in self._segments:
            self._segments[rest.address] = block
        rest.address += size
        rest.size -= size
        rest.pool.put(rest)
        return block

    def _merge(self, block, neighbour):
        """Makes a free neighbour part of a block that is in no pool."""
        if neighbour is None or neighbour.used or neighbour.mapped != block.mapped:
            return
        take = block.pool.take if neighbour.mapped else block.pool.take_unmapped
        take(neighbour)
        if neighbour is block.prev:
            if neighbour.address in self._segments:
                self._segments[neighbour.address] = block
            block.address = neighbour.address
        block.size += neighbour.size
        _remove(neighbour)

    # Segments --------------------------------------------------------------------

    def _reserve(self, pool, size, stream):
        """A block of a new segment, or of one that grew; makes room first if it must."""
        self._collect()
        for make_room in (None, self._release_oversize, self._release_all):
            if make_room is None or make_room(pool, size, stream):
                grow = self._grow if self.settings.expandable_segments else self._segment
                block = grow(pool, size, stream)
                if block is not None:
                    return block
        raise OutOfMemory(size, self.allocated, self.reserved, self.capacity)

    def _segment(self, pool, size, stream):
        length = self._length_of_segment(size)
        if self.reserved + length > self.capacity:
            return None
        self._note_reserved(length)
        block = Block(self._next, length, pool, stream)
        self._segments[block.address] = block
        self._next += -(-length // ROUND_LARGE) * ROUND_LARGE
        return block

    def _length_of_segment(self, size):
        if size <= SMALL:
            return SMALL_SEGMENT
        if size < OWN_SEGMENT:
            return LARGE_SEGMENT
        return -(-size // ROUND_LARGE) * ROUND_LARGE

    def _note_reserved(self, length):
        self.reserved += length
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def _release(self, block):
        """Releases a whole free segment."""
        block.pool.take(block)
        del self._segments[block.address]
        self.reserved -= block.size

    def _release_oversize(self, pool, size, stream):
        """With `max_split_size_mb`: as many of the largest free segments as make room."""
        limit = self.settings.max_split_size
        if limit == float("inf") or self.settings.expandable_segments:
            return False  # PyTorch leaves these to `_release_all`
        wanted = max(size, limit)
        at = bisect_left(pool.free, (stream, wanted))
        if pool.has(at, stream):
            self._release(pool.free[at][-1])
            return True
        released, at = 0, at - 1
        while released < wanted and pool.has(at, stream) and pool.free[at][1] >= limit:
            released += pool.free[at][1]
            self._release(pool.free[at][-1])
            at -= 1
        return released >= wanted

    def _release_all(self, pool, size, stream):
        self.empty_cache()
        return True

    def _collect(self):
        """`garbage_collection_threshold`: releases what lay idle longer than the average."""
        threshold = self.settings.garbage_collection_threshold
        if not threshold or self.capacity == float("inf"):
            return
        over, reclaimed = self.reserved - threshold * self.capacity, 0
        while reclaimed < over:
            whole = [block for *_, block in self._large.free if not block.is_split]
            ages = [self._large.searches - block.age for block in whole]
            old = [b for b, age in zip(whole, ages) if age >= sum(ages) / len(ages)]
            if not old:
                return
            for block in old:
                reclaimed += block.size
                self._release(block)

    # Expandable segments ---------------------------------------------------------

    def _grow(self, pool, size, stream):
        """A free block of at least `size`, at the lowest address where pages can be mapped."""
        block = self._growable(pool, size, stream)
        if not block.mapped and not self._map(block, size):
            return None
        while block.size < size:
            block = block.next
            if not self._map(block, size - block.prev.size):
                return None
        pool.take(block)
        return block

    def _growable(self, pool, size, stream):
        for of_stream, _, block in pool.unmapped:
            if of_stream != stream:
                continue
            start = block
            if block.prev is not None and not block.prev.used:
                start = block.prev
            room, each = 0, start
            while room < size and each is not None and not each.used:
                room, each = room + each.size, each.next
            if room >= size:
                return start
        self._next = -(-self._next // LARGE_SEGMENT) * LARGE_SEGMENT  # a whole number of pages
        page = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        device = min(self.capacity, 1 << 50)
        space = -(-int(device * 9 // 8) // page) * page  # an eighth more than there is memory
        block = Block(self._next, space, pool, stream, mapped=False)
        self._next += space
        self._segments[block.address] = block
        pool.put_unmapped(block)
        return block

    def _map(self, block, size):
        """Maps pages at the front of a range; it becomes a free block, one with its neighbours."""
        pool = block.pool
        page = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        length = -(-min(size, block.size) // page) * page
        if self.reserved + length > self.capacity:
            return False
        self._note_reserved(length)
        pool.take_unmapped(block)
        block.mapped = True
        if length < block.size:
            rest = Block(
                block.address + length, block.size - length, pool, block.stream, mapped=False
            )
            _insert(rest, block, block.next)
            block.size = length
            pool.put_unmapped(rest)
        for neighbour in (block.prev, block.next):
            self._merge(block, neighbour)
        pool.put(block)
        return True

    def _unmap(self, block):
        """Releases the whole pages of a free block."""
        pool = block.pool
        page = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        start = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if start >= end:
            return
        pool.take(block)
        for address, size in (
            (block.address, start - block.address),
            (end, block.address + block.size - end),
        ):
            if size:
                piece = Block(address, size, pool, block.stream)
                before = address < start
                _insert(piece, *((block.prev, block) if before else (block, block.next)))
                if before and address in self._segments:
                    self._segments[address] = piece
                pool.put(piece)
        block.address, block.size, block.mapped = start, end - start, False
        self.reserved -= block.size
        for neighbour in (block.prev, block.next):
            self._merge(block, neighbour)
        pool.put_unmapped(block)


def _room(entry):
    """What a free block can grow to."""
    block = entry[-1]
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


def _insert(block, before, after):
    block.prev, block.next = before, after
    if before is not None:
        before.next = block
    if after is not None:
        after.prev = block


def _remove(block):
    if block.prev is not None:
        block.prev.next = block.next
    if block.next is not None:
        block.next.prev = block.prev
