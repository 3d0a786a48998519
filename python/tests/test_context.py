"""Spans name the context they are in; what goes on elsewhere is reported."""

MARKS = """
import memtrace
from arrays import Array
"""


def test_spans_name_the_one_around_them(run, python):
    program = (
        MARKS
        + """
@memtrace.operator(name="f")
def f(x, depth=2):
    return f(x, depth - 1) if depth else x
with memtrace.span("outer"):
    f(Array(3))
with memtrace.span("next"):
    pass
"""
    )
    done = run(python, program)
    within = [(span["name"], span["within"]) for span in done.spans]
    assert within == [("outer", 0), ("f", 1), ("f", 2), ("f", 3), ("next", 0)]


def test_a_pool_adopts_what_was_submitted(run, python):
    program = (
        MARKS
        + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def work():
    with memtrace.span("inside"):
        return memtrace
pool.submit(int).result()
with memtrace.span("outside"):
    assert pool.submit(work).result() is memtrace
    assert isinstance(pool.submit(int, "x").exception(), ValueError)
pool.shutdown()
"""
    )
    order = run(python, program).order
    outside = order[0][1]
    assert order[0] == ("begin", outside)
    assert [what for what, _ in order] == [
        *("begin", "export", "adopt", "begin", "end", "adopt"),
        *("export", "adopt", "adopt", "end"),
    ]
    adopted = [number for what, number in order if what == "adopt"]
    exported = [number for what, number in order if what == "export"]
    assert adopted == [exported[0], 0, exported[1], 0]


def test_a_loop_reports_where_contexts_change(run, python):
    program = (
        MARKS
        + """
import asyncio
async def work(name):
    with memtrace.span(name):
        await asyncio.sleep(0)
        with memtrace.span(name + " inner"):
            await asyncio.sleep(0)
async def main():
    await asyncio.gather(work("a"), work("b"))
asyncio.run(main())
"""
    )
    done = run(python, program)
    ids = {span["name"]: span["id"] for span in done.spans}
    within = {span["name"]: span["within"] for span in done.spans}
    assert within == {"a": 0, "b": 0, "a inner": ids["a"], "b inner": ids["b"]}
    thread, expected = 0, {0: 0}
    for what, number in done.order:
        if what == "begin":
            [span] = [span for span in done.spans if span["id"] == number]
            assert thread == span["within"]
            expected[number], thread = span["within"], number
        elif what == "activate":
            thread = number
        elif what == "end":
            assert thread == number, "the loop went on in that span's context before it ended"
            thread = expected[number]
    assert thread == 0
    assert [what for what, _ in done.order].count("activate") >= 6


def test_the_input_itself_differs_from_a_view(run, python):
    program = (
        MARKS
        + """
class View(Array):
    pass
@memtrace.operator(name="same")
def same(x, out):
    return [out, Array(3), x]
@memtrace.operator(name="view")
def view(x):
    return View(3)
same(Array(3), out=Array(3))
view(Array(3))
"""
    )
    same, view = run(python, program).spans
    found = [(array.get("relation"), array.get("of")) for array in same["end"]["outputs"]]
    assert found == [("in_place", "out"), (None, None), ("in_place", "x")]
    arrays = same["inputs"] + same["end"]["outputs"] + view["inputs"] + view["end"]["outputs"]
    assert all("object" not in array for array in arrays)


def test_memory_of_strided_arrays(run, python):
    program = (
        MARKS
        + """
dense = Array(4, 3), Array(4, 3, strides=(8, 32))
gaps = Array(4, 3, strides=(48, 16)), Array(4, 3, strides=(-24, 8))
with memtrace.span("s", *dense, *gaps, Array(50, strides=(0,)), Array(0, 3, strides=(-9, 1))):
    pass
"""
    )
    [span] = run(python, program).spans
    found = [(array["layout"], array.get("start"), array.get("extent")) for array in span["inputs"]]
    assert found == [
        ("C", None, None),
        ("F", None, None),
        ("strided", 4096, 3 * 48 + 2 * 16 + 8),
        ("strided", 4096 - 72, 72 + 16 + 8),
        ("strided", 4096, 8),
        ("strided", None, None),
    ]
