"""Other work for the machine, beside what is measured."""

import multiprocessing
import os
from contextlib import contextmanager

import numpy as np


def compute(niceness):
    os.nice(niceness)
    while True:
        sum(range(100_000))


def copy(niceness):
    os.nice(niceness)
    block = np.ones(1 << 24)
    while True:
        block[:] = block[::-1]


@contextmanager
def load(computing, copying, niceness=0):
    """The machine does this as long as the block runs."""
    works = [compute] * computing + [copy] * copying
    processes = [
        multiprocessing.Process(target=work, args=(niceness,), daemon=True) for work in works
    ]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()
