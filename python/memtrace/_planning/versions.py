"""Versions of the libraries that this process has, as the recorder names them."""

import functools
import importlib.metadata
import sys


def running(names):
    """Versions of those of these packages that are imported or installed, by name."""
    found = {name: _version(name) for name in names}
    return {name: version for name, version in found.items() if version}


def _version(name):
    if name == "python":
        return ".".join(map(str, sys.version_info[:3]))
    version = getattr(sys.modules.get(name), "__version__", None)
    return version if isinstance(version, str) else _installed(name)


@functools.lru_cache(maxsize=256)  # reading the installed files takes a millisecond
def _installed(name):
    try:
        return importlib.metadata.version(name)
    except Exception:  # not installed, or its metadata is damaged: nothing to compare with
        return None
