"""What spans say of arrays and parameters, however odd, and that nothing of them is kept."""

import json

START = """
import json
import sys
import memtrace
"""

ARRAYS = """
import numpy as np

class Sub(np.ndarray):
    pass

cube = np.arange(24, dtype="f4").reshape(2, 3, 4)
beyond = np.lib.stride_tricks.as_strided
arrays = [
    cube, cube.T, cube[::-1], cube[:, ::-2, ::-1], cube[:0], cube[..., None], cube[1:2, ::2],
    np.array(3.0), np.zeros(0), np.zeros((0, 3))[:, ::2], np.zeros((2**40, 0)), np.ones((3, 1)).T,
    np.asfortranarray(np.ones((3, 4))), np.broadcast_to(np.float32(1), (4, 5)),
    beyond(np.zeros(10), (3, 4), (8, 8)), beyond(np.zeros(10), (5, 0), (-8, 8)),
    np.ones(3, object), np.array(["a", "é"]), np.zeros(2, "U0"), np.zeros(2, "V5"),
    np.zeros(3, [("a", "<i4"), ("b", ">f8", (2,))]), np.zeros(3, "M8[ns]"), np.zeros(2, ">i2"),
    np.zeros(3, np.dtype({"names": "xy", "formats": ["i4", "i4"], "offsets": [4, 0]})),
    np.zeros(3, np.dtype("f4", metadata={"unit": "m"})), np.zeros(2, np.longdouble),
    np.ma.masked_array([1, 2], [0, 1]), np.recarray(3, [("a", "i4")]), cube.view(Sub)[:, ::-1],
    np.zeros((1,) * 32), np.zeros(2, bool)[::-1], np.frombuffer(b"abcdef", "u1")[1:],
]
arrays += [np.zeros((n, 2))[:, :1] for n in range(1200)]  # more forms than are kept
for array in arrays:
    low, high = np.lib.array_utils.byte_bounds(array)
    about = array.__array_interface__
    expected = {"shape": list(array.shape), "dtype": about["typestr"], "bytes": array.nbytes}
    expected["address"] = about["data"][0]
    step, dense = array.itemsize, about["strides"] is None
    expected["layout"] = "C" if dense else "F" if array.flags.f_contiguous else "strided"
    if expected["layout"] == "strided" and array.nbytes:
        expected.update(start=low, extent=high - low)
    print(json.dumps(expected))
    view = array.view(Sub)
    with memtrace.span("s", array, view) as span:
        span.outputs(array, array.view(Sub))
"""


def test_arrays_of_numpy_are_described_as_their_interface_says(run, numpy_python):
    done = run(numpy_python, START + ARRAYS)
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(done.spans) == len(expected) > 1200
    for span, array in zip(done.spans, expected, strict=True):
        first, second = span["inputs"]
        assert first == dict(array, name="args[0]") and second == dict(array, name="args[1]")
        same, view = span["end"]["outputs"]
        assert same == dict(first, relation="in_place", of="args[0]")
        assert view == second


KEPT = """
import gc
import weakref
import numpy as np

def made(n):
    kind = type("Kind%d" % n, (np.ndarray,), {})
    return np.zeros((n, 2)), np.zeros((n, 3)).view(kind)

def f(*arrays):
    return [array[::-1] for array in arrays]

alive = []
for n in range(1500):
    arrays = made(n + 1)
    alive += [weakref.ref(array) for array in arrays] + [weakref.ref(type(arrays[1]))]
    with memtrace.span("s%d" % n, *arrays, n=n) as span:
        span.outputs(*f(*arrays))
del arrays, span
gc.collect()
recorder = sys.modules["_memtrace_recorder"]
print(sum(reference() is not None for reference in alive))
print(len(recorder._forms) <= 1024, recorder._ndarray is np.ndarray)
"""


def test_nothing_that_is_described_is_kept(run, numpy_python):
    done = run(numpy_python, START + KEPT, ["__main__:f"])
    assert done.stdout == "0\nTrue True\n" and len(done.spans) == 3000


PARAMETERS = r"""
class Text(str):
    pass
class Number(int):
    def __repr__(self):
        return "no number"
class Raises:
    __array_interface__ = {}
    shape = dtype = nbytes = property(lambda self: 1 / 0)
class Fraction(float):
    __repr__ = __str__ = lambda self: 1 / 0
for value in (1, True, 1.0, 0, False, -0.0, Number(1), Fraction(1.5), Text("t"), 1e300, 2**63):
    with memtrace.span("s", value=value):
        pass
name = '"\\\n\u2028\x00é\udc80'
with memtrace.span(Text(name), {name: Array(2)}, Raises(), **{name: name}) as span:
    span.outputs([Array(1)], {Text(name): Array(3)}, (2, 3))
class Odd(Array):
    pass
Odd.dtype = type("D", (), {"str": name, "itemsize": 8})()
odd = Odd(Number(2), True)
with memtrace.span("odd", odd, versions="mine"):
    pass
"""


