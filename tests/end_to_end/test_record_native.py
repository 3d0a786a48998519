"""Programs in C, C++ and Rust: every call, exact bytes, and nothing changed for the program."""

import json
import shutil
import signal
import subprocess

import pytest
from conftest import MEMTRACE, TARGETS, environment, memtrace

MIB = 1 << 20


def test_every_heap_function_with_its_exact_bytes(record, target):
    run = record(target("heap.c"))
    assert (run.code, run.stdout) == (7, b"done\n")
    rows = run.sql(
        "select kind, bytes, free_ns is not null from {allocations} where bytes >= 100000"
    )
    assert sorted(rows) == sorted(
        [
            ("malloc", 100001, True),
            ("calloc", 300009, True),
            ("aligned", 100019, True),
            ("aligned", 100032, True),
            ("aligned", 100043, True),
            ("aligned", 100049, True),
            ("aligned", 100057, True),
            ("realloc", 100069, True),
            ("realloc", 700721, True),
            ("realloc", 5000011, True),
            ("realloc", 200003, True),
            ("malloc", 100109, True),
        ]
    )
    strings = run.sql("select count(*) from {allocations} where kind = 'malloc' and bytes = 72")
    assert strings == [(1,)], "strdup goes through malloc"


def test_the_peak_counts_a_moving_realloc_once(record, target):
    run = record(target("heap.c"))
    live = 300009 + 100019 + 100032 + 100043 + 100049 + 100057 + 100069 + 700721 + 72
    # realloc to 5,000,011 releases the old block when it has returned; the calloc shrinks afterwards.
    expected = live + 5000011
    assert expected <= run.report["peak"]["heap_bytes"] <= expected + 200_000


def test_mappings_that_are_cut_replaced_moved_and_refused(record, target):
    run = record(target("maps.c"))
    assert run.code == 0
    left = run.sql(
        "select kind, sum(bytes) from {allocations} where free_ns is null and kind like 'map_%'"
        " group by kind order by kind"
    )
    assert left == [("map_anonymous", 3 * MIB), ("map_reserved", MIB)]
    [process] = run.report["processes"]
    assert process["peak_mapped_bytes"] == 19 * MIB


def test_threads_lose_nothing(record, target):
    threads, blocks = 8, 100_000
    run = record(target("threads.c"), threads, blocks)
    assert run.code == 0
    counts = run.sql(
        "select count(*), count(free_ns), count(distinct thread) from {allocations}"
        " where bytes between 10000 and 10099 or bytes < 5016 and kind = 'malloc'"
    )
    allocations, freed, _ = counts[0]
    assert allocations >= threads * (blocks + 100)
    assert allocations - freed < 10
    assert run.sql("select count(*) from {threads} where events > 100000") == [(threads,)]
    [process] = run.report["processes"]
    assert process["unseen_releases"] == 0
    assert run.report["peak"]["heap_bytes"] >= threads * sum(10000 + i for i in range(100))


