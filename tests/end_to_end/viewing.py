"""Recordings under way, and what watches them: `memtrace top` as JSON lines, and on a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest
from conftest import MEMTRACE, Recording, environment

# A refresh is 0.1 s apart at least; a longer wait is for what does not come.
REFRESHES = 300

LINES, COLUMNS = 40, 120
#: A control sequence with its numbers and its letter, or a character to be drawn.
DRAWN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[^\[]|([^\x1b])", re.DOTALL)


class Watched:
    """A recording under way of a program that does what lines of its input say."""

    def __init__(self, path, *command, options=(), plan=None):
        how = ("place", "run", plan) if plan else ()
        words = [str(word) for word in (MEMTRACE, *how, "-o", path, *options, "--", *command)]
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

    def start(*command, path=tmp_path / "trace", **how):
        running.append(Watched(path, *(command or [target("watched.c")]), **how))
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


class Terminal:
    """A live view on a terminal of its own."""

    def __init__(self, which, **variables):
        self.near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
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

    def screen(self):
        """The lines that are to be seen."""
        cells = [[" "] * COLUMNS for _ in range(LINES)]
        line = column = 0
        for numbers, letter, character in DRAWN.findall(self.drawn.decode(errors="replace")):
            if letter == "H":
                line, column = (int(number) - 1 for number in (numbers or "1;1").split(";"))
            elif letter == "J":
                cells = [[" "] * COLUMNS for _ in range(LINES)]
            elif character and line < LINES and column < COLUMNS:
                cells[line][column] = character
                column += 1
        return ["".join(each).rstrip() for each in cells]

    def press(self, keys, seen):
        """Presses keys, and waits until a line that is to be seen matches."""
        os.write(self.near, keys)
        for _ in range(REFRESHES):
            self.read()
            found = [line for line in self.screen() if re.search(seen, line)]
            if found:
                return found
        raise AssertionError("\n".join(self.screen()))

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
