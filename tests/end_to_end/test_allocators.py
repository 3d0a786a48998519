"""Programs whose malloc is not the C library's: blocks exact, arenas not counted twice, nothing unseen."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import COMPILERS, TARGETS, environment

MIB = 1 << 20
ALLOCATORS = {
    "glibc": None,
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}
OTHERS = [name for name, library in ALLOCATORS.items() if library]
COUNTS = (
    "select bytes, count(*), count(free_ns) from {allocations}"
    " where bytes between 19999 and 20400 and kind not like 'map_%' group by bytes order by bytes"
)
EXPECTED = [(bytes, 100, 100) for bytes in (19999, *range(20001, 20017))]
# libstdc++ asks for whole multiples of the alignment.
ALIGNED = range(20007, 20013)
ROUNDED = [row for row in EXPECTED if row[0] not in ALIGNED] + [(20224, 600, 600)]
LIVE = "select bytes, kind from {allocations} where free_ns is null and bytes = 30000000"


def library(name):
    """File name of an allocator's library; the dynamic linker finds it."""
    folders = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))
    if not any((folder / ALLOCATORS[name]).exists() for folder in folders):
        pytest.skip(f"{ALLOCATORS[name]} is not installed")
    return ALLOCATORS[name]


def under(name):
    return environment(LD_PRELOAD=library(name)) if ALLOCATORS[name] else environment()


def check_blocks(run, allocator):
    assert run.code == 5, run.stderr
    assert run.sql(COUNTS) == (ROUNDED if allocator == "glibc" else EXPECTED)
    assert [bytes for bytes, _ in run.sql(LIVE)] == [30_000_000]
    peak = run.report["peak"]
    # The C++ library takes 72,704 bytes for exceptions that must be thrown when there is no memory left.
    assert 30_000_000 <= peak["heap_bytes"] < 30_000_000 + 150_000
    assert peak["live_bytes"] == peak["heap_bytes"], "arenas are not live"
    arenas = run.sql("select count(*) from {allocations} where kind = 'map_arena'")
    assert (arenas[0][0] > 0) == (allocator != "glibc")
    assert run.sql("select count(*) from {allocations} where kind = 'map_anonymous'") == [(0,)]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_preloaded(record, target, allocator):
    run = record(target("operators.cpp"), env=under(allocator))
    check_blocks(run, allocator)


@pytest.mark.parametrize("allocator", OTHERS)
def test_linked(record, tmp_path, allocator):
    binary = tmp_path / "operators"
    # Named in full, because a development package is not needed for it.
    link = [f"-l:{library(allocator)}", "-Wl,--no-as-needed"]
    command = [*COMPILERS[".cpp"], TARGETS / "operators.cpp", "-o", binary, *reversed(link)]
    subprocess.run(command, check=True)
    check_blocks(record(binary), allocator)


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_what_no_allocator_can_give(record, target, allocator):
    """bad_alloc is thrown through the probe and caught; mimalloc, which is written in C, aborts with and without."""
    command, env = (target("operators.cpp"), "huge"), under(allocator)
    bare = subprocess.run(command, env=env, capture_output=True, check=False)
    run = record(*command, env=env)
    expected = (134, b"") if bare.returncode == -signal.SIGABRT else (5, b"5 refused\n")
    assert (run.code, run.stdout) == expected
    assert bare.stdout == run.stdout
    assert run.report["peak"]["heap_bytes"] < MIB


PROGRAM = """
import numpy as np

def double(x):
    return x * 2

held = [double(np.ones(500_000)) for _ in range(10)]
print(sum(each.sum() for each in held))
"""


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_python_program(record, python, allocator):
    options = ("--operator", "__main__:double")
    run = record(python, "-c", PROGRAM, options=options, env=under(allocator))
    assert run.stdout == b"10000000.0\n"
    [operator] = run.report["operators"]
    assert len(operator["spans"]) == 10
    for span in operator["spans"][1:]:
        assert 4_000_000 <= span["working_peak_bytes"] < 4_000_000 + 16_384
    rows = "select count(*) from {allocations} where bytes = 4000000 and kind not like 'map_%'"
    assert run.sql(rows) == [(20,)]
    assert 44_000_000 <= run.report["peak"]["heap_bytes"] < 60_000_000


def test_an_allocator_that_exports_no_malloc(record, tmp_path):
    """As inside pyarrow and polars: its blocks cannot be distinguished, what it maps is recorded, and a note says so."""
    shared, binary = tmp_path / "libbump.so", tmp_path / "bump"
    compiler = COMPILERS[".c"]
    source = TARGETS / "bump.c"
    subprocess.run([*compiler, "-shared", "-fPIC", "-DLIBRARY", "-o", shared, source], check=True)
    subprocess.run([*compiler, "-o", binary, source, shared, f"-Wl,-rpath,{tmp_path}"], check=True)
    run = record(binary)
    assert run.code == 0
    mapped = run.sql(
        "select kind, bytes, count(*) from {allocations} where bytes >= 1000000 group by all"
    )
    assert mapped == [("map_anonymous", 64 * MIB, 1)]
    peak = run.report["peak"]
    assert 40 * MIB <= peak["live_bytes"] - peak["heap_bytes"] < 41 * MIB
    [note] = [note for note in run.report["notes"] if "mappings" in note]
    assert re.match(r"4[12]\.\d MB of the peak are mappings that process", note)


@pytest.mark.parametrize("position", ["-pie", "-no-pie"])
def test_a_program_with_an_allocator_of_its_own(record, tmp_path, position):
    """It maps memory under its lock; looking up what the C library may not have would allocate, and wait for it."""
    program = tmp_path / "own_malloc"
    source = TARGETS / "own_malloc.c"
    # libstdc++ allocates before the probe's constructor has run.
    libraries = ["-Wl,--no-as-needed", "-lpthread", "-lstdc++"]
    subprocess.run(
        ["gcc", "-O1", position, "-rdynamic", "-o", program, source, *libraries], check=True
    )
    run = record(program, timeout=60)
    assert run.stdout == b"x\n"
    assert run.report["peak"]["mapped_bytes"] >= 64 << 20
