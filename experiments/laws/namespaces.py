"""Functions that are measured because a namespace has them: those that run on one array, and give one
like it.

They are known with that array and, functions of modules, `axis`: calls with other arguments are not.
Left out are functions whose results are views, whose memory grows faster than their arrays or
depends on their layout, and those that take more on the shapes of `CHECKED`, which no law is fitted
to, than their law says.
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
#: A class, and what its methods are called on.
CLASSES = {
    "pandas.Series": ("series",),
    "pandas.DataFrame": ("wide", "narrow"),
    "xarray.DataArray": ("cube",),
}
#: They print, draw, keep what they are given, or make more of a list than of an array.
NEVER = {"block", "boxplot", "hist", "info", "plot", "to_clipboard", "set_printoptions", "seterr", "test"}  # fmt: skip
VARIANTS = ("x", "table", "x.ravel()")
CHECKED = (
    ("<f8", "C", (1000, 1000)),
    ("<f8", "C", (250_000, 4)),
    ("<f8", "C", (4, 250_000)),
    ("<f8", "F", (1000, 1000)),
    ("<f4", "C", (20, 50, 1000)),
)
LEAST_CHECKS = 4
MOST_GROWTH = 1.15
#: Bytes of small objects that a call may leave.
SMALL_OBJECTS = 10_000


def calls(known):
    """(name, on what, arguments) of functions that are not in `known`."""
    for module in MODULES:
        for name, function in sorted(public(importlib.import_module(module)).items()):
            full = f"{module}.{name}"
            if full not in known:
                axes = ("x, axis=-1", "x, axis=0") if has_axis(function) else ()
                for variant in (*VARIANTS, *axes):
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
    names = [name for name in names if name[0] != "_" and name not in NEVER]
    found = {name: getattr(owner, name, None) for name in names}
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
    """Names in order, where a function does not say them those of two arguments."""
    if isinstance(function, np.ufunc):
        return [f"x{i + 1}" for i in range(function.nin)] + ["out"]
    found = [each for each in signature(function).values() if each.kind != each.VAR_KEYWORD]
    named = [("*" if each.kind == each.VAR_POSITIONAL else "") + each.name for each in found]
    return named or ["a", "b"]


def measured(name, names):
    """Those of a function's parameters that it was measured with."""
    is_method = name.rpartition(".")[0] in CLASSES
    return [names[0], *(["axis"] if "axis" in names and not is_method else [])]


def is_like(rows):
    """True if all calls gave an array like theirs, and took as much for each of its elements."""
    fresh = not any(row["view"] for row in rows)
    alike = all([shape for shape, _ in row["outputs"]] == [row["shape"]] for row in rows)
    return fresh and alike and len({row["class"] for row in rows}) == 1 and not grows(rows)


def grows(rows):
    """True if the same call takes more for each element of a larger array."""
    per_element = {}
    for row in rows:
        key = row["kind"], row["layout"], row["call"]
        figure = row["input"], (row["peak"] - SMALL_OBJECTS) / row["input"]
        per_element.setdefault(key, []).append(figure)
    pairs = [sorted(each) for each in per_element.values() if len(each) > 1]
    return any(each[-1][1] > max(1.0, each[0][1]) * MOST_GROWTH for each in pairs)


def kept(library, rows, factor):
    """The library without functions that were not checked, or took more than their bound."""
    checks, wrong = {}, set()
    for row in rows:
        known = library.get(row["name"])
        if known and known.get("measured"):
            cost = known["costs"].get(row["kind"])
            checks[row["name"]] = checks.get(row["name"], 0) + 1
            if cost is None or row["peak"] > factor * bytes_of(cost, row["input"]):
                wrong.add(row["name"])
    return {
        name: known
        for name, known in library.items()
        if not known.get("measured") or (checks.get(name, 0) >= LEAST_CHECKS and name not in wrong)
    }


def bytes_of(cost, elements):
    return (cost["per_input"] + cost["per_output"]) * elements + cost["constant"]
