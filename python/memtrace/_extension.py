"""The native module, imported at first use."""

import sys
from importlib import import_module


def native(name):
    """What the native module calls `name`. ImportError: this installation has no such module."""
    # Objects are laid out in another way there, so the module would crash.
    if "t" in sys.abiflags:
        raise ImportError(
            f"memtrace.{name} cannot run in a free-threaded build of Python; use one with the GIL"
        )
    try:
        module = import_module("._native", __package__)
    except ImportError as error:
        raise ImportError(
            f"memtrace.{name} needs memtrace's native module, which this installation lacks "
            f"({error}); install memtrace from a wheel, or build it with `maturin develop`"
        ) from error
    return getattr(module, name)
