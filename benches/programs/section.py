"""What a part of the program cost, for the file that BENCH_SECTION names."""

import os
import time
from contextlib import contextmanager


@contextmanager
def section(calls=0):
    """Measures what runs inside: CPU of all threads, and time, without the program's start and end."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    yield
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    if path := os.environ.get("BENCH_SECTION"):
        with open(path, "w") as out:
            out.write(f"{cpu} {wall} {calls}\n")
