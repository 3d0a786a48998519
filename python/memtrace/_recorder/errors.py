"""What signal handlers of the program raise while the recorder is at work, and its tracebacks.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .operators import _code_of
    from .spans import _leave

OWN = ("_memtrace_recorder", "memtrace._span")  # modules


def pass_on(error):
    """Raises again what the program is to see of what was raised while the recorder was at work.

    That is what its signal handlers raise, and what other threads raise in this one unless it is an
    Exception; not what the properties and methods of a value raise that is described.
    """
    if id(error) == _raised_later or isinstance(error, (KeyboardInterrupt, SystemExit)):
        raise error
    frames, at = [], error.__traceback__
    while at is not None:
        frames.append(at.tb_frame)
        at = at.tb_next
    if any(map(_is_handlers, frames)):
        raise error
    innermost = frames[-1].f_globals.get("__name__") if frames else None
    if innermost in OWN and not isinstance(error, Exception):
        raise error
    codes = _codes_of_handlers()
    if any(frame.f_code in codes for frame in frames):
        raise error


def _is_handlers(frame):
    """Whether a frame is of a function called with the frame below it, as signal handlers are."""
    below = frame.f_back
    if below is None:
        return False
    for value in frame.f_locals.values():
        if value is below or (type(value) is tuple and any(each is below for each in value)):
            return True
    return False


def _codes_of_handlers():
    signals = sys.modules.get("_signal")
    if signals is None:
        return set()
    handlers = [signals.getsignal(number) for number in range(1, signals.NSIG)]
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    return codes | {_code_of(type(handler).__call__) for handler in handlers if callable(handler)}


_is_said = False


def say_unrecorded(error):
    """Says on standard error that no spans are recorded: the probe, which notes all else, is not
    reached. The interpreter may lack `ctypes`, or find a file of the program's instead.
    """
    global _is_said
    if not _is_said and sys.stderr is not None:
        _is_said = True
        try:
            reason = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"memtrace: no spans of Python functions are recorded: {reason}\n")
        except Exception:
            pass  # it is closed, or of the program's own class


def _hide_frame(error):
    """Leaves out of a traceback the function of the recorder that caught it (from Python 3.11)."""
    caught = error.__traceback__
    if caught is not None and caught.tb_frame.f_code.co_filename == _leave.__code__.co_filename:
        error.__traceback__ = caught.tb_next


_raised_later = 0  # id of the exception: the recorder may be at work again when it arrives


def _raise_later(ctypes, error):
    """Raises in the program what its own signal handler raised while a C callback ran."""
    import _thread

    global _raised_later
    _raised_later = id(error)
    kind = type(error)
    again = type(kind.__name__, (kind,), {"__new__": lambda *_: error})  # the very same object
    thread = ctypes.c_ulong(_thread.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(again))
