"""Functions that are measured because a namespace has them: all that run on one array.

What comes out says which rule is theirs: an array like the first, one without an axis, or a number.
Functions with other results, with results that are views, or whose memory grows faster than their
arrays are left out. They are measured with their first argument and `axis` alone.
"""

import importlib
import inspect

import numpy as np

MODULES = (
    "numpy",
    "numpy.linalg",
    "scipy.fft",
    "scipy.integrate",
    "scipy.linalg",
    "scipy.ndimage",
    "scipy.signal",
    "scipy.special",
    "scipy.stats",
)
#: A class, and what its methods are called on: reductions of columns need columns of two lengths.
CLASSES = {
    "pandas.Series": ("frame['value']",),
    "pandas.DataFrame": ("wide", "narrow"),
    "xarray.DataArray": ("cube",),
}
#: They print, draw, or keep what they are given.
NEVER = {"boxplot", "hist", "info", "plot", "to_clipboard", "set_printoptions", "seterr", "test"}
VARIANTS = ("x", "table", "x.ravel()")
MOST_GROWTH = 1.15
#: Bytes of small objects that a call may leave.
SMALL_OBJECTS = 10_000


def calls(known):
    """(name, on what, arguments) of functions that are not in `known`."""
    for module in MODULES:
        for name, function in sorted(public(importlib.import_module(module)).items()):
            full = f"{module}.{name}"
            if full not in known:
                for variant in (
                    *VARIANTS,
                    *(("x, axis=-1", "x, axis=0") if has_axis(function) else ()),
                ):
                    yield full, None, variant
    for full, objects in CLASSES.items():
        module, kind = full.split(".")
        for name in sorted(public(getattr(importlib.import_module(module), kind))):
            if f"{full}.{name}" not in known:
                for on in objects:
                    yield f"{full}.{name}", on, ""


def public(owner):
    """Functions of a module or class; classes and what is imported from elsewhere are none."""
    names = getattr(owner, "__all__", None) or dir(owner)
    found = {
        name: getattr(owner, name, None) for name in names if name[0] != "_" and name not in NEVER
    }
    return {
        name: thing
        for name, thing in found.items()
        if callable(thing) and not inspect.isclass(thing)
    }


def has_axis(function):
    return "axis" in signature(function)


def signature(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def parameters(function):
    """Names in order; an axis with a default has that behind it (`axis=0`)."""
    if isinstance(function, np.ufunc):
        return ["x1", "out"]
    found = signature(function).values()
    return [written(each) for each in found if each.kind != each.VAR_KEYWORD] or ["a"]


def written(parameter):
    if parameter.kind == parameter.VAR_POSITIONAL:
        return "*" + parameter.name
    fixed = parameter.name == "axis" and type(parameter.default) is int
    return f"axis={parameter.default}" if fixed else parameter.name


def rule_of(function, rows):
    """The rule, and the class of what comes out; None if there is none that all calls follow."""
    classes = {row["class"] for row in rows}
    if any(row["view"] for row in rows) or len(classes) != 1 or grows(rows):
        return None
    [kind] = classes
    fits = [rule for rule in RULES if all(RULES[rule](function, row) for row in rows)]
    return (fits[0], kind) if fits else None


def grows(rows):
    """True if the same call takes more for each element of a larger array."""
    per_element = {}
    for row in rows:
        elements = row["input"] + sum(int(np.prod(shape)) for shape, _ in row["outputs"])
        per_element.setdefault((row["kind"], row["layout"], row["call"]), []).append(
            (row["input"], (row["peak"] - SMALL_OBJECTS) / elements)
        )
    pairs = [sorted(each) for each in per_element.values() if len(each) > 1]
    return any(each[-1][1] > max(1.0, each[0][1]) * MOST_GROWTH for each in pairs)


def like(_function, row):
    return [shape for shape, _ in row["outputs"]] == [row["shape"]]


def number(function, row):
    return row["number"] and not has_axis(function)


def reduced(function, row):
    axis = signature(function)["axis"].default if has_axis(function) else None
    if "axis=" in row["call"]:
        axis = int(row["call"].partition("axis=")[2])
    if axis is None:
        return row["number"] and has_axis(function)
    if type(axis) is not int or not has_axis(function):
        return False
    left = list(np.delete(row["shape"], axis))
    return row["number"] if not left else [shape for shape, _ in row["outputs"]] == [left]


RULES = {"like": like, "number": number, "reduce": reduced}
