"""`memtrace.record` and `%%memtrace`: fresh interpreters that are recorded."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import memtrace
import pyarrow
import pytest
from conftest import MEMTRACE, ROOT, environment


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Traces are written here, by the command of the build tree."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{MEMTRACE.parent}:{os.environ['PATH']}")
    return tmp_path


def test_source_runs_in_an_interpreter_of_its_own(folder, capsys):
    source = (
        "import sys\n"
        "print(__name__, 'pytest' in sys.modules, sys.argv, sorted(n for n in dir() if n[0] != '_'))\n"
        "print('words', file=sys.stderr)\n"
        "data = bytearray(50_000_000)\n"
    )
    trace = memtrace.record(source, output="here", options=["--stacks", "all"])
    out, err = capsys.readouterr()
    assert out == "__main__ False ['cell'] ['sys']\n"
    assert err == "words\n"
    assert trace.path.samefile(folder / "here")
    report = trace.report()
    assert 50_000_000 < report["peak"]["live_bytes"] < 70_000_000
    assert report["sites"][0]["stack"][0].startswith("<module> (") or any(
        "cell.py:4" in frame for frame in report["sites"][0]["stack"]
    )
    assert trace.meta["recorded"]["stacks"] == "all"


def test_a_function_with_its_arguments_is_a_span():
    program = (
        "import memtrace, numpy\n"
        "def double(x, times=2):\n"
        "    return x * times\n"
        "trace = memtrace.record(double, numpy.ones(100_000), times=3)\n"
        "[operator] = trace.report()['operators']\n"
        "[span] = operator['spans']\n"
        "print(operator['name'], span['inputs'][0]['shape'], span['params']['times'], trace.path)\n"
    )
    with open("program.py", "w") as out:
        out.write(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        env=environment(PYTHONPATH=str(ROOT / "python")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name, rest = done.stdout.split(" ", 1)
    assert name == "__main__:double"
    assert rest.startswith("[100000] 3 memtrace.double.")


def test_without_cloudpickle_a_function_of_the_program_is_refused(monkeypatch):
    def own():
        """Belongs to the program that asks."""

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    own.__module__ = "__main__"
    with pytest.raises(TypeError, match="install cloudpickle"):
        memtrace.record(own)


def test_a_program_that_fails_has_a_trace_too(capsys):
    with pytest.raises(memtrace.ProgramFailed, match="ValueError: no") as failure:
        memtrace.record("data = bytearray(30_000_000)\nraise ValueError('no')")
    assert failure.value.status == 1
    assert failure.value.trace.report()["peak"]["live_bytes"] > 30_000_000
    assert "cell.py" in capsys.readouterr().err
    with pytest.raises(memtrace.ProgramFailed) as failure:
        memtrace.record("import os; os.kill(os.getpid(), 9)")
    assert failure.value.status == 128 + 9


def test_what_cannot_be_recorded_is_one_clear_sentence(folder, monkeypatch):
    with pytest.raises(TypeError, match="one that runs already cannot be recorded"):
        memtrace.record(42)
    with pytest.raises(TypeError, match="source takes no arguments"):
        memtrace.record("pass", 1)
    with pytest.raises(RuntimeError, match="--no-such-option"):
        memtrace.record("pass", options=["--no-such-option"])
    memtrace.record("pass", output="taken")
    with pytest.raises(RuntimeError, match="could not record: taken exists and is not empty"):
        memtrace.record("pass", output="taken")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="install memtrace from a wheel"):
        memtrace.record("pass")


@pytest.mark.parametrize("restarted", [False, True])
def test_an_interrupt_closes_the_recording(restarted):
    """Also where a library (asyncio does) has system calls go on after a handler. A library of the
    test process may have set a handler of its own (dask_jobqueue does): it is set aside."""

    def interrupt():
        while not os.path.exists("started"):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    source = "data = bytearray(20_000_000)\nopen('started', 'w')\nimport time\ntime.sleep(60)\n"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, not restarted)
    try:
        with pytest.raises(KeyboardInterrupt):
            memtrace.record(source + "open('slept', 'w')", output="cut")
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    assert not os.path.exists("slept")
    trace = memtrace.load("cut")
    assert trace.meta["complete"]
    assert trace.report()["peak"]["live_bytes"] > 20_000_000


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "memtrace")
text = "import numpy as np\\ndef f(x): return x + 1\\ny = f(np.ones(1_000_000))\\nprint(y.sum())"
result = shell.run_cell("%%memtrace --operator __main__:f\\n" + text)
trace = result.result
print(repr(trace))
print(trace.report()["operators"][0]["spans"][0]["working_peak_bytes"])
failed = shell.run_cell("%%memtrace -o failed\\n1 / 0").result
print(failed.path, failed.meta["exit"])
"""


def test_the_cell_magic_shows_the_report_and_returns_the_trace():
    done = subprocess.run(
        [sys.executable, "-c", CELLS],
        env=environment(PYTHONPATH=str(ROOT / "python"), IPYTHONDIR="ipython"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2000000.0\n" in done.stdout
    assert "<memtrace trace memtrace.cell." in done.stdout
    [peak] = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert 8_000_000 <= peak < 8_000_000 + 65_536
    assert "failed 1\n" in done.stdout
    assert " live: " in done.stderr
    assert re.search(r"^memtrace: \S+ /\S+/cell: exited 0 after ", done.stderr, re.MULTILINE)
    assert "__main__:f" in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_names_of_the_package(monkeypatch):
    assert set(memtrace.__all__) <= set(dir(memtrace))
    for name in memtrace.__all__:
        assert getattr(memtrace, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        memtrace.absent  # noqa: B018
    assert pyarrow.table(memtrace.record("pass").processes).num_rows >= 1
