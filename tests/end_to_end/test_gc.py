"""The peak without garbage, by what Python's collector frees (docs/gc.md)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import environment

MEGABYTE = 1_000_000

# Garbage cycles that hold 4 MB arrays each, on a base of 20 MB, or as many times that.
CYCLES = """
import gc, sys
import numpy as np
scale = int(sys.argv[2])
{"disable": gc.disable, "default": lambda: None, "threshold": lambda: gc.set_threshold(1)}[sys.argv[1]]()
class Node:
    def __init__(self, n):
        self.me, self.array = self, np.ones(n)
def build(n):
    node = Node(n)
    return sum(float(node.array.sum()) for _ in range(8))
base = np.ones(2_500_000 * scale)
print(sum(build(500_000 * scale) for _ in range(80)), gc.isenabled(), gc.get_threshold())
"""

# The same with what every CPython has, and a main thread that waits while its worker makes garbage.
# Half way, what is recorded waits for a collection: the recorder may be slow on a busy machine.
BARE_CYCLES = """
import gc, os, threading, time, weakref
gc.disable()
base = bytearray(20_000_000)
class Node:
    pass
def work():
    first = None
    for n in range(80):
        node = Node()
        node.me, node.held = node, bytearray(4_000_000)
        sum(node.held[::8])
        first = first or weakref.ref(node)
        while n == 40 and "MEMTRACE_TOKEN" in os.environ and first():
            time.sleep(0.001)
worker = threading.Thread(target=work)
worker.start()
worker.join()
print(threading.active_count(), [t.name for t in threading.enumerate()])
"""


def pyenv(version):
    """A CPython of this version, on PATH or under pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{version}"), *root.glob(f"versions/{version}.*/bin/python3")]
    for candidate in filter(None, found):
        ask = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
        found, _, executable = subprocess.run(ask, capture_output=True, text=True).stdout.partition(
            " "
        )
        if found == version:  # not a shim, which is a shell script
            return executable.strip()
    pytest.skip(f"no Python {version} on PATH or under pyenv")


