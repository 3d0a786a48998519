"""The live view: what it shows of a running recording is so, and ends up as the report says."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest
from conftest import MEMTRACE, ROOT, Recording, environment, memtrace
from test_oom import ENTER, MIB, group  # noqa: F401 (a fixture)

pytestmark = pytest.mark.serial

# A refresh is 0.1 s apart at least; a longer wait is for what does not come.
REFRESHES = 300


class Watched:
    """A recording under way of a program that does what lines of its input say."""

    def __init__(self, path, *command, options=()):
        words = [str(word) for word in (MEMTRACE, "-o", path, *options, "--", *command)]
        pipe = subprocess.PIPE
        self.path = path
        self.recorder = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
        while not (path / ".socket").exists() and self.recorder.poll() is None:
            time.sleep(0.01)

    def tell(self, line):
        self.recorder.stdin.write(line.encode() + b"\n")
        self.recorder.stdin.flush()
        assert self.recorder.stdout.readline() == b"ok\n"

    def end(self):
        """Lets the program end; the recording that it leaves."""
        self.recorder.stdin.close()
        self.recorder.wait()
        stderr = self.recorder.stderr.read()
        return Recording(self.path, self.recorder.returncode, b"", stderr)


class Lines:
    """`top --json` on a recording."""

    def __init__(self, which, *options):
        words = [str(word) for word in (MEMTRACE, "top", which, "--json", *options)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdout=pipe, stderr=pipe)
        self.all = []

    def next(self):
        line = self.process.stdout.readline()
        if not line:
            return None
        self.all.append(json.loads(line))
        return self.all[-1]

    def until(self, wanted):
        """Figures that are as wanted."""
        for _ in range(REFRESHES):
            figures = self.next()
            assert figures is not None, self.process.stderr.read()
            if wanted(figures):
                return figures
        raise AssertionError(f"never came, at last {self.all[-1]}")

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def watched(tmp_path, target):
    """Starts recordings, and ends what a test that fails leaves."""
    running = []

    def start(*command, path=tmp_path / "trace", options=()):
        running.append(Watched(path, *(command or [target("watched.c")]), options=options))
        return running[-1]

    yield start
    for each in running:
        if each.recorder.poll() is None:
            each.recorder.stdin.close()
            each.recorder.wait()


@pytest.fixture
def lines():
    """Starts viewers that print JSON lines."""
    running = []

    def start(which, *options):
        running.append(Lines(which, *(options or ("--every", "0.1"))))
        return running[-1]

    yield start
    for each in running:
        each.close()


def in_flight(figures):
    return {span["operator"]: span for span in figures["spans"]}


def operators(figures):
    return {operator["name"]: operator for operator in figures["operators"]}


def keys(value):
    """Of all objects in it, but arrays, which have the trace's format."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield from each
            yield from (key for name, part in each.items() if name != "input" for key in keys(part))


def agrees_with_the_report(viewer, report):
    """The last figures are the report's, and all before are no larger and never fall."""
    last = viewer.all[-1]
    assert last["ended"]
    assert last["exit"] == report["exit"]
    for peak in ("live_bytes", "heap_bytes", "resident_bytes", "resident_sum_bytes"):
        assert last["peak"][peak] == report["peak"][peak], peak
    for total in ("allocations", "requested_bytes"):
        assert last["totals"][total] == report["totals"][total]
    assert (last["processes"], last["spans"]) == ([], [])
    assert {
        name: (operator["started"], operator["working_peak_bytes"])
        for name, operator in operators(last).items()
    } == {
        operator["name"]: (
            operator["calls"],
            max(span["working_peak_bytes"] for span in operator["spans"]),
        )
        for operator in report["operators"]
    }

    def rises(figure):
        course = [figure(figures) for figures in viewer.all]
        return course == sorted(course)

    assert rises(lambda figures: figures["peak"]["live_bytes"])
    assert rises(lambda figures: figures["peak"]["heap_bytes"])
    assert rises(lambda figures: figures["totals"]["allocations"])
    assert rises(lambda figures: figures["seconds"])
    for figures in viewer.all:
        assert figures["live_bytes"] <= figures["peak"]["live_bytes"]
        for operator in figures["operators"]:
            assert operator["finished"] + operator["running"] <= operator["started"]


