"""One recorder for all workers of a nanny's process, and what it sends: spans, and figures."""

import contextlib
import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
import zlib
from pathlib import Path

from .._running.command import directory

SOCKET, TOKEN = "MEMTRACE_SOCKET", "MEMTRACE_TOKEN"
#: What a worker needs to connect to the recorder.
VARIABLES = ("LD_PRELOAD", SOCKET, TOKEN)
#: The recorded command: it prints its environment, and lives until its standard input is closed,
#: which also happens when the nanny dies. Workers are no children of it; a process that has the
#: token may join.
KEEPER = "printf '%s\\n' " + " ".join(f'"${name}"' for name in VARIABLES) + "; read -r _ || :"
#: The first bytes of a client that subscribes to spans (docs/architecture.md): as long as a hello.
REQUEST = b"mtspans1".ljust(48, b"\0")
#: The same of one that subscribes to figures, every second.
FIGURES_REQUEST = struct.pack("<8sI36x", b"mtwatch1", 1000)
#: Lines are sent on after this many seconds, or bytes. The scheduler keeps the last thousand events
#: of a topic, so they are compressed.
BATCH_SECONDS, BATCH_BYTES = 0.25, 256 << 10
#: All streams of a recording send so many at most, as long as they are small: the scheduler takes
#: half a millisecond for one, which it would lack for its tasks.
BATCHES_A_SECOND = 32
#: But each waits no longer than this many seconds, because what a host has not sent is lost with
#: it: more than 160 streams send more.
MOST_SECONDS = 5
#: A stream that has to stop reads on for this many seconds at most: others may never be silent.
LAST_SECONDS = 5


class Recorder:
    """A memtrace that records the processes that start with `environment`."""

    def __init__(self, command, trace, environment, options=()):
        """Starts it. RuntimeError: it could not record, with the reason."""
        self.trace = _unused(Path(trace))
        self.trace.parent.mkdir(parents=True, exist_ok=True)
        arguments = [command, "--quiet", "-o", directory(self.trace), *options]
        self._process = subprocess.Popen(
            [*arguments, "--", "sh", "-c", KEEPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the nanny, which then closes its end
        )
        lines = [self._process.stdout.readline().decode() for _ in VARIABLES]
        if not all(line.endswith("\n") for line in lines):
            self._process.stdin.close()
            message = self._process.stderr.read().decode(errors="replace").strip()
            self._process.wait()
            raise RuntimeError(f"memtrace could not record ({shlex.join(arguments)}): {message}")
        values = [line.rstrip("\n") for line in lines]
        self.environment = dict(zip(VARIABLES, values))
        self._messages = []
        # A full pipe would stop the recorder.
        self._reader = threading.Thread(target=self._read_messages, daemon=True)
        self._reader.start()

    def _read_messages(self):
        for line in self._process.stderr:
            self._messages = [*self._messages[-9:], line.decode(errors="replace").strip()]

    def close(self):
        """Ends the recording; then the trace is complete. Returns what went wrong, or ""."""
        self._process.stdin.close()
        status = self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._process.stderr.close()
        return "" if status == 0 else f"memtrace ended with {status}: {' '.join(self._messages)}"


def _unused(place):
    """A directory that is not there yet: `place`, or one next to it."""
    number, free = 1, place
    while free.exists():
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free


def pace(streams):
    """Seconds after which lines are sent on, if a recording has so many streams."""
    return min(max(BATCH_SECONDS, streams / BATCHES_A_SECOND), MOST_SECONDS)


class Stream:
    """Reads the spans that a recorder sends, in a thread, and passes them on in batches."""

    def __init__(self, sockets, send, pid=None, seconds=BATCH_SECONDS):
        """sockets: value of MEMTRACE_SOCKET. send: called with each batch, a dict that msgpack
        can write, from the thread. pid: spans of this process only. seconds: see `pace`.

        OSError: no recorder listens there.
        """
        self._send, self._wanted = send, f'{{"span":{{"pid":{pid},'.encode() if pid else b""
        self._seconds = seconds
        self.name = uuid.uuid4().hex  # several streams may have spans of one trace
        self.batches = 0
        self._stop_by = float("inf")  # until `finish(stop=True)`
        self._socket = _connected(sockets, REQUEST)
        self._rest = b""
        try:
            self._socket.settimeout(BATCH_SECONDS)
            self.recording = self._first_line()
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._run, name="memtrace", daemon=True)
        self._thread.start()

    def _first_line(self):
        deadline = time.monotonic() + 10
        while b"\n" not in self._rest:
            data = self._read()
            if data == b"" or time.monotonic() > deadline:
                raise OSError("the recorder sends nothing: is it another version of memtrace?")
            self._rest += data or b""
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)["recording"]

    def _read(self):
        """Bytes that have come; None if there were none for a while, b"" if there are no more."""
        try:
            return self._socket.recv(1 << 16)
        except socket.timeout:
            return None
        except OSError:
            return b""

    def _run(self):
        lines, size, sent = [], 0, time.monotonic()
        while True:
            data = self._read()
            *new, self._rest = (self._rest + (data or b"")).split(b"\n")
            new = [line for line in new if line.startswith(self._wanted)]
            lines += new
            size += sum(map(len, new))
            silent = data is None and self._stop_by < float("inf")
            over = data == b"" or silent or time.monotonic() > self._stop_by
            due = size > BATCH_BYTES or time.monotonic() - sent > self._seconds
            if lines and (due or over):
                self._send_on(lines)
                lines, size, sent = [], 0, time.monotonic()
            if over:
                self._socket.close()
                return

    def _send_on(self, lines):
        data = zlib.compress(b"\n".join(lines), 1)
        which = {"recording": self.recording, "stream": self.name, "batch": self.batches}
        self._send({**which, "data": data})
        self.batches += 1

    def finish(self, stop=False):
        """Waits until all is passed on: to the end of the recording, or with `stop` until nothing
        new has come for a moment (`LAST_SECONDS` at most)."""
        if stop:
            self._stop_by = time.monotonic() + LAST_SECONDS
        self._thread.join()


class Figures:
    """Reads the figures that a recorder sends, in a thread, and keeps the newest."""

    def __init__(self, sockets):
        """OSError: no recorder listens there."""
        self._socket = _connected(sockets, FIGURES_REQUEST)
        self._line = b'{"figures": {"seconds": 0, "spans": []}}'
        self._thread = threading.Thread(target=self._run, name="memtrace figures", daemon=True)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b'{"figures":') and line.endswith(b"\n"):
                    self._line = line

    def newest(self):
        """Seconds since the recording began, and the spans that ran then (docs/reading.md)."""
        figures = json.loads(self._line)["figures"]
        return {"seconds": figures["seconds"], "spans": figures["spans"]}

    def close(self):
        with contextlib.suppress(OSError):  # the recorder may have closed it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


def _connected(sockets, request):
    """A client of the recorder at the value of MEMTRACE_SOCKET."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The abstract name, which has no length limit to speak of and needs no directory.
        connection.connect("\0" + sockets.partition(";")[0])
        connection.sendall(request)
    except BaseException:
        connection.close()
        raise
    return connection


def is_recorded():
    """True if this process runs under memtrace itself."""
    return "_memtrace_recorder" in sys.modules and SOCKET in os.environ
