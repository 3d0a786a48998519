"""memtrace: which operator needs how much memory, and chunk sizes that fit.

`operator` and `span` mark the operators of a program; they cost nothing unless the
program runs under `memtrace -- ...`. `Model` and `Trace` read what was recorded.
"""

from ._span import operator, span

__all__ = ["Model", "Trace", "operator", "span"]


def __getattr__(name):
    # Loaded at first use: programs that only mark operators need no native module.
    if name not in ("Model", "Trace"):
        raise AttributeError(f"module 'memtrace' has no attribute {name!r}")
    try:
        from . import _native
    except ImportError as error:
        raise ImportError(
            f"memtrace.{name} needs memtrace's native module, which this installation lacks "
            f"({error}); install memtrace from a wheel, or build it with `maturin develop`"
        ) from error
    return getattr(_native, name)
