"""Calls in a fresh interpreter that is recorded.

Why a fresh one: the dynamic linker loads the library that records before the program's first
instruction (LD_PRELOAD). In a process that runs already, calls of `malloc` are bound to another
one, and nothing would be known of what the process has allocated before.
"""

import codecs
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from .command import command, directory

GRACE = 2  # seconds to wait for output of processes that outlive the recording

# The file that the fresh interpreter runs, with the job next to it. The path of modules comes
# first: the call may need it to be unpickled. Nothing of it stays in `__main__`, which belongs to
# the call: with this file's name there, processes that multiprocessing starts would run it again.
_START = """\
def _memtrace_call():
    import os, pickle, sys
    with open(__file__ + ".job", "rb") as job:
        sys.path[:] = pickle.load(job)
        call, args, kwargs = pickle.load(job)
    sys.argv[0] = os.path.basename(__file__)
    del globals()["_memtrace_call"], globals()["__file__"]
    call(*args, **kwargs)
_memtrace_call()
"""


class Ended:
    """A recording that has ended."""

    def __init__(self, trace, recorded, status, stderr):
        self.trace, self.status = Path(trace), status
        self.recorded = recorded  # False where memtrace itself failed
        self._stderr = stderr

    @property
    def failure(self):
        """The message of memtrace when it failed."""
        message = re.search(r"^(?:memtrace|error): (.*)", self._stderr, re.MULTILINE)
        return message.group(1) if message else self.last_line

    @property
    def last_line(self):
        """Last line of what was printed to stderr."""
        lines = self._stderr.strip().splitlines()
        return lines[-1] if lines else f"it ended with status {self.status}"


def call(job, trace, options=(), pickler=pickle, **more):
    """Records the call `job` (function, args, kwargs) into the directory `trace`."""
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        return _recorded(Path(folder) / "call", job, trace, options, pickler, **more)


def source(text, trace, options=()):
    """The same of source text, as `__main__`; in tracebacks and traces it is the file `cell.py`."""
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        cell = Path(folder) / "cell.py"
        cell.write_text(text, encoding="utf-8")
        job = (run_file, (str(cell),), {})
        return _recorded(Path(folder) / "cell", job, trace, options, pickle)


def run_file(path):
    """Runs a file as `__main__`."""
    import __main__

    with open(path, "rb") as text:
        code = compile(text.read(), path, "exec")
    exec(code, __main__.__dict__)


def in_span(name, function, args, kwargs):
    """Calls what cannot be named as an operator; its arrays are the span's inputs."""
    from .._span import span

    with span(name, *args, **kwargs) as running:
        running.outputs(function(*args, **kwargs))


def _recorded(start, job, trace, options, pickler, streams=None, cwd=None):
    """Writes the file `start`, whose name is the summary's, and records it.

    What it prints goes to `streams`, by default `sys.stdout` and `sys.stderr`.
    """
    start.write_text(_START, encoding="utf-8")
    with open(f"{start}.job", "wb") as out:
        pickle.dump(sys.path, out)
        pickler.dump(job, out)
    program = [sys.executable, str(start)]
    meta = Path(trace) / "meta.json"
    older = _written(meta)
    process = subprocess.Popen(
        [command(), "-o", directory(trace), *options, "--", *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        start_new_session=True,
    )
    status, end = _followed(process, *(streams or (sys.stdout, sys.stderr)))
    return Ended(trace, _written(meta) not in (None, older), status, end)


def _written(path):
    """Which file this is, and when it was written; None if there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _followed(process, stdout, stderr):
    """Status and the end of stderr of a process whose output is passed on.

    Through pipes: the streams of notebooks and tests have no file descriptors.
    """
    end = []
    pumps = [
        threading.Thread(target=_pump, args=(process.stdout, stdout, []), daemon=True),
        threading.Thread(target=_pump, args=(process.stderr, stderr, end), daemon=True),
    ]
    try:
        for pump in pumps:
            pump.start()
        _wait(process)
    except BaseException:
        # As Ctrl-C in a terminal: the program gets it, and memtrace closes the recording.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        _wait(process)
        raise
    finally:
        for pump in pumps:
            if pump.ident is not None:  # it was started
                pump.join(GRACE)  # processes in the background have the pipes open too
    return process.returncode, "".join(end)


def _wait(process):
    """Until it has ended. Where handlers restart system calls (asyncio has it so, by
    signal.siginterrupt), waitpid(2) would keep an interrupt until then; poll(2) never goes on."""
    descriptor = None
    if process.returncode is None:
        with suppress(AttributeError, OSError):  # before Python 3.9, Linux 5.3
            descriptor = os.pidfd_open(process.pid)
    if descriptor is not None:
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            ended.poll()
        finally:
            os.close(descriptor)
    while process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)


def _write(stream, text):
    """Writes text; a stream that refuses it must not end the program that printed it."""
    with suppress(Exception):
        try:
            stream.write(text)
        except UnicodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


def _pump(pipe, stream, end):
    """Passes text on as it comes; `end` keeps the last of it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with pipe:
        while True:
            data = pipe.read1(65536)
            text = decoder.decode(data, final=not data)
            _write(stream, text)
            end[:] = ["".join(end)[-10_000:], text]
            if not data:
                return
