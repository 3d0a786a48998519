"""Marks garbage collections; under `--gc eager`, also collects when the tracer asks (docs/gc.md).

The last of the four texts that make up the recorder (see `_recorder.py`, which
states their constraints). `observe` adds a callback to `gc.callbacks` and nothing
else; `eager` adds a thread, which no fork and no shutdown finds running.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # tells linters which names the other texts define
    from ._recorder import _raise_later


def watch_collector(mode):
    """Tells the probe of every collection of this interpreter; `mode`: "observe" or "eager"."""
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

    def on_collection(phase, info):
        try:
            (begin if phase == "start" else end)(info["generation"])
        except BaseException as error:  # a signal handler of the program: this is no place for it
            _raise_later(ctypes, error)

    gc.callbacks.append(on_collection)
    collector(1)
    if mode == "eager":
        start, stop = _helper(ctypes.CDLL(None), gc.collect)  # waits, without the GIL
        start()
    else:
        start = stop = _nothing

    def begin_again():
        collector(1)
        start()

    os.register_at_fork(before=stop, after_in_parent=start, after_in_child=begin_again)

    def shut_down():  # registered first, so run last
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

    wait, stop = probe.memtrace_collect_wait, probe.memtrace_collect_stop
    stop.restype = None

    def run():
        try:
            while wait():
                collect()
        except BaseException:
            pass  # nothing may be printed

    def start():
        try:
            _thread.start_new_thread(run, ())
        except RuntimeError:
            pass  # no thread can be had, or the interpreter shuts down

    return start, stop
