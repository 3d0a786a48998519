"""The heap, held against valgrind's DHAT: an implementation of the same counts that shares no code with ours.

What DHAT counts: heap blocks only; a realloc is one new block of the new size, and a realloc that moves
never counts both; malloc(0) is a block of one byte (ours: of none). Both see what the C and C++ libraries
allocate themselves (stdio's buffers, libstdc++'s emergency pool of 72,704 bytes); valgrind would release
these at the end on behalf of the program, which is switched off here because the program does not.
"""

import json
import shutil
import subprocess
from typing import NamedTuple

import pytest

HEAP = "kind in ('malloc', 'calloc', 'realloc', 'aligned')"
OPTIONS = ("-q", "--tool=dhat", "--run-libc-freeres=no", "--run-cxx-freeres=no")
SQL = """
create table t(number, text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
insert into t select i, hex(i * 7919) from n;
create index by_text on t(text);
select count(*), max(text) from t where text like '%3%';
select sum(number) from t group by text % 10;
"""


class Counts(NamedTuple):
    blocks: int
    bytes: int
    blocks_at_end: int
    bytes_at_end: int


@pytest.fixture
def dhat(tmp_path):
    """Runs a command under DHAT: its counts, its peak (t-gmax) and its output."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")

    def run(*command):
        out = tmp_path / "dhat.json"
        whole = ["valgrind", *OPTIONS, f"--dhat-out-file={out}", *map(str, command)]
        done = subprocess.run(whole, check=True, stdout=subprocess.PIPE)
        points = json.loads(out.read_text())["pps"]
        total, blocks, peak, end, end_blocks = (
            sum(point[key] for point in points) for key in ("tb", "tbk", "gb", "eb", "ebk")
        )
        return Counts(blocks, total, end_blocks, end), peak, done.stdout

    return run


def check(record, dhat, command):
    theirs, their_peak, output = dhat(*command)
    run = record(*command)
    assert run.stdout == output, "both ran the same"
    [(blocks, total, end_blocks, end, empty, empty_at_end)] = run.sql(
        "select count(*), sum(bytes), count(*) filter (free_ns is null),"
        " coalesce(sum(bytes) filter (free_ns is null), 0), count(*) filter (bytes = 0),"
        f" count(*) filter (bytes = 0 and free_ns is null) from {{allocations}} where {HEAP}"
    )
    assert theirs == Counts(blocks, total + empty, end_blocks, end + empty_at_end)
    # At the peak, at most all empty blocks were there.
    assert 0 <= their_peak - run.report["peak"]["heap_bytes"] <= empty
    return theirs, their_peak


@pytest.mark.parametrize("what", ["mixed", "grow", "zero", "small"])
def test_a_c_program(record, dhat, target, what):
    counts, peak = check(record, dhat, (target("churn.c"), what))
    at_least = {"mixed": 60_000, "grow": 50, "zero": 1_500, "small": 200_000}[what]
    assert counts.blocks >= at_least
    if what == "zero":
        assert peak < 2 << 20, "realloc(p, 0) released each block of 1 MiB"


def test_a_cpp_program_with_containers(record, dhat, target):
    counts, _ = check(record, dhat, (target("containers.cpp"),))
    assert counts.blocks > 10_000


def test_sqlite(record, dhat):
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    counts, _ = check(record, dhat, ("sqlite3", ":memory:", SQL))
    assert counts.blocks > 10_000
