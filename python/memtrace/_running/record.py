"""Recording from Python: a function, or source, in a fresh interpreter."""

import itertools
import os
import pickle
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Callable, Sequence, Union

from .._extension import native
from . import fresh

if TYPE_CHECKING:
    from .._native import Trace


class ProgramFailed(RuntimeError):
    """The recorded program failed.

    Attributes:
        trace: What was recorded.
        status: The program's exit status; 128+N after signal N.
    """

    def __init__(self, message: str, trace: "Trace", status: int):
        super().__init__(message)
        self.trace, self.status = trace, status


def record(
    what: "Union[Callable[..., Any], str]",
    /,
    *args: Any,
    output: "Union[str, os.PathLike[str], None]" = None,
    options: Sequence[str] = (),
    **kwargs: Any,
) -> "Trace":
    """Runs a function or source in a fresh Python under memtrace, and returns the trace.

    The calling interpreter cannot be recorded itself: the library that records is loaded when a
    program starts, and nothing would be known of what has been allocated before. So `what` sees
    none of its variables. What the program prints is printed. Its result is not returned.

    Args:
        what: A function, called with the arguments, each of its calls a span; or source text, run
            as `__main__`. Functions and arguments are pickled; those of a notebook need
            cloudpickle.
        *args: Arguments of the function.
        output: The trace's directory (default: `memtrace.NAME.PID.N` in the working directory).
        options: More for the command line, e.g. `["--operator", "scipy.ndimage:gaussian_filter"]`.
        **kwargs: Keyword arguments of the function.

    Returns:
        The trace.

    Raises:
        ProgramFailed: The program raised or was killed; the exception has the trace.
        RuntimeError: The program could not be recorded.
        FileNotFoundError: There is no command `memtrace`.

    Examples:
        >>> trace = memtrace.record(gst3d, numpy.ones((60, 50, 40), "f4"))
        >>> trace.report()["peak"]["live_bytes"]
    """
    if isinstance(what, str):
        if args or kwargs:
            raise TypeError("source takes no arguments: write them into it, or pass a function")
        return finished(fresh.source(what, output or unused("source"), ["--quiet", *options]))
    if not callable(what):
        raise TypeError(
            "memtrace.record takes a function or source text, to run it in a fresh interpreter: "
            "one that runs already cannot be recorded, because the library that records must be "
            "loaded before a program starts"
        )
    module, name = getattr(what, "__module__", None), getattr(what, "__qualname__", None)
    name = name or type(what).__name__
    job = (what, args, kwargs)
    if isinstance(what, (FunctionType, MethodType)) and "<" not in name:
        spans = ["--operator", f"{module}:{name}"]
    else:  # it cannot be found by its name
        spans, job = [], (fresh.in_span, (f"{module}:{name}", *job), {})
    trace = output or unused(name)
    return finished(fresh.call(job, trace, ["--quiet", *spans, *options], _pickler(what)))


def finished(ended: fresh.Ended) -> "Trace":
    """The trace of a recording that has ended, if its program succeeded."""
    if not ended.recorded:
        raise RuntimeError(f"memtrace could not record: {ended.failure}")
    trace = native("Trace")(ended.trace)
    if ended.status != 0:
        raise ProgramFailed(
            f"the recorded program ended with status {ended.status}: {ended.last_line} "
            f"(its trace: {ended.trace})",
            trace,
            ended.status,
        )
    return trace


def _pickler(what):
    """cloudpickle where it is needed and installed: it takes functions of notebooks along."""
    try:
        import cloudpickle
    except ImportError:
        if getattr(what, "__module__", None) == "__main__":
            name = getattr(what, "__qualname__", type(what).__qualname__)
            raise TypeError(
                f"{name} belongs to this program, which a fresh interpreter cannot "
                "import: install cloudpickle, move it to a module, or pass source text"
            ) from None
        return pickle
    return cloudpickle


def unused(name: str) -> Path:
    """A directory that is not there yet, named as the command line does."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    places = (Path(f"memtrace.{plain}.{os.getpid()}.{n}") for n in itertools.count(1))
    return next(place for place in places if not place.exists())
