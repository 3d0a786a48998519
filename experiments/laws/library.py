"""Measures library functions for bounds from source, and writes analysis/src/generic/library.json.

    PYTHONPATH=python:examples .venv/bin/python -m experiments.laws.library [NAME ...]      only these anew

Each function of `functions.py` is called under memtrace with several element types, layouts and
settings. Its law is the tightest `per_input·elements in + per_output·elements out + constant` that no call exceeds
(a linear program). Recordings are kept in target/experiments/library. What the study of held-out operators learns (`residual`) is kept.
"""

import importlib
import inspect
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from experiments.laws import functions

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


def made(shape, kind, layout, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.01, 0.99, shape) * (1 if np.dtype(kind).kind in "fc" else 100)
    if kind == "|b1":
        values = values > 50
    array = values.astype(kind)
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros([n + 2 for n in shape], kind)
        wide[1:-1, 1:-1, 1:-1] = array
        return wide[1:-1, 1:-1, 1:-1]
    return array


class Arrays(dict):
    """Names that `functions.py` uses, made when they are asked for."""

    def __init__(self, x):
        super().__init__(x=x, np=np, shape=x.shape)

    def __missing__(self, name):
        make = getattr(self, "make_" + name, None)
        if make is None:
            raise KeyError(name)  # a global or built-in
        value = make(self["x"])
        self[name] = value
        return value

    def make_y(self, x):
        return x[::-1].copy()

    def make_line(self, x):
        return x[0].ravel()[:500].copy()

    def make_square(self, x):
        sides = np.zeros((x.shape[0] * x.shape[1], 3, 3), x.dtype)
        sides[...] = x.reshape(-1)[: 9 * len(sides)].reshape(-1, 3, 3)[: len(sides)]
        return sides + np.eye(3, dtype=x.dtype)

    def make_positive(self, x):
        square = self["square"]
        return square @ square.swapaxes(1, 2) + np.eye(3, dtype=x.dtype)

    def make_k(self, x):
        return np.ones((3, 3, 3), x.dtype.newbyteorder("="))

    def make_row(self, x):
        return np.ones((1, 1, 9), x.dtype.newbyteorder("="))

    def make_table(self, x):
        return x.reshape(-1, x.shape[-1])

    def make_triples(self, x):
        return x.reshape(-1)[: x.size // 3 * 3].reshape(-1, 3)

    def make_colours(self, x):
        return x.reshape(-1)[: x.size // 300 * 300].reshape(100, -1, 3)

    def make_matrix(self, x):
        return np.ones((3, 3), x.dtype.newbyteorder("="))

    def make_mask(self, x):
        return x.real > np.median(x.real)

    def make_order(self, x):
        return np.argsort(x, axis=-1)

    def make_spectrum(self, x):
        return np.fft.rfft(x).astype("c8" if x.dtype.itemsize <= 4 else "c16")

    def make_edges(self, x):
        return np.linspace(0, 1, 257).astype(x.real.dtype.newbyteorder("="))

    def make_grid(self, x):
        return np.indices(x.shape, "f8") * 0.9

    def make_codes(self, x):
        return (np.abs(x.real) * 100).astype("i8").ravel() % 200

    def make_codes3(self, x):
        return self["codes"].reshape(x.shape) % 50

    def make_ball(self, x):
        return np.ones((3, 3, 3), bool)

    def make_keys(self, x):
        return np.repeat(np.arange(x.shape[0] * x.shape[1]), x.shape[2])

    def make_frame(self, x):
        import pandas

        return pandas.DataFrame({"key": self["keys"], "value": x.ravel()})

    def make_cube(self, x):
        import xarray

        return xarray.DataArray(x, dims=("a", "b", "c"))

    def make_sobel(self, x):
        return importlib.import_module("scipy.ndimage").sobel

    def make_sos(self, x):
        return importlib.import_module("scipy.signal").butter(4, 0.2, output="sos")

    def make_b(self, x):
        return importlib.import_module("scipy.signal").butter(3, 0.2)[0]

    def make_a(self, x):
        return importlib.import_module("scipy.signal").butter(3, 0.2)[1]


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


def work(number, only):
    """Calls everything; what it prints says what each span was."""
    import memtrace

    warnings.simplefilter("ignore")
    spans = 0
    warm = set()
    for kind, layout, shape in RECORDED[number]:
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
                if name not in warm:  # the first call fills caches
                    function(*args, **kwargs)
                    warm.add(name)
                with memtrace.span(str(spans)):
                    result = function(*args, **kwargs)
            except (
                TypeError,
                ValueError,
                NotImplementedError,
                AttributeError,
                RuntimeError,
                np.linalg.LinAlgError,
            ):
                continue
            inputs = arrays_in([*args, *kwargs.values()]) or [names["x"]]
            outputs = arrays_in(result)
            row = {
                "span": str(spans), "name": name, "kind": kind, "layout": layout, "call": variant,
                "input": max(array.size for array in inputs) if on is None else names["x"].size,
                "input_bytes": sum(array.nbytes for array in inputs),
                "outputs": [[list(array.shape), array.dtype.str] for array in outputs],
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
    function = find(name)
    if isinstance(function, np.ufunc):
        return [f"x{i + 1}" for i in range(function.nin)] + ["out"]
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["a", "b"]
    return [
        ("*" + each.name if each.kind == each.VAR_POSITIONAL else each.name)
        for each in found
        if each.kind != each.VAR_KEYWORD
    ]


def fit(rows):
    """The library file's functions, and the factor of unknown ones."""
    known = {}
    for name, rule, kind, _, _ in calls():
        known.setdefault(name, {"rule": rule, "class": kind, "rows": {}})
    for row in (row for row in rows if row["name"] in known):  # older recordings have others
        key = row["kind"] + ("" if row["layout"] == "C" else " " + row["layout"])
        known[row["name"]]["rows"].setdefault(key, []).append(row)
    factors = []
    library = {}
    for name, entry in sorted(known.items()):
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
        if costs:
            library[name] = {"rule": entry["rule"], "parameters": parameters(name), "costs": costs}
            if entry["class"]:
                library[name]["class"] = entry["class"]
        else:
            print(f"{name}: no call succeeded", file=sys.stderr)
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
    rows = [row for number in range(len(RECORDED)) for row in record(number, only)]
    functions_known, unknown = fit(rows)
    older = json.loads(LIBRARY.read_text())
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
