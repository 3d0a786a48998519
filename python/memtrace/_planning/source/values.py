"""Values that are known without running anything, and the names of functions and types."""

import math
import sys

MAX_ITEMS = 4096  # of a constant sequence


def public_name(thing):
    """`scipy.ndimage.gaussian_filter` for what is defined in `scipy.ndimage._filters`."""
    # Anything may answer to any name: polars.col makes a column of each.
    names = (getattr(thing, name, None) for name in ("__qualname__", "__name__"))
    name = next((name for name in names if isinstance(name, str) and name), None)
    module = getattr(thing, "__module__", None)
    if type(thing).__name__ == "ufunc":
        name = thing.__name__
        numpy = sys.modules.get("numpy")
        module = "numpy" if getattr(numpy, name, None) is thing else "scipy.special"
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):  # the first package that shows it
        place = ".".join(parts[:count])
        for shown in (place.lstrip("_"), place):  # csv.writer is of _csv
            if getattr(sys.modules.get(shown), name, None) is thing:
                return f"{shown}.{name}"
    return ".".join([part for part in parts if not part.startswith("_")] + [name])


def dtype_of(thing):
    """`<f4` for numpy.float32 and numpy.dtype("f4"); None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.dtype):
        return thing.str
    if isinstance(thing, type) and issubclass(thing, numpy.generic):
        try:
            made = numpy.dtype(thing)
        except TypeError:
            return None
        # numpy.floating and the like are kinds, not types
        return made.str if made.type is thing else None
    return None


def constant(value, depth=0):
    """A value that is known without running anything; None: it cannot be written."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):  # numpy.float64 is a float, too
        return call_of(
            function_named("numpy.asarray"),
            [constant(value.item()) or {"value": 0}],
            [["dtype", {"dtype": value.dtype.str}]],
        )
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value} if not isinstance(value, int) or abs(value) < 2**63 else None
    if isinstance(value, float):
        if math.isfinite(value):
            return {"value": value}
        return call_of(function_named("builtins.float"), [{"value": str(value)}])
    if isinstance(value, (tuple, list, set, frozenset)) and len(value) <= MAX_ITEMS and depth < 8:
        items = [constant(item, depth + 1) for item in value]
        return None if None in items else {"sequence": items}
    if isinstance(value, dict) and len(value) <= MAX_ITEMS and depth < 8:
        pairs = [
            [constant(key, depth + 1), constant(item, depth + 1)] for key, item in value.items()
        ]
        return None if any(None in pair for pair in pairs) else {"mapping": pairs}
    dtype = dtype_of(value)
    if dtype is not None:
        return {"dtype": dtype}
    if isinstance(value, type) and value.__module__ == "builtins":
        return {"function": f"builtins.{value.__name__}"}
    if numpy is not None and isinstance(value, numpy.ndarray) and depth == 0:
        shape = {"sequence": [{"value": length} for length in value.shape]}
        return call_of(
            function_named("numpy.broadcast_to"),
            [call_of({"dtype": value.dtype.str}, [{"value": 0}]), shape],
        )
    return None


def function_named(name):
    """A function, written by its public name."""
    return {"function": name}


def call_of(function, args, keywords=(), line=0):
    """A call of a function that is written already."""
    return {"call": {"function": function, "args": args, "keywords": list(keywords), "line": line}}
