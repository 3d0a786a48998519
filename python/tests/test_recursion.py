"""Programs that use up the stack: they get their RecursionError, at the depth where it is due."""

import pytest

PROGRAM = """
import memtrace
reached = 0
def span(n):
    global reached
    reached = n
    with memtrace.span("deep", (3, 4), "f4", n=n) as running:
        running.outputs((n,))
        span(n + 1)
def call(n):
    global reached
    reached = n
    call(n + 1)
@memtrace.operator
def marked(n):
    global reached
    reached = n
    marked(n + 1)
for f in FUNCTIONS:
    for _ in range(3):
        try:
            f(0)
        except RecursionError as error:
            print(reached, type(error).__name__)
with memtrace.span("after"):
    pass
"""


@pytest.mark.parametrize("functions", ["span", "call", "marked"])
def test_it_is_raised_where_it_is_without_recording(run, python, functions):
    program = PROGRAM.replace("FUNCTIONS", f"({functions},)")
    alone = run(python, program, recorded=False)
    done = run(python, program, ["__main__:call"])
    depths, expected = done.stdout.split(), alone.stdout.split()
    assert depths[1::2] == expected[1::2] == ["RecursionError"] * len(depths[1::2])
    for depth, due in zip(depths[::2], expected[::2], strict=True):
        assert int(due) - 1 <= int(depth) <= int(due)  # from 3.12 `sys.monitoring` needs a frame
    assert all(span["end"] is not None for span in done.spans)
    assert len(done.spans) > 2500
    [after] = done.named("after")
    assert after["within"] == 0


def test_a_function_without_python_code_leaves_the_stack_to_the_program(run, python):
    if "/3.8" in python:
        pytest.skip("3.8 aborts where a function has caught a RecursionError of its limit")
    program = """
import math
def down(n):
    global reached
    reached = n
    math.factorial(3)
    down(n + 1)
for _ in range(3):
    try:
        down(0)
    except RecursionError:
        print(reached > 900)
"""
    done = run(python, program, ["math:factorial"])
    assert done.stdout == "True\n" * 3
    assert len(done.spans) > 2500
