"""What runs in a worker: one block, and what its process needed for it."""

import os
import threading
import time
from contextlib import contextmanager

import numpy as np

from ._workers import status_bytes


def compute_block(fetch, call, shape, own, target, dtype, measure):
    """Fetches a block with its halo, computes it and stores its own cells.

    fetch: a call, or the block. shape: the block's. own: its cells without halo. target: (store,
    region), or None: then the block is returned. measure: run by itself in this process and measure
    what that needed. Returns the block or None, and what a `Block` is made of. ValueError: what
    comes out is of another shape than the block.
    """
    with _turns.exclusive() if measure else _turns.shared():
        baseline = _baseline() if measure else None
        start = time.perf_counter()
        # Neither the block nor its halo has a name here: it is freed when the operator drops it.
        result = np.asarray(call(fetch() if callable(fetch) else fetch))
        if result.shape != shape:
            raise ValueError(
                f"a store takes what has the shape of its block: the function made {result.shape} "
                f"of {shape}"
            )
        result = result[own].astype(dtype, copy=False)
        if target is not None:
            store, region = target
            store[region] = result
            result = None
        seconds, peak = time.perf_counter() - start, status_bytes("VmHWM")
    needed = None if baseline is None else max(1, peak - baseline)
    most = max(peak, _most)
    return result, {"seconds": seconds, "worker": _name(), "peak_bytes": most, "bytes": needed}


def _name():
    """The worker that this is, or the process."""
    try:
        from distributed import get_worker

        return get_worker().address
    except (ImportError, ValueError):
        return f"pid {os.getpid()}"


_least = None  # resident bytes of this process between blocks, at least
_most = 0  # its peak before the last reset


def _baseline():
    """Resets the peak (proc(5), clear_refs); returns the resident bytes between blocks."""
    global _least, _most
    _most = max(_most, status_bytes("VmHWM"))
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    resident = status_bytes("VmRSS")
    _least = resident if _least is None else min(_least, resident)
    return _least


class _Turns:
    """A peak belongs to a process: what is measured excludes all else, which runs together."""

    def __init__(self):
        self.change, self.running, self.waiting = threading.Condition(), 0, 0

    @contextmanager
    def exclusive(self):
        with self.change:
            self.waiting += 1
            self.change.wait_for(lambda: self.running == 0)
            self.waiting, self.running = self.waiting - 1, -1
        try:
            yield
        finally:
            with self.change:
                self.running = 0
                self.change.notify_all()

    @contextmanager
    def shared(self):
        with self.change:
            self.change.wait_for(lambda: self.running >= 0 and not self.waiting)
            self.running += 1
        try:
            yield
        finally:
            with self.change:
                self.running -= 1
                self.change.notify_all()


_turns = _Turns()
