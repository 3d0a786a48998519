"""From Python 3.12 on `sys.monitoring` announces the calls of operators.

One of the texts that make up the recorder (see `__init__.py` for their constraints). Code that
cannot match is seen once, then costs nothing.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .operators import _by_name, _operator_of
    from .spans import _enter, _leave, _open


def _monitor():
    """Python 3.12 and later: code that cannot match is seen once, then costs nothing."""
    tool, events, monitoring = _monitoring_tool(), sys.monitoring.events, sys.monitoring
    if tool is None:
        return lambda: None
    monitoring.set_events(tool, events.PY_START | events.PY_UNWIND)
    return monitoring.restart_events


_tool = None  # of `sys.monitoring`; -1 if there is none


def _monitoring_tool():
    """The recorder's tool, which sees returns where they are awaited; None if none is free."""
    global _tool
    if _tool is None:
        _tool = _new_tool()
    return None if _tool == -1 else _tool


def _new_tool():
    import atexit

    monitoring = sys.monitoring
    start, returned, unwound = (
        getattr(monitoring.events, name) for name in ("PY_START", "PY_RETURN", "PY_UNWIND")
    )
    tool = next((tool for tool in (4, 3) if monitoring.get_tool(tool) is None), None)
    if tool is None:
        return -1  # all ids are taken by other tools
    monitoring.use_tool_id(tool, "memtrace")

    def on_start(code, _offset, names=_by_name, frame_at=sys._getframe, never=monitoring.DISABLE):
        if code.co_name not in names:
            return never
        try:
            operator = _operator_of(frame_at(1))
            if operator is not None:
                monitoring.set_local_events(tool, code, returned)
                _enter(operator, frame_at(1))
        except RecursionError:
            pass  # the recorder needs more of the stack than the program
        return None

    # What a signal handler raises in `on_start` or `on_return` unwinds the program's function.
    def on_return(code, _offset, result):
        frame = id(sys._getframe(1))
        span = _open.get(frame)
        if span is not None:
            if span:
                _leave(span, result)
            _open.pop(frame, None)
            _returned(code)

    def on_unwind(code, _offset, error):
        frame = id(sys._getframe(1)) if _open else 0
        span = _open.get(frame)
        if span is not None:
            _leave(span, None, type(error).__name__)
            _open.pop(frame, None)
            _returned(code)

    monitoring.register_callback(tool, start, on_start)
    monitoring.register_callback(tool, returned, on_return)
    monitoring.register_callback(tool, unwound, on_unwind)
    monitoring.set_events(tool, unwound)
    atexit.register(monitoring.set_events, tool, 0)
    return tool


_returning = {}  # code -> how many of its calls await their return (from 3.12)


def _returned(code):
    """After the last awaited return of a function the interpreter reports no more of them."""
    left = _returning.pop(code, 0) - 1
    if left > 0:
        _returning[code] = left
    elif left == 0:
        sys.monitoring.set_local_events(_tool, code, 0)
