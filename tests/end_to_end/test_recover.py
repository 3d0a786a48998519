"""A recorder that dies leaves a trace that `memtrace recover` closes."""

import contextlib
import json
import os
import signal
import subprocess
import time

import duckdb
import pytest
from conftest import MEMTRACE, Recording, memtrace

HELD = [(1_000_000 + i,) for i in range(200)]
BLOCKS = "select bytes from {allocations} where bytes >= 1000000"
LIVE = BLOCKS + " and free_ns is null order by bytes"


def start(path, *command):
    """In a process group of their own, so that both can be killed at once."""
    words = [str(word) for word in (MEMTRACE, "-o", path, "--", *command)]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def wait_until_noted(path, blocks):
    """Until the live set that lies beside the trace has so many large blocks, and meta.json, which
    is written after it, the figures of that time."""
    live, meta = path / "live.parquet", path / "meta.json"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # They are not there yet, or are replaced while they are read.
        with contextlib.suppress(duckdb.Error, FileNotFoundError):
            found = len(duckdb.sql(BLOCKS.format(allocations=f"'{live}'")).fetchall())
            if found == blocks and meta.stat().st_mtime_ns >= live.stat().st_mtime_ns:
                return
        time.sleep(0.01)
    raise AssertionError(f"never {blocks} blocks")


def recover(path):
    done = memtrace("recover", path)
    assert done.returncode == 0, done.stderr
    assert json.loads((path / "meta.json").read_text())["complete"]
    return Recording(path, done.returncode, done.stdout, done.stderr)


def contents(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_the_recorder_alone_is_killed(target, tmp_path):
    path = tmp_path / "t"
    with start(path, "sh", "-c", f"{target('holds.c')}; echo status $?") as running:
        assert running.stdout.readline() == b"holding\n"
        wait_until_noted(path, len(HELD))
        meanwhile = memtrace("report", path).stdout
        assert b": still runs after" in meanwhile and b"cut short" not in meanwhile
        running.kill()
        running.wait()
        # The program is as it was: it goes on, unrecorded, to its own end.
        running.stdin.write(b"\n")
        running.stdin.close()
        assert running.stdout.read() == b"more\nfinished\nstatus 3\n"
        assert running.stderr.read() == b""
    before = memtrace("report", path)
    assert b"cut short" in before.stdout
    run = recover(path)
    assert run.stderr.startswith(b"memtrace: closed; "), run.stderr
    assert run.sql(LIVE) == HELD
    assert run.sql(BLOCKS.replace("bytes >=", "free_ns is not null and bytes >=")) == [
        (1_000_000 + i,) for i in range(200, 300)
    ]
    report = run.report
    assert (report["complete"], report["exit"]) == (True, None)
    peak = sum(1_000_000 + i for i in range(300))
    assert peak <= report["peak"]["heap_bytes"] < peak + 100_000
    assert any("recorder died" in note for note in report["notes"])
    assert b"was not seen to end" in memtrace("report", path).stdout
    assert "live.parquet" not in os.listdir(path)


@pytest.mark.parametrize("peaks", [0, 1])
def test_both_are_killed_at_once(target, tmp_path, peaks):
    """As an OOM killer kills a whole control group; what was allocated a moment before is there."""
    path = tmp_path / "t"
    with start(path, target("holds.c")) as running:
        assert running.stdout.readline() == b"holding\n"
        wait_until_noted(path, len(HELD))
        for _ in range(peaks):
            running.stdin.write(b"\n")
            running.stdin.flush()
            assert running.stdout.readline() == b"more\n"
        wait_until_noted(path, len(HELD) + peaks)
        os.killpg(running.pid, signal.SIGKILL)
    run = recover(path)
    assert run.sql(LIVE) == HELD + [(150_000_000,)] * peaks
    held = sum(size for (size,) in HELD) + 150_000_000 * peaks
    most = max(held, sum(1_000_000 + i for i in range(300)))
    assert most <= run.report["peak"]["live_bytes"] < most + 100_000
    place = run.report["sites"][0]["stack"][-1]
    assert "_start" in place or "main" in place


def test_a_trace_that_was_recovered_is_complete(target, tmp_path):
    path = tmp_path / "t"
    with start(path, target("holds.c")) as running:
        wait_until_noted(path, len(HELD))
        os.killpg(running.pid, signal.SIGKILL)
    recover(path)
    before = contents(path)
    again = memtrace("recover", path)
    assert again.returncode == 0
    assert b"nothing was changed" in again.stderr
    assert contents(path) == before


def test_a_complete_trace_is_left_alone(record, target):
    run = record(target("heap.c"))
    before = contents(run.path)
    done = memtrace("recover", run.path)
    assert done.returncode == 0
    assert b"complete; nothing was changed" in done.stderr
    assert contents(run.path) == before


@pytest.mark.parametrize("what", ["missing", "empty", "other", "file"])
def test_what_is_no_trace(tmp_path, what):
    path = tmp_path / "t"
    if what == "file":
        path.write_text("text")
    elif what != "missing":
        path.mkdir()
    if what == "other":
        (path / "notes.txt").write_text("text")
    done = memtrace("recover", path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"memtrace: ")
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.rglob("*.parquet")) == []
