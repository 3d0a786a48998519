"""Forty operators: laws from four runs below 100³ and one verification run, against large runs.

Every law is asked for shapes it has not seen: thin ones (lengths of 1, 2, 3), powers of two,
primes, and three large ones, the largest of which takes what `LARGEST` bytes hold, or as long as
`SECONDS` allow.
"""

import json

import memtrace

from experiments.operators import OPERATORS
from experiments.operators.run import WARM_UP
from experiments.recording import KEPT, RESULTS, qualified, recorded, spans, written

#: Lengths without common factors in a shape, well apart on each axis and even in one run; every
#: face has 4,096 cells or more, so that a plane of bytes is part of a law's sequence.
TRAINING = [(79, 71, 65), (62, 119, 83), (127, 74, 97), (103, 89, 106)]
VERIFICATION = (233, 223, 211)
MODERATE = [(1, 600, 701), (600, 2, 701), (601, 700, 3), (128, 64, 256), (131, 149, 113)]
#: Ratios of the large shapes' lengths, and where they begin.
RATIOS, SIDE = (1.0, 0.83, 1.21), 230
LARGEST = 16 << 30
SECONDS = 25.0
#: Where an error counts: half a percent, or 256 KiB.
RELATIVE, ABSOLUTE = 0.005, 256 << 10
INTEGERS = (
    "median percentile_filter uniform boolean_expression argsort_rank histogram"
    " histogram_equalisation cumsum_where standard_deviation local_binary_pattern glcm group_by"
)


def cases():
    for name in OPERATORS:
        yield name, "float32"
    for name in OPERATORS:
        yield name, "float64"
    for name in INTEGERS.split():
        yield name, "int16"


def main(arguments):
    results = [study(name, dtype, arguments.quick) for name, dtype in cases()]
    return write(results)


def study(name, dtype, quick):
    """Everything about one operator at one dtype."""
    folder = KEPT / "laws" / f"{name}-{dtype}"
    model = fitted(folder, name, dtype)
    shapes = [] if quick or dtype != "float32" else large(folder, model, name)
    tests = tested(folder, model, name, dtype, shapes)
    law = {key: tests[-1]["said"]["model"][key] for key in ("kind", "proof", "notes")}
    bad = [written(test["shape"]) for test in tests if not test["fine"] or is_wrong(test)]
    print(f"{name} {dtype}: {law['proof']}, {len(tests)} tests, not fine: {bad}", flush=True)
    return {"operator": name, "dtype": dtype, "law": law, "tests": tests}


def fitted(folder, name, dtype):
    trace = recorded(folder / "training", name, dtype, [*TRAINING, VERIFICATION])
    return memtrace.fit([str(trace)])


def large(folder, model, name):
    """Three shapes: the largest that fits, and two between it and the verification run.

    They are chosen once, so that a law that has changed meanwhile is asked for the same ones.
    """
    chosen = folder / "large.json"
    if not chosen.exists():
        largest = largest_side(model, name)
        sides = [SIDE * (largest / SIDE) ** part for part in (1 / 3, 2 / 3, 1.0)]
        shapes = [[odd(side * ratio) for ratio in RATIOS] for side in sides]
        chosen.write_text(json.dumps(shapes))
    return [tuple(shape) for shape in json.loads(chosen.read_text())]


def largest_side(model, name):
    def fits(side):
        shape = [odd(side * ratio) for ratio in RATIOS]
        said = model.predict(qualified(name), shape)
        return said["total_bytes"] <= LARGEST * 0.97 and said["seconds"] <= SECONDS

    side = SIDE
    while fits(side * 1.02):
        side *= 1.02
    return side


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
    output = span["outputs"][0]
    return {
        "shape": shape,
        "measured": measured,
        "predicted": said["peak_bytes"],
        "upper": said["upper_bytes"],
        "confidence": said["confidence"],
        "input": said["input_bytes"],
        "fine": abs(error) <= max(RELATIVE * measured, ABSOLUTE),
        "output": list(output["shape"]) == list(said["output_shape"])
        and output["dtype"] == said["output_dtype"],
        "said": said,
    }


def is_wrong(test):
    return test["confidence"] == "exact" and not test["fine"]


def write(results):
    """docs/results/laws-operators.md; True if every target is reached."""
    by_operator = {}
    for result in results:
        by_operator.setdefault(result["operator"], []).append(result)
    rows = [row(name, of_name) for name, of_name in by_operator.items()]
    tests = [test for result in results for test in result["tests"]]
    met = sum(fine for _, fine, _ in rows)
    shaped = sum(shaped for _, _, shaped in rows)
    wrong = sum(map(is_wrong, tests))
    exact = sum(test["confidence"] == "exact" for test in tests)
    lines = [
        "# Forty operators: laws from small runs, asked for large shapes",
        "",
        "`scripts/experiments laws operators` makes this page. " + HOW,
        "",
        "| what | target | found |",
        "|---|---|---|",
        f"| operators with every error ≤ max(0.5 %, 256 KiB) | ≥ 32 of 40 | {met} |",
        f"| predictions called `exact` that are wrong | 0 | {wrong} of {exact} |",
        f"| operators whose output shapes and dtypes are all right | 40 | {shaped} |",
        "",
        "| operator | law (f4; f8; i2) | largest test | working peak | error there "
        "| worst error of all tests | at | output |",
        "|---|---|---|---|---|---|---|---|",
        *[text for text, _, _ in rows],
        "",
    ]
    (RESULTS / "laws-operators.md").write_text("\n".join(lines))
    print("\n".join(lines[4:9]))
    return met >= 32 and wrong == 0 and shaped == len(by_operator)


HOW = (
    "Training: "
    + ", ".join("×".join(map(str, shape)) for shape in TRAINING)
    + "; verification: "
    + "×".join(map(str, VERIFICATION))
    + ". One process per trace, after a small warm-up call. Tests: thin shapes, powers of two, "
    "primes, for every dtype; for float32 three large ones besides, the largest being what 16 GiB "
    "hold or 25 seconds a call allow. A shape that an operator refuses is not tested. An error counts "
    "if it is above half a percent and above 256 KiB; an output is right if shape and dtype are."
)


def row(name, results):
    """The operator's line; are all its peaks fine; are all its outputs right."""
    tests = [test for result in results for test in result["tests"]]
    laws = "; ".join(result["law"]["proof"] for result in results)
    largest = max(results[0]["tests"], key=lambda test: test["measured"] + test["input"])
    bad = [test for test in tests if not test["fine"]]
    worst = max(bad or tests, key=lambda test: abs(relative(test)))
    fine, shaped = not bad, all(test["output"] for test in tests)
    mark, output = "" if fine else "**", "right" if shaped else "**wrong**"
    text = (
        f"| {name} | {laws} | {written(largest['shape'])} | {largest['measured']:,} "
        f"| {relative(largest):+.3%} | {mark}{relative(worst):+.3%}{mark} "
        f"| {written(worst['shape'])} | {output} |"
    )
    return text, fine, shaped


def relative(test):
    return (test["predicted"] - test["measured"]) / max(1, test["measured"])
