"""Lean operators: a worker that shares chunks holds far more than it computes with."""

import statistics

from experiments.chunks import tables
from experiments.chunks.runs import run
from experiments.recording import RESULTS

PART = "lean"
SHAPE = (480, 480, 480)
QUICK = (160, 160, 160)
#: Memory limit of a worker that no shared cubes fit; 70 % of it is the budget.
LIMITS = {"gaussian": "370MB", "semblance": "390MB"}
UNLIMITED = "8GB"
ROUNDS = 5
TIME_TARGET = 1.3


def main(arguments):
    shape, rounds = (QUICK, 1) if arguments.quick else (SHAPE, ROUNDS)
    cases = {operator: measured(operator, shape, rounds) for operator in LIMITS}
    holds = [each for operator, case in cases.items() for each in checks(operator, *case)]
    if not arguments.quick:
        (RESULTS / "chunks-lean.md").write_text(text(cases, holds))
    return all(held for _, _, held in holds)


def measured(operator, shape, rounds):
    """Cubes that are shared, and ours (each task reads its own block) in rounds beside no limit."""
    asked = {"operator": operator, "shape": shape, "memory_limit": LIMITS[operator]}
    sides = [-(-shape[0] // count) for count in (2, 3, 4, 6, 8)]
    cubes = {side: run(PART, chunk=(side,) * 3, **asked) for side in sides}
    free = {**asked, "memory_limit": UNLIMITED}
    every = [run(PART, chunk=(side,) * 3, **free) for side in sides]
    quickest = min([*every, run(PART, how="storage", **free)], key=seconds)
    baseline = {"how": quickest["how"], "chunk": tuple(quickest["chunk"])}
    if baseline["how"] == "storage":
        baseline["chunk"] = None  # what is recommended without a limit
    turns = []
    for turn in range(1, rounds + 1):
        pair = [
            lambda: run(PART, again=turn, how="storage", **asked),  # noqa: B023
            lambda: run(PART, again=turn, **baseline, **free),  # noqa: B023
        ]
        order = (0, 1) if turn % 2 else (1, 0)
        done = {which: pair[which]() for which in order}
        turns.append((done[0], done[1]))
    waves = run(PART, how="waves", **asked)
    return cubes, turns, waves


def seconds(reported):
    return reported["seconds"] if reported["within"] else float("inf")


def checks(operator, cubes, turns, waves):
    ours = [each for each, _ in turns] + [waves]
    ratio = statistics.median(a["seconds"] / b["seconds"] for a, b in turns)
    off = [
        each["predicted_bytes"] / each["peak_bytes"] - 1 for each in ours if not each["error"]
    ] or [-1]
    return [
        (
            f"{operator}: shared cubes of every size leave the budget",
            f"{sum(not c['within'] for c in cubes.values())} of {len(cubes)}",
            not any(c["within"] for c in cubes.values()),
        ),
        (
            f"{operator}: ours stay within it",
            f"{sum(each['within'] for each in ours)} of {len(ours)} runs",
            all(each["within"] for each in ours),
        ),
        (
            f"{operator}: time ≤ 1.3 × the unlimited, paired medians",
            f"{ratio:.2f}",
            ratio <= TIME_TARGET,
        ),
        (
            f"{operator}: worker peak predicted within {tolerance(ours[0]):.0%}, never under",
            tables.spread(off),
            min(off) >= 0 and max(off) <= tolerance(ours[0]),
        ),
    ]


def tolerance(reported):
    """8 % where the operator's task is most of a worker, 25 % elsewhere."""
    return 0.08 if reported["task_bytes"] >= 0.6 * reported["peak_bytes"] else 0.25


def text(cases, holds):
    parts = []
    for operator, (cubes, turns, waves) in cases.items():
        ways = {f"shared cubes of {side}": reported for side, reported in cubes.items()}
        ours, free = turns[0]
        ways |= {
            "ours, mean": ours,
            "ours, stored in waves": waves,
            f"shared, {UNLIMITED} limit": free,
        }
        parts += [
            f"## {operator.capitalize()}, limit {LIMITS[operator]}",
            tables.runs(ways),
            ours["why"],
        ]
    return TEXT.format(holds=tables.holds(holds), parts="\n\n".join(parts), rounds=len(turns))


TEXT = """# Lean operators: where neighbours' chunks are what a worker holds

Gaussian (σ = 3, halo 12) and semblance on 480×480×480 float32 in a SEG-Y file, two workers of one
thread, a fresh cluster for every run; budget: 70 % of the memory limit. Shared: `map_overlap` of cubes, mean
of the result. Ours: `memtrace.dask.map_overlap` of the file: each task reads its chunk and halo
itself, so that nothing is held for neighbours; the mean, and the same written to zarr in waves.

{holds}

{parts}

Ours against the fastest of shared cubes and of blocks that tasks read themselves, without a limit: {rounds} rounds, the order
alternating.

Again: `.venv/bin/python scripts/experiments chunks lean`; to measure anew, remove
`target/experiments/chunks/lean.jsonl` first.
"""
