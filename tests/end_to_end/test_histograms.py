"""Heap blocks by size and lifetime: `report --histograms` and the page, against the rows."""

import json

import browser
import pytest
from browser import Shown, html
from conftest import memtrace

HEAP = "kind in ('malloc', 'calloc', 'realloc', 'aligned')"
PROGRAM = """
import time
kept = [bytearray(3_000_000) for _ in range(4)]
soon = [bytearray(200_000) for _ in range(30)]
time.sleep(0.05)
del soon
for _ in range(100):
    bytearray(50_000)
"""


@pytest.fixture
def run(record, python):
    return record(python, "-c", PROGRAM)


def binned(run, bound, where):
    """Blocks and bytes by the beginning of their bin."""
    rows = run.sql(
        f"select {bound}, count(*), sum(bytes)::bigint from {{allocations}}"
        f" where {HEAP} and {where} group by 1"
    )
    return {int(start): (blocks, size) for start, blocks, size in rows}


def by_size(run):
    power = "1::bigint << floor(log2(bytes))::integer"
    return binned(run, f"case when bytes = 0 then 0 else {power} end", "true")


def by_lifetime(run):
    time = "(free_ns - alloc_ns)"
    power = f"pow(10, length({time}::varchar) - 1)"
    return binned(run, f"case when {time} < 1000 then 0 else {power} end", "free_ns is not null")


def counted(bins):
    return {bin_["from"]: (bin_["blocks"], bin_["bytes"]) for bin_ in bins if bin_["blocks"]}


def test_bins_are_what_the_rows_say(run):
    done = memtrace("report", "--histograms", run.path, "--json")
    assert done.returncode == 0, done.stderr.decode()
    histograms = json.loads(done.stdout)
    assert counted(histograms["sizes"]) == by_size(run)
    assert counted(histograms["lifetimes"]) == by_lifetime(run)
    [[blocks, size]] = run.sql(
        "select count(*), coalesce(sum(bytes), 0)::bigint from {allocations}"
        f" where {HEAP} and free_ns is null"
    )
    assert (histograms["unreleased_blocks"], histograms["unreleased_bytes"]) == (blocks, size)
    assert histograms["blocks"] == sum(blocks for blocks, _ in by_size(run).values())
    slept = sum(blocks for time, (blocks, _) in by_lifetime(run).items() if time >= 10_000_000)
    assert by_size(run)[32768][0] >= 100 and slept >= 30


def test_the_page_draws_the_same(run, tmp_path):
    with browser.started() as chromium:
        shown = Shown(chromium, html(run.path, tmp_path / "page.html"), bypass_csp=True)
        shown.select(view="blocks")
        sizes, lifetimes = shown.page.eval_on_selector_all(
            "#panel-blocks tbody",
            "bodies => bodies.map(body => [...body.rows].map(row => ["
            "row.dataset.from, row.dataset.blocks, row.dataset.bytes].map(Number)))",
        )
        drawn = [{"from": start, "blocks": blocks, "bytes": size} for start, blocks, size in sizes]
        assert counted(drawn) == by_size(run)
        drawn = [dict(zip(("from", "blocks", "bytes"), row, strict=True)) for row in lifetimes[:-1]]
        assert counted(drawn) == by_lifetime(run)
        shown.assert_accessible()
        shown.close()


def test_the_tables_have_a_row_for_each_bin(run):
    text = memtrace("report", "--histograms", run.path).stdout.decode()
    assert max(map(len, text.splitlines())) <= 100
    [row] = [line.split() for line in text.splitlines() if line.strip().startswith("2.10 MB")]
    assert int(row[2]) == by_size(run)[2_097_152][0] >= 4


def test_without_rows_it_is_one_sentence(record, python):
    run = record(python, "-c", "pass", options=("--aggregate",))
    done = memtrace("report", "--histograms", run.path)
    assert done.returncode == 1
    assert b"--aggregate, which writes no rows" in done.stderr and done.stderr.count(b"\n") == 1
