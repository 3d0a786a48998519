"""What is missing, or cannot be known, is said: in one sentence, and by the exit status."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import MEMTRACE, memtrace

SPANS = "import numpy as np\nfor n in (300, 500):\n    np.ones((n, 1000)).sum()\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    trace = tmp_path_factory.mktemp("whole") / "trace"
    assert memtrace("-q", "-o", trace, "--", sys.executable, "-c", SPANS).returncode == 0
    return trace


@pytest.fixture
def trace(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "trace")
    return tmp_path / "trace"


def refused(*command, status=1):
    done = memtrace(*command, timeout=60)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert said.startswith("memtrace: ") and said.count("\n") == 1, said
    return said


@pytest.mark.parametrize("table", ["sites", "frames", "spans", "timeline"])
@pytest.mark.parametrize(
    "command",
    [("report",), ("report", "--json"), ("report", "--html", "-"), ("flamegraph", "-o", "-")],
)
def test_a_complete_trace_without_a_table_is_refused(trace, table, command):
    path = trace / f"{table}.parquet"
    path.unlink() if path.exists() else shutil.rmtree(trace / table)
    assert f"lost its table `{table}`" in refused(*command, trace)


@pytest.mark.parametrize(
    "file", ["sites.parquet", "frames.parquet", "allocations/part-00000.parquet"]
)
def test_a_pipe_or_a_link_to_itself_is_no_table(trace, file):
    path = trace / file
    path.unlink()
    os.mkfifo(path)
    assert file in refused("report", trace)
    path.unlink()
    path.symlink_to(path)
    assert file in refused("report", trace)


def test_a_table_that_was_cut_off_has_no_end(trace):
    path = trace / "spans.parquet"
    whole = path.read_bytes()
    for size in range(12, len(whole), len(whole) // 20):
        path.write_bytes(whole[:size])
        assert "spans.parquet is damaged: its end is missing" in refused("report", trace)


def test_one_look_at_a_silent_recorder_ends(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / ".socket"))
        listener.listen()
        said = refused("top", "--json", "--once", tmp_path)
    assert "does not answer" in said and "os error" not in said


def test_events_lost_by_a_recorder_that_died_are_not_said_to_be_none(target, tmp_path):
    path = tmp_path / "trace"
    pipe = subprocess.PIPE
    words = [MEMTRACE, "-o", path, "--", target("holds.c")]
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as running:
        assert running.stdout.readline() == b"holding\n"
        deadline = time.monotonic() + 60
        while not (path / "live.parquet").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
    before = memtrace("report", "--details", path).stdout.decode()
    assert memtrace("recover", path).returncode == 0
    after = memtrace("report", "--details", path).stdout.decode()
    for said in (before, after):
        assert "how many events were lost is not known" in said
        assert not re.search(r"\b0 events lost", said)


def test_of_a_whole_recording_it_is_known(trace):
    assert "; 0 events lost; " in memtrace("report", "--details", trace).stdout.decode()


def test_a_flame_graph_at_one_word_is_of_the_trace_that_follows(trace):
    done = memtrace("flamegraph", "-o", "-", "--at", "exit", trace)
    assert done.returncode == 0 and b"<svg" in done.stdout, done.stderr
    done = memtrace("flamegraph", "-o", "-", trace, "--at", "exit")
    assert done.returncode == 0 and b"<svg" in done.stdout, done.stderr
    assert "name <TRACE>" in refused("flamegraph", "-o", "-", "--at", "exit", status=2)
    assert "name <TRACE>" in refused("flamegraph", "-o", "-", "--at", "span", trace, status=2)


@pytest.mark.parametrize("status", [0, 5])
def test_a_program_that_removes_its_trace_keeps_its_status(tmp_path, status):
    path = tmp_path / "trace"
    # The recorder may write a file meanwhile.
    script = f"while [ -e '{path}' ]; do rm -rf '{path}' 2>/dev/null; done; exit {status}"
    done = memtrace("-q", "-o", path, "--", "sh", "-c", script)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert said.count("memtrace: ") == 1 and "the trace is lost" in said, said


def test_too_many_open_files_says_which_limit(tmp_path):
    """However far a recording comes: what it cannot open, it names with the limit."""
    statuses = []
    for files in range(8, 20):
        record = [str(MEMTRACE), "-q", "-o", str(tmp_path / str(files)), "true"]
        words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *record]
        done = subprocess.run(words, capture_output=True, timeout=60, check=False)
        said = done.stderr.decode()
        statuses.append(done.returncode)
        assert done.returncode in (0, 125, 126), said
        assert done.returncode == 0 or said, files
        if said:
            assert said.count("\n") == 1, said
            assert "Too many open files" in said and "ulimit -n" in said, said
    assert any(statuses)
