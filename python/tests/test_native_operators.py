"""Operators without Python code."""

MODULE = "from operator import mul as product, itemgetter\nfrom math import sqrt\n"


def test_a_builtin_is_recorded_and_forwarded(run, python, tmp_path):
    (tmp_path / "compiled.py").write_text(MODULE)
    program = """
from arrays import Array
import pickle
from compiled import product, sqrt
y = product(Array(5), 3)
assert y.shape == (5,)
assert sqrt(4.0) == 2.0
try:
    product(Array(1), 2, 3)
except TypeError as error:
    print(error)
import operator
assert isinstance(product, type(operator.mul)) and product == operator.mul
assert repr(product) == repr(operator.mul) and product.__name__ == "mul"
assert hash(product) == hash(operator.mul) and product.__doc__ == operator.mul.__doc__
assert pickle.loads(pickle.dumps(product)) == operator.mul
del y
print(Array.live)
"""
    done = run(python, program, ["compiled:product", "compiled:itemgetter", "compiled:missing"])
    first, second = done.spans
    assert first["name"] == "compiled:product" and first["params"]["args[1]"] == 3
    assert first["inputs"][0]["name"] == "args[0]" and first["inputs"][0]["shape"] == [5]
    assert first["end"]["outputs"][0]["shape"] == [5]
    assert second["end"]["error"] == "TypeError"
    plain = run(python, program, recorded=False)
    assert done.stdout == plain.stdout


def test_a_builtin_leaves_the_peak_alone(run, python, tmp_path):
    (tmp_path / "compiled.py").write_text(MODULE)
    program = """
from arrays import Array
import compiled
x = compiled.product(compiled.product(Array(1000), 2), 2)
del x
x = compiled.product(Array(3000), 2)
print(Array.peak, Array.live)
"""
    recorded = run(python, program, ["compiled:product"])
    assert recorded.stdout == run(python, program, recorded=False).stdout
    assert len(recorded.spans) == 3


def test_imports_that_fail_fail_as_before(run, python, tmp_path):
    (tmp_path / "broken.py").write_text("raise ValueError('broken')\n")
    program = """
for name in ("absent", "broken", "broken"):
    try:
        __import__(name)
    except (ImportError, ValueError) as error:
        print(type(error).__name__, error)
"""
    names = ["absent:f", "broken:f"]
    done = run(python, program, names)
    assert done.stdout == run(python, program, recorded=False).stdout


def test_a_ufunc(run, numpy_python):
    program = """
import numpy
x = numpy.ones((3, 4), dtype=">f4")
numpy.add(x, 2.0, out=x)
assert numpy.add.reduce(x).shape == (4,) and isinstance(numpy.add, numpy.ufunc)
import pickle
assert pickle.loads(pickle.dumps(numpy.add)) is numpy.add
"""
    (span,) = run(numpy_python, program, ["numpy:add"]).spans
    assert [a["name"] for a in span["inputs"]] == ["args[0]", "out"]
    assert span["inputs"][0]["dtype"] == ">f4" and span["end"]["outputs"][0]["dtype"] == ">f4"
