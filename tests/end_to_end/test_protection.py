"""Reserved address space that mprotect makes memory of, and memory that it takes back."""

import json

import pytest
from conftest import memtrace

MIB = 1 << 20


def spans_of(run):
    return {operator["name"]: operator["spans"][0] for operator in run.report["operators"]}


@pytest.fixture
def protected(target):
    return target("protected.c")


def test_what_becomes_writable_counts_until_it_is_given_back(record, protected):
    run = record(protected)
    assert run.code == 0
    peaks = {name: span["working_peak_bytes"] for name, span in spans_of(run).items()}
    expected = {
        "whole": 100,
        "again": 60,
        "parts": 15,
        "replaced": 20,
        "guarded": 4,
        "child": 16,
    }
    assert {name: peak // MIB for name, peak in peaks.items()} == expected
    assert spans_of(run)["parts"]["kept_bytes"] // MIB == 11 + 3
    # Touched as a whole at its peak, and no longer when it was given back.
    peak = run.report["peak"]
    assert 100 * MIB <= peak["live_bytes"] - peak["heap_bytes"] <= 101 * MIB
    left = run.sql(
        "select kind, sum(bytes) from {allocations} join {processes} using (process)"
        " where origin = 'exec' and free_ns is null and kind like 'map_%' group by kind"
    )
    memory = 14 * MIB
    assert sorted(left) == [
        ("map_anonymous", 4 * MIB),
        ("map_committed", memory),
        ("map_reserved", (1024 - 20) * MIB - memory),
    ]
    [process] = [row for row in run.report["processes"] if row["origin"] == "exec"]
    assert process["peak_mapped_bytes"] == 1024 * MIB


def test_rows_say_the_same(record, protected):
    run = record(protected)
    done = memtrace("report", "--recompute", "--json", run.path)
    assert done.returncode == 0, done.stdout.decode()
    assert json.loads(done.stdout)["differences"] == []