def test_a_c_program_step_by_step(watched, lines):
    run = watched()
    run.tell("grow")
    view = lines(run.path)
    first = view.until(lambda figures: figures["heap_bytes"] >= 1_000_000)
    assert first["trace"] == str(run.path)
    assert first["recorder"] == run.recorder.pid
    assert first["command"].endswith("watched")
    [process] = first["processes"]
    assert process["ppid"] == run.recorder.pid
    assert process["heap_bytes"] == first["heap_bytes"]
    assert first["spans"] == []

    run.tell("begin")
    figures = view.until(lambda figures: any(s["working_bytes"] for s in figures["spans"]))
    span = in_flight(figures)["held"]
    assert span["pid"] == process["pid"]
    assert span["working_bytes"] == span["working_peak_bytes"] == 3_000_000
    assert (span["input"]["shape"], span["input_bytes"]) == ([100, 200], 160_000)
    assert operators(figures)["held"]["running"] == 1
    held = figures["live_bytes"]
    assert held >= first["live_bytes"] + 3_000_000

    run.tell("end")
    figures = view.until(lambda figures: not figures["spans"])
    held = operators(figures)["held"]
    assert (held["started"], held["finished"], held["running"]) == (1, 1, 0)
    assert held["working_peak_bytes"] == 3_000_000

    for _ in range(5):
        run.tell("grow")
    grown = view.until(lambda figures: figures["heap_bytes"] >= first["heap_bytes"] + 5_000_000)
    [site] = [site for site in grown["sites"] if site["place"] == "grow in watched"]
    assert site["live_bytes"] == 6_000_000
    assert site["grew_bytes"] in (5_000_000, 6_000_000)
    assert grown["sites"][0] == site

    done = run.end()
    assert done.code == 3
    while view.next():
        pass
    assert view.process.wait() == 0
    assert view.process.stderr.read() == b""
    agrees_with_the_report(view, done.report)
    text = (ROOT / "docs" / "reading.md").read_text().split("## `memtrace top")[1]
    assert set(keys(view.all)) <= set(re.findall(r"`(\w+)(?:\[\])?`", text))


PROGRAM = """
import sys
import numpy as np

def work(volume):
    doubled = volume * 2
    again(doubled)
    return doubled

def again(volume):
    squared = volume ** 2
    print("ok", flush=True)
    sys.stdin.readline()
    return squared

for line in sys.stdin:
    work(np.ones((300, 200, 10), "f4"))
    print("ok", flush=True)
"""


