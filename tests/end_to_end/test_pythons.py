"""Every kind of Python that this machine has: places, operators, limits, cells, and what stays live."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import pythons
from conftest import MEMTRACE, ROOT, environment, memtrace

FOUND = pythons.found()
READ = [python for python in FOUND if python.is_read]
NOT_READ = [python for python in FOUND if not python.is_read]
# With the allocator of the C library in place of Python's own, each small object is a block too. Stacks of
# small blocks are sampled by default, and one that is chosen by chance stands for half a megabyte of its
# place: here each has its stack. `kept` counts 20 buffers; then also their objects and the list.
ALLOCATORS = {
    "own": {"options": (), "env": {}, "kept": 20},
    "malloc": {"options": ("--stacks", "all"), "env": {"PYTHONMALLOC": "malloc"}, "kept": 41},
}

PROGRAM = """\
KEPT = []

def keep(count):
    for _ in range(count):
        KEPT.append(bytearray(1000000))

def double(size):
    first = bytearray(size)
    second = first + first
    return len(second)

def grow(size):
    KEPT.append(bytearray(size))

double(1500000)
double(3000000)
keep(20)
for _ in range(3):
    grow(2000000)
print("done")
"""


def named(found):
    return {"argvalues": found, "ids": [python.name for python in found]}


def close(value, wanted):
    return abs(value - wanted) <= wanted / 100


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("python", **named(READ))
def test_places_operators_and_what_stays_live(record, tmp_path, python, allocator):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    operators = ("--operator", "__main__:double", "--operator", "__main__:grow")
    options, env, kept = ALLOCATORS[allocator].values()
    run = record(python.path, script, options=(*operators, *options), env=environment(**env))
    assert run.stdout == b"done\n", run.stderr
    assert not [note for note in run.report["notes"] if "Python frames" in note]
    assert any("keep" in frame and ":5" in frame for frame in run.report["sites"][0]["stack"])

    spans = {each["name"]: each["spans"] for each in run.report["operators"]}
    peaks = sorted(span["working_peak_bytes"] for span in spans["__main__:double"])
    assert len(peaks) == 2
    assert close(peaks[0], 4_500_000), peaks
    assert close(peaks[1], 9_000_000), peaks

    leaks = json.loads(memtrace("report", "--leaks", "--json", run.path).stdout)
    largest, second = leaks["places"][:2]
    assert largest["place"].startswith("program.py:5 keep")
    assert close(largest["bytes"], 20_000_000)
    assert largest["blocks"] == kept
    assert second["place"].startswith("program.py:13 grow")
    assert close(second["bytes"], 6_000_000)
    [left] = leaks["operators"]
    assert (left["operator"], left["calls"], left["leaving_calls"]) == ("__main__:grow", 3, 3)
    assert close(left["bytes_per_call"], 2_000_000)


LIMITED = """
import pytest

@pytest.mark.limit_memory("2 MB")
def test_beyond():
    assert bytearray(3_000_000)

@pytest.mark.limit_memory("4 MB")
def test_within():
    assert bytearray(3_000_000)
"""

CELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "memtrace")
text = "def f(size): return len(bytearray(size))\\nf(3_000_000)\\nf(6_000_000)"
trace = shell.run_cell("%%memtrace --operator __main__:f\\n" + text).result
print([span["working_peak_bytes"] for span in trace.report()["operators"][0]["spans"]])
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A folder with pytest and IPython, for interpreters without them."""
    return pythons.packages(tmp_path_factory.mktemp("tools") / "site", "pytest", "ipython")


def run_with(python, tools, needs, *arguments, cwd):
    """Runs an interpreter that can import memtrace and these tools; skips where it cannot."""
    path = f"{tools}:{ROOT / 'python'}"
    env = environment(
        PYTHONPATH=path, PATH=f"{MEMTRACE.parent}:{os.environ['PATH']}", IPYTHONDIR=str(cwd)
    )
    options = {"env": env, "cwd": cwd, "capture_output": True, "text": True, "check": False}
    tried = subprocess.run([python.path, "-c", f"import {needs}, memtrace.sizing"], **options)
    if tried.returncode:
        pytest.skip(f"{python.name}: {tried.stderr.strip().splitlines()[-1]}")
    return subprocess.run([python.path, *arguments], **options)


@pytest.mark.parametrize("python", **named(READ))
def test_a_limit_fails_where_it_must(tools, tmp_path, python):
    (tmp_path / "test_limited.py").write_text(LIMITED)
    command = ("-m", "pytest", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "-rA")
    done = run_with(python, tools, "pytest", *command, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_limited.py::test_beyond" in done.stdout
    assert "needed 3.00 MB" in done.stdout


@pytest.mark.parametrize("python", **named(READ))
def test_a_cell_is_recorded(tools, tmp_path, python):
    done = run_with(python, tools, "IPython", "-c", CELL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout.splitlines()[-1])
    assert close(peaks[0], 3_000_000), peaks
    assert close(peaks[1], 6_000_000), peaks


@pytest.mark.parametrize("python", **named(NOT_READ))
def test_what_cannot_be_read_is_refused_in_one_sentence(record, python):
    program = "x = bytearray(3000000); print(len(x))"
    # The summary has two lines for a note: wide enough for the longest.
    run = record(python.path, "-c", program, env=environment(COLUMNS="100"))
    assert run.stdout == b"3000000\n", run.stderr
    [note] = [note for note in run.report["notes"] if note.startswith("Python frames")]
    assert note.endswith("CPython 3.8 to 3.14 that has the GIL.")
    number = ".".join(map(str, python.version[:2]))
    assert (number if python.implementation == "CPython" else python.implementation) in note
    assert note in " ".join(run.stderr.decode().split())


SHARED = [python for python in READ if python.library]


@pytest.mark.skipif(not SHARED, reason="no Python here is built with --enable-shared")
def test_an_interpreter_that_is_loaded_late_is_named(record, target):
    python = SHARED[-1]
    program = "def keep():\n    global kept\n    kept = bytearray(3000000)\nkeep()"
    command = (target("embeds.c"), python.library, program)
    environment_of = {"PYTHONHOME": str(Path(python.path).parents[1])}
    run = record(*command, env=environment(**environment_of))
    assert run.code == 0, run.stderr
    [note] = [note for note in run.report["notes"] if note.startswith("Python frames")]
    assert Path(python.library).name in note
    assert "LD_PRELOAD" in note

    preloaded = environment(**environment_of, LD_PRELOAD=python.library)
    run = record(*command, env=preloaded)
    assert run.code == 0, run.stderr
    assert not [note for note in run.report["notes"] if note.startswith("Python frames")]
    assert any("keep" in frame for frame in run.report["sites"][0]["stack"])


@pytest.mark.parametrize("python", **named([each for each in NOT_READ if each.is_free_threaded]))
def test_the_package_says_that_it_needs_the_gil(python):
    env = environment(PYTHONPATH=str(ROOT / "python"))
    program = "import memtrace; memtrace.load('trace')"
    done = subprocess.run([python.path, "-c", program], env=env, capture_output=True, text=True)
    assert done.returncode == 1, done
    assert "cannot run in a free-threaded build of Python" in done.stderr.splitlines()[-1]
