"""What the program's signal handlers raise between any two instructions of the recorder."""

import re

import pytest

#: What CPython prints where a handler raises while an import frees its locks. That goes no further,
#: in any program.
UNHEARD = re.compile(
    r"Exception ignored in: <function .*\n"
    r"Traceback \(most recent call last\):\n"
    r'  File "<frozen importlib\._bootstrap>".*\n'
    r"(?:  .*\n)*"
    r"Late: ?\n"
)

START = """
import signal, sys, time
import memtrace
class Late(Exception):
    pass
"""

HANDLERS = {
    "function": """
def handler(*_):
    raise Late
""",
    "object": """
class Handler:
    def __call__(self, number, frame):
        number = frame = None
        raise Late
handler = Handler()
""",
    "handler that takes itself away": """
def handler(number, frame):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    raise Late
""",
}

LOOP = """
def f(x, n):
    return x
def work_until(end):
    # A function of its own: CPython 3.13.0 does not catch what is raised at the end of a loop that
    # is itself in a `try`.
    while time.perf_counter() < end:
        WORK
    time.sleep(0.1)  # where other programs had the processor for all of that second
recorder = sys.modules["_memtrace_recorder"]
late = 0
for _ in range(ROUNDS):
    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        work_until(time.perf_counter() + 1)
    except Late:
        late += 1
with memtrace.span("after"):
    pass
f(1, 2)
print(late, recorder.innermost(), len(recorder._running), len(recorder._open))
"""

WORKS = {
    "span": 'with memtrace.span("s", (5,), (3, 4), "f4", k=1) as span: span.outputs((5,))',
    "watched call": "f((3, 4), 5)",
}


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("work", WORKS)
def test_all_reach_the_program_and_no_span_stays_open(run, python, work, handler):
    loop = LOOP.replace("WORK", WORKS[work]).replace("ROUNDS", "60")
    done = run(python, START + HANDLERS[handler] + loop, ["__main__:f"], check=False)
    # The first span imports modules.
    heard, unheard = UNHEARD.subn("", done.stderr)
    assert done.code == 0
    assert not heard, done.stderr
    assert done.stdout == f"{60 - unheard} 0 0 0\n"
    assert all(span["end"] is not None for span in done.spans)
    [after] = done.named("after")
    assert after["within"] == 0


def test_interrupts_pass_and_what_a_value_raises_does_not(run, python):
    program = """
import memtrace
class Skipped(BaseException):
    pass
class Odd:
    nbytes = 3
    dtype = "f"
    shape = (3,)
    def __init__(self, error):
        self.error = error
    @property
    def __array_interface__(self):
        raise self.error
def f(x):
    return 1
for error in (Skipped(), ValueError(), KeyboardInterrupt()):
    for call in (f, lambda odd: memtrace.span("s", odd)):
        try:
            call(Odd(error))
            print("runs")
        except BaseException as raised:
            print(type(raised).__name__)
"""
    done = run(python, program, ["__main__:f"])
    assert done.stdout.split() == ["runs"] * 4 + ["KeyboardInterrupt"] * 2