def test_python_operators_in_flight(watched, lines, python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    names = ("__main__:work", "__main__:again")
    options = [word for name in names for word in ("--operator", name)]
    run = watched(python, script, options=options)
    view = lines(run.path)
    array = 300 * 200 * 10 * 4
    for call in range(2):
        run.tell("go")

        def is_in(figures, call=call):
            both = [in_flight(figures).get(name, {"call": None}) for name in names]
            return all(span["call"] == call for span in both) and both[1]["working_bytes"] >= array

        work, again = (in_flight(view.until(is_in))[name] for name in names)
        assert again["parent"] == work["span"]
        assert (work["call"], again["call"]) == (call, call)
        assert work["input"] == again["input"] | {
            key: work["input"][key] for key in ("name", "address")
        }
        assert (work["input"]["shape"], work["input"]["dtype"]) == ([300, 200, 10], "<f4")
        assert array <= again["working_bytes"] < array + MIB
        assert 2 * array <= work["working_bytes"] < 2 * array + MIB
        run.tell("")
    while operators(view.next())["__main__:work"]["finished"] < 2:
        pass
    done = run.end()
    while view.next():
        pass
    agrees_with_the_report(view, done.report)
    assert operators(view.all[-1])["__main__:work"]["finished"] == 2


def test_what_went_down_with_its_process_is_neither_finished_nor_running(watched, lines):
    run = watched()
    run.tell("begin")
    view = lines(run.path)
    figures = view.until(in_flight)
    os.kill(in_flight(figures)["held"]["pid"], signal.SIGKILL)
    done = run.end()
    while view.next():
        pass
    held = operators(view.all[-1])["held"]
    assert (held["started"], held["finished"], held["running"]) == (1, 0, 0)
    assert (view.all[-1]["exit"], view.all[-1]["signal"]) == (128 + 9, 9)
    agrees_with_the_report(view, done.report)


def test_process_ids_lead_to_the_recording(watched, lines, tmp_path):
    """Of the recorder and of the recorded; a path too long for a socket's address is no hindrance."""
    run = watched(path=tmp_path / ("long" * 30) / "t")
    run.tell("grow")
    first = lines(run.path).until(lambda figures: figures["processes"])
    for pid in (run.recorder.pid, first["processes"][0]["pid"]):
        done = memtrace("top", pid, "--json", "--once")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["trace"] == str(run.path)


def test_what_was_attached_to_is_found(kernel_side, lines, target, tmp_path):
    pipe = subprocess.PIPE
    path = tmp_path / "t"
    with subprocess.Popen([target("watched.c")], stdin=pipe, stdout=pipe) as program:
        command = [MEMTRACE, "attach", str(program.pid), "-o", path]
        with subprocess.Popen(command, stderr=pipe) as recorder:
            while not (path / "meta.json").exists():
                time.sleep(0.01)
            view = lines(program.pid)
            figures = view.until(lambda figures: figures["processes"])
            assert figures["processes"][0]["pid"] == program.pid
            program.stdin.close()
            recorder.wait()
        while view.next():
            pass
    assert view.all[-1]["ended"]


def test_limits(watched, lines, target, group):  # noqa: F811
    inside = group(512 * MIB)
    limits = ENTER + 'ulimit -v 4000000; exec "$1"'
    run = watched("sh", "-c", limits, inside, target("watched.c"))
    run.tell("grow")

    def by_kind(figures):
        return {limit["kind"]: limit for limit in figures["limits"]}

    found = by_kind(lines(run.path).until(lambda figures: len(by_kind(figures)) == 3))
    assert found["cgroup"]["limit_bytes"] == 512 * MIB
    assert found["cgroup"]["name"] == str(inside)
    assert MIB < found["cgroup"]["used_bytes"] < 512 * MIB
    assert found["address_space"]["limit_bytes"] == 4_000_000 * 1024
    assert 2 * MIB < found["address_space"]["used_bytes"] < 4_000_000 * 1024
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["machine"]["limit_bytes"] == machine
    run.end()


def test_views_do_not_disturb_each_other_nor_the_recording(watched, lines):
    run = watched()
    first, second, asleep = lines(run.path), lines(run.path), lines(run.path)
    first.next(), second.next(), asleep.next()
    asleep.process.send_signal(signal.SIGSTOP)
    second.process.kill()
    for step in range(1, 6):
        run.tell("grow")
        first.until(lambda figures, step=step: figures["heap_bytes"] >= step * 1_000_000)
    third = lines(run.path)
    third.until(lambda figures: figures["heap_bytes"] >= 5_000_000)
    done = run.end()
    assert done.code == 3
    for view in (first, third):
        while view.next():
            pass
        agrees_with_the_report(view, done.report)
    assert done.report["lost"]["events"] == 0


def test_nothing_that_a_view_needs_is_left_in_the_trace(watched, lines):
    run = watched()
    lines(run.path).next()
    done = run.end()
    expected = {"allocations", "timeline", "kernel_events", "accesses", "placements", "meta.json"}
    others = set(os.listdir(done.path)) - expected
    assert all(name.endswith(".parquet") for name in others), others


def only_sentence(done):
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("memtrace: ")
    assert done.stdout == b""
    return line.removeprefix("memtrace: ")


def test_what_is_no_running_recording_is_said(record, target, tmp_path):
    run = record(target("heap.c"))
    done = memtrace("top", run.path, "--json")
    assert (done.returncode, only_sentence(done)) == (
        1,
        f"the recording has ended: memtrace report {run.path}",
    )
    for which, words in {
        tmp_path / "nowhere": "nowhere",
        target("heap.c"): "heap",
        tmp_path: "is not a trace",
        os.getpid(): "is not being recorded",
        2**32 - 1: "there is no process 4294967295",
    }.items():
        done = memtrace("top", which, "--json")
        assert done.returncode == 1
        assert words in only_sentence(done)
    for wrong in ("0", "0.05", "-1", "nan", "x", "1e9"):
        assert memtrace("top", run.path, "--json", f"--every={wrong}").returncode == 2


def test_a_pipe_gets_no_drawing(watched):
    run = watched()
    done = memtrace("top", run.path)
    assert done.returncode == 2
    assert "--json" in only_sentence(done)


def test_a_recorder_that_is_killed(watched, lines):
    run = watched()
    view = lines(run.path)
    view.next()
    run.recorder.kill()
    while view.next():
        pass
    assert view.process.wait() == 1
    assert b"memtrace recover" in view.process.stderr.read()
    assert not view.all[-1]["ended"]
    done = memtrace("top", run.path, "--json")
    assert done.returncode == 1
    assert f"memtrace recover {run.path}" in only_sentence(done)
    run.recorder.stdin.close()
    run.recorder.stdout.read()  # until the program has ended


def test_a_recorder_that_talks_nonsense(tmp_path):
    for nonsense in (b"\x00\xff\n", b"{}\n", b'{"figures": 3}\n', b"x" * (17 << 20)):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / ".socket"))
            listener.listen()
            command = [MEMTRACE, "top", tmp_path, "--json"]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdout=pipe, stderr=pipe) as view:
                guest, _ = listener.accept()
                with guest, contextlib.suppress(OSError):
                    assert guest.recv(100).startswith(b"mtwatch1")
                    guest.sendall(nonsense)
                done = subprocess.CompletedProcess(
                    command, view.wait(), view.stdout.read(), view.stderr.read()
                )
        (tmp_path / ".socket").unlink()
        assert done.returncode == 1
        assert "cannot be understood" in only_sentence(done)


