"""Big tasks of which no two fit a worker together, and small ones, with and without resources."""

import json
import os
import time

from experiments.chunks import tables
from experiments.chunks.runs import in_a_process, kept
from experiments.recording import RESULTS

PART = "resources"
REPEATS = 3
#: Two workers of two threads each; 70 % of the limit is the budget.
WORKERS, THREADS, LIMIT = 2, 2, "1GB"
#: Operator, side of its cube, tasks, in the order in which they are handed in: one big, five small.
BIG, SMALL = ("gst3d", 124), ("gaussian", 72)
BIGS, SMALLS = 8, 40


def main(arguments):
    repeats = 1 if arguments.quick else REPEATS
    runs = {way: [run(way, again) for again in range(repeats)] for way in ("declared", "free")}
    holds = checks(runs["declared"])
    if not arguments.quick:
        (RESULTS / "chunks-resources.md").write_text(text(runs, holds))
    return all(held for _, _, held in holds)


def run(way, again):
    """One fresh cluster, in a process of its own; kept."""
    key = json.dumps([way, again, BIG, SMALL, LIMIT])
    return kept(PART, key, lambda: in_a_process(way, "-c", ONCE.format(way=way)), line)


def line(reported):
    peak, budget = reported["peak_bytes"] / 1e6, reported["budget_bytes"] / 1e6
    return f"{json.loads(reported['key'])[0]}: {peak:.0f} of {budget:.0f} MB"


ONCE = """
if __name__ == "__main__":
    from experiments.chunks import resources
    resources.once({way!r})
"""


def once(way):
    """What the mix needed, and when each task ran where."""
    import memtrace.dask
    from dask_cluster import cluster, measure

    from experiments.chunks.models import fitted
    from experiments.chunks.once import reported

    model = fitted(BIG[0]).merge(fitted(SMALL[0]))
    spans, needed = [], {}
    with cluster(WORKERS, LIMIT, THREADS) as client:
        if way == "declared":
            memtrace.dask.declare(client, warm=warm)
        for name, side in (BIG, SMALL):
            needed[name] = memtrace.dask.needs(model, name, (side,) * 3)

        def mixed():
            futures = []
            for task in tasks():
                resources = needed[task[0]] if way == "declared" else None
                futures.append(client.submit(called, *task, pure=False, resources=resources))
            spans.extend(client.gather(futures))

        found = measure(client, warm, mixed)
    asked = {"workers": WORKERS, "memory_limit": LIMIT, "how": "mix"}
    figures = reported(asked, found)
    needed = {name: each["memory"] for name, each in needed.items()}
    print(json.dumps({**asked, **figures, "spans": spans, "needed": needed}))


def tasks():
    """(operator, side) in the order of submission."""
    each = SMALLS // BIGS
    return [task for _ in range(BIGS) for task in [BIG] + [SMALL] * each]


def called(name, side):
    """Runs in a worker: (operator, process, begin, end)."""
    import importlib

    import numpy as np

    operator = getattr(importlib.import_module(f"operators.{name}"), name)
    start = time.time()
    operator(np.random.default_rng(side).random((side,) * 3, np.float32))
    return name, os.getpid(), start, time.time()


def warm():
    for name, _ in (BIG, SMALL):
        called(name, 32)


def checks(runs):
    together = [overlapping(reported["spans"], BIG[0], BIG[0]) for reported in runs]
    beside = [overlapping(reported["spans"], SMALL[0], None) for reported in runs]
    return [
        (
            "every worker within its budget",
            f"{sum(each['within'] for each in runs)} of {len(runs)} runs, at most "
            f"{max(each['peak_bytes'] for each in runs) / 1e6:.0f} of "
            f"{runs[0]['budget_bytes'] / 1e6:.0f} MB",
            all(each["within"] for each in runs),
        ),
        ("no two big tasks in a worker at one time", f"{sum(together)}", not any(together)),
        (
            "small tasks run beside others in their worker",
            f"{min(beside)} of {SMALLS} at least",
            min(beside) >= SMALLS / 2,
        ),
    ]


def overlapping(spans, name, other):
    """How many tasks of an operator ran at a time when another of `other` (None: any) ran in their
    process."""
    spans = [tuple(each) for each in spans]

    def meets(one):
        return any(
            two != one
            and two[1] == one[1]
            and two[2] < one[3]
            and one[2] < two[3]
            and other in (None, two[0])
            for two in spans
        )

    return sum(meets(one) for one in spans if one[0] == name)


def text(runs, holds):
    rows = []
    for way, name in (("declared", "resources from the law"), ("free", "none")):
        for reported in runs[way]:
            spans = reported["spans"]
            rows.append(
                (
                    name,
                    *tables.state(reported)[1:],
                    overlapping(spans, BIG[0], BIG[0]),
                    overlapping(spans, SMALL[0], None),
                )
            )
    head = ("resources", "peak / budget", "outcome", "time", "big beside big", "small beside any")
    needed = runs["declared"][0]["needed"]
    return TEXT.format(
        holds=tables.holds(holds),
        runs=tables.table(head, rows),
        big=f"{BIG[0]} on {BIG[1]}³ ({tables.megabytes(needed[BIG[0]])} by its law)",
        small=f"{SMALL[0]} on {SMALL[1]}³ ({tables.megabytes(needed[SMALL[0]])})",
        bigs=BIGS,
        smalls=SMALLS,
        workers=WORKERS,
        threads=THREADS,
        limit=LIMIT,
    )


TEXT = """# Tasks that do not fit together

{bigs} tasks of {big} and {smalls} of {small}, float32, handed in as one big, five small, and so on,
to {workers} workers of {threads} threads and {limit} each; the budget is 70 % of that. With resources: `memtrace.dask.declare`
gives each worker what it has, `memtrace.dask.needs` says what a task takes. A fresh cluster for every run.
*Beside*: tasks that ran while another one ran in the same worker.

{holds}

{runs}

Again: `.venv/bin/python scripts/experiments chunks resources`; to measure anew, remove
`target/experiments/chunks/resources.jsonl` first.
"""
