"""Measures library functions for bounds from source, and writes analysis/src/generic/library.json.

    PYTHONPATH=python:examples .venv/bin/python -m experiments.laws.library [NAME ...]      only these anew
    PYTHONPATH=python:examples .venv/bin/python -m experiments.laws.library new             what it lacks

Each function of `functions.py` and of `namespaces.py` is called under memtrace with several element types, layouts and
settings. Its law is the tightest `per_input·elements in + per_output·elements out + constant` that no call exceeds
(a linear program). Recordings are kept in target/experiments/library. What the study of held-out operators learns (`residual`) is kept.
"""

import importlib
import json
import numbers
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from experiments.laws import functions, namespaces
from experiments.laws.arrays import Arrays, made

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "analysis" / "src" / "generic" / "library.json"
KEPT = ROOT / "target" / "experiments" / "library"
SMALL, LARGE = (41, 44, 53), (47, 60, 83)
# A process each: element type, layout, shape. Constants come from the first, where two shapes tell them apart.
RECORDED = (
    (("<f4", "C", LARGE), ("<f4", "C", SMALL)),
    (("<f8", "C", SMALL), ("<i2", "C", SMALL)),
    ((">f4", "C", SMALL), ("<f4", "strided", SMALL), ("<f4", "F", SMALL)),
    (("|u1", "C", SMALL), ("|b1", "C", SMALL), ("<i8", "C", SMALL)),
    (("<c8", "C", SMALL), ("<c16", "C", SMALL)),
)
MOST_CONSTANT = 2**20
MOST_SECONDS = 5
MOST_MAPPED = 6 << 30
QUANTILE = 0.9  # of known functions that stay below the factor of unknown ones


def calls():
    """(name, rule, class, on what, arguments) of each."""
    for rule, named in functions.RULES.items():
        for name, variants in named.items():
            for variant in variants:
                yield name, rule, None, None, variant
    for name, (on, variants, rule, kind) in functions.OBJECTS.items():
        for variant in variants:
            yield name, rule, kind, on, variant
    known = {name for named in functions.RULES.values() for name in named} | {*functions.OBJECTS}
    for name, on, variant in namespaces.calls(known):
        yield name, None, None, on, variant