@pytest.fixture(params=["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def each_python(request):
    return pyenv(request.param)


def test_the_peak_without_garbage_does_not_depend_on_the_collector(record, python):
    lowers, observed = {}, {}
    for setting in ("disable", "default", "threshold"):
        # So large that CPython's own arenas, of 1 MiB each, are little beside it.
        program = (python, "-c", CYCLES, setting, 4)
        bare = record(*program)
        observed[setting] = bare.report["peak"]["live_bytes"]
        run = record(*program, options=("--gc", "eager"))
        assert run.stdout == bare.stdout
        peak = run.report["peak"]
        lowers[setting] = peak["gc_independent_bytes"]
        assert peak["gc_independent_bytes"] <= peak["gc_independent_upper_bytes"]
        garbage = peak["garbage_at_peak_bytes"]
        assert peak["live_bytes"] - garbage <= peak["gc_independent_bytes"]
        assert run.report["recorded"]["gc"] == "eager"
    assert max(observed.values()) > 3 * min(observed.values())
    assert max(lowers.values()) <= 1.02 * min(lowers.values()), lowers
    # The base and one array, and the interpreter.
    assert all(96 * MEGABYTE <= lower <= 112 * MEGABYTE for lower in lowers.values()), lowers


def test_observe_reports_what_the_program_itself_collects(record, python):
    # With a block for each object: whether one more arena of 1 MiB is taken is a matter of chance.
    options = {"env": environment(PYTHONMALLOC="malloc")}
    bare = record(python, "-c", CYCLES, "threshold", 1, **options)
    run = record(python, "-c", CYCLES, "threshold", 1, options=("--gc", "observe"), **options)
    assert run.stdout == bare.stdout
    peak = run.report["peak"]
    assert 24 * MEGABYTE <= peak["gc_independent_bytes"] <= 40 * MEGABYTE
    assert abs(peak["live_bytes"] - bare.report["peak"]["live_bytes"]) <= MEGABYTE / 10
    [process] = run.report["processes"]
    assert process["collections"] > 0 and 0 < process["collect_share"] < 1
    assert process["gc_independent_bytes"] == peak["gc_independent_bytes"]
    assert b"GC-independent peak" in run.stderr


def test_without_a_collection_garbage_is_not_taken_for_memory_in_use(record, python):
    """There is no collection: all that was never released before the end may be garbage."""
    run = record(python, "-c", CYCLES, "disable", 1, options=("--gc", "observe"))
    peak = run.report["peak"]
    assert peak["gc_independent_bytes"] <= 35 * MEGABYTE
    assert peak["gc_independent_upper_bytes"] == peak["live_bytes"] >= 340 * MEGABYTE


def test_without_the_option_nothing_is_said(record, python):
    run = record(python, "-c", "import gc; gc.collect()")
    assert run.report["peak"]["gc_independent_bytes"] is None
    assert run.report["recorded"]["gc"] == "off"
    assert b"GC-independent" not in run.stderr
    columns = "gc_independent_bytes, garbage_at_peak_bytes, collections, collect_ns"
    assert run.sql(f"select {columns} from {{processes}}") == [(None, None, 0, 0)]


def test_every_cpython_from_3_8_on(record, each_python):
    """Garbage made by a worker while the main thread waits in join, collection disabled."""
    bare = subprocess.run([each_python, "-c", BARE_CYCLES], capture_output=True, check=True)
    run = record(each_python, "-X", "dev", "-c", BARE_CYCLES, options=("--gc", "eager", "-q"))
    assert (run.stdout, run.stderr) == (bare.stdout, b"")
    peak = run.report["peak"]
    assert 24 * MEGABYTE <= peak["gc_independent_bytes"] <= 36 * MEGABYTE, peak
    assert peak["gc_independent_upper_bytes"] < 340 * MEGABYTE, "nothing was collected"


# Forks by hand, with every warning shown; children that end in both ways.
FORKS = """
import os, sys, warnings
warnings.simplefilter("always")
def work(n):
    for _ in range(n):
        cycle = [bytearray(3_000_000)]
        cycle.append(cycle)
        sum(cycle[0][::8])
    return n
for _ in range(3):
    child = os.fork()
    if child == 0:
        work(40)
        sys.stdout.flush()
        os._exit(7)
    print(os.waitpid(child, 0)[1] >> 8)
child = os.fork()
if child == 0:
    work(40)
    sys.exit(3)
print(os.waitpid(child, 0)[1] >> 8)
"""


def test_forked_children_collect_for_themselves_and_are_not_warned(record, each_python):
    bare = subprocess.run([each_python, "-c", FORKS], capture_output=True, check=True)
    for mode in ("observe", "eager"):
        run = record(each_python, "-c", FORKS, options=("--gc", mode, "-q"))
        assert (run.stdout, run.stderr) == (bare.stdout, bare.stderr), mode
        children = [each for each in run.report["processes"] if each["origin"] == "fork"]
        assert len(children) == 4
        if mode == "eager":
            assert all(each["collections"] > 0 for each in children), children
            # One array at a time, or two while the name is bound anew.
            assert all(each["gc_independent_bytes"] >= 3 * MEGABYTE for each in children)
            assert all(each["gc_independent_bytes"] < 20 * MEGABYTE for each in children)


FINALIZERS = """
import gc, time
class Noisy:
    def __init__(self, n):
        self.me, self.held = self, bytearray(n)
    def __del__(self):
        kept = [bytearray(2_000_000) for _ in range(3)]
        deleted.append(len(kept))
class Returns(Noisy):
    def __del__(self):
        back.append(self)
deleted, back = [], []
frozen = Noisy(5_000_000)
del frozen
gc.freeze()
for _ in range(30):
    Noisy(4_000_000)
    Returns(100_000)
# A collection within another thread's, whose finalizer released the interpreter, does nothing.
for _ in range(1000):
    gc.collect()
    if len(deleted) == len(back) == 30:
        break
    time.sleep(0.01)
print(len(deleted), len(back), gc.get_freeze_count() > 0, gc.garbage)
"""


def test_finalizers_that_allocate_and_revive_and_frozen_garbage(record, python):
    bare = subprocess.run([python, "-c", FINALIZERS], capture_output=True, check=True)
    for mode in ("observe", "eager"):
        run = record(python, "-c", FINALIZERS, options=("--gc", mode))
        assert run.stdout == bare.stdout
        peak = run.report["peak"]
        # What is frozen cannot be freed, what was revived is in use.
        assert peak["gc_independent_bytes"] >= 5 * MEGABYTE + 29 * 100_000
        assert peak["gc_independent_bytes"] <= peak["gc_independent_upper_bytes"]


def test_spans_have_bounds_of_their_own(record, python):
    program = (
        "import gc\n"
        "def cycle(n):\n    c = [bytearray(n)]; c.append(c)\n"
        "def outer(n):\n"
        "    held = bytearray(n)\n"
        "    for _ in range(5): cycle(n)\n"
        "    gc.collect()\n"
        "    return len(held)\n"
        "gc.disable()\n"
        "outer(2_000_000)\n"
    )
    options = ("--gc", "observe", "--operator", "__main__:outer", "--operator", "__main__:cycle")
    run = record(python, "-c", program, options=options)
    operators = {each["name"]: each["spans"] for each in run.report["operators"]}
    [outer] = operators["__main__:outer"]
    small = 100_000  # what the interpreter itself allocates meanwhile
    assert 0 <= outer["garbage_at_peak_bytes"] - 10 * MEGABYTE < small
    assert 0 <= outer["gc_independent_bytes"] - 2 * MEGABYTE < small
    assert outer["gc_independent_upper_bytes"] == outer["working_peak_bytes"] >= 12 * MEGABYTE
    assert len(operators["__main__:cycle"]) == 5
    for inner in operators["__main__:cycle"]:
        assert 0 <= inner["garbage_at_peak_bytes"] - 2 * MEGABYTE < small
        assert inner["gc_independent_bytes"] < small


@pytest.mark.parametrize("mode", ["observe", "eager"])
def test_programs_end_as_they_would(record, each_python, mode):
    """Exits of all kinds, with threads still at work: the same output and status, and no hang."""
    endings = {
        "import os; print('x', flush=True); os._exit(5)": 5,
        "import sys; sys.exit(4)": 4,
        "import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()": 0,
        "import atexit, gc; atexit.register(lambda: print(len(gc.callbacks) >= 0, gc.collect() >= 0))": 0,
        "raise SystemExit('bye')": 1,
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)": 128 + 15,
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])": 0,
        "import signal, threading; signal.pthread_sigmask(0, {10}); import os;"
        " os.kill(os.getpid(), 10); print(signal.sigwait({10}))": 0,
    }
    for program, code in endings.items():
        bare = subprocess.run([each_python, "-c", program], capture_output=True, check=False)
        run = record(each_python, "-c", program, options=("--gc", mode, "-q"), timeout=60)
        assert (run.stdout, run.stderr, run.code) == (bare.stdout, bare.stderr, code), program


def test_processes_of_other_languages_have_no_garbage(record, target):
    run = record(target("heap.c"), options=("--gc", "eager"))
    [process] = run.report["processes"]
    assert process["gc_independent_bytes"] == process["peak_live_bytes"] > 0
    assert process["garbage_at_peak_bytes"] == process["collections"] == 0


def test_the_report_of_a_worker_pool_sums_processes_at_one_time(record, python, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        "import multiprocessing as mp, sys\n"
        "def work(n):\n"
        "    c = [bytearray(n)]; c.append(c)\n"
        "    return sum(c[0][::8])\n"
        "if __name__ == '__main__':\n"
        "    held = bytearray(10_000_000)\n"
        "    with mp.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        print(sum(pool.map(work, [4_000_000] * 40)))\n"
    )
    for method in ("fork", "spawn"):
        run = record(python, script, method, options=("--gc", "eager"))
        assert run.stdout == b"0\n"
        peak, processes = run.report["peak"], run.report["processes"]
        largest = max(each["gc_independent_bytes"] for each in processes)
        assert largest <= peak["gc_independent_bytes"] <= peak["gc_independent_upper_bytes"], method