def test_parameters_and_names_of_every_kind(run, python):
    done = run(python, START + "from arrays import Array\n" + PARAMETERS)
    *plain, named, odd = done.spans
    values = [span["params"]["value"] for span in plain]
    expected = [1, True, 1.0, 0, False, -0.0, 1, 1.5, "t", 1e300, str(2**63)]
    assert list(map(repr, values)) == list(map(repr, expected))
    name = '"\\\n\u2028\x00é?'
    assert named["name"] == name and named["params"][name] == name
    assert [array["name"] for array in named["inputs"]] == [f"args[0][{name}]"]
    names = [array["name"] for array in named["end"]["outputs"]]
    assert names == ["args[0][0]", f"args[1][{name}]", "args[2]"]
    [array] = odd["inputs"]
    assert (array["shape"], array["dtype"]) == ([2, 1], name)
    assert set(odd["params"]["versions"]) == {"python"}


VERSIONS = """
import types
module = sys.modules["numpy"] = types.ModuleType("numpy")
for version in ("1", '2"', "1", None, 3):
    module.__version__ = version
    with memtrace.span("s"):
        pass
del sys.modules["numpy"]
with memtrace.span("s"):
    pass
"""


def test_versions_are_those_of_the_moment(run, python):
    done = run(python, START + VERSIONS)
    versions = [span["params"]["versions"].get("numpy") for span in done.spans]
    assert versions == ["1", '2"', "1", None, None, None]


REPLACED = """
from arrays import Array
def f(x):
    return x
first = f
f(Array(1)), f(Array(2))
def f(x):
    return [x]
first(Array(3)), f(Array(4))
f = first
f(Array(5))
elsewhere = type(f)(f.__code__, {"__name__": "elsewhere"}, "f")
elsewhere(Array(6))
f(Array(7))
del f
first(Array(8))
memtrace.operator(first, name="marked")
first(Array(9))
def make(n):
    def inner(x):
        return n
    return inner
for n in range(3):
    inner = make(n)
    inner(Array(10))
"""


def test_functions_that_are_replaced(run, python):
    done = run(python, START + REPLACED, ["__main__:f", "__main__:inner"])
    found = [(span["name"], span["inputs"][0]["shape"][0]) for span in done.spans]
    # Code that equals an operator's is the operator; so is what the module's own code left behind.
    names = ["__main__:f"] * 7 + ["marked"] + ["__main__:inner"] * 3
    assert found == list(zip(names, [1, 2, 4, 5, 6, 7, 8, 9, 10, 10, 10], strict=True))


ELSEWHERE = """
from arrays import Array
def f(x):
    return x
f(Array(1))
class Closed:
    def __getattr__(self, name):
        raise RuntimeError("closed")
sys.modules["__main__"] = Closed()
f(Array(2))
print("still here")
"""


def test_a_module_that_raises_does_not_reach_the_program(run, python):
    done = run(python, START + ELSEWHERE, ["__main__:f"])
    assert done.stdout == "still here\n" and len(done.spans) >= 1


OWN_JSON = """
import types
from arrays import Array
for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
    del sys.modules[name]
sys.modules["json"] = types.ModuleType("json")
with memtrace.span("s", Array(2), n=1, keep=True) as span:
    span.outputs(Array(3))
"""


def test_a_program_s_own_json_is_not_needed(run, python):
    done = run(python, START.replace("import json\n", "") + OWN_JSON)
    [span] = done.spans
    assert (span["params"]["n"], span["params"]["keep"]) == (1, True)
    assert span["end"]["outputs"][0]["shape"] == [3]


NESTED = """
recorder = sys.modules["_memtrace_recorder"]
with memtrace.span("s"):
    pass
values = {"chunk": [0, None, True, 1.5, 'a"'], "parts": [], "inner": {"x": None}}
print(json.loads(recorder.json_of(values)) == values)
"""


def test_lists_and_dicts_of_every_scalar(run, python):
    """A task of Dask may have a key whose parts are no scalars."""
    assert run(python, START + NESTED).stdout == "True\n"
