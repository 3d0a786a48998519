"""Interpreters in which the probe cannot be reached: programs run, and one line says it."""

import pytest

PROGRAM = """
import memtrace
@memtrace.operator
def f(x):
    return x
for _ in range(3):
    with memtrace.span("s", (3, 4), "f4", k=1) as span:
        print("inside")
        span.outputs((3,))
print(f(3))
import concurrent.futures
with memtrace.span("pool"):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        print(pool.submit(f, 4).result())
"""

MISSING = """
import sys
sys.modules["_ctypes"] = None
"""


def _check(done):
    assert (done.code, done.stdout) == (0, "inside\n" * 3 + "3\n4\n"), done.stderr
    assert done.spans == []
    [line] = done.stderr.splitlines()
    assert line.startswith("memtrace: no spans of Python functions are recorded: ")


@pytest.mark.parametrize("operators", [[], ["__main__:g"]])
def test_without_ctypes(run, python, operators):
    _check(run(python, PROGRAM, operators, check=False, before=MISSING))


def test_a_file_of_the_program_has_its_name(run, python, tmp_path):
    (tmp_path / "ctypes.py").write_text("mine = 1\n")
    _check(run(python, PROGRAM, check=False))


def test_a_file_of_the_program_is_called_as_context_variables(run, python):
    before = MISSING.replace("_ctypes", "_contextvars")
    _check(
        run(python, PROGRAM.split("import concurrent")[0] + "print(4)", check=False, before=before)
    )
