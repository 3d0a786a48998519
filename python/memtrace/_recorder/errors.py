"""What signal handlers of the program raise while the recorder is at work, and its tracebacks.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .operators import _code_of
    from .spans import _leave


def pass_on(error):
    """Raises again what a signal handler of the program raised while the recorder was at work."""
    if id(error) == _raised_later:
        raise error
    signals = sys.modules.get("_signal")
    if signals is None:
        return
    handlers = [signals.getsignal(number) for number in range(1, signals.NSIG)]
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            raise error
        at = at.tb_next


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
