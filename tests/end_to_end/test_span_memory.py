"""What a span says of its memory, on calls of NumPy and SciPy whose behaviour is known.

Each case is a function of one array `a` (1000 × 1000 float64, 8 MB, made by the script); it says what
the result is to `a` and how many arrays of that size the call makes and throws away again.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Recording, environment, memtrace

MB8 = 8_000_000
SLACK = 600_000  # line buffers of SciPy's filters, NumPy's casts, the interpreter

# name: (expression, relation, bytes that views keep alive, temporaries in bytes, new blocks kept)
CASES = {
    "reshape": ("a.reshape(500, 2000)", "view", MB8, 0, 0),
    "transpose": ("a.T", "view", MB8, 0, 0),
    "slice": ("a[10:20, ::3]", "view", MB8, 0, 0),
    "reversed": ("a[::-1, ::-1]", "view", MB8, 0, 0),
    "diagonal": ("np.diagonal(a)", "view", MB8, 0, 0),
    "view": ("a.view('i8')", "view", MB8, 0, 0),
    "whole slice": ("a[:]", "view", MB8, 0, 0),
    "ravel": ("a.ravel()", "view", MB8, 0, 0),
    "ravel of a transposed": ("a.T.ravel()", "new", 0, 0, MB8),
    "broadcast_to": ("np.broadcast_to(a, (50, 1000, 1000))", "view", MB8, 0, 0),
    "real of real": ("np.real(a)", "in_place", 0, 0, 0),
    "squeeze": ("np.squeeze(a[None])", "view", MB8, 0, 0),
    "asarray": ("np.asarray(a)", "in_place", 0, 0, 0),
    "ascontiguousarray": ("np.ascontiguousarray(a)", "in_place", 0, 0, 0),
    "astype, no copy": ("a.astype('f8', copy=False)", "in_place", 0, 0, 0),
    "astype": ("a.astype('f4')", "new", 0, 0, MB8 // 2),
    "copy": ("a.copy()", "new", 0, 0, MB8),
    "add": ("a + 1", "new", 0, 0, MB8),
    "add to itself": ("np.add(a, 1, out=a)", "in_place", 0, 0, 0),
    "two temporaries": ("np.sin(a * 2) + np.cos(a)", "new", 0, MB8, MB8),
    "cumsum": ("np.cumsum(a, axis=0)", "new", 0, 0, MB8),
    "cumsum into itself": ("np.cumsum(a, axis=0, out=a)", "in_place", 0, 0, 0),
    "np.sort": ("np.sort(a, axis=1)", "new", 0, 0, MB8),
    "sort": ("a.sort(axis=1)", None, 0, 0, 0),
    "copyto": ("np.copyto(a, 1.5)", None, 0, 0, 0),
    "concatenate": ("np.concatenate([a, a])", "new", 0, 0, 2 * MB8),
    "where": ("np.where(a > 2, a, 0)", "new", 0, 1_000_000, MB8),
    "einsum that sums": ("np.einsum('ij->i', a)", "new", 0, 0, 8000),
    "einsum that views": ("np.einsum('ii->i', a)", "view", MB8, 0, 0),
    "complex fft": ("scipy.fft.fft(a)", "new", 0, 0, 2 * MB8),
    "uniform filter": ("ndimage.uniform_filter(a, 3)", "new", 0, 0, MB8),
    "uniform filter into itself": (
        "ndimage.uniform_filter(a, 3, output=a)",
        "in_place",
        0,
        0,
        0,
    ),
    "norm": ("np.linalg.norm(a, axis=1)", "new", 0, MB8, 8000),
    "a view of what is made": ("(a * 2)[5:10]", "new", 0, 0, MB8),
    "a global": ("GLOBAL", "older", 0, 0, 0),
}

PROGRAM = """
import json, sys
import numpy as np, scipy.fft
from scipy import ndimage
import memtrace

GLOBAL = np.ones(200_000)
cases = json.loads(sys.argv[1])
for name, expression in cases.items():
    run = memtrace.operator(eval("lambda a: " + expression), name=name)
    for _ in range(2):
        a = np.full((1000, 1000), 3.0)
        result = run(a)
        del a, result
