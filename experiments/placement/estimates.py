"""Estimates of placements from two runs, against every placement measured.

The tiers are pages of 4 KiB and of 2 MiB. `place learn` records a program once in each; for every
choice of its blocks of 2 MiB and more, `place estimate` says what it would take, and `place run`
takes it. Times are CPU seconds of the program alone, the smallest of several runs in a random
order.
"""

import itertools
import json
import math
import mmap
import random
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.catalogue import PROGRAMS, built
from experiments.recording import MEMTRACE, RESULTS, memtrace

REPEATS = 5
MEAN_ERROR = 0.044
MOST_ERROR = 0.15
HUGE = 2 << 20
MADV_POPULATE_WRITE = 23


@dataclass(frozen=True)
class Case:
    """A program, and how many accesses a round of it makes to its blocks, by their bytes."""

    file: str
    what: str
    rounds: int
    accesses: dict
    #: The estimate has to say that it cannot be trusted.
    flagged: bool = False


NODES = 70**3
ELEMENTS, POINTS = 76**3, 77**3
FIRST = [
    Case(
        "sparse.c",
        "sparse matrix-vector",
        40,
        {8 << 22: 1 << 22, 4 << 22: 1 << 22, 8 << 23: 1 << 22, 8 << 19: 1 << 19},
    ),
    Case("hash.c", "hash table", 40, {8 << 23: 1.17, 8 << 21: 1}),
    Case("stencil.c", "stencil", 80, {8 * 240**3: 7, 8 * (240**3 + 4096): 1}),
    Case(
        "elements.c",
        "finite elements, as MiniFE",
        140,
        {8 * 27 * NODES: 27, 4 * 27 * NODES: 27, 8 * NODES: 31, 8 * 3 * NODES: 9},
    ),
    Case(
        "shock.c",
        "hydrodynamics, as LULESH",
        16,
        {
            32 * ELEMENTS: 24 * ELEMENTS,
            24 * POINTS: 72 * ELEMENTS,
            24 * (POINTS + 1): 6 * POINTS,
            24 * (POINTS + 2): 48 * ELEMENTS,
        },
    ),
    Case("chase.c", "chains of pointers", 3, {16 << 22: 1 << 21, 8 << 22: 1 << 22}, True),
]
#: Written with the first ones, and not run before the method was settled.
SECOND = [
    Case("ranks.c", "ranks of a graph", 10, {}),
    Case("joins.cpp", "joins by a sorted index, C++", 3, {}),
    Case("layers.f90", "layers of an ocean, Fortran", 8, {}),
]


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    cases = {"first": FIRST, "second": SECOND}
    results = {}
    for name, chosen in cases.items():
        results[name] = [measured(case, repeats) for case in chosen]
    if not arguments.quick:
        (RESULTS / "placement-estimates.md").write_text(page(results, repeats))
    return all(holds(result) for chosen in results.values() for result in chosen)


def measured(case, repeats):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        command = [str(built(PROGRAMS / case.file, folder)), str(case.rounds)]
        result = summed(case, *placements(case, folder, command, repeats))
    counted = "no counts" if result["counted"] is None else f"by counts {result['counted']:.1%}"
    print(
        f"{case.file}: {result['ratio']:.2f}, mean {result['mean']:.1%}, "
        f"most {result['most']:.1%} of {result['placements']}; {counted}, "
        f"one by one {result['additive']:.1%}, within {result['within']:.0%}; {result['notes']}",
        flush=True,
    )
    return result


def placements(case, folder, command, repeats):
    """The plan of the fastest base runs, every choice, and its time: what is told, what is."""
    learned = folder / "learned"
    memtrace("place", "learn", "--repeat", repeats, "-o", learned, "--", *command)
    plan = json.loads(
        memtrace("place", "plan", learned, "--fast", "1GB", "-o", folder / "plan.json", "--json")
    )
    numbers = [n for n, each in enumerate(plan["objects"], 1) if each["bytes"] >= HUGE]
    choices = [some for k in range(len(numbers) + 1) for some in itertools.combinations(numbers, k)]
    told = [estimate(folder, number, choice) for number, choice in enumerate(choices)]
    runs = list(range(len(choices))) * repeats
    random.Random(case.file).shuffle(runs)
    real = [math.inf] * len(choices)
    for number in runs:
        real[number] = min(real[number], cpu(folder, number, command))
    return plan, choices, told, real


