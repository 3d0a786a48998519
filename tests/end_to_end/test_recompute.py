"""`report --recompute`: rows tell the same figures that were folded while recording."""

import json
import os

import duckdb
import pytest
from conftest import memtrace
from random_programs import check


def recompute(path):
    done = memtrace("report", "--recompute", "--json", path)
    return done.returncode, json.loads(done.stdout)


def assert_equal(path, exactly=True):
    code, found = recompute(path)
    assert found["differences"] == []
    assert code == 0
    if exactly:
        assert found["equal"]
    return found


def test_churn_of_one_thread(record, target):
    run = record(target("churn.c"), "mixed")
    found = assert_equal(run.path)
    report = run.report
    assert found["totals"] == report["totals"]
    assert found["peak"]["heap_bytes"] == report["peak"]["heap_bytes"]
    assert found["peak"]["live_bytes"] == report["peak"]["live_bytes"]
    assert found["peak"]["peak_ns"] == round(report["peak"]["seconds"] * 1e9)
    live = {site["site"]: site["live_bytes_at_peak"] for site in report["sites"]}
    assert {site["site"]: site["live_bytes_at_peak"] for site in found["sites"]} == live
    assert sum(live.values()) > 0, "there were large blocks"
    text = memtrace("report", "--recompute", run.path).stdout.decode()
    assert "  equal: " in text and "DIFFERS" not in text


@pytest.mark.parametrize("what", ["grow", "zero", "small"])
def test_reallocations(record, target, what):
    assert_equal(record(target("churn.c"), what).path)


def test_threads(record, target):
    # Two threads may do something at the same time.
    found = assert_equal(record(target("stress.c"), "threads", 4, 20000).path, exactly=False)
    assert found["totals"]["allocations"] >= 20000


def test_python_spans_and_mappings(record, python):
    program = (
        "import threading\n"
        "def work(n): return sum(len(bytes(n + i)) for i in range(300))\n"
        "def outer(n): return work(n) + len(bytearray(n * 10))\n"
        "threads = [threading.Thread(target=outer, args=(100000,)) for _ in range(3)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "outer(5000)\n"
    )
    run = record(
        python,
        "-c",
        program,
        options=("--operator", "__main__:work", "--operator", "__main__:outer"),
    )
    found = assert_equal(run.path, exactly=False)
    peaks = dict(run.sql("select span, working_peak_bytes from {spans}"))
    assert len(peaks) == 8
    for span in found["spans"]:
        assert span["working_peak_bytes"] == pytest.approx(peaks[span["span"]], abs=200_000)


def test_processes(record, target):
    found = assert_equal(record(target("forks.c")).path, exactly=False)
    assert len(found["processes"]) > 1


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(target, tmp_path, seed):
    outcome = check(target("random_program.c"), tmp_path, seed)
    assert not outcome.mismatches
    assert_equal(tmp_path / "trace", exactly=False)


def change(path, table, column, value):
    """Writes a table anew with one value changed."""
    file = path / table
    query = f"select * replace ({value} as {column}) from '{file}'"
    duckdb.sql(f"copy ({query}) to '{file}.new' (format parquet, compression zstd)")
    os.replace(f"{file}.new", file)


@pytest.mark.parametrize(
    ("table", "column", "name"),
    [
        ("processes.parquet", "peak_heap_bytes", "peak_heap_bytes"),
        ("processes.parquet", "allocations", "allocations"),
        ("sites.parquet", "live_bytes_at_peak", "live_bytes_at_peak"),
        ("sites.parquet", "peak_live_bytes", "peak_live_bytes"),
        ("sites.parquet", "blocks", "blocks"),
    ],
)
def test_what_differs_is_said(record, target, table, column, name):
    run = record(target("churn.c"), "mixed")
    change(run.path, table, column, f"({column} + 1)::ubigint")
    code, found = recompute(run.path)
    assert code == 1 and not found["equal"]
    assert {difference["name"] for difference in found["differences"]} == {name}
    done = memtrace("report", "--recompute", run.path)
    assert done.returncode == 1 and b"DIFFER" in done.stdout


def assert_refused(path, said):
    done = memtrace("report", "--recompute", path)
    assert done.returncode == 1 and said in done.stderr
    assert (
        done.stderr.startswith(b"memtrace: the rows of the trace do not tell this: ")
        and done.stderr.count(b"\n") == 1
    )
    assert memtrace("report", path).returncode == 0


def test_a_trace_that_was_cut_short_is_refused(record):
    run = record("true")
    meta = json.loads((run.path / "meta.json").read_text())
    meta["complete"] = False
    (run.path / "meta.json").write_text(json.dumps(meta))
    assert_refused(run.path, b"cut short")


@pytest.mark.parametrize("option", [("--aggregate",), ("--min-size", "2kB")])
def test_a_trace_without_every_row_is_refused(record, target, option):
    run = record(target("churn.c"), "mixed", options=option)
    assert_refused(run.path, option[0].encode())


def test_a_trace_that_was_kept_small_is_refused_once_rows_are_gone(record, target):
    option = ("--max-trace-size", "2MB")
    run = record(target("stress.c"), "threads", 2, 1_000_000, options=option)
    assert run.report["rows"]["rotated"] > 0
    assert_refused(run.path, b"--max-trace-size")
    assert_equal(record(target("churn.c"), "grow", options=option).path)


@pytest.mark.parametrize("stacks", ["auto", "all", "none"])
def test_sites_count_as_much_as_they_stand_for(record, target, stacks):
    run = record(target("churn.c"), "mixed", options=("--stacks", stacks))
    found = assert_equal(run.path)
    rows = "from {allocations} where site is not null"
    [[blocks, requested]] = run.sql(f"select count(*), coalesce(sum(bytes), 0)::ubigint {rows}")
    counted = [sum(site[name] for site in found["sites"]) for name in ("blocks", "requested_bytes")]
    if stacks == "auto":
        assert counted[0] > blocks and counted[1] > requested, "some are sampled"
    else:
        assert counted == [blocks, requested]
    assert bool(found["sites"]) == (stacks != "none")
