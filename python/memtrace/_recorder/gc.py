"""Marks garbage collections; under `--gc eager`, also collects when requested (docs/gc.md).

One of the texts that make up the recorder (see `__init__.py` for their constraints). `observe`
adds a callback to `gc.callbacks` and nothing else; `eager` adds a thread, which no fork and no
shutdown finds running.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .errors import _raise_later


def watch_collector(mode):
    """Reports every collection of this interpreter to the probe; `mode`: "observe" or "eager"."""
    import atexit
    import ctypes
    import gc
    import os

    probe = ctypes.PyDLL(None)  # marks are short and keep the GIL
    collector, begin, end = (
        getattr(probe, "memtrace_" + name) for name in ("collector", "collect_begin", "collect_end")
    )
    for function in (collector, begin, end):
        function.argtypes, function.restype = [ctypes.c_int], None

    until_start = 0  # collections of a parent that has forked

    def on_collection(phase, info):
        nonlocal until_start
        try:
            (begin if phase == "start" else end)(info["generation"])
            if until_start and phase == "stop":
                until_start -= 1
                if not until_start:
                    start()
        except BaseException as error:  # a signal handler of the program: this is no place for it
            _raise_later(ctypes, error)

    gc.callbacks.append(on_collection)
    collector(1)
    if mode == "eager":
        start, stop = _helper(ctypes.CDLL(None), gc.collect)  # waits, without the GIL
        start()
    else:
        start = stop = _nothing

    def go_on():
        """From CPython 3.12 on `os.fork` counts threads a moment after this handler."""
        nonlocal until_start
        if mode == "eager" and sys.version_info >= (3, 12):
            until_start = 2
        else:
            start()

    def begin_again():
        nonlocal until_start
        until_start = 0
        collector(1)
        start()

    os.register_at_fork(before=stop, after_in_parent=go_on, after_in_child=begin_again)

    def shut_down():  # registered first, so run last
        nonlocal until_start
        until_start = 0
        stop()
        if mode == "eager":
            gc.collect()
        collector(0)

    atexit.register(shut_down)


def _nothing():
    pass


def _helper(probe, collect):
    """Functions that start and end the thread that collects; `threading` knows nothing of it."""
    import _thread

    enter, wait, stop = (getattr(probe, "memtrace_collect_" + n) for n in ("enter", "wait", "stop"))
    enter.restype = stop.restype = None

    def run(entered):
        try:
            enter()
            entered.release()
            while wait():
                collect()
        except BaseException:
            pass  # nothing may be printed

    def start():
        try:
            entered = _thread.allocate_lock()
            entered.acquire()
            _thread.start_new_thread(run, (entered,))
            entered.acquire(True, 1)  # from here on `stop` knows of it
        except RuntimeError:
            pass  # no thread can be had, or the interpreter shuts down

    return start, stop
