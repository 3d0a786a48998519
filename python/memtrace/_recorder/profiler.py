"""Up to Python 3.11 a profile function set with the C API announces the calls of operators.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .operators import _by_name, _operator_of
    from .spans import _enter, _leave, _open


def _profile():
    """Up to Python 3.11: a C-level profile function, in this thread and those to come.

    `sys.setprofile` cannot be used: it copies every frame's locals into a dict that
    pins them, in every function of the program, and clearing it unbinds them. The
    probe's filter keeps the cost of functions with other names to a few ns.
    """
    import threading

    profiler = _profiler()
    profiler.everywhere = True
    profiler.adopt()
    threading.setprofile(profiler.adopt)
    return profiler.watch


class _Profiler:
    """The profile function, and the threads that have it for a while only."""

    def __init__(self, watch, put):
        self.watch, self._put = watch, put
        self.everywhere = False
        self._function = watch()
        self.waiting = {}  # thread -> how many of its frames await their return

    def adopt(self, *_event):
        self._put(self._function)

    def wait(self, name, thread):
        """Has this thread report the return of a function of this name that is running now."""
        if name not in _by_name:
            _by_name[name] = []
            self._function = self.watch()
        self.waiting[thread] = self.waiting.get(thread, 0) + 1
        self.adopt()

    def returned(self, thread):
        """A frame has returned; after the last one the thread goes on without profile function."""
        left = self.waiting.pop(thread, 0) - 1
        if left > 0:
            self.waiting[thread] = left
        elif left == 0 and not self.everywhere:
            self._put(None)


_the_profiler = None


def _profiler():
    global _the_profiler
    if _the_profiler is None:
        _the_profiler = _new_profiler()
    return _the_profiler


def _new_profiler():
    import _thread
    import atexit
    import ctypes

    def on_call(frame, names=_by_name):
        if frame.f_code.co_name in names:
            operator = _operator_of(frame)
            if operator is not None:
                _enter(operator, frame)

    def on_return(frame, *result):
        span = _open.get(id(frame))
        if span is not None:
            if not result:
                _leave(span, None, "exception")  # of unknown name
            elif span:
                _leave(span, *result)
            _open.pop(id(frame), None)
            if _the_profiler.waiting:
                _the_profiler.returned(_thread.get_ident())

    api = ctypes.pythonapi
    api.PyEval_SetProfile.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    api.PyEval_SetProfile.restype = None

    def keep(thing):  # threads may outlive this module
        api.Py_IncRef(ctypes.py_object(thing))
        return thing

    pointers = id(keep(on_call)), id(keep(on_return))
    filtered = ctypes.PyDLL(None).memtrace_python_filter
    filtered.restype = ctypes.c_void_p
    filtered.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t] + [ctypes.c_void_p] * 2

    def watch():
        """The profile function that sees the names watched now; it replaces no other."""
        names = keep("".join(name + "\0" for name in _by_name).encode("utf-8", "replace"))
        return filtered(sys.version_info[1], names, len(names), *pointers)

    atexit.register(api.PyEval_SetProfile, None, None)
    return _Profiler(watch, lambda function: api.PyEval_SetProfile(function, None))