def test_children_have_rows_and_inherited_blocks_stay_the_parents(record, target):
    run = record(target("forks.c"))
    assert run.code == 4
    processes = {
        (p["origin"], p["peak_heap_bytes"] // 1_000_000): p for p in run.report["processes"]
    }
    assert sorted(processes) == [("exec", 1), ("exec", 3), ("fork", 2)]
    assert processes["fork", 2]["inherited_releases"] == 1
    owner = run.sql(
        "select p.origin, free_ns is not null from {allocations} a join {processes} p using (process)"
        " where bytes = 1000000"
    )
    assert owner == [("exec", True)]


def test_a_child_that_has_not_allocated_yet_is_waited_for(record, target):
    run = record(target("late_child.c"))
    assert run.code == 0
    assert run.sql("select count(*) from {allocations} where bytes = 5000000") == [(1,)]


def test_kill_9_loses_nothing_recorded_before(record, target):
    run = record(target("killed.c"))
    assert run.code == 128 + signal.SIGKILL
    assert run.sql(
        "select count(*), sum(bytes), count(free_ns) from {allocations} where bytes between 20000 and 20999"
    ) == [(1000, sum(range(20000, 21000)), 0)]
    assert b"killed by signal 9" in run.stderr


@pytest.mark.parametrize(
    ("name", "code", "output", "sizes"),
    [
        ("news.cpp", 5, b"thrown\n", [300007, 128000, 300017, 400000]),
        ("boxes.rs", 9, None, [400000]),
    ],
)
def test_other_languages(record, target, name, code, output, sizes):
    run = record(target(name))
    assert run.code == code
    if output is not None:
        assert run.stdout == output
    for size in sizes:
        assert run.sql(f"select count(*) >= 1 from {{allocations}} where bytes = {size}") == [
            (True,)
        ]


def test_the_whole_command_as_one_span(record, target):
    options = ("--span", "heap", "--shape", "100,20", "--dtype", "f8")
    run = record(target("heap.c"), options=options)
    [operator] = run.report["operators"]
    [span] = operator["spans"]
    assert operator["name"] == "heap"
    assert span["inputs"][0]["shape"] == [100, 20]
    assert span["input_bytes"] == 16000
    assert span["working_peak_bytes"] == run.report["peak"]["heap_bytes"]


def test_spans_of_a_c_program(record, target):
    run = record(target("spans.c"))
    names = {operator["name"] for operator in run.report["operators"]}
    assert names, run.stderr
    for operator in run.report["operators"]:
        for span in operator["spans"]:
            assert span["seconds"] is not None
            assert span["working_peak_bytes"] > 0


def test_exec_ends_the_old_image_exactly(record, python):
    """200 MB, then exec, then 150 MB: never both, never less than either."""
    program = (
        "import os, sys\n"
        "x = bytearray(200_000_000)\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'y = bytearray(150_000_000)'])\n"
    )
    for _ in range(3):
        run = record(python, "-c", program)
        assert 200_000_000 <= run.report["peak"]["live_bytes"] < 220_000_000
        peaks = sorted(p["peak_live_bytes"] // 10_000_000 for p in run.report["processes"])
        assert peaks in ([15, 20], [16, 21], [15, 21], [16, 20])
        ended = run.sql("select count(*) from {allocations} where bytes in (200000001, 150000001)")
        assert ended == [(2,)]


def test_an_exit_status_above_128_is_no_signal(record):
    run = record("sh", "-c", "exit 200")
    assert run.code == 200
    assert b"exited 200" in run.stderr


def test_mapping_inside_realloc_is_not_the_realloc(record, target, tmp_path):
    library = tmp_path / "allocator.so"
    source = TARGETS / "nested.c"
    flags = ["-DLIBRARY", "-shared", "-fPIC", "-fno-builtin"]
    subprocess.run(["gcc", *flags, "-o", library, source], check=True)
    run = record(target("nested.c"), env=environment(LD_PRELOAD=str(library)))
    assert run.code == 0
    assert run.sql("select count(*) >= 2000 from {allocations} where kind = 'map_anonymous'") == [
        (True,)
    ], "the allocator was there"
    assert run.sql(
        "select bytes, count(*), count(free_ns) from {allocations} where bytes in (100000, 100001)"
        " group by bytes order by bytes"
    ) == [(100000, 2000, 2000), (100001, 2000, 2000)]
    assert run.report["peak"]["heap_bytes"] < 1_000_000


def test_memtrace_in_a_folder_with_a_space_in_its_name(target, tmp_path):
    """The dynamic linker separates what it preloads by spaces and colons."""
    folder = tmp_path / "my programs: new"
    folder.mkdir()
    shutil.copy(MEMTRACE, folder)
    shutil.copy(MEMTRACE.parents[1] / "preload" / "libmemtrace_probe.so", folder)
    program = [folder / "memtrace", "-o", tmp_path / "trace", target("held.c"), "malloc", "24"]
    done = subprocess.run(
        program, env=environment(TMPDIR=str(tmp_path)), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(memtrace("report", "--json", tmp_path / "trace").stdout)
    assert 24 << 20 <= report["peak"]["heap_bytes"] < 25 << 20
