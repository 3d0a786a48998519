"""The description of a function, with those that it calls."""

import ast
import inspect
import json
import sys
import textwrap
import types

from .statements import Body
from .values import dtype_of, public_name

VERSION = 1
LIBRARIES = ("numpy", "scipy", "pandas", "xarray", "dask", "torch", "cupy", "numba")
MAX_FUNCTIONS = 200  # described in addition to the requested one


def describe(function):
    """The description of a function, as a dict. TypeError, OSError: it has no Python source."""
    described = _Description()
    entry = described.add(function)
    if entry is None:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} has no Python source to describe")
    described.finish()
    return {
        "source_version": VERSION,
        "language": "python",
        "entry": entry,
        "functions": described.functions,
        "versions": _versions(),
    }


def _versions():
    loaded = ((name, sys.modules.get(name)) for name in ("numpy", "scipy", "pandas", "xarray"))
    found = {name: getattr(module, "__version__", None) for name, module in loaded}
    found["python"] = ".".join(map(str, sys.version_info[:3]))
    return {name: version for name, version in found.items() if isinstance(version, str)}


class _Description:
    """The descriptions so far, and the functions that still await theirs."""

    def __init__(self):
        self.functions = {}
        self.named = {}
        self.waiting = []

    def add(self, function):
        """Name under which a function is described; None if it has no source."""
        function = _without_ours(getattr(function, "__func__", function))
        while hasattr(function, "__wrapped__") and not isinstance(function, types.FunctionType):
            function = function.__wrapped__  # of NumPy's dispatcher, say, which is written in C
        if not isinstance(function, types.FunctionType):
            return None
        name = f"{function.__module__}:{function.__qualname__}"
        # A decorator's function and the one that it calls have the same name.
        while self.named.setdefault(name, function) is not function:
            name += "*"
        if name not in self.functions:
            if len(self.functions) > MAX_FUNCTIONS:
                return None
            try:
                lines, first = inspect.getsourcelines(function.__code__)
                tree = ast.parse(textwrap.dedent("".join(lines)))
            except (OSError, TypeError, SyntaxError):
                return None
            self.functions[name] = None
            self.waiting.append((name, function, tree, first))
        return name

    def finish(self):
        while self.waiting:
            name, function, tree, first = self.waiting.pop()
            self.functions[name] = Body(self, name, function, first - 1).whole(tree)

    def reference(self, thing):
        """How a function, type or class that a name stands for is written."""
        dtype = dtype_of(thing)
        if dtype is not None:
            return {"dtype": dtype}
        root = (getattr(thing, "__module__", None) or "").split(".")[0]
        if (
            isinstance(thing, types.FunctionType)
            and root not in LIBRARIES
            and root not in _STANDARD
        ):
            name = self.add(thing)
            if name is not None:
                return {"function": name}
        name = public_name(thing)
        return None if name is None else {"function": name}


def _without_ours(function):
    """What a decorator of memtrace was given."""
    while getattr(function, "__globals__", {}).get("__name__", "").startswith("memtrace."):
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    return function


_STANDARD = getattr(
    sys,
    "stdlib_module_names",
    frozenset(
        [
            "builtins",
            "functools",
            "itertools",
            "math",
            "os",
            "collections",
            "warnings",
            "inspect",
            "operator",
        ]
    ),
)


def load(name):
    """The function `MODULE:FUNCTION`; its module is imported."""
    from importlib import import_module

    module, _, path = name.partition(":")
    if not path:
        raise ValueError(f"{name!r} names no function; write MODULE:FUNCTION")
    thing = import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


def main(name):
    sys.path.insert(0, "")
    print(json.dumps(describe(load(name)), separators=(",", ":")))
