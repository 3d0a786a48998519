"""Bounds of operators never profiled, from their source: how far off, how much control flow they stand, and which
features matter. Writes docs/results/laws-generic.md.

Each operator's true working peak is recorded (target/experiments/generic holds what was, so that a second run goes
on); its bound is made without that, with a factor learned from the other operators only.

    --learn (python -m experiments.laws.generic --learn): put the factors learned from all of them into the library
"""

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from experiments.laws import held_out
from experiments.laws.library import LIBRARY, write

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "experiments" / "generic"
RESULT = ROOT / "docs" / "results" / "laws-generic.md"
LEAST = 16_384  # bytes of a true peak: those that only look at their input (views) are left out
TOGETHER = 20  # operators in a process
SHARE = 0.98  # of calls that are not to be under
MEDIAN = 1.5
MARGIN = 1.1


def arrays(case):
    """The inputs of a call."""
    from experiments.operators.run import volume

    made = []
    for number in range(case["arrays"]):
        kind = np.dtype(case["dtype"])
        array = volume(
            tuple(case["shape"]), kind.newbyteorder("="), case["data_values"], number
        ).astype(kind)
        if case["layout"] == "F":
            array = np.asfortranarray(array)
        elif case["layout"] == "strided":
            wide = np.zeros([n + 2 for n in array.shape], kind)
            wide[tuple(slice(1, -1) for _ in array.shape)] = array
            array = wide[tuple(slice(1, -1) for _ in array.shape)]
        made.append(array)
    return made


