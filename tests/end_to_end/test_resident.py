"""Why resident memory is another number than live bytes: what is reported of it, by process, by span and by call stack."""

import json
import sys

import pytest
from conftest import memtrace

pytestmark = pytest.mark.serial

MIB = 1 << 20
PAGE = 4096
# Resident memory is reported in steps of 64 KiB and a 128th; what a span begins with is known to within one.
STEP = (64 << 10) + 12 * MIB // 128


@pytest.fixture
def explained(kernel_side, record, target):
    return record(target("explained.c"), options=("--kernel", "ebpf"))


def spans_of(run):
    return {operator["name"]: operator["spans"][0] for operator in run.report["operators"]}


def adds_up(parts, resident):
    assert parts["memory_bytes"] + parts["file_bytes"] == resident
    touched = parts["live_bytes"] - parts["untouched_bytes"]
    image = (parts["stack_bytes"] or 0) + (parts["data_bytes"] or 0)
    assert touched + image + parts["unexplained_bytes"] == parts["memory_bytes"]


def test_the_peak_of_a_process(explained):
    [process] = explained.report["processes"]
    parts = process["resident_at_peak"]
    adds_up(parts, process["peak_resident_bytes"])
    # Both blocks are live, of the larger one only a quarter is touched.
    assert parts["live_bytes"] == 72 * MIB
    assert parts["untouched_bytes"] == 48 * MIB
    # Two headers of malloc, and stack and data, if they were not read.
    assert 0 < parts["unexplained_bytes"] < MIB // 2


def test_the_peaks_of_spans(explained):
    before, during, less = map(int, explained.stdout.split())
    [process] = explained.report["processes"]
    assert process["peak_resident_bytes"] + process["probe_bytes"] == during
    spans = spans_of(explained)
    for name, said, block in (("quarter", during, 64 * MIB), ("less", less, 16 * MIB)):
        span = spans[name]
        # To the page, but for the probe's ring, which grows by a page now and then.
        assert 0 <= said - span["resident_peak_bytes"] <= process["probe_bytes"]
        parts = span["resident_at_peak"]
        adds_up(parts, span["resident_peak_bytes"])
        assert parts["live_bytes"] == 8 * MIB + block
        assert parts["untouched_bytes"] == block * 3 // 4
        assert abs(span["resident_start_bytes"] - before) <= STEP + 2 * MIB // 8
        growth = span["resident_growth_bytes"]
        assert growth == span["resident_peak_bytes"] - span["resident_start_bytes"]
        assert abs(growth - block // 4) <= STEP
        # The figure it is compared with is another one.
        assert span["working_peak_bytes"] == block


def test_what_was_never_touched_by_call_stack(explained):
    untouched = explained.report["untouched"]
    assert untouched["blocks"] == 2
    assert untouched["of_bytes"] == 80 * MIB
    assert untouched["bytes"] == 60 * MIB
    sites = untouched["sites"]
    assert [(site["bytes"], site["of_bytes"]) for site in sites] == [
        (48 * MIB, 64 * MIB),
        (12 * MIB, 16 * MIB),
    ]
    assert any("quarter" in frame or "main" in frame for frame in sites[0]["stack"])
    rows = explained.sql(
        "SELECT site, sum(bytes) FROM {kernel_events} WHERE event = 'untouched' GROUP BY site"
    )
    assert sorted(rows) == sorted((site["site"], site["bytes"]) for site in sites)
    said = explained.details
    assert "never touched" in said and "50.3 MB" in said and "67.1 MB" in said


def test_the_summary_has_a_line_for_each(explained):
    lines = explained.details.splitlines()
    places = [at for at, line in enumerate(lines) if line.startswith("  at resident peak")]
    assert ["page tables" if "tables" in lines[at] else "growth" for at in places] == [
        "page tables",
        "growth",
    ]
    for at in places:
        resident, parts = lines[at + 1].split(" = ")
        # How many pages of the C library come with a fault varies.
        assert 26.3 < float(resident.split()[-2]) < 27.5
        assert "25.2 MB" in parts.split(" + ")[1]
        assert "75.5 MB" in parts
    assert max(len(line) for at in places for line in lines[at : at + 2]) <= 100


def test_memory_of_an_arena_that_the_program_has_not_touched(kernel_side, record, target):
    """A block that does not get a mapping of its own: glibc extends its heap by it."""
    run = record(target("arena.c"), options=("--kernel", "ebpf"))
    untouched = run.report["untouched"]
    # The block after it lies where the first one was: half of it had been touched by then.
    assert [site["of_bytes"] for site in untouched["sites"]] == [16 * MIB, 16 * MIB]
    assert all(8 * MIB - 4 * PAGE <= site["bytes"] <= 8 * MIB for site in untouched["sites"])


MAPPED_IN_ADVANCE = """
import mmap, sys
size = int(sys.argv[1]) << 20
place = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, size // 4, mmap.PAGESIZE):
    place[page] = 1
"""


def test_memory_that_is_mapped_in_advance_is_in_no_law(kernel_side, tmp_path):
    traces = []
    for size in (64, 128, 256):
        traces.append(tmp_path / f"trace-{size}")
        span = ("--span", "command", f"--shape={size}")
        command = (sys.executable, "-S", "-c", MAPPED_IN_ADVANCE, size)
        assert memtrace("-q", "-o", traces[-1], *span, "--", *command).returncode == 0
    model = tmp_path / "model.json"
    assert memtrace("fit", "-o", model, *traces).returncode == 0
    words = ("predict", model, "--operator", "command", "--shape=512", "--json")
    said = json.loads(memtrace(*words).stdout)
    assert 512 * MIB <= said["peak_bytes"] < 544 * MIB
    assert 128 * MIB <= said["resident_bytes"] < 160 * MIB
    assert said["resident_upper_bytes"] >= 512 * MIB


def test_without_the_kernel_side_nothing_is_claimed(record, target):
    run = record(target("explained.c"), options=("--kernel", "proc"))
    assert run.report["untouched"] is None
    for span in spans_of(run).values():
        assert span["resident_at_peak"] is None
        assert span["resident_growth_bytes"] is None
    assert "never touched" not in run.details
    assert "at resident peak" not in run.details


def test_a_trace_that_was_recomputed_is_the_same(explained):
    done = memtrace("report", "--recompute", explained.path)
    assert done.returncode == 0, done.stdout.decode()


def test_page_tables_are_reported_separately(record, python):
    """They are read every 50 ms. 64 MiB in pages of 4 KiB need 128 KiB of them, huge pages have theirs ready."""
    script = "import time; held = b'x' * (64 << 20); time.sleep(0.5)"
    run = record(python, "-S", "-c", script)
    [process] = run.report["processes"]
    assert 128 << 10 < process["page_table_bytes"] < MIB


def test_stack_and_data_are_counted_separately(kernel_side, record, target):
    run = record(target("image.c"))
    [process] = run.report["processes"]
    parts = process["resident_at_peak"]
    adds_up(parts, process["peak_resident_bytes"])
    # Of 12 MiB of variables 9 are touched, and a MiB of stack; the rest is the C library's.
    assert 9 * MIB <= parts["data_bytes"] <= 9 * MIB + MIB // 4
    assert MIB <= parts["stack_bytes"] <= MIB + MIB // 8
    assert -4 * PAGE <= parts["unexplained_bytes"] < MIB // 4
