"""The native module, imported at first use."""

from importlib import import_module


def native(name):
    """What the native module calls `name`. ImportError: this installation has no such module."""
    try:
        module = import_module("._native", __package__)
    except ImportError as error:
        raise ImportError(
            f"memtrace.{name} needs memtrace's native module, which this installation lacks "
            f"({error}); install memtrace from a wheel, or build it with `maturin develop`"
        ) from error
    return getattr(module, name)