def estimate(folder, number, choice):
    """The estimate of a choice, whose plan is kept under its number."""
    moves = ["--move=all=slow", *(f"--move={n}=fast" for n in choice)]
    output = folder / f"choice-{number}.json"
    told = memtrace("place", "estimate", folder / "plan.json", *moves, "-o", output, "--json")
    return json.loads(told)["seconds"]


def warm():
    """Uses memory once, as `place learn` does: a virtual machine's host hands it out slowly."""
    memory = mmap.mmap(-1, 512 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory.madvise(MADV_POPULATE_WRITE)
    memory.close()


def cpu(folder, number, command):
    warm()
    trace = folder / "trace"
    plan = folder / f"choice-{number}.json"
    line = [MEMTRACE, "place", "run", plan, "-f", "-o", trace, "--", *command]
    subprocess.run(list(map(str, line)), capture_output=True, check=True)
    meta = json.loads((trace / "meta.json").read_text())
    return (meta["user_ns"] + meta["system_ns"]) / 1e9


def summed(case, plan, choices, told, real):
    def errors(estimates):
        return [abs(one / took - 1) for one, took in zip(estimates, real, strict=True)]

    by_samples = errors(each["planned"] for each in told)
    within = [
        abs(each["planned"] - took) <= each["uncertainty"]
        for each, took in zip(told, real, strict=True)
    ]
    return {
        "case": case,
        "placements": len(choices),
        "ratio": real[0] / real[-1],
        "mean": statistics.mean(by_samples),
        "most": max(by_samples),
        "counted": statistics.mean(errors(by_counts(case, plan, choices)))
        if case.accesses
        else None,
        "additive": statistics.mean(errors(one_by_one(choices, real))),
        "within": statistics.mean(within),
        "notes": plan["notes"],
    }


def by_counts(case, plan, choices):
    """The same formula and base runs, with the exact number of accesses."""
    counts = [case.accesses.get(each["bytes"], 0) for each in plan["objects"]]
    slow, fast = plan["seconds"]["slow"], plan["seconds"]["fast"]
    gained = [(slow - fast) * count / sum(counts) for count in counts]
    return [slow - sum(gained[n - 1] for n in choice) for choice in choices]


def one_by_one(choices, real):
    """Gains that were each measured alone."""
    alone = {
        choice[0]: real[0] - took
        for choice, took in zip(choices, real, strict=True)
        if len(choice) == 1
    }
    return [real[0] - sum(alone[n] for n in choice) for choice in choices]


def holds(result):
    if result["case"].flagged:
        return any("chains of pointers" in note for note in result["notes"])
    counted = result["counted"]
    return (
        result["mean"] <= MEAN_ERROR
        and result["most"] <= MOST_ERROR
        and (counted is None or result["mean"] < counted)
    )


def cells(result):
    case, counted = result["case"], result["counted"]
    return [
        case.what,
        result["placements"],
        f"{result['ratio']:.2f}",
        f"{result['mean']:.1%}",
        f"{result['most']:.1%}",
        "" if counted is None else f"{counted:.1%}",
        f"{result['additive']:.1%}",
        f"{result['within']:.0%}",
        "; ".join(result["notes"]),
        "yes" if holds(result) else "no",
    ]


def page(results, repeats):
    text = f"""# Estimates of placements

`scripts/experiments placement estimates` compares what `memtrace place estimate` says of every
placement of a program's blocks of 2 MiB and more with what `memtrace place run` takes. The tiers
are pages of 4 KiB and of 2 MiB. The program is learned with `--repeat {repeats}`, and each
placement is run {repeats} times, all in a random order. Of each the fastest run counts, because
on the machine of the measurement other work slows single runs down by up to a half. Times are CPU
seconds of the program. The table has the mean and the largest error (estimate / measured − 1,
without its sign).

Beside it are the same formula with exact counts of accesses in the place of samples (from the
program's loops; the same two runs), and the sum of gains that were measured one by one (a run for
each object; what it is off by is mostly what runs differ by). *Within* is the share of
placements in the estimate's interval. Wanted: a mean of {MEAN_ERROR:.1%} at most, {MOST_ERROR:.0%}
for each placement, and less than by counts; of chains of pointers, a note.

"""
    names = [
        "program",
        "placements",
        "slow / fast",
        "mean error",
        "largest",
        "by counts",
        "one by one",
    ]
    names += ["within", "notes", "holds"]
    titles = {
        "first": "The programs that the method was made with, and two small applications",
        "second": "Programs that were written with these and run once the method was settled",
    }
    for name, title in titles.items():
        text += f"## {title}\n\n{table(names, map(cells, results[name]))}\n\n"
    return text.rstrip() + "\n"