"""

# Functions that may write into memory they were given; what comes back is another object over it.
OVERWRITE = """
import numpy as np, scipy.fft, scipy.linalg
def fft(x, overwrite_x):
    return scipy.fft.fft(x, overwrite_x=overwrite_x)
for overwrite in (False, True):
    a = np.asfortranarray(np.eye(400) * 2)
    b = np.asfortranarray(np.ones((400, 400)))
    x = scipy.linalg.solve(a, b, overwrite_a=overwrite, overwrite_b=overwrite)
    assert x.sum() == 80_000
    z = np.ones((400, 400), complex)
    y = fft(z, overwrite_x=overwrite)
    print(np.shares_memory(x, b), np.shares_memory(y, z))
    del a, b, x, z, y
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """The second call of each case, by its name, and the recording."""
    path = tmp_path_factory.mktemp("spans") / "trace"
    cases = json.dumps({name: case[0] for name, case in CASES.items()})
    where = environment(PYTHONPATH=str(ROOT / "python"), OPENBLAS_NUM_THREADS="1")
    options = ("-o", path, "--auto-operators", "none")
    done = memtrace(*options, "--", sys.executable, "-c", PROGRAM, cases, env=where)
    assert done.returncode == 0, done.stderr.decode()
    run = Recording(path, done.returncode, done.stdout, done.stderr)
    operators = {operator["name"]: operator for operator in run.report["operators"]}
    return {name: operators[name]["spans"][1] for name in CASES}, run


@pytest.mark.parametrize("name", CASES)
def test_what_a_call_says_of_its_memory(calls, name):
    _, relation, pinned, temporary, kept = CASES[name]
    span = calls[0][name]
    assert [output["relation"] for output in span["outputs"]] == ([relation] if relation else [])
    shares = [output.get("of") for output in span["outputs"]]
    assert shares == (
        [] if relation is None else ["a" if relation in ("view", "in_place") else None]
    )
    assert span["pinned_bytes"] == pinned
    assert temporary <= span["temporary_peak_bytes"] < temporary + SLACK
    assert kept <= span["kept_bytes"] < kept + SLACK
    peak = span["working_peak_bytes"]
    assert temporary + kept <= peak < temporary + kept + SLACK
    assert span["temporary_bytes"] >= temporary
    if temporary + kept >= MB8 // 2:
        assert span["peak_place"], "blocks of 64 KiB and more have their call stack"


def test_roles_of_blocks(calls):
    spans, run = calls
    names = {span["span"]: name for name, span in spans.items()}
    rows = run.sql(
        "select span, role, sum(bytes) from {allocations}"
        f" where bytes >= 500000 and span in {tuple(names)} group by all"
    )
    roles = {(names[span], role): int(size) for span, role, size in rows}
    expected = {}
    for name, (_, relation, _, temporary, kept) in CASES.items():
        if kept >= 500_000:
            assert relation == "new"
            expected[name, "output"] = kept
        if temporary:
            # Not what was at the peak, but all there was: both temporaries of one size.
            expected[name, "temporary"] = 2 * temporary if name == "two temporaries" else temporary
    del roles["two temporaries", "temporary"], expected["two temporaries", "temporary"]
    assert {key: value for key, value in roles.items() if key in expected} == expected
    assert set(roles) == set(expected)
    [[inputs]] = run.sql(
        "select count(*) from {allocations} where role = 'input' and bytes = 8000000"
    )
    assert inputs == 2 * len(CASES), "each array that the script made went into one span"


def test_an_array_that_is_written_over_is_the_result(record, python):
    options = ("--operator", "scipy.linalg:solve", "--operator", "__main__:fft")
    run = record(python, "-c", OVERWRITE, options=options)
    shared = [line.split() for line in run.stdout.decode().splitlines()]
    for operator, column, name in (("scipy.linalg:solve", 0, "b"), ("__main__:fft", 1, "x")):
        [spans] = [op["spans"] for op in run.report["operators"] if op["name"] == operator]
        for span, shares in zip(spans, shared, strict=True):
            [output] = span["outputs"]
            reported = (output["relation"], output.get("of"))
            assert reported == (("in_place", name) if shares[column] == "True" else ("new", None))
            assert span["pinned_bytes"] == 0
    assert shared[0] == ["False", "False"]
    assert "True" in shared[1]


