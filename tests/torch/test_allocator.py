"""The simulator of PyTorch's caching allocator: rules by hand, and what always holds."""

import random

import pytest
from memtrace.torch import Allocator, OutOfMemory, Settings

KIB, MIB = 1 << 10, 1 << 20


def test_blocks_are_multiples_of_512():
    allocator = Allocator()
    allocator.malloc(1)
    allocator.malloc(513)
    assert allocator.allocated == 512 + 1024
    assert allocator.requested == 514
    assert allocator.reserved == 2 * MIB  # both in one small segment


def test_small_and_large_requests_have_segments_of_their_own():
    allocator = Allocator()
    allocator.malloc(MIB)
    assert allocator.reserved == 2 * MIB
    allocator.malloc(MIB + 1)  # large: cut from 20 MiB
    assert allocator.reserved == 22 * MIB
    assert allocator.allocated == 2 * MIB + 512
    allocator.malloc(10 * MIB)  # fits into what is left of the 20
    assert allocator.reserved == 22 * MIB
    allocator.malloc(10 * MIB)  # alone
    assert allocator.reserved == 32 * MIB
    allocator.malloc(10 * MIB + 1)  # rounded to 2 MiB
    assert allocator.reserved == 44 * MIB


def test_what_is_left_of_a_large_block_is_kept_with_it_up_to_1_mib():
    allocator = Allocator()
    allocator.malloc(13 * MIB)
    assert allocator.reserved == 14 * MIB
    assert allocator.allocated == 14 * MIB  # 1 MiB more than asked for, as PyTorch counts
    allocator = Allocator()
    allocator.malloc(13 * MIB - 512)
    assert allocator.allocated == 13 * MIB - 512  # what is left is more than 1 MiB


def test_the_smallest_free_block_serves():
    allocator = Allocator()
    blocks = [allocator.malloc(size * MIB) for size in (30, 20, 40)]
    for block in blocks:
        allocator.free(block)
    assert allocator.malloc(20 * MIB) == blocks[1]
    assert allocator.malloc(20 * MIB) == blocks[0]
    assert allocator.reserved == 90 * MIB


def test_free_neighbours_become_one_block():
    allocator = Allocator()
    blocks = [allocator.malloc(4 * MIB) for _ in range(5)]
    assert allocator.reserved == 20 * MIB
    for at in (1, 3, 2):
        allocator.free(blocks[at])
    assert allocator.malloc(12 * MIB) == blocks[1]
    assert allocator.reserved == 20 * MIB


def test_streams_share_nothing():
    allocator = Allocator()
    allocator.free(allocator.malloc(20 * MIB, stream=1))
    allocator.malloc(20 * MIB, stream=2)
    assert allocator.reserved == 40 * MIB


def test_the_cache_is_given_back_before_a_request_fails():
    allocator = Allocator(capacity=40 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(36 * MIB)
    assert (allocator.reserved, allocator.reserved_peak) == (36 * MIB, 36 * MIB)
    with pytest.raises(OutOfMemory, match="6,291,456 bytes do not fit"):
        allocator.malloc(6 * MIB)


def test_max_split_size():
    allocator = Allocator(Settings.parse("max_split_size_mb:100"))
    allocator.free(allocator.malloc(200 * MIB))
    allocator.malloc(50 * MIB)  # does not touch a block that must not be split
    assert allocator.reserved == 250 * MIB
    allocator.malloc(181 * MIB)  # within 20 MiB: takes it whole
    assert allocator.reserved == 250 * MIB
    assert allocator.allocated == 250 * MIB


@pytest.mark.parametrize(
    ("size", "rounded"),
    [(1200, 1536), (5 * MIB, 5 * MIB), (5 * MIB + 1, 6 * MIB), (8 * MIB, 8 * MIB), (1024, 1024)],
)
def test_roundup_power2_divisions(size, rounded):
    """Four steps between powers of two; not below 512 bytes times four."""
    assert Settings.parse("roundup_power2_divisions:4").rounded(size) == rounded


def test_expandable_segments_grow_by_pages():
    allocator = Allocator(Settings.parse("expandable_segments:True"))
    first = allocator.malloc(30 * MIB)
    assert allocator.reserved == 40 * MIB  # two pages of 20 MiB
    assert allocator.malloc(30 * MIB) == first + 30 * MIB
    assert allocator.reserved == 60 * MIB
    allocator.free(first)
    allocator.empty_cache()
    assert allocator.reserved == 40 * MIB  # the first page is free, the second is not


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="backend:cudaMallocAsync .* leave it out"):
        Settings.parse("backend:cudaMallocAsync")


@pytest.mark.parametrize(
    "settings",
    ["", "max_split_size_mb:64", "expandable_segments:True", "roundup_power2_divisions:8"],
)
@pytest.mark.parametrize("seed", range(5))
def test_what_always_holds(seed, settings):
    choose = random.Random(seed)
    allocator = Allocator(Settings.parse(settings), capacity=4 << 30)
    live = {}
    for _ in range(600):
        if choose.random() < 0.6:
            size = int(2 ** choose.uniform(0, 27))
            try:
                live[allocator.malloc(size, stream=choose.randrange(2))] = size
            except OutOfMemory:
                assert allocator.reserved + size > allocator.capacity / 2
        elif live:
            address = choose.choice(list(live))
            del live[address]
            allocator.free(address)
        _check(allocator, live)
    for address in live:
        allocator.free(address)
    for pieces in allocator.segments():
        assert not any(used for _, _, used in pieces)
        if "expandable" not in settings:
            assert len(pieces) == 1  # whole again
    allocator.empty_cache()
    assert allocator.allocated == allocator.requested == allocator.reserved == 0


def _check(allocator, live):
    """Pieces lie side by side without overlap; those in use are what is live."""
    in_use, total, end = {}, 0, 0
    for pieces in allocator.segments():
        for address, size, used in pieces:
            assert address >= end and size > 0
            end = address + size
            total += size
            if used:
                in_use[address] = size
    assert total == allocator.reserved <= allocator.capacity
    assert in_use.keys() == live.keys()
    assert all(in_use[address] >= size for address, size in live.items())
    assert sum(in_use.values()) == allocator.allocated <= allocator.reserved