def find(name):
    """The function of a full name."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part)
        return thing
    raise ImportError(name)


def class_of(result):
    return named(type(result)) if hasattr(result, "to_numpy") else None


def named(kind):
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def collect(*args, **kwargs):
    return args, kwargs


def arrays_in(thing):
    if isinstance(thing, np.ndarray):
        return [thing]
    if isinstance(thing, (tuple, list)):
        return [array for item in thing for array in arrays_in(item)]
    if isinstance(thing, dict):
        return arrays_in(list(thing.values()))
    if hasattr(thing, "to_numpy"):
        return [thing.to_numpy()]
    return []


def late(*_):
    raise TimeoutError


def work(number, only):
    """Calls everything; what it prints says what each span was."""
    import memtrace

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MAPPED, MOST_MAPPED))  # tables of n × n, say
    spans = 0
    warm = set()
    for kind, layout, shape in (*RECORDED, namespaces.CHECKED)[number]:
        names = Arrays(made(shape, kind, layout, sum(shape)))
        for name, _, _, on, variant in calls():
            if only and name not in only:
                continue
            try:
                if on is None:
                    function = find(name)
                else:
                    function = getattr(eval(on, {}, names), name.rsplit(".", 1)[1])
                args, kwargs = eval(f"collect({variant})", {"collect": collect}, names)
                signal.alarm(MOST_SECONDS)
                if name not in warm:  # the first call fills caches
                    function(*args, **kwargs)
                    warm.add(name)
                with memtrace.span(str(spans)):
                    result = function(*args, **kwargs)
            except Exception:  # it is none that runs on these
                continue
            finally:
                signal.alarm(0)
            inputs = arrays_in([*args, *kwargs.values()])
            inputs = inputs or arrays_in(eval(on, {}, names) if on else None) or [names["x"]]
            outputs = arrays_in(result)
            row = {
                "span": str(spans), "name": name, "kind": kind, "layout": layout, "call": variant,
                "input": max(array.size for array in inputs) if on is None else names["x"].size,
                "input_bytes": sum(array.nbytes for array in inputs),
                "outputs": [[list(array.shape), array.dtype.str] for array in outputs],
                "shape": list((inputs[0] if on is None else eval(on, {}, names)).shape),
                "number": isinstance(result, (numbers.Number, np.generic)),
                "class": class_of(result),
                "view": any(np.may_share_memory(each, of) for each in outputs for of in inputs),
            }  # fmt: skip
            print(json.dumps(row), flush=True)
            spans += 1
            del result, args, kwargs, function


def record(number, only=()):
    """Rows of `work`, each with the working peak that memtrace recorded; kept for the next time.

    only: names of functions to measure anew.
    """
    import memtrace

    kept = KEPT / f"{number}.json"
    older = json.loads(kept.read_text()) if kept.exists() else []
    if older and not only:
        return older
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = [str(ROOT / "target" / "release" / "memtrace"), "-o", str(trace), "--quiet", "--stacks", "none",
                   "--aggregate", "--auto-operators", "none", "--",
                   sys.executable, "-m", "experiments.laws.library", "work", str(number), *only]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        report = memtrace.load(trace).report()
    peaks = {each["name"]: each["spans"][0]["working_peak_bytes"] for each in report["operators"]}
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [{**row, "peak": peaks[row["span"]]} for row in rows if row["span"] in peaks]
    rows += [row for row in older if row["name"] not in only]
    KEPT.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(rows))
    return rows


def fresh(row):
    """Bytes of each element that comes out, if what comes out was allocated; 0 for views."""
    sizes = [
        (int(np.prod(shape)), np.dtype(kind).itemsize)
        for shape, kind in row["outputs"]
        if np.dtype(kind).kind != "O"
    ]
    made = sum(count * size for count, size in sizes)
    return min((size for _, size in sizes), default=0) if 0 < made <= row["peak"] else 0


def envelope(rows, most_constant):
    """The tightest non-negative (per input, per output, constant) that no row exceeds.

    Results that were allocated count at least with their own bytes: calls whose results are much
    smaller than their inputs do not tell. Beyond that, where rows do not tell, the constant is as
    large as it may be, and the rest is the results'.
    """
    from scipy.optimize import linprog

    outputs = [sum(int(np.prod(shape)) for shape, _ in row["outputs"]) for row in rows]
    terms = np.array([[row["input"], out, 1.0] for row, out in zip(rows, outputs, strict=False)])
    peaks = np.array([max(row["peak"], 1.0) for row in rows])
    below = np.hstack([-terms, np.zeros((len(rows), 1))])  # −prediction ≤ −peak
    above = np.hstack([terms, -peaks[:, None]])  # prediction ≤ t·peak
    weights = np.array([2e-6, 1e-6, 0, 1])
    least = min(map(fresh, rows))
    bounds = [(0, None), (least, None), (0, most_constant), (1, None)]
    found = linprog(
        weights,
        np.vstack([below, above]),
        np.concatenate([-peaks, np.zeros(len(rows))]),
        bounds=bounds,
    )
    if not found.success:  # the constant is too tight
        return [float(max(peaks / np.maximum(terms[:, 0], 1))), 0.0, 0.0]
    return [float(value) for value in found.x[:3]]


def parameters(name):
    """Names of a function's parameters, as `call.rs` binds them."""
    last = name.rsplit(".", 1)[1]
    special = {"arange": ["start_or_stop", "stop", "step"], "einsum": ["subscripts", "*operands"], "meshgrid": ["*xi"],
               "where": ["condition", "x", "y"], "outer": ["a", "b"], "DataArray": ["data", "coords", "dims"]}  # fmt: skip
    if last in special:
        return special[last]
    if name.count(".") == 2 and name.startswith(("pandas", "xarray")):
        return ["self", "other"]
    return namespaces.parameters(find(name))