def test_the_same_shape_with_another_peak_depends_on_data(record, python):
    program = (
        "import numpy as np\n"
        "def chosen(x):\n    return np.concatenate([x[x > 0]] * 2)\n"
        "def plain(x):\n    return x * 2\n"
        "for share in (0.0, 0.1, 0.5, 0.9):\n"
        "    x = np.where(np.arange(500_000) < share * 500_000, 1.0, -1.0)\n"
        "    chosen(x), plain(x)\n"
    )
    options = ("--operator", "__main__:chosen", "--operator", "__main__:plain")
    run = record(python, "-c", program, options=options)
    operators = {operator["name"]: operator for operator in run.report["operators"]}
    [group] = operators["__main__:chosen"]["data_dependent"]
    assert (group["calls"], group["inputs"][0]["shape"]) == (3, [500_000])
    peaks = group["working_peak_bytes"]
    # What was chosen, and twice that in one; the mask is gone by then.
    assert 3 * 400_000 <= peaks["min"] < 3 * 400_000 + 65_536
    assert peaks["max"] - peaks["min"] >= 2 * 3_200_000
    assert operators["__main__:plain"]["data_dependent"] == []
    lines = run.details.splitlines()
    [reported] = [line for line in lines if "data-dependent" in line]
    assert "__main__:chosen: same shape, different peak" in reported


def test_where_the_peak_was(record, python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "def f(x):\n"
        "    y = x + 1\n"
        "    z = np.ones((2000, 1000))\n"  # the largest, in line 4; nothing smaller after it
        "    return y\n"
        "f(np.ones(3000)), f(np.ones(3000))\n"
    )
    run = record(python, script, options=("--operator", "__main__:f"))
    [operator] = run.report["operators"]
    span = operator["spans"][1]
    assert "f script.py:4" in span["peak_place"]
    [[size]] = run.sql(
        f"select bytes from {{allocations}} where site = {span['peak_site']} and span = {span['span']}"
    )
    assert size == 16_000_000
    assert "__main__:f: peak at f script.py:4" in run.details


PEAK = """
class Array:
    __slots__ = "data", "shape", "nbytes"
    dtype = type("dtype", (), {"str": "|u1", "itemsize": 1})
    def __init__(self, size):
        self.data, self.shape, self.nbytes = bytearray(size), (size,), size
    def __mul__(self, by):
        return Array(self.nbytes)
    @property
    def __array_interface__(self):
        return {"shape": self.shape, "typestr": "|u1", "data": (0, False), "version": 3}
def f(x, y=None):
    x = x * 2
    x = x * 2
    return x
for size in (1_000_000, 3_000_000):
    f(Array(size))
    f(Array(size), y=Array(size))
"""


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_the_peak_is_equal_to_the_byte_with_spans_and_without(record, version):
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    # What is on PATH may be a shim for a version that is not chosen.
    found = [*root.glob(f"versions/{version}.*/bin/python3"), shutil.which("python" + version)]
    interpreter = next(filter(None, found), None) or pytest.skip(f"no Python {version}")
    changes = (
        "select alloc_ns as time, bytes::hugeint as change from {allocations} where bytes >= 700000"
        " and kind not like 'map%' union all select free_ns, -(bytes::hugeint) from {allocations}"
        " where bytes >= 700000 and kind not like 'map%' and free_ns is not null"
    )
    query = f"select max(s) from (select sum(change) over (order by time) s from ({changes}))"
    runs = [
        record(interpreter, "-c", PEAK, options=options)
        for options in ((), ("--operator", "__main__:f"))
    ]
    assert [run.code for run in runs] == [0, 0]
    assert runs[0].sql(query) == runs[1].sql(query)
    [operator] = runs[1].report["operators"]
    assert [span["inputs"][0]["shape"] for span in operator["spans"]] == [
        *([1_000_000], [1_000_000]),
        *([3_000_000], [3_000_000]),
    ]
