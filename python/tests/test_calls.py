"""Which calls become spans, and that the program behaves as without them."""

import sys

import pytest

IMPORT = "from arrays import Array\n"


def test_a_span_says_what_went_in_and_out(run, python):
    program = """
def smooth(x, sigma, size=(3, 3), *rest, mode="nearest", **more):
    return x * 2, {"not": "looked into"}
smooth(Array(4, 5, 6), 1.5, (3, 5), Array(2), mode="wrap", other=Array(7), n=2, flag=True)
"""
    (span,) = run(python, IMPORT + program, ["__main__:smooth"]).spans
    array = {"shape": [4, 5, 6], "dtype": "<f8", "layout": "C", "bytes": 960, "address": 4096}
    assert span["inputs"][0] == dict(array, name="x")
    assert [(a["name"], a["shape"]) for a in span["inputs"][1:]] == [
        ("rest[0]", [2]),
        ("other", [7]),
    ]
    versions = span["params"].pop("versions")
    assert versions["python"].startswith("3.") and "numpy" not in versions
    expected = {"sigma": 1.5, "size": "(3, 5)", "mode": "wrap", "n": 2, "flag": True}
    assert span["params"] == expected
    assert span["end"] == {"outputs": [dict(array, name="[0]")]}


def test_recursion_nesting_and_threads(run, python):
    program = """
import threading
def outer(x, n):
    inner(x)
    return outer(x, n - 1) if n else x
def inner(x):
    return x
outer(Array(1), 2)
thread = threading.Thread(target=outer, args=(Array(2), 0))
thread.start()
thread.join()
"""
    done = run(python, IMPORT + program, ["__main__:outer", "__main__:inner"])
    assert len(done.named("__main__:outer")) == 4 and len(done.named("__main__:inner")) == 4
    assert done.order[:8] == [
        ("begin", 1),
        ("begin", 2),
        ("end", 2),
        ("begin", 3),
        ("begin", 4),
        ("end", 4),
        ("begin", 5),
        ("begin", 6),
    ]
    assert done.order[8:12] == [("end", 6), ("end", 5), ("end", 3), ("end", 1)]


def test_an_exception_ends_the_span_and_reaches_the_program(run, python):
    program = """
def f(x):
    raise KeyError("gone")
def g(x):
    try:
        f(x)
    except KeyError as error:
        return None
g(Array(1))
"""
    done = run(python, IMPORT + program, ["__main__:f", "__main__:g"])
    g, f = done.spans
    name = "KeyError" if "3.12" in python or "3.13" in python else "exception"
    assert f["end"] == {"outputs": [], "error": name}
    assert g["end"] == {"outputs": []}


def test_ghosts_generators_coroutines_and_class_bodies_are_no_spans(run, python):
    program = """
import asyncio
def f(x):
    return x
f(Array(0, 0))
def g(x):
    yield x
list(g(Array(1)))
async def h(x):
    return x
asyncio.run(h(Array(1)))
class k:
    member = 1
assert k.member == 1
f(Array(1))
"""
    names = ["__main__:" + name for name in "fghk"]
    done = run(python, IMPORT + program, names)
    assert [span["name"] for span in done.spans] == ["__main__:f"]


def test_functions_of_the_same_name_elsewhere_are_no_spans(run, python, tmp_path):
    (tmp_path / "other.py").write_text("def f(x):\n    return x\n")
    program = """
import other
class Box:
    def f(self, x):
        return x
def f(x):
    return x
other.f(Array(2))
Box().f(Array(3))
f(Array(1))
"""
    done = run(python, IMPORT + program, ["__main__:f"])
    assert [span["inputs"][0]["shape"] for span in done.spans] == [[1]]
    done = run(python, IMPORT + program, ["__main__:Box.f", "other:f"])
    assert [span["inputs"][0]["shape"] for span in done.spans] == [[2], [3]]


