"""What a recording leaves on disk: tables that every library reads alike, and options that make them smaller."""

import subprocess

import duckdb
import pytest
from conftest import MEMTRACE, memtrace
from test_recover import wait_until_noted

COLUMNS = "process, thread, kind, address, bytes, alloc_ns, free_ns, site, ordinal, span, role"


def rows(run):
    return run.sql(f"select {COLUMNS} from {{allocations}} order by all")


def size(path):
    """Bytes of all files below a directory, those under hidden names too."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.fixture
def churn(record, target):
    return lambda *options, **more: record(target("churn.c"), "mixed", options=options, **more)


def test_libraries_read_the_same(churn):
    run = churn("--addresses")
    files = f"{run.path}/allocations/*.parquet"
    expected = rows(run)
    assert len(expected) == run.report["totals"]["allocations"] > 50_000
    assert sum(row[4] for row in expected) == run.report["totals"]["requested_bytes"]
    readers = 0
    for library, read in (("polars", in_polars), ("pyarrow", in_pyarrow)):
        if has(library):
            assert sorted(map(key, read(files))) == sorted(map(key, expected)), library
            readers += 1
    if readers == 0:
        pytest.skip("neither Polars nor PyArrow is installed")


def has(library):
    try:
        __import__(library)
    except ImportError:
        return False
    return True


def in_polars(files):
    import polars

    return polars.scan_parquet(files).select(COLUMNS.split(", ")).collect().rows()


def in_pyarrow(files):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(files.removesuffix("/*.parquet"))
    return [tuple(row[name] for name in COLUMNS.split(", ")) for row in table.to_pylist()]


def key(row):
    """Rows may hold nulls, which have no order."""
    return tuple((value is None, value) if value is not None else (True, 0) for value in row)


def test_small_released_blocks_have_no_address(churn):
    missing, kept = churn().sql(
        "select address is null, count(*), bool_and(kind in ('malloc', 'calloc', 'realloc', 'aligned')"
        " and bytes < 65536 and free_ns is not null) from {allocations} group by 1 order by 1 desc"
    )
    assert missing[0] and missing[1] > 50_000 and missing[2]
    assert not kept[0] and kept[1] > 1000


def test_min_size_folds_small_blocks(churn):
    whole, run = churn(), churn("--min-size", "2kB")
    assert run.report["totals"] == whole.report["totals"]
    assert run.report["peak"]["heap_bytes"] == whole.report["peak"]["heap_bytes"]
    assert run.report["rows"]["min_size_bytes"] == 2000
    heap = "kind in ('malloc', 'calloc', 'realloc', 'aligned')"
    small = f"from {{allocations}} where bytes < 2000 and {heap}"
    assert run.sql(f"select count(*) {small}") == [(0,)]
    large = f"from {{allocations}} where bytes >= 2000 or not {heap}"
    sums = "select kind, count(*), sum(bytes), count(free_ns)"
    assert run.sql(f"{sums} {large} group by 1 order by 1") == whole.sql(
        f"{sums} {large} group by 1 order by 1"
    )
    folded = run.sql(
        f"select kind, sum(blocks), sum(requested_bytes), sum(released) from '{run.path}/folded.parquet'"
        " group by 1 order by 1"
    )
    assert folded == whole.sql(f"{sums} {small} group by 1 order by 1")
    assert run.report["rows"]["folded"] == sum(row[1] for row in folded)
    assert b"have no rows of their own (--min-size)" in run.stderr


def test_aggregate_writes_no_rows(churn):
    # Which small blocks have a stack is chance otherwise.
    whole, run = churn("--stacks", "all"), churn("--stacks", "all", "--aggregate")
    assert run.report["totals"] == whole.report["totals"]
    assert rows(run) == []
    [[blocks, requested]] = run.sql(
        f"select sum(blocks), sum(requested_bytes) from '{run.path}/folded.parquet'"
    )
    assert blocks == run.report["rows"]["folded"] == len(rows(whole))
    assert requested == sum(row[4] for row in rows(whole))
    assert run.report["sites"] and len(run.report["sites"]) == len(whole.report["sites"])
    assert b"(--aggregate)" in run.stderr


def test_a_law_says_what_it_lacks(record, python, tmp_path):
    program = (python, "-c", "bytearray(1 << 20)")
    span = ("--span", "demo", "--shape", "8,9")
    for option, said in (
        (("--aggregate",), b"--aggregate: it has no rows"),
        (("--min-size", "64KiB"), b"--min-size: a law needs"),
    ):
        run = record(*program, options=(*span, *option))
        done = memtrace("fit", run.path, "-o", tmp_path / "model.json")
        assert done.returncode == 1 and said in done.stderr and done.stderr.count(b"\n") == 1


def test_a_trace_stays_within_its_size(record, target):
    limit = 2_000_000
    command = (target("stress.c"), "threads", 2, 1_000_000)
    whole, run = record(*command), record(*command, options=("--max-trace-size", "2MB"))
    assert size(whole.path) > 2 * limit
    assert size(run.path) <= limit
    kept = run.report["rows"]
    assert kept["rotated"] > 0
    assert run.report["totals"] == whole.report["totals"]
    [[written]] = run.sql("select count(*) from {allocations}")
    assert written + kept["rotated"] == run.report["totals"]["allocations"]
    assert b"(--max-trace-size)" in run.stderr


def test_sizes_are_checked():
    done = memtrace("--max-trace-size", "10kB", "--", "true")
    assert done.returncode == 2 and b"at least" in done.stderr


@pytest.mark.parametrize(
    "option", [("--aggregate",), ("--min-size", "1MB"), ("--max-trace-size", "2MiB")]
)
def test_recover_copes(target, tmp_path, option):
    path = tmp_path / "trace"
    command = [MEMTRACE, "-q", "-o", path, *option, "--", target("holds.c")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout.readline() == b"holding\n"
        wait_until_noted(path, 200)
        recorder.kill()
        recorder.wait()
    done = memtrace("recover", path)
    assert done.returncode == 0 and done.stderr.startswith(b"memtrace: closed; "), done.stderr
    live = f"select count(*) from '{path}/allocations/*.parquet' where free_ns is null and bytes >= 1000000"
    assert duckdb.sql(live).fetchall() == [(200,)]
    assert memtrace("report", path).returncode == 0
