"""Watching calls of operators, on each version of Python.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .monitoring import _monitor, _monitoring_tool, _returning
    from .operators import _by_name
    from .profiler import _profile, _profiler
    from .spans import _open

_refresh = None  # makes the running engine see that `_by_name` has grown


def _watch(name, operator=None):
    global _refresh
    known = name in _by_name
    operators = _by_name.setdefault(name, [])
    if operator is not None and operator not in operators:
        operators.append(operator)
    if _refresh is None:
        _refresh = _monitor() if sys.version_info >= (3, 12) else _profile()
    elif not known:
        _refresh()


def await_return(frame, span):
    """Ends a span when this thread's running `frame`, whose code is known, returns or raises."""
    _open[id(frame)] = span
    if sys.version_info >= (3, 12):
        tool, returned = _monitoring_tool(), sys.monitoring.events.PY_RETURN
        if tool is not None:
            _returning[frame.f_code] = _returning.get(frame.f_code, 0) + 1
            sys.monitoring.set_local_events(tool, frame.f_code, returned)
    else:
        import _thread

        _profiler().wait(frame.f_code.co_name, _thread.get_ident())