def test_a_silent_client_does_not_block_the_listener(watched, lines):
    run = watched()
    lines(run.path).next()
    with contextlib.ExitStack() as guests:
        for greeting in (b"", b"mtwatch1", b"\xff" * 40, b"mtwatch1" + b"\xff" * 32):
            guest = guests.enter_context(socket.socket(socket.AF_UNIX))
            guest.connect(str(run.path / ".socket"))
            guest.sendall(greeting)
        lines(run.path).next()
    assert run.end().code == 3


def test_the_recording_of_another_user_is_private(watched, as_nobody):
    _, nobody = as_nobody
    run = watched()
    run.tell("grow")
    for which in (run.path, str(run.recorder.pid)):
        done = nobody("top", which, "--json")
        assert done.returncode == 1, done
        assert re.search(
            "watch it as (that user|the user who records it), or as root", only_sentence(done)
        )


class Terminal:
    """A live view on a terminal of its own."""

    def __init__(self, which, **variables):
        self.near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = termios.tcgetattr(far)
        words = [str(word) for word in (MEMTRACE, "top", which, "--every", "0.1")]
        self.process = subprocess.Popen(
            words,
            stdin=far,
            stdout=far,
            stderr=subprocess.PIPE,
            env=environment(TERM="xterm", **variables),
        )
        self.far = far
        self.drawn = b""

    def read(self, wait=0.05):
        while select.select([self.near], [], [], wait)[0]:
            self.drawn += os.read(self.near, 1 << 16)

    def until(self, *parts):
        for _ in range(REFRESHES):
            self.read()
            if all(part in self.drawn for part in parts):
                return
        raise AssertionError(self.drawn)

    def ends(self):
        """Its exit status and what it says, once it has given the terminal back."""
        code = self.process.wait()
        self.read()
        assert termios.tcgetattr(self.far) == self.before
        assert self.drawn.count(b"\x1b[?1049h") == self.drawn.count(b"\x1b[?1049l") == 1
        return code, self.process.stderr.read().decode()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.near)
        os.close(self.far)


@pytest.fixture
def terminal():
    running = []

    def start(which, **variables):
        running.append(Terminal(which, **variables))
        return running[-1]

    yield start
    for each in running:
        each.close()


COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:38;5;\d|3[0-7]|9[0-7])[0-9;]*m")


@pytest.mark.parametrize("leave", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP])
def test_the_view_on_a_terminal(watched, terminal, leave):
    run = watched()
    run.tell("begin")
    view = terminal(run.path)
    view.until(b"operators in flight", b"held", b"3.00", "100×200".encode(), b"q leaves")
    assert COLOUR.search(view.drawn)
    if isinstance(leave, bytes):
        os.write(view.near, leave)
    else:
        view.process.send_signal(leave)
    assert view.ends() == (0, "")
    run.tell("end")
    assert run.end().code == 3


def test_a_terminal_that_goes_away_takes_the_view_with_it(watched, terminal):
    """Also where no signal says so: it is not the view's controlling terminal."""
    run = watched()
    view = terminal(run.path)
    view.until(b"q leaves")
    os.close(view.far)
    os.close(view.near)
    view.process.wait()
    view.near, view.far = os.pipe()  # to be closed
    assert run.end().code == 3


def test_the_view_ends_with_the_recording(watched, terminal):
    run = watched()
    run.tell("begin")
    view = terminal(run.path, NO_COLOR="1")
    view.until(b"operators in flight", b"held")
    fcntl.ioctl(view.far, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
    view.process.send_signal(signal.SIGWINCH)
    run.tell("end")
    assert run.end().code == 3
    code, said = view.ends()
    assert (code, said) == (0, f"memtrace: the recording has ended: memtrace report {run.path}\n")
    assert not COLOUR.search(view.drawn)
