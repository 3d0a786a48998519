"""Addresses that go from thread to thread as fast as can be: every event is paired, whatever the order of the clocks."""

import functools
import shutil

import pytest
from conftest import environment
from test_allocators import under

# One arena for all threads and no cache of their own: an address is used again by the next thread.
ONE_ARENA = "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"
BLOCKS = 2_000_000


def check(run, blocks):
    """Nothing lost, late or unseen: the fixture has seen to that for the whole recording."""
    assert run.code == 0
    assert run.sql(
        "select count(*), count(free_ns), min(free_ns - alloc_ns) >= 0 from {allocations}"
        " where bytes in (41, 57, 73) and process = (select max(process) from {processes})"
    ) == [(blocks, blocks, True)]
    # No two lives of one address overlap.
    assert run.sql(
        "select count(*) from (select alloc_ns, lag(free_ns) over"
        " (partition by address order by alloc_ns, free_ns) as before from {allocations}"
        " where bytes in (41, 57, 73)) where alloc_ns < before"
    ) == [(0,)]


@pytest.fixture
def record(record):
    """Records with the addresses of all blocks."""
    return functools.partial(record, options=("--addresses",))


@pytest.mark.parametrize("threads", [2, 8])
def test_one_arena(record, target, threads):
    env = environment(GLIBC_TUNABLES=ONE_ARENA)
    check(record(target("handover.c"), threads, BLOCKS, env=env), BLOCKS)


@pytest.mark.parametrize("threads", [4])
def test_mimalloc(record, target, threads):
    check(record(target("handover.c"), threads, BLOCKS, env=under("mimalloc")), BLOCKS)


def test_one_processor(record, target):
    if shutil.which("taskset") is None:
        pytest.skip("taskset is not installed")
    env = environment(GLIBC_TUNABLES=ONE_ARENA)
    command = ("taskset", "-c", "0", target("handover.c"), 4, BLOCKS // 4)
    check(record(*command, env=env), BLOCKS // 4)


def test_threads_that_are_put_aside_between_two_calls(record, target):
    env = environment(GLIBC_TUNABLES=ONE_ARENA)
    check(record(target("handover.c"), 8, BLOCKS // 4, "yield", env=env), BLOCKS // 4)