def fit(rows, only=()):
    """The library file's functions, and the factor of unknown ones.

    only: names of functions that were measured anew, if not all were.
    """
    known = {}
    for name, rule, kind, _, _ in calls():
        known.setdefault(name, {"rule": rule, "class": kind, "rows": {}})
    for row in (row for row in rows if row["name"] in known):  # older recordings have others
        key = row["kind"] + ("" if row["layout"] == "C" else " " + row["layout"])
        known[row["name"]]["rows"].setdefault(key, []).append(row)
    factors = []
    library = {}
    for name, entry in sorted(known.items()):
        every = [row for of_kind in entry["rows"].values() for row in of_kind]
        if not entry["rule"] and not (every and namespaces.is_like(every)):
            continue
        costs = {}
        most = MOST_CONSTANT
        for key, measured in entry["rows"].items():  # the first has two shapes
            figures = [float(f"{value:.6g}") * (1 + 1e-6) for value in envelope(measured, most)]
            if most == MOST_CONSTANT:
                most = figures[2]
            outputs = [dtype for _, dtype in measured[-1]["outputs"]] or ["<f8"]
            costs[key] = dict(
                zip(
                    ("per_input", "per_output", "constant"),
                    (round(v, 6) for v in figures),
                    strict=False,
                ),
                outputs=outputs,
            )
            factors += [
                row["peak"] / row["input_bytes"] for row in measured if row["input_bytes"] > 2**18
            ]
        plain = costs.get("<f4")
        for key in [key for key in costs if key.startswith("<f4 ") and near(costs[key], plain)]:
            del costs[key]  # layout does not matter
        if not costs:
            if not only:
                print(f"{name}: no call succeeded", file=sys.stderr)
            continue
        kind = entry["class"]
        if entry["rule"]:
            library[name] = {"rule": entry["rule"], "parameters": parameters(name), "costs": costs}
        elif not any(" " in key for key in costs):  # its layout does not matter
            names = namespaces.parameters(find(name))
            own = {"parameters": names, "measured": namespaces.measured(name, names)}
            library[name] = {"rule": "like", **own, "costs": costs}
            kind = every[0]["class"]
        else:
            continue
        if kind:
            library[name]["class"] = kind
    factor = round(float(np.quantile(factors, QUANTILE)), 2)
    return library, {"factor": factor, "quantile": QUANTILE}


def near(one, other):
    return other is not None and all(
        abs(one[key] - other[key]) <= 0.01 * max(other[key], 1)
        for key in ("per_input", "per_output")
    )


def versions():
    import pandas
    import scipy
    import xarray

    return {module.__name__: module.__version__ for module in (np, scipy, pandas, xarray)}


def main(only):
    older = json.loads(LIBRARY.read_text())
    if only == ["new"]:
        only = sorted({name for name, *_ in calls()} - {*older["functions"]})
    rows = [row for number in range(len(RECORDED)) for row in record(number, only)]
    functions_known, unknown = fit(rows, only)
    checked = record(
        len(RECORDED),
        sorted(name for name in functions_known if "measured" in functions_known[name]),
    )
    functions_known = namespaces.kept(functions_known, checked, older["residual"]["factor"])
    if only:  # the others stay as they are
        functions_known = dict(sorted({**older["functions"], **functions_known}.items()))
        unknown = older["unknown"]
    library = {
        "library_version": 2,
        "versions": versions(),
        "unknown": unknown,
        "residual": older["residual"],
        "functions": functions_known,
    }
    write(library)
    print(
        f"{len(functions_known)} functions from {len(rows)} calls; unknown ones: {unknown['factor']} × their input"
    )


def write(library):
    """One function a line, so that changes can be read."""
    head = {key: value for key, value in library.items() if key != "functions"}
    lines = [
        f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in library["functions"].items()
    ]
    text = (
        json.dumps(head, indent=1)[:-2]
        + ',\n "functions": {\n  '
        + ",\n  ".join(lines)
        + "\n }\n}\n"
    )
    LIBRARY.write_text(text)


if __name__ == "__main__":
    work(int(sys.argv[2]), sys.argv[3:]) if sys.argv[1:2] == ["work"] else main(sys.argv[1:])
