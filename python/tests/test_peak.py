"""Recording must not make anything live longer: peaks are equal to the byte, spans on and off."""

import pytest

PROGRAMS = {
    "rebinds its argument": """
def f(x):
    x = x * 2
    x = x * 2
    return x
f(Array(1000))
""",
    "keyword and variable arguments": """
def f(*args, **kwargs):
    x, y = args[0], kwargs.pop("y")
    args = ()
    x = x * 2
    y = y * 2
    x = x * 2
    return y
f(Array(1000), y=Array(3000))
""",
    "argument in a closure": """
def f(x):
    def double():
        nonlocal x
        x = x * 2
    double()
    double()
    return x
f(Array(1000))
""",
    "a helper that is no operator rebinds": """
def helper(x):
    y = x * 2
    len("a call into C")
    y = y * 2
    x = y * 2
    y = x * 2
    return y
def f(x):
    x = helper(x * 1)
    x = helper(x)
    return x
f(Array(1000))
""",
    "raises": """
def f(x):
    x = x * 2
    x = x * 2
    raise ValueError("no")
try:
    f(Array(1000))
except ValueError:
    pass
Array(3000)
""",
    "result dropped by the caller": """
def f(x):
    return x * 2
for _ in range(3):
    f(Array(1000))
Array(2500)
""",
    "local names": """
def f(x, n=3):
    names = sorted(locals())
    x = x * n
    assert names == ["n", "x"] and sorted(locals()) == ["n", "names", "x"]
    return x
f(Array(1000))
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_peak_is_the_same_with_spans_on_and_off(run, python, program):
    program = "from arrays import Array\n" + program + "\nprint(Array.peak, Array.live)\n"
    plain = run(python, program, recorded=False)
    recorded = run(python, program, ["__main__:f"])
    assert recorded.stdout == plain.stdout
    assert recorded.named("__main__:f") and all(span["end"] for span in recorded.spans)


def test_numpy_peak_of_a_call_with_a_temporary(run, numpy_python):
    program = """
import tracemalloc, numpy
def f(x):
    x = x * 2
    x = x * 2
    return x
f(numpy.ones(10))
tracemalloc.start()
f(numpy.ones(1000000))
print(round(tracemalloc.get_traced_memory()[1] / 8e6, 2))
"""
    plain = run(numpy_python, program, recorded=False)
    recorded = run(numpy_python, program, ["__main__:f"])
    assert recorded.stdout == plain.stdout
    assert len(recorded.spans) == 2
