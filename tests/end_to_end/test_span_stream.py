"""Spans sent as they end: all of them, however slowly they are read, to any client with the token."""

import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from conftest import MEMTRACE, environment, memtrace

KEEPER = 'echo "$LD_PRELOAD"; echo "$MEMTRACE_SOCKET"; echo "$MEMTRACE_TOKEN"; read -r _ || :'
REQUEST = b"mtspans1".ljust(48, b"\0")
PROGRAM = """
import numpy as np

def made(size):
    return np.ones(size)

kept = [made(1000 + number % 7) for number in range({calls})]
"""


class Kept:
    """A recording of nothing but those who join it."""

    def __init__(self, path):
        self.path = path
        words = [MEMTRACE, "--quiet", "--operator", "__main__:made", "-o", path]
        pipe = subprocess.PIPE
        command = [*map(str, words), "--", "sh", "-c", KEEPER]
        self.recorder = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        preload, sockets, token = (self.recorder.stdout.readline().decode().strip() for _ in "123")
        self.name = sockets.partition(";")[0]
        variables = {"MEMTRACE_SOCKET": sockets, "MEMTRACE_TOKEN": token}
        self.variables = environment(LD_PRELOAD=preload, **variables)

    def run(self, calls):
        """A program that is no child of the recorder."""
        command = [sys.executable, "-c", PROGRAM.format(calls=calls)]
        subprocess.run(command, env=self.variables, check=True)

    def listen(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.settimeout(60)
        listener.connect("\0" + self.name)
        listener.sendall(REQUEST)
        return listener

    def end(self):
        self.recorder.stdin.close()
        assert self.recorder.wait() == 0
        self.recorder.stdout.close()
        return json.loads(memtrace("report", "--json", "--all-spans", self.path).stdout)


def rest(listener):
    """The text that is left, until the recorder hangs up."""
    with listener, listener.makefile("rb") as text:
        return text.read()


def reported(listener):
    """Every line until the recorder hangs up."""
    return [json.loads(line) for line in rest(listener).splitlines()]


def test_a_listener_that_reads_late_receives_everything(tmp_path):
    kept = Kept(tmp_path / "trace")
    listener = kept.listen()
    kept.run(calls=4000)  # some megabytes of lines: more than a socket holds
    latecomer = kept.listen()
    kept.recorder.stdin.close()
    with ThreadPoolExecutor() as readers:
        (first, *spans, last), late = readers.map(reported, (listener, latecomer))
    assert first["recording"]["trace"] == str(kept.path)
    numbers = [line["span"]["span"] for line in spans]
    assert sorted(set(numbers)) == list(range(4000))
    assert last == {"ended": {"spans": 4000}}
    # Sent again when their process had ended: those with one-time bytes, of the first call at most.
    assert all(line["span"]["call"] == 0 for line in spans[len(set(numbers)) :])
    assert {line["span"]["span"] for line in late[1:-1]} == set(numbers), "from the first one on"
    report = kept.end()
    [operator] = report["operators"]
    peaks = sorted(span["working_peak_bytes"] for span in operator["spans"])
    final = {line["span"]["span"]: line["span"]["working_peak_bytes"] for line in spans}
    assert sorted(final.values()) == peaks and min(peaks) >= 8000


def test_listeners_that_have_read_some_receive_the_rest(tmp_path):
    kept = Kept(tmp_path / "trace")
    listeners = [kept.listen() for _ in range(8)]
    kept.run(calls=2000)
    # What has been written down for each of them and not sent, when the recording ends, differs.
    begun = [listener.recv(40_000 * number + 1) for number, listener in enumerate(listeners)]
    kept.recorder.stdin.close()
    with ThreadPoolExecutor(max_workers=8) as readers:
        ends = readers.map(rest, listeners)
        texts = [start + end for start, end in zip(begun, ends, strict=True)]
    for text in texts:
        *spans, last = [json.loads(line) for line in text.splitlines()[1:]]
        assert {line["span"]["span"] for line in spans} == set(range(2000))
        assert last == {"ended": {"spans": 2000}}
    kept.end()


def test_a_client_that_does_not_read_delays_no_other(tmp_path):
    kept = Kept(tmp_path / "trace")
    listener = kept.listen()
    kept.run(calls=4000)
    report = kept.end()  # after some seconds of patience
    assert len(report["operators"][0]["spans"]) == 4000 and report["lost"]["events"] == 0
    listener.close()


def test_a_process_that_joins_is_recorded_like_a_child(tmp_path):
    kept = Kept(tmp_path / "trace")
    kept.run(calls=5)
    report = kept.end()
    [joined] = [p for p in report["processes"] if "def made" in p["command"]]
    assert joined["peak_live_bytes"] > 0 and joined["peak_resident_bytes"] > 10 << 20
    if report["recorded"]["kernel"] == "ebpf":
        assert joined["exit"] == 0, "the kernel side has watched it to its end"
