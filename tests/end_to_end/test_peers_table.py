"""The cases that memray, heaptrack and Fil get wrong (measured with memray 1.20, heaptrack 1.4, Fil 2024.11):
what each of them says stands beside the truth, which is what memtrace must say."""

import signal

import pytest

pytestmark = pytest.mark.serial

MIB = 1 << 20
# What a process needs besides: stdio, ld.so and the C library, its stack, page tables not counted.
SMALL = 64 << 10
PROCESS = 6 * MIB


def about(true_bytes, slack=SMALL):
    """A comparison that never allows less than the truth."""
    return pytest.approx(true_bytes + slack / 2, abs=slack / 2)


def test_realloc_to_nothing_in_a_loop(record, target):
    """memray 200 MiB, heaptrack 210 MB; Fil kills the program."""
    run = record(target("peers.c"), "realloc")
    assert run.code == 0
    assert run.report["peak"]["heap_bytes"] == about(MIB)
    assert run.report["totals"]["requested_bytes"] == about(200 * MIB)


@pytest.mark.parametrize("case", ["mremap", "mremap_unmap", "sbrk", "brk", "fixed"])
def test_200_mib_of_touched_mappings(record, target, case):
    """mremap, sbrk: all three about 1 MiB or less; MAP_FIXED: memray and Fil 1000 MiB, heaptrack 1.1 MB."""
    run = record(target("peers.c"), case)
    assert run.code == 0
    peak = run.report["peak"]
    assert peak["live_bytes"] == about(200 * MIB)
    assert peak["resident_bytes"] == about(200 * MIB, PROCESS)
    assert peak["heap_bytes"] < SMALL
    [process] = run.report["processes"]
    assert process["peak_mapped_bytes"] == about(200 * MIB)


@pytest.mark.parametrize("case", ["reserve_none", "reserve_noreserve"])
def test_an_arena_is_live_where_it_was_touched(record, target, case):
    """A stand-in for pyarrow's mimalloc: memray 1032 MiB, Fil 1037 MiB, heaptrack 5.9 MB."""
    run = record(target("peers.c"), case)
    assert run.code == 0
    assert run.report["peak"]["live_bytes"] == about(400 * MIB)
    assert run.report["peak"]["resident_bytes"] == about(400 * MIB, PROCESS)
    [process] = run.report["processes"]
    assert process["peak_mapped_bytes"] == about(1024 * MIB)


def test_kill_9_right_after_an_allocation(record, target):
    """heaptrack usually loses it, Fil says nothing, memray --aggregate says 0."""
    run = record(target("peers.c"), "killed")
    assert run.code == 128 + signal.SIGKILL
    assert run.report["peak"]["heap_bytes"] == about(100 * MIB)
    assert run.report["peak"]["resident_bytes"] == about(100 * MIB, PROCESS)
    assert run.sql(
        "select count(*), count(free_ns) from {allocations} where bytes = 104857600"
    ) == [(1, 0)]


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.call(child)",
        "subprocess.call(child, env={})",
        "os.waitpid(os.posix_spawn(child[0], child, os.environ), 0)",
        "os.waitpid(os.posix_spawn(child[0], child, {}), 0)",
    ],
    ids=["subprocess", "subprocess_empty", "posix_spawn", "posix_spawn_empty"],
)
def test_a_child(record, python, target, call):
    """None of the three sees it."""
    program = f"import os, subprocess, sys; child = [sys.argv[1], 'held']; {call}"
    run = record(python, "-c", program, target("peers.c"))
    assert run.code == 0
    [parent, child] = sorted(
        run.report["processes"], key=lambda process: process["peak_live_bytes"]
    )
    assert child["ppid"] == parent["pid"]
    assert child["peak_live_bytes"] == about(100 * MIB)
    assert child["peak_resident_bytes"] == about(100 * MIB, PROCESS)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(record, python, tmp_path, method):
    """None of the three sees it; Dask's nanny starts its workers so."""
    script = tmp_path / "workers.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def work(bytes): return len(bytearray(bytes))\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:\n"
        f"        print(pool.apply(work, ({100 * MIB},)))\n"
    )
    run = record(python, script, method)
    assert run.stdout == b"%d\n" % (100 * MIB)
    worker = max(run.report["processes"], key=lambda process: process["peak_live_bytes"])
    assert 100 * MIB < worker["peak_heap_bytes"] < 120 * MIB
    assert worker["pid"] != run.report["processes"][0]["pid"]
    assert worker["origin"] == {"spawn": "exec", "forkserver": "fork"}[method]


def test_every_event_has_its_time(record, target):
    """None of the three has time stamps per event."""
    run = record(target("killed.c"))
    rows = run.sql(
        "select bytes from {allocations} where bytes between 20000 and 20999 order by alloc_ns"
    )
    assert [size for (size,) in rows] == list(range(20000, 21000))
