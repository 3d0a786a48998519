"""Calls of twenty operators at fifty shapes: calls.py span|operator|plain CALLS

`span`: each names its span itself; `operator`: functions that memtrace watches; `plain`: neither.
Prints the seconds of CPU that the loop took.
"""

import sys
import time

import memtrace
import numpy as np

OPERATORS, SHAPES = 20, 50


def operator(volume):
    temporary = volume + 1
    return temporary * 2


def made(number):
    """A function of its own, with a name of its own, that does the same."""
    code = operator.__code__.replace(co_name=f"operator_{number}")
    return type(operator)(code, globals(), f"operator_{number}")


def spanned(number, volume):
    with memtrace.span(f"calls:operator_{number}", volume) as span:
        return span.outputs(operator(volume))


kind, count = sys.argv[1], int(sys.argv[2])
functions = [made(number) for number in range(OPERATORS)]
globals().update({function.__name__: function for function in functions})
volumes = [np.ones((20 + n, 10), np.float32) for n in range(SHAPES)]
start = time.process_time()
for call in range(count):
    volume = volumes[call // OPERATORS % SHAPES]
    if kind == "span":
        spanned(call % OPERATORS, volume)
    else:
        functions[call % OPERATORS](volume)
print(time.process_time() - start)
