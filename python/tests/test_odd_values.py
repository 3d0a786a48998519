"""Values whose classes raise, lie or do work when they are asked: one costs at most itself."""

import pytest

START = """
import memtrace, sys
class Lazy:
    @property
    def __class__(self):
        print("evaluated")
        return dict
    def __getattr__(self, name):
        print("evaluated", name)
        raise AttributeError(name)
    def __bool__(self):
        print("evaluated")
        return True
proxy = Lazy()
class Loud:
    def __getitem__(self, key):
        print("ran")
    __len__ = __iter__ = keys = items = __str__ = __repr__ = __sub__ = __lt__ = __ge__ = __getitem__
    __int__ = __index__ = __float__ = __eq__ = __getitem__
    __hash__ = None
class LoudDict(Loud, dict): pass
class LoudList(Loud, list): pass
class LoudTuple(Loud, tuple): pass
class LoudInt(Loud, int): pass
class LoudFloat(Loud, float): pass
class LoudText(Loud, str): pass
class LoudComplex(Loud, complex): pass
class Key:
    def __str__(self):
        raise RuntimeError("key")
class Meta(type):
    @property
    def __name__(self):
        raise RuntimeError("name")
class Named(metaclass=Meta):
    pass
class Array:
    nbytes, dtype, shape = 24, "f8", (3,)
    lengths = (3,)
    @property
    def __array_interface__(self):
        return dict(shape=self.lengths, typestr="<f8", data=(64, False))
class Huge(Array):
    lengths = (2**70,)
"""

VALUES = {
    "10**5000": "an integer of 16610 bits",
    "[10**5000, 1]": None,
    "Named": "Named",
    "proxy": None,
    "LoudInt(5)": 5,
    "LoudFloat(0.5)": 0.5,
    "LoudText('x')": "x",
    "LoudComplex(1)": "(1+0j)",
    "LoudTuple((1, 2))": "(1, 2)",
    "LoudList([1, 2])": "[1, 2]",
    "LoudDict(a=1)": None,
}


@pytest.mark.parametrize("value", VALUES)
def test_a_parameter_costs_at_most_itself(run, python, value):
    program = f"""
def f(odd, plain):
    global used
    used = proxy
    return proxy
f({value}, 7)
with memtrace.span("s", {value}, odd={value}, plain=7) as span:
    span.outputs({value})
"""
    done = run(python, START + program, ["__main__:f"])
    assert done.stdout == ""
    [call, marked] = done.spans
    for span in (call, marked):
        assert span["params"]["plain"] == 7
        assert span["params"].get("odd") == VALUES[value]
        assert span["end"] is not None


def test_arrays_in_odd_containers_are_found(run, python):
    program = """
for value in ({Key(): Array()}, LoudDict(a=Array()), LoudList([Array()]), LoudTuple([Array()])):
    with memtrace.span("s", value, plain=7):
        pass
with memtrace.span("s", Huge(), Array()):
    pass
"""
    done = run(python, START + program)
    assert done.stdout == ""
    names = [[array["name"] for array in span["inputs"]] for span in done.spans]
    found = ["args[0][<Key>]", "args[0][a]", "args[0][0]", "args[0][0]", "args[1]"]
    assert names == [[name] for name in found]


def test_a_shape_of_more_bytes_than_there_are_has_none(run, python):
    program = """
with memtrace.span("big", (2**40, 2**30), "f8", k=1):
    pass
"""
    [span] = run(python, "import memtrace" + program).spans
    assert span["params"]["k"] == 1
    [array] = span["inputs"]
    assert (array["shape"], array["dtype"]) == ([2**40, 2**30], "<f8") and "bytes" not in array


def test_a_partial_is_marked_as_its_function(run, python):
    program = """
import functools, memtrace
def f(x, y):
    return x
print(memtrace.operator(functools.partial(f, 1))(2))
"""
    done = run(python, program)
    assert done.stdout == "1\n"
    assert [span["name"] for span in done.spans] == ["__main__:f"]


def test_a_masked_number_is_said_to_be(run, numpy_python):
    program = """
import memtrace, numpy as np
with memtrace.span("s", m=np.ma.masked, n=np.ma.array(3.0), o=np.float32(2)):
    pass
"""
    [span] = run(numpy_python, program).spans
    assert {**span["params"], "versions": 0} == {"m": "masked", "n": 3.0, "o": 2.0, "versions": 0}


def test_a_name_that_is_no_text_is_no_reason_to_fail(run, python):
    program = """
for name in (b"x", 5, Key()):
    with memtrace.span(name):
        pass
"""
    done = run(python, START + program)
    assert [span["name"] for span in done.spans] == ["b'x'", "5", "<Key>"]


def test_an_argument_is_not_taken_for_what_the_recorder_says(run, python):
    program = """
import memtrace
def f(task, versions, error):
    pass
f("qa", 2, "none")
with memtrace.span("s", task="qa", versions=2, error="none"):
    pass
"""
    for span in run(python, program, ["__main__:f"]).spans:
        own = span["params"].pop("versions")
        assert isinstance(own, dict)
        assert span["params"] == {"task_": "qa", "versions_": 2, "error_": "none"}


def test_a_static_method_is_marked_as_its_function(run, python):
    program = """
import memtrace
class A:
    @memtrace.operator
    @staticmethod
    def f(x):
        return x
print(A.f(2))
"""
    done = run(python, program)
    assert done.stdout == "2\n"
    assert [span["name"] for span in done.spans] == ["__main__:A.f"]
