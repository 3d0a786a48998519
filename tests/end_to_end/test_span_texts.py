"""What the tracer reads of spans whose names, arrays and parameters are odd."""

from conftest import ROOT, environment

PROGRAM = r"""
import memtrace
import numpy as np

class Sub(np.ndarray):
    pass

def odd(cube, *rest, **named):
    return cube[:, ::-1], cube.view(Sub), cube

name = '"\\\n\u2028\x00é\udc80'
cube = np.zeros((200, 30, 20), "f4")
fields = np.zeros(300, [("a", "<i4"), ("b", ">f8", (2,))])
fields.dtype = np.dtype(fields.dtype, metadata={name: name})
for n in (1, True, 1.0, 0, -0.0, float("nan"), 10**30):
    odd(cube, cube[::-2], np.array(3.0), fields, **{name: name, "n": n, "f": cube.T})
with memtrace.span(name, {name: cube}, (3, np.int64(4)), "f4", key=name) as span:
    span.outputs([cube], (5,))
with memtrace.span("long", *[[cube.astype(object)] * 64] * 40, **{f"p{i}": "é" * 200 for i in range(99)}):
    pass
"""


def test_odd_spans_are_read_as_they_are(record, python):
    where = environment(PYTHONPATH=str(ROOT / "python"))
    run = record(python, "-c", PROGRAM, options=("--operator", "__main__:odd"), env=where)
    assert (run.code, run.stdout) == (0, b"")
    name = '"\\\n\u2028\x00é?'
    operators = {operator["name"]: operator["spans"] for operator in run.report["operators"]}
    assert set(operators) == {"__main__:odd", name, "long"}

    calls = operators["__main__:odd"]
    values = [call["params"]["n"] for call in calls]
    expected = [1, True, 1.0, 0, -0.0, "nan", str(10**30)]
    assert list(map(repr, values)) == list(map(repr, expected))
    for call in calls:
        assert call["params"][name] == name and call["params"]["rest[1]"] == 3.0
        cube, *others = call["inputs"]
        found = {array["name"]: array for array in others}
        # `rest[1]` is a number too: arrays without axes are.
        assert set(found) == {"rest[0]", "rest[2]", "f"}
        assert (cube["shape"], cube["dtype"], cube["bytes"]) == ([200, 30, 20], "<f4", 480_000)
        strided = found["rest[0]"]
        assert strided["layout"] == "strided" and strided["shape"] == [100, 30, 20]
        assert strided["start"] == cube["address"] + 2400
        assert strided["extent"] == 2400 * 199
        assert found["rest[2]"]["dtype"] == "|V20" and found["rest[2]"]["bytes"] == 6000
        assert (found["f"]["layout"], found["f"]["shape"]) == ("F", [20, 30, 200])
        relations = [(array["name"], array["relation"], array["of"]) for array in call["outputs"]]
        assert relations == [
            ("[0]", "view", "cube"),
            ("[1]", "view", "cube"),
            ("[2]", "in_place", "cube"),
        ]

    [marked] = operators[name]
    shapes = [(array["name"], array["shape"], array["dtype"]) for array in marked["inputs"]]
    assert shapes == [(f"args[0][{name}]", [200, 30, 20], "<f4"), ("args[1]", [3, 4], "<f4")]
    assert marked["params"]["key"] == name
    same, bare = marked["outputs"]
    assert (same["relation"], same["of"]) == ("in_place", f"args[0][{name}]")
    assert bare["shape"] == [5]

    [cut] = operators["long"]
    assert 0 < len(cut["inputs"]) < 64 * 40 and {array["dtype"] for array in cut["inputs"]} == {
        "|O"
    }


HARD = r"""
import memtrace, signal, time

class Late(Exception):
    pass

def late(*_):
    raise Late

@memtrace.operator
def deep(n):
    return deep(n + 1)

signal.signal(signal.SIGALRM, late)
caught = 0
for _ in range(50):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        end = time.perf_counter() + 1
        while time.perf_counter() < end:
            with memtrace.span("timed", (3, 4), "f4", k=1): pass
    except Late:
        caught += 1
try:
    deep(0)
except RecursionError:
    print(caught, "and too deep")
with memtrace.span("large", (2**40, 2**30), "f8", k=1, n=10**5000):
    pass
"""


def test_spans_of_programs_that_get_exceptions_are_read(record, python):
    where = environment(PYTHONPATH=str(ROOT / "python"))
    run = record(python, "-c", HARD, env=where)
    assert (run.code, run.stdout) == (0, b"50 and too deep\n"), run.stderr
    operators = {operator["name"]: operator["spans"] for operator in run.report["operators"]}
    [large] = operators["large"]
    assert large["params"]["k"] == 1 and large["params"]["n"] == "an integer of 16610 bits"
    assert large["inputs"][0]["shape"] == [2**40, 2**30]
    assert not any("could not be read" in note for note in run.report.get("notes", ()))
