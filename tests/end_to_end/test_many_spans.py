"""Spans leave the recorder's memory as they end, and the trace has all of them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import MEMTRACE, Recording, memtrace

#: Rows of a part (`trace/src/write/span_rows.rs`).
PART = 16 * 1024
#: Most that the recorder may have in memory, however many spans there are.
HELD_MAX = 100 << 20


class Many:
    """A recording of tests/targets/many_spans.c, all of whose spans have ended."""

    def __init__(self, program, path, spans, processes):
        self.path, self.spans, self.processes = path, spans, processes
        words = [MEMTRACE, "-q", "-o", path, "--", program, str(spans), str(processes)]
        pipe = subprocess.PIPE
        self.recorder = subprocess.Popen(
            list(map(str, words)), stdin=pipe, stdout=pipe, start_new_session=True
        )
        assert self.recorder.stdout.readline() == b"done\n"

    def end(self):
        """Ends it in order. The most that the recorder had in memory, as far as it was seen."""
        self.recorder.stdin.close()
        self.recorder.stdout.close()
        status, held = Path(f"/proc/{self.recorder.pid}/status"), 0
        while self.recorder.poll() is None:
            lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
            held = max([held, *(int(line.split()[1]) << 10 for line in lines)])
            time.sleep(0.005)
        assert self.recorder.returncode == 0
        return held

    def kill(self):
        os.killpg(self.recorder.pid, signal.SIGKILL)
        self.recorder.wait()
        self.recorder.stdin.close()
        self.recorder.stdout.close()

    def sql(self, query):
        return Recording(self.path, 0, b"", b"").sql(query)

    def call(self, i):
        """Operator, first axis, call, working peak, one-time bytes and live bytes at the end."""
        first = i < 1000 and i % 50 == 0
        size = 5000 + i % 50
        kept = size if i % 1000 == 0 else 0
        # Number 0 and number 1000 leave blocks alike: only the 6000 bytes are left once.
        once = kept if i == 0 and self.spans // self.processes <= 1000 else 0
        more = 6000 if first else 0
        rank = i // 1000 * 50 + i % 50
        return (
            f"operator_{i // 50 % 20}",
            100 + i % 50,
            rank,
            size + more,
            more + once,
            kept + more,
        )

    def expected(self):
        return [self.call(i) for i in range(self.spans // self.processes)]


CALLS = (
    "select operator, (inputs::json->0->'shape'->0)::bigint, call, working_peak_bytes, one_time_bytes,"
    " live_bytes_at_end from {spans} where operator <> 'all'"
)


@pytest.fixture
def many(target, tmp_path):
    def run(spans, processes):
        return Many(target("many_spans.c"), tmp_path / "trace", spans, processes)

    return run


def test_every_span_has_its_row_in_the_order_they_began(many):
    run = many(60_000, 2)
    assert len(list((run.path / "spans").glob("part-*.parquet"))) == 60_000 // PART
    run.end()
    assert not (run.path / "spans").exists()
    numbers = run.sql("select span from {spans}")
    assert numbers == [(span,) for span in range(60_002)]
    for process in (0, 1):
        calls = run.sql(f"{CALLS} and process = {process} order by span")
        assert calls == run.expected()
    [(calls, ended, kept)] = run.sql(
        "select count(*), count(end_ns), sum(kept_bytes) from {spans} where operator = 'all'"
    )
    assert (calls, ended) == (2, 2)
    assert kept == 2 * sum(call[5] for call in run.expected())
    parents = run.sql(
        "select distinct p.operator, p.process = s.process from {spans} s join {spans} p"
        " on s.parent = p.span"
    )
    assert parents == [("all", True)]


def test_while_it_runs_and_after_the_recorder_died_they_are_there(many):
    run = many(40_000, 1)
    whole = 40_000 // PART * PART
    for _ in "while it runs", "when it was killed":
        report = json.loads(memtrace("report", "--json", run.path).stdout)
        calls = {operator["name"]: operator["calls"] for operator in report["operators"]}
        assert whole <= sum(calls.values()) <= 40_001
        if run.recorder.returncode is None:
            run.kill()
    assert memtrace("recover", run.path).returncode == 0
    assert not (run.path / "spans").exists()
    rows = run.sql("select span from {spans}")
    assert rows == sorted(rows) and len(set(rows)) == len(rows) >= whole
    expected = run.expected()
    found = dict((row[0], row[1:]) for row in run.sql(f"select span, {CALLS[7:]}"))
    early = [(found[i + 1], expected[i]) for i in range(1000, 15_000)]
    # What was live at the end is not known of a program that has not ended.
    assert all(row[:5] == (*call[:4], 0) for row, call in early)


def test_memory_of_the_recorder_does_not_grow_with_the_spans(many):
    run = many(300_000, 8)
    held = run.end()
    assert held < HELD_MAX
    [(spans,)] = run.sql("select count(*) from {spans}")
    assert spans == 300_008
    # 13 bytes each when the test was written.
    assert (run.path / "spans.parquet").stat().st_size < 20 * spans