def test_a_function_is_found_behind_wrappers_reexports_and_aliases(run, python, tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from ._hidden import f, g, alias, cached\n")
    (package / "_hidden.py").write_text(
        "import functools\n"
        "def wrap(function):\n"
        "    @functools.wraps(function)\n"
        "    def wrapper(*args):\n"
        "        return function(*args)\n"
        "    return wrapper\n"
        "@wrap\n"
        "def f(x):\n    return x\n"
        "@staticmethod\n"
        "def g(x):\n    return x\n"
        "g = g.__func__\n"
        "def _two(x, n):\n    return x\n"
        "alias = functools.partial(_two, n=2)\n"
        "@functools.lru_cache(None)\n"
        "def cached(n):\n    return n\n"
    )
    program = """
import pack
pack.f(Array(1))
pack.g(Array(2))
pack.alias(Array(3))
pack.cached(4)
"""
    names = ["pack:f", "pack:g", "pack:alias", "pack:cached"]
    done = run(python, IMPORT + program, names)
    assert [span["name"] for span in done.spans] == names
    assert done.spans[2]["params"]["n"] == 2


def test_code_that_was_copied_counts_as_the_function(run, python):
    """cloudpickle rebuilds functions in a worker, whose own `__main__` lacks them."""
    program = """
def f(x):
    return x
copy = type(f)(f.__code__.replace(), {"__name__": "__main__"}, "f")
del f
copy(Array(1))
"""
    assert len(run(python, IMPORT + program, ["__main__:f"]).spans) == 1


def test_spawned_processes_run_main_under_another_name(run, python):
    program = """
def f(x):
    return x
f.__globals__["__name__"] = "__mp_main__"
sys.modules["__mp_main__"] = sys.modules.pop("__main__")
f(Array(1))
"""
    assert len(run(python, "import sys\n" + IMPORT + program, ["__main__:f"]).spans) == 1


def test_what_cannot_be_recorded_disturbs_nothing(run, python):
    program = """
class Odd:
    shape = dtype = nbytes = property(lambda self: 1 / 0)
    __array_interface__ = {}
def f(*args, **kwargs):
    return args
f(Odd(), float("nan"), 10**30, "s" * 500, "\\udc80", [Array(1)] * 3000, {1: Array(2)}, Odd)
f(*[Array(1) for _ in range(3000)], **{"k%d" % i + "x" * 190: i for i in range(1000)})
f(**{"a%d" % i + chr(0x1F600) * 150: "\\x01" * 200 for i in range(64)})
"""
    done = run(python, IMPORT + program, ["__main__:f", "nonsense", "no.such:thing", ":", "sys:"])
    first, second, third = done.spans
    assert first["params"]["args[1]"] == "nan" and first["params"]["args[2]"] == str(10**30)
    assert first["params"]["args[4]"] == "?" and first["params"]["args[7]"] == "Odd"
    assert [a["shape"] for a in first["inputs"]] == [[1]] * 64 + [[2]]
    assert max(done.sizes) <= 60 * 1024
    bare = {"name": "__main__:f", "inputs": [], "params": {}, "within": 0}
    assert third == {**bare, "end": third["end"], "id": 3}
    assert len(second["inputs"]) == 64


def test_the_program_may_profile_itself(run, python):
    program = """
import cProfile
def f(x):
    return x
f(Array(1))
profile = cProfile.Profile()
profile.runcall(f, Array(2))
assert sys.getprofile() is None
print(len(profile.getstats()) > 0)
"""
    done = run(python, "import sys\n" + IMPORT + program, ["__main__:f"])
    assert done.stdout == "True\n" and done.spans


def test_a_signal_handlers_exception_reaches_the_program(run, python):
    """Python runs handlers between any two instructions: the recorder must not be in the way."""
    program = """
import signal
class Late(Exception):
    pass
def handler(number, frame):
    raise Late("after", number)
def busy(n):
    return n
signal.signal(signal.SIGALRM, handler)
caught = 0
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        for _ in range(50_000_000):
            busy(1)
    except Late as error:
        assert type(error) is Late and error.args == ("after", signal.SIGALRM)
        caught += 1
print(caught)
"""
    assert run(python, program, ["__main__:f"]).stdout == "20\n"


def test_exit_status_and_output_stay(run, python):
    program = """
import sys, threading, time
def f(x):
    return x
class Last:
    def __del__(self, f=f):
        f(1)
keep = Last()
daemon = threading.Thread(target=lambda: [f(Array(1)) for _ in iter(int, 1)], daemon=True)
daemon.start()
time.sleep(0.05)
sys.exit(7)
"""
    done = run(python, IMPORT + program, ["__main__:f"], check=False)
    assert (done.code, done.stdout, done.stderr) == (7, "", "")


def test_nothing_is_imported_before_there_is_work(run, python):
    program = """
import sys
print(sorted({"ctypes", "json", "threading", "numpy"} & set(sys.modules)))
"""
    assert run(python, program, []).stdout == run(python, program, recorded=False).stdout


@pytest.mark.parametrize("name", ["scipy.ndimage:gaussian_filter", "numpy.linalg:eigh"])
def test_library_functions(run, numpy_python, name):
    pytest.importorskip("scipy")
    program = """
import numpy, scipy.ndimage
x = numpy.eye(8, dtype="f4")
scipy.ndimage.gaussian_filter(x, 1.0)
numpy.linalg.eigh(x)
"""
    (span,) = run(numpy_python, program, [name]).spans
    versions = span["params"]["versions"]
    assert {"python", "numpy", name.partition(".")[0]} <= set(versions)
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert span["inputs"][0]["shape"] == [8, 8] and span["inputs"][0]["dtype"] == "<f4"
    assert span["end"]["outputs"]


def test_dask_makes_one_span_per_block(run, numpy_python):
    pytest.importorskip("dask.array")
    program = """
import dask.array
def f(block):
    return block * 2
x = dask.array.ones((8, 4), chunks=(4, 4), dtype="f4")
x.map_blocks(f).compute()
x.map_overlap(f, depth=1, boundary="none").compute()
"""
    spans = run(numpy_python, program, ["__main__:f"]).spans
    assert [s["inputs"][0]["shape"] for s in spans] == [[4, 4], [4, 4], [5, 4], [5, 4]]