def work(names, features):
    """Runs operators' cases as spans; prints which of them succeeded."""
    import memtrace

    warnings.simplefilter("ignore")
    for name in names:
        function = held_out.function(name)
        first = held_out.cases(name, False)[0]
        small = {**first, "shape": [max(3, n // 3) if n > 3 else n for n in first["shape"]]}
        with contextlib.suppress(Exception):
            function(*arrays(small), **small["params"])
        for number, case in enumerate(held_out.cases(name, features)):
            inputs = arrays(case)
            with contextlib.suppress(Exception):  # what the first call at a shape keeps is no part
                function(*inputs, **case["params"])
            result = None
            with memtrace.span(f"{name} {number}"), contextlib.suppress(Exception):
                result = (function(*inputs, **case["params"]),)
            if result is None:
                continue  # it does not take such an input
            [result] = result
            plain = isinstance(result, np.ndarray)
            reported = {"shape": list(result.shape), "dtype": result.dtype.str} if plain else {}
            print(json.dumps({"operator": name, "case": number, **reported}), flush=True)
            del result, inputs


def environment():
    """The modules of this process, for another."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def kept(name, features):
    """Where what an operator was seen to need is kept for the next time."""
    return KEPT / f"{name.replace(':', '.')}{'.features' if features else ''}.json"


def record(names, features):
    """True working peaks of operators' cases, each call a span."""
    missing = [name for name in names if not kept(name, features).exists()]
    for start in range(0, len(missing), TOGETHER):
        some = missing[start : start + TOGETHER]
        if not record_together(some, features):
            # One of them ends the process at some case: what it printed before that counts.
            for name in some:
                record_together([name], features)
    return [row for name in names for row in json.loads(kept(name, features).read_text())]


def record_together(some, features):
    """Runs operators in one process; True if it came to its end. One alone is kept in any case."""
    import memtrace

    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = [str(ROOT / "target" / "release" / "memtrace"), "-o", str(trace), "--quiet", "--stacks", "none",
                   "--aggregate", "--auto-operators", "none", "--", sys.executable, "-m", "experiments.laws.generic",
                   "--work", str(int(features)), *some]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if done.returncode and len(some) > 1:
            return False
        report = memtrace.load(trace).report()
    peaks = {each["name"]: each["spans"][0]["working_peak_bytes"] for each in report["operators"]}
    reported = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"operator"')
    ]
    for name in some:
        cases = held_out.cases(name, features)
        rows = [{**cases[row["case"]], "operator": name, "true": peaks[f"{name} {row['case']}"], "output": row}
                for row in reported if row["operator"] == name]  # fmt: skip
        kept(name, features).write_text(json.dumps(rows))
    if done.returncode:
        print(f"{some[0]} ended its process with {done.returncode}", file=sys.stderr)
    return not done.returncode


def ask(source, case, **changed):
    """What the source says of a case; `changed`: features that it is not given."""
    from memtrace._native import bound_source

    reported = {**case, **changed}
    shapes = [list(reported["shape"])] * case["arrays"]
    return bound_source(
        source,
        shapes,
        [reported["dtype"]],
        reported["layout"],
        reported["params"],
        LIBRARY.read_text(),
    )


def described(name):
    from memtrace._planning.source.description import describe

    return json.dumps(describe(held_out.function(name)))


def learned(ratios):
    """The factor that every operator stays below, with a margin for those that come."""
    return MARGIN * max([1.0, *ratios])


def usual(row):
    """Noise in C order, float32: the calls that factors are learned from and bounds are judged by."""
    return (row["dtype"], row["layout"], row["data_values"]) == ("<f4", "C", "noise")


def bounded(row):
    """The source names nothing unknown: there is a bound."""
    return not row["bound"]["model"]["unknown"]


def worst_ratios(rows):
    """True over composed peak, of each operator that has a bound, the largest."""
    worst = {}
    for row in rows:
        if usual(row) and bounded(row):
            ratio = row["true"] / max(row["bound"]["peak_bytes"], 1)
            worst[row["operator"]] = max(worst.get(row["operator"], 0), ratio)
    return worst


def held_out_factor(operator, worst):
    """What an operator's composed peak is multiplied by, from all others that are not fresh."""
    others = [
        ratio
        for name, ratio in worst.items()
        if name != operator and held_out.family(name) != "fresh"
    ]
    return learned(others)


def measured(quick):
    sources = {}
    for name in held_out.names():
        try:
            sources[name] = described(name)
        except (TypeError, OSError, ImportError, AttributeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
    rows = record(list(sources), False) + ([] if quick else record(list(sources), True))
    rows = [row for row in rows if row["true"] >= LEAST]
    for row in rows:
        row["source"] = sources[row["operator"]]
        row["bound"] = ask(row["source"], row)
    return rows


def judged(rows):
    """Bounds over true peaks of each case; estimates are as composed."""
    worst = worst_ratios(rows)
    for row in rows:
        row["factor"] = held_out_factor(row["operator"], worst) if bounded(row) else 1.0
        row["composed"] = max(row["bound"]["peak_bytes"], 1) / row["true"]
        row["ratio"] = row["composed"] * row["factor"]


def group(row):
    control = row["bound"]["model"]["control"]
    if control["open_loops"] or control["exits"]:
        return "loops that data ends"
    if control["undecided"]:
        return "branches on data"
    if control["loops"]:
        return "loops of known count"
    if control["decided"]:
        return "branches that shapes and parameters decide"
    return "none"


def share(items):
    items = list(items)
    return sum(items) / len(items) if items else float("nan")


def of_operators(rows, quantity=min):
    """One number per operator: its worst case's ratio."""
    by = {}
    for row in rows:
        by.setdefault(row["operator"], []).append(row["ratio"])
    return {name: quantity(ratios) for name, ratios in by.items()}


def line(name, rows):
    ratios = [row["ratio"] for row in rows]
    off = [abs(math.log(row["composed"])) for row in rows]
    least = of_operators(rows)
    return (
        f"| {name} | {len(least)} | {len(rows)} | {np.median(ratios):.2f} | {np.quantile(ratios, 0.9):.2f} "
        f"| {100 * share(ratio >= 1 for ratio in ratios):.1f} % | {100 * share(ratio >= 1 for ratio in least.values()):.1f} % "
        f"| {np.exp(np.median(off)):.2f}× |"
    )


def ablation(rows):
    """Error of composed bounds that are not given a feature, on the calls where it is not the usual one."""
    total = np.exp(np.mean([math.log(math.prod(row["shape"])) for row in rows]))

    def same_volume(row):
        shape = row["shape"]
        side = max(1, round(math.prod(shape) ** (1 / len(shape))))
        return (
            [side] * len(shape)
            if shape[-1] != 3
            else [math.isqrt(math.prod(shape[:2])) + 1] * 2 + [3]
        )

    def usual_volume(row):
        scale = (total / math.prod(row["shape"])) ** (1 / len(row["shape"]))
        return [max(1, round(n * scale)) if n != 3 else n for n in row["shape"]]

    hidden = {
        "volume": (lambda row: {"shape": usual_volume(row)}, lambda row: True),
        "dims": (lambda row: {"shape": same_volume(row)}, lambda row: True),
        "dtype": (lambda row: {"dtype": "<f4"}, lambda row: row["dtype"] in ("<f8", "<i2")),
        "layout": (lambda row: {"layout": "C"}, lambda row: row["layout"] != "C"),
        "byte order": (lambda row: {"dtype": "<f4"}, lambda row: row["dtype"] == ">f4"),
        "parameters": (lambda row: {"params": {}}, lambda row: bool(row["params"])),
    }
    for feature, (without, concerned) in hidden.items():
        pairs = []
        for row in filter(concerned, rows):
            try:
                other = ask(row["source"], row, **without(row))
            except ValueError:
                continue
            with_it = abs(math.log(row["composed"]))
            pairs.append(
                (
                    with_it,
                    abs(math.log(max(other["peak_bytes"], 1) / row["true"])),
                    other["peak_bytes"] < 0.99 * row["true"],
                    row["composed"] < 0.99,
                )
            )
        if pairs:
            yield feature, pairs


def data_values(rows):
    """Largest over smallest true peak of an operator at one shape, over the data values of its input."""
    found = {}
    for row in rows:
        if (
            row["dtype"] == "<f4"
            and row["layout"] == "C"
            and tuple(row["shape"]) in {shapes[0] for shapes in held_out.SHAPES.values()}
        ):
            found.setdefault((row["operator"], str(row["params"])), []).append(row["true"])
    return {key[0]: max(peaks) / min(peaks) for key, peaks in found.items() if len(peaks) > 1}


def output_right(rows):
    known = [row for row in rows if row["output"].get("shape") is not None]
    right = [
        row["output"]["shape"] == row["bound"]["output_shape"]
        and row["output"]["dtype"].lstrip("<|=") == row["bound"]["output_dtype"].lstrip("<|")
        for row in known
    ]
    return share(right), len(known)


def report(everything, quick):
    rows = [row for row in everything if usual(row)]
    bounds = [row for row in rows if bounded(row)]
    seen = [row for row in bounds if held_out.family(row["operator"]) != "fresh"]
    seen_least = of_operators(seen)
    ratios = [row["ratio"] for row in seen]
    median, cases_over, operators_over = (
        np.median(ratios),
        share(r >= 1 for r in ratios),
        share(r >= 1 for r in seen_least.values()),
    )
    fresh = [row["ratio"] for row in bounds if held_out.family(row["operator"]) == "fresh"]
    fresh_median, fresh_over = np.median(fresh), share(ratio >= 1 for ratio in fresh)
    others = [row["ratio"] for row in everything if not usual(row) and bounded(row)]
    estimates = [row["ratio"] for row in rows if not bounded(row)]
    holds = max(median, fresh_median) <= MEDIAN and min(cases_over, fresh_over) >= SHARE

    def verdict(good):
        return "holds" if good else "misses"

    version = rows[0]["bound"]["model"]["versions"]
    head = "| group | operators | calls | median bound ÷ true | 90 % below | calls not under | operators never under | composed off by (median) |\n|---|---|---|---|---|---|---|---|"
    text = [
        "# Bounds from source",
        "",
        "Operators that were never profiled, bounded from their text alone ([generic.md](../generic.md)); `scripts/experiments laws generic"
        + (" --quick" if quick else "")
        + "`.",
        "None of them is in the library of known functions. Where the source names nothing unknown, the bound is the composed peak "
        "times the largest ratio of true to composed peak among the other operators (leave one operator out), and a tenth more; elsewhere the "
        "composed peak is an estimate. True peaks are working peaks that memtrace recorded, at 300,000 to 450,000 elements, in steady state: float32 noise in C order; calls with other dtypes, layouts and data values serve the table of features. The rules of the walk and the calls by which library functions are measured were changed after looking at these same operators (which temporaries are reused, variants of unique, matmul, map_coordinates, center_of_mass, sosfiltfilt): no factor saw its own operator, but the rules did. The *fresh* operators are functions of scikit-image that were chosen by name after the rules were done: no rule and no factor saw them. Operators that allocate less than 16 KiB (views) are left out. "
        + ", ".join(f"{name} {number}" for name, number in version.items())
        + ".",
        "",
        "| what | target | measured | |",
        "|---|---|---|---|",
        f"| calls for which a bound is given | | {100 * len(bounds) / len(rows):.1f} % of {len(rows)} | |",
        f"| median bound ÷ true peak | ≤ {MEDIAN} | {median:.2f} | {verdict(median <= MEDIAN)} |",
        f"| calls whose bound is not under | ≥ {100 * SHARE:.0f} % | {100 * cases_over:.1f} % of {len(ratios)} | {verdict(cases_over >= SHARE)} |",
        f"| operators none of whose calls is under | | {100 * operators_over:.1f} % of {len(seen_least)} | |",
        f"| fresh operators: median | ≤ {MEDIAN} | {fresh_median:.2f} | {verdict(fresh_median <= MEDIAN)} |",
        f"| fresh operators: calls not under | ≥ {100 * SHARE:.0f} % | {100 * fresh_over:.1f} % of {len(fresh)} | {verdict(fresh_over >= SHARE)} |",
        f"| other dtypes, layouts, data values: calls not under | | {100 * share(r >= 1 for r in others):.1f} % of {len(others)} | |",
        f"| estimates: median estimate ÷ true peak | | {np.median(estimates):.2f} of {len(estimates)} | |",
    ]
    right, known = output_right(rows)
    text += [
        f"| shape and dtype of the result right | | {100 * right:.1f} % of {known} | |",
        "",
        head,
    ]
    estimated = [row for row in rows if not bounded(row)]
    for kind, of_kind in (("bounds", bounds), ("estimates", estimated)):
        for family in ("forty operators", "data-dependent", "scikit-image", "fresh"):
            some = [row for row in of_kind if held_out.family(row["operator"]) == family]
            if some:
                text.append(line(f"{kind}, {family}", some))
    text += [
        "",
        "## Control flow",
        "",
        "Bounds, by what a path meets, the last that applies:",
        "",
        head,
    ]
    for name in (
        "none",
        "branches that shapes and parameters decide",
        "loops of known count",
        "branches on data",
        "loops that data ends",
    ):
        some = [row for row in bounds if group(row) == name]
        if some:
            text.append(line(name, some))
    text += ["", "By the number of control statements met:", "", head]
    count = lambda row: sum(row["bound"]["model"]["control"].values())  # noqa: E731
    for low, high in ((0, 0), (1, 5), (6, 20), (21, 10**9)):
        some = [row for row in bounds if low <= count(row) <= high]
        if some:
            text.append(
                line(
                    f"{low}"
                    if low == high
                    else f"{low}–{high}"
                    if high < 10**9
                    else f"{low} and more",
                    some,
                )
            )
    text += [
        "",
        "## Which features matter",
        "",
        "The composed bound, not given one feature, on the calls where that is not the usual one (volume, dims: all calls):",
        "",
        "| not given | calls | off by, given (mean) | off by, not given (mean) | under, given | under, not given |",
        "|---|---|---|---|---|---|",
    ]
    for feature, pairs in ablation(everything):
        reported, without = (np.exp(np.mean([pair[i] for pair in pairs])) for i in (0, 1))
        text.append(
            f"| {feature} | {len(pairs)} | {reported:.2f}× | {without:.2f}× | {100 * share(pair[3] for pair in pairs):.0f} % | {100 * share(pair[2] for pair in pairs):.0f} % |"
        )
    spread = data_values(everything)
    if spread:
        more = {name: ratio for name, ratio in spread.items() if ratio > 1.02}
        listed = ", ".join(
            f"{name.removeprefix('skimage.')} {ratio:.2f}×"
            for name, ratio in sorted(more.items(), key=lambda item: -item[1])[:12]
        )
        text += [
            "",
            f"Data values (noise, constant, sorted, sparse, NaN) are not distinguished: true peaks at one shape differ by more than 2 % for {len(more)} of {len(spread)} operators: {listed}.",
        ]
    text += [
        "",
        "## Operators",
        "",
        "Smallest and largest composed peak, and bound where there is one, ÷ true peak over an operator's calls.",
        "",
        "| operator | composed ÷ true | bound ÷ true | not known |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["operator"] for row in rows):
        own = [row for row in rows if row["operator"] == name]
        composed = [row["composed"] for row in own]
        unknown = sorted({each for row in own for each in row["bound"]["model"]["unknown"]})
        upper = [row["ratio"] for row in own if bounded(row)]
        upper = f"{min(upper):.2f}–{max(upper):.2f}" if upper else ""
        text.append(
            f"| {name} | {min(composed):.2f}–{max(composed):.2f} | {upper} | {'; '.join(unknown[:3])}{' …' if len(unknown) > 3 else ''} |"
        )
    return "\n".join(text) + "\n", holds


def learn(rows):
    """The factor from all operators, for those that come."""
    worst = worst_ratios(rows)
    found = json.loads(LIBRARY.read_text())
    factor = round(learned(worst.values()) * 1.0005, 3)
    write({**found, "residual": {"factor": factor, "operators": len(worst)}})


def main(arguments):
    quick = arguments.quick
    rows = measured(quick)
    judged(rows)
    text, holds = report(rows, quick)
    if quick:
        print(text)
    else:
        RESULT.write_text(text)
    return bool(holds)


if __name__ == "__main__":
    if "--work" in sys.argv:
        work(sys.argv[3:], sys.argv[2] == "1")
    elif "--learn" in sys.argv:
        learn(measured("--quick" in sys.argv))
