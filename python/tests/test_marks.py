"""`memtrace.operator` and `memtrace.span`, recorded and not."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent

MARKED = """
from arrays import Array
import memtrace
@memtrace.operator
def plain(x, n=2):
    return x * n
@memtrace.operator(name="seismic.stack", params=["fold"], shape_of="gathers")
def stack(gathers, weights, fold, seed):
    return gathers * fold
with memtrace.span("block", Array(6), window=5, note=None) as running:
    x = plain(Array(3))
    running.outputs(x)
stack([Array(4), Array(5)], Array(9), 24, seed=1)
with memtrace.span("shapes", (2, 3), "f4", (4, 5), "i1", (6,), "odd"):
    pass
try:
    with memtrace.span("fails", Array(1)):
        raise KeyError
except KeyError:
    pass
print(Array.peak, Array.live)
"""


def test_marks_become_spans(run, python):
    done = run(python, MARKED)
    assert [s["name"] for s in done.spans] == [
        "block",
        "__main__:plain",
        "seismic.stack",
        "shapes",
        "fails",
    ]
    block, plain, stack, shapes, fails = done.spans
    versions = block["params"].pop("versions")
    assert "python" in versions and block["params"] == {"window": 5, "note": "None"}
    assert block["inputs"][0]["shape"] == [6] and block["end"]["outputs"][0]["shape"] == [3]
    assert plain["params"]["n"] == 2 and plain["inputs"][0]["name"] == "x"
    assert [a["name"] for a in stack["inputs"]] == ["gathers[0]", "gathers[1]"]
    assert set(stack["params"]) == {"fold", "versions"}
    described = [(a["shape"], a["dtype"], a.get("bytes")) for a in shapes["inputs"]]
    assert described == [([2, 3], "<f4", 24), ([4, 5], "|i1", 20), ([6], "odd", 0)]
    assert fails["end"]["error"] == "KeyError"


def test_marks_change_no_peak(run, python):
    assert run(python, MARKED).stdout == run(python, MARKED, recorded=False).stdout


def test_a_mark_and_an_operator_of_the_same_function_are_one_span(run, python):
    done = run(python, MARKED, ["__main__:plain"])
    assert len(done.named("__main__:plain")) == 1


def test_outside_of_a_recording_marks_are_nothing(python):
    program = """
import sys
before = set(sys.modules)
import memtrace
def f(x):
    return x
assert memtrace.operator(f) is f and memtrace.operator(name="n", params=["x"])(f) is f
assert memtrace.span("a", f) is memtrace.span("b", (1, 2), "f4", n=3)
with memtrace.span("a") as running:
    running.outputs(f)
assert not {"ctypes", "json", "threading", "numpy"} & (set(sys.modules) - before)
"""
    done = subprocess.run([python, "-c", program], cwd=PACKAGE, check=False)
    assert done.returncode == 0


def test_without_the_native_module_there_is_one_clear_sentence():
    program = "import memtrace, sys; sys.modules['memtrace._native'] = None; memtrace.Model"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE, capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: memtrace.Model needs memtrace's native module")
