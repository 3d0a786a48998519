"""Forty operators: laws from four runs below 100³ and one verification run, against large runs.

Every law is asked for shapes it has not seen: thin ones (lengths of 1, 2, 3), powers of two, primes,
and three large ones, the largest of which takes what `LARGEST` bytes hold, or as long as
`SECONDS` allow.
"""

import json

import memtrace

from experiments.operators import OPERATORS
from experiments.operators.run import WARM_UP
from experiments.recording import KEPT, RESULTS, qualified, recorded, spans, written

#: Lengths without common factors, longest on another axis each time, even on each axis in some run.
TRAINING = [(53, 61, 97), (113, 59, 64), (62, 119, 71), (89, 86, 123)]
VERIFICATION = (211, 223, 227)
MODERATE = [(1, 600, 701), (600, 2, 701), (601, 700, 3), (128, 64, 256), (131, 149, 113)]
#: Ratios of the large shapes' lengths.
RATIOS = (1.0, 0.83, 1.21)
LARGEST = 16 << 30
SECONDS = 300.0
#: Where an error counts: half a percent, or 256 KiB.
RELATIVE, ABSOLUTE = 0.005, 256 << 10
INTEGERS = """median percentile_filter uniform boolean_expression argsort_rank histogram
 histogram_equalisation cumsum_where standard_deviation local_binary_pattern glcm group_by""".split()


def cases():
    for name in OPERATORS:
        yield name, "float32"
    for name in OPERATORS:
        yield name, "float64"
    for name in INTEGERS:
        yield name, "int16"


def main(arguments):
    results = [study(name, dtype, arguments.quick) for name, dtype in cases()]
    return write(results)


def study(name, dtype, quick):
    """Everything about one operator at one dtype; kept in a file once it is complete."""
    folder = KEPT / "laws" / f"{name}-{dtype}"
    kept = folder / "result.json"
    if kept.exists():
        return json.loads(kept.read_text())
    model = fitted(folder, name, dtype)
    shapes = [] if quick or dtype != "float32" else large(model, name)
    tests = tested(folder, model, name, dtype, shapes)
    law = {key: tests[-1]["said"]["model"][key] for key in ("kind", "proof", "notes")}
    result = {"operator": name, "dtype": dtype, "law": law, "tests": tests}
    if not quick:
        kept.write_text(json.dumps(result))
    return result


def fitted(folder, name, dtype):
    trace = recorded(folder / "training", name, dtype, [*TRAINING, VERIFICATION])
    return memtrace.fit([str(trace)])


def large(model, name):
    """Three shapes: the largest that fits, and two between it and the verification run."""

    def at(side):
        return tuple(odd(side * ratio) for ratio in RATIOS)

    def fits(side):
        said = model.predict(qualified(name), at(side))
        return said["total_bytes"] <= LARGEST * 0.97 and said["seconds"] <= SECONDS

    side = 230
    while fits(side * 1.02):
        side *= 1.02
    return [at(230 * (side / 230) ** part) for part in (1 / 3, 2 / 3, 1.0)]


def odd(length):
    return int(length) | 1


def tested(folder, model, name, dtype, shapes):
    """What the law says and what was measured, shape by shape."""
    traces = [recorded(folder / "moderate", name, dtype, MODERATE)]
    traces += [recorded(folder / written(shape), name, dtype, [shape]) for shape in shapes]
    tests = []
    for trace in traces:
        for shape, span in spans(trace, name).items():
            # An operator that refuses a shape has no output there, and no law to be wrong.
            if shape != WARM_UP and span["outputs"]:
                tests.append(compared(shape, model.predict(qualified(name), shape), span))
    return tests


def compared(shape, said, span):
    measured = span["working_peak_bytes"]
    error = said["peak_bytes"] - measured
    output = span["outputs"][0] if span["outputs"] else None
    return {
        "shape": shape,
        "measured": measured,
        "predicted": said["peak_bytes"],
        "upper": said["upper_bytes"],
        "confidence": said["confidence"],
        "fine": abs(error) <= max(RELATIVE * measured, ABSOLUTE),
        "output": output is None or list(output["shape"]) == list(said["output_shape"]),
        "said": said,
    }


def write(results):
    raise NotImplementedError
