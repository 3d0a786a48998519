"""Calls one operator of the study of promises at a shape, so many times, in one process.

    python -m experiments.laws.promises_run numpy_calls:sort 613,431 2

Prints the resident peak of the process, in KiB, as its last line.
"""

import importlib
import resource
import signal
import sys
from pathlib import Path

import numpy as np

#: What a process may take: bytes of address space, seconds.
BYTES, SECONDS = 6 << 30, 60


def main():
    name, shape, calls = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.alarm(SECONDS)
    module, function = name.split(":")
    loaded = importlib.import_module(module)
    lengths = [int(length) for length in shape.split(",")]
    array = np.random.default_rng(sum(lengths)).random(lengths)
    for _ in range(int(calls)):
        # Looked up at each call, and its result dropped before the next one.
        getattr(loaded, function)(array)
    status = Path("/proc/self/status").read_text()
    print("resident", status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main()
