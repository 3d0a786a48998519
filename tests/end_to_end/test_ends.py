"""However the program, the recorder, the terminal or the disk ends: the trace has everything until then."""

import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
from pathlib import Path

import duckdb
import pytest
from conftest import MEMTRACE, Recording, is_root, memtrace

BLOCKS = (
    "select count(*), count(free_ns) from {allocations} where bytes between 20000 and 20999"
    " and kind = 'malloc'"
)


def no_core():
    """For programs that crash on purpose."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def meta(path):
    return json.loads((path / "meta.json").read_text())


@pytest.mark.parametrize(
    ("how", "code", "at_exit", "in_thread"),
    [
        ("return", 7, 1, 0),
        ("exit", 7, 1, 0),
        ("_exit", 7, 0, 0),
        ("quick_exit", 7, 1, 0),
        ("pthread_exit", 0, 1, 1),
        ("kill", 128 + signal.SIGKILL, 0, 0),
        ("segv", 128 + signal.SIGSEGV, 0, 0),
        ("abort", 128 + signal.SIGABRT, 0, 0),
    ],
)
def test_a_program_ends(record, target, how, code, at_exit, in_thread):
    run = record(target("ends.c"), how, options=("-q",), preexec_fn=no_core)
    assert (run.code, run.stdout, run.stderr) == (code, b"up\n", b"")
    assert run.sql(BLOCKS) == [(1000, 500)]
    late = "select count(*) from {allocations} where bytes = "
    assert run.sql(late + "40000") == [(at_exit,)], "exit handlers are recorded"
    assert run.sql(late + "30000") == [(in_thread,)], "threads outlive main's thread"
    end = meta(run.path)
    assert (end["complete"], end["exit"]) == (True, code)
    assert end["signal"] == (code - 128 if code > 128 else None)


def test_an_uncaught_exception(record, target):
    bare = subprocess.run(
        [target("uncaught.cpp")], capture_output=True, check=False, preexec_fn=no_core
    )
    run = record(target("uncaught.cpp"), options=("-q",), preexec_fn=no_core)
    assert run.code == 128 - bare.returncode == 128 + signal.SIGABRT
    assert run.stderr == bare.stderr
    assert meta(run.path)["signal"] == signal.SIGABRT
    # Without a handler nothing is unwound: all ten vectors are live.
    assert run.sql(BLOCKS) == [(10, 0)]


def test_the_recorder_is_killed(target, tmp_path):
    """The program finishes with its own output and status."""
    log = tmp_path / "log"
    script = f"{target('ends.c')} flood > {log}; echo status $? >> {log}"
    command = [MEMTRACE, "-o", tmp_path / "t", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        wait_for(log, b"up\n")
        running.kill()
        running.wait()
        running.stdin.write(b"go\n")
        running.stdin.flush()
        # stderr is open in the program too: its end is the program's.
        assert running.stderr.read() == b""
    assert log.read_bytes() == b"up\nfinished\nstatus 5\n"


def wait_for(path, text):
    """Until the file holds the text."""
    while not path.exists() or text not in path.read_bytes():
        os.sched_yield()


class Terminal:
    """A session of its own on a terminal, with memtrace in the foreground."""

    def __init__(self, path, *command):
        self.path = path
        words = [str(word) for word in (MEMTRACE, "-o", path, "--", *command)]
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execv(words[0], words)
        self.seen = b""

    def read_until(self, text):
        while text not in self.seen:
            part = os.read(self.master, 4096)
            assert part, self.seen
            self.seen += part

    def type(self, keys):
        os.write(self.master, keys)

    def hang_up(self):
        os.close(self.master)

    def ending(self):
        """The recording, with everything that was on the terminal as its output."""
        with contextlib.suppress(OSError):  # EIO: the last one has closed it; EBADF: we did
            while part := os.read(self.master, 4096):
                self.seen += part
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return Recording(self.path, code, self.seen, b"")


@pytest.fixture
def terminal(tmp_path):
    return lambda *command: Terminal(tmp_path / "t", *command)


def test_ctrl_c_once(terminal, target):
    session = terminal(target("ends.c"), "waiting")
    session.read_until(b"up\r\n")
    session.type(b"\x03")
    run = session.ending()
    assert run.code == 128 + signal.SIGINT
    assert run.sql(BLOCKS) == [(1000, 500)]
    assert meta(run.path)["complete"]
    assert b"killed by signal 2" in run.stdout


def test_ctrl_c_twice_is_the_programs_business(terminal, target):
    session = terminal(target("ends.c"), "interrupted")
    session.read_until(b"up\r\n")
    for keys in (1, 2):
        session.type(b"\x03")
        session.read_until(b"interrupt %d\r\n" % keys)
    run = session.ending()
    assert run.code == 9
    assert run.sql(BLOCKS) == [(1000, 500)]
    assert meta(run.path)["complete"]


def test_the_terminal_is_closed(terminal, target):
    session = terminal(target("ends.c"), "waiting")
    session.read_until(b"up\r\n")
    session.hang_up()
    run = session.ending()
    assert run.code == 128 + signal.SIGHUP
    assert run.sql(BLOCKS) == [(1000, 500)]
    end = meta(run.path)
    assert (end["complete"], end["signal"]) == (True, signal.SIGHUP)


def test_a_summary_that_cannot_be_written(target, tmp_path):
    """The program's status is memtrace's, whether or not the summary could be read."""
    command = [MEMTRACE, "-o", tmp_path / "t", "--", target("ends.c"), "exit"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)
    assert (done.returncode, done.stdout) == (7, b"up\n")


def cut_short(running, output):
    """Lets the flood come; the program must not notice, memtrace must say it in one sentence."""
    stdout, stderr = running.communicate(b"go\n", timeout=60)
    assert stdout == b"finished\n"
    assert running.returncode == 5
    assert stderr.startswith(b"memtrace: ") and b"memtrace recover" in stderr
    assert stderr.count(b"\n") == 1
    assert not meta(output)["complete"]
    tables = [path for path in output.rglob("*.parquet") if not path.name.startswith(".")]
    assert "processes.parquet" in {path.name for path in tables}
    for path in tables:
        duckdb.sql(f"select count(*) from '{path}'").fetchall()
    report = memtrace("report", output)
    assert report.returncode == 0, report.stderr
    assert b"cut short" in report.stdout


def flooded(output, target):
    command = [MEMTRACE, "-q", "-o", output, "--", target("ends.c"), "flood"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


def test_files_may_not_grow(target, tmp_path):
    with flooded(tmp_path / "t", target) as running:
        assert running.stdout.readline() == b"up\n"
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
        cut_short(running, tmp_path / "t")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    if not is_root():
        pytest.skip("mounting a file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    done = subprocess.run(mount, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_the_disk_is_full(target, small_disk: Path):
    with flooded(small_disk / "t", target) as running:
        assert running.stdout.readline() == b"up\n"
        cut_short(running, small_disk / "t")


def test_a_first_thread_that_ends_before_the_others(record, target):
    """/proc shows the process as a zombie then; its memory is seen through a thread that lives."""
    run = record(target("leader.c"))
    assert run.code == 0
    assert 64 << 20 <= run.report["peak"]["live_bytes"] < 65 << 20


@pytest.mark.parametrize("limit", [400_000_000, 1_000_000_000])
def test_many_processes_within_little_address_space(record, limit):
    """Of memtrace itself, too, which has tables for each of them."""

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    script = "for i in $(seq 60); do sleep 1 & done; wait; exit 7"
    run = record("sh", "-c", script, preexec_fn=little)
    assert run.code == 7, run.stderr.decode()
    assert len(run.report["processes"]) > 60
    # Segments for all of them do not fit into the smaller one.
    assert limit > 400_000_000 or b"were refused" in run.stderr
