"""Operators whose bytes depend on their data: are they flagged, and does their bound hold?

Every operator runs at a few shapes with several kinds of data values. The six whose memory depends
on them must be flagged, and none of the forty others. For the six, 124 fresh runs (other shapes
in the range, other data values) are compared with the bound of a law fitted on the first runs.
"""

import json

import memtrace

from experiments import recording
from experiments.operators import OPERATORS, VARYING

FOLDER = recording.KEPT / "flags"
PAGE = recording.RESULTS / "laws-flags.md"
DATA_VALUES = ("noise", "constant", "sorted", "sparse", "nan", "positive")
TRAINING = ((41, 43, 47), (53, 47, 61), (64, 59, 67), (73, 79, 71), (89, 83, 90))
FEW = ((41, 43, 47), (53, 47, 61), (64, 59, 67))
FRESH_RUNS = 124
#: Most misses among them, and most false flags among the others.
MOST_MISSES, MOST_FALSE = 2, 0.05


def law(name, shapes, data_values):
    """Folder of the runs, and the model fitted to them."""
    runs = [f"{recording.written(shape)}:{each}" for shape in shapes for each in data_values]
    folder = recording.recorded(FOLDER / name, name, "float32", runs)
    return memtrace.fit(str(folder))


def fresh_shapes(name, count):
    """Shapes between the smallest and the largest of the training, the same at every start."""
    import numpy as np

    rng = np.random.default_rng(sum(map(ord, name)))
    lengths = [sorted({shape[axis] for shape in TRAINING}) for axis in range(3)]
    low, high = [each[0] for each in lengths], [each[-1] for each in lengths]
    return [tuple(int(n) for n in rng.integers(low, high, endpoint=True)) for _ in range(count)]


def fresh(name, count):
    """(shape, data values, working peak) of fresh runs of one operator."""
    shapes = fresh_shapes(name, count)
    kinds = ("mixed", "mixed", "noise", "sparse", "positive", "constant")
    runs = [
        f"{recording.written(shape)}:{kinds[index % len(kinds)]}:{1000 + index}"
        for index, shape in enumerate(shapes)
    ]
    folder = recording.recorded(FOLDER / f"{name}-fresh", name, "float32", runs)
    report = json.loads(recording.memtrace("report", "--json", "--all-spans", folder))
    [operator] = [each for each in report["operators"] if each["name"] == recording.qualified(name)]
    spans = sorted(operator["spans"], key=lambda span: span["call"])[1:]
    return [
        (tuple(span["inputs"][0]["shape"]), run.split(":")[1], span["working_peak_bytes"])
        for span, run in zip(spans, runs, strict=True)
    ]


def main(arguments):
    others = list(OPERATORS)[:: 8 if arguments.quick else 1]
    flagged, unknown = [], []
    for name in others:
        model = law(name, FEW, DATA_VALUES)
        answer = model.predict(name, FEW[1])["data_dependent"]
        flagged += [name] * (answer is True)
        unknown += [name] * (answer is None)
    rows, missed, asked, seen = [], 0, 0, 0
    names = list(VARYING)
    for position, name in enumerate(names):
        model = law(name, TRAINING, DATA_VALUES)
        reported = model.predict(name, TRAINING[1])
        seen += reported["data_dependent"] is True
        count = (FRESH_RUNS * (position + 1)) // len(names) - (FRESH_RUNS * position) // len(names)
        runs = fresh(name, 6 if arguments.quick else count)
        bounds = [model.predict(name, shape)["upper_bytes"] for shape, _, _ in runs]
        misses = sum(peak > bound for (_, _, peak), bound in zip(runs, bounds, strict=True))
        above = max(peak / bound for (_, _, peak), bound in zip(runs, bounds, strict=True))
        slack = sorted(bound / peak for (_, _, peak), bound in zip(runs, bounds, strict=True))
        missed, asked = missed + misses, asked + len(runs)
        rows.append(
            f"| {name} | {'yes' if reported['data_dependent'] else 'no'} | {reported['confidence']} "
            f"| {len(runs)} | {misses} | {above:.3f} | {slack[len(slack) // 2]:.2f} |"
        )
    share = len(flagged) / len(others)
    holds = [seen == len(names), share <= MOST_FALSE, missed <= MOST_MISSES]
    answer = ["yes" if each else "no" for each in holds]
    lines = [
        "# Operators whose bytes depend on their data",
        "",
        "`scripts/experiments laws flags` writes this page.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
        f"| data-dependent operators flagged | 6 of 6 | {seen} of {len(names)} | {answer[0]} |",
        f"| others flagged | ≤ 5 % | {len(flagged)} of {len(others)} | {answer[1]} |",
        f"| fresh runs above the bound | ≤ 2 of 124 | {missed} of {asked} | {answer[2]} |",
        "",
        f"Trained on {len(TRAINING)} shapes with {len(DATA_VALUES)} kinds of data values each:"
        f" {', '.join(DATA_VALUES)}. Fresh runs are at other shapes of the same range, with other"
        " seeds, a third of them with an offset and a scale drawn anew."
        " *Nearest*: the largest peak in proportion to its bound."
        " *Slack*: the median of bound over peak.",
        "",
        "| operator | flagged | confidence | fresh runs | above the bound | nearest | slack |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"Of the others flagged: {', '.join(flagged) or 'none'}."
        + (f" Never run twice at a shape: {', '.join(unknown)}." if unknown else ""),
        "",
    ]
    text = "\n".join(lines)
    print(text)
    if not arguments.quick:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    return all(holds)
