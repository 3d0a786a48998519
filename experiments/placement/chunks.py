"""Chunks where memory ends before swap does: what moves cost, and what larger chunks gain all the
same.

The operators are all of examples/operators, on a cube of one length. The cube in one piece, with
shares of the memory that it needs, shows what moves cost. Then `memtrace recommend` chooses chunks
for shares of that memory, with slow memory and without, and both are run. Times are CPU seconds of
the process with what the kernel does on its behalf; runs are in a random order.
"""

import importlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import operators
from volume import synthetic

from experiments.chunks.tables import table
from experiments.operators import OPERATORS
from experiments.placement.catalogue import PROGRAMS
from experiments.placement.limited import PAGE, bare
from experiments.placement.swap_device import swap
from experiments.recording import MEMTRACE, RESULTS, ROOT, memtrace

LENGTH = 128
WHOLE = (LENGTH, LENGTH, LENGTH)
FIRST = [f"operators.{name}:{name}" for name in operators.NAMES]
#: Chosen before any of them was run: by name every fifth.
STEP = 5
OTHERS = [f"experiments.operators.{OPERATORS[name]}:{name}" for name in sorted(OPERATORS)[::STEP]]
SHAPES = ("24,28,32", "32,36,40", "40,48,44", "56,52,60")
SHARES = (0.9, 0.7, 0.5, 0.3)
#: What `memtrace recommend` is told of swap: all that there is, or next to nothing.
SLOW, NONE = "4GB", "4096"
#: Exit status.
NOTHING_FITS = 3
REPEATS = 5
#: As analysis/src/plan/slow.rs has them.
TIMES, CAUTIOUS_TIMES = 1.75, 2.5
#: The share of runs that move no more than that.
WITHIN = 0.75
#: What a choice with slow memory may lose to one without.
LOSS = 0.03


class Operator:
    """An operator on blocks of the cube, in a process of its own."""

    def __init__(self, name, folder):
        self.name, self._folder = name, folder
        self.baseline = self._ran("tiny.npy", (8, 8, 8), None).peak_bytes
        self.whole = self.run(WHOLE, None)

    def run(self, chunk, limit):
        """A run with chunks of this shape under a limit."""
        return self._ran("cube.npy", chunk, limit)

    def limit(self, share):
        """Bytes of a process that has this share of what the operator needs for the cube."""
        needed = self.whole.peak_bytes - self.baseline
        return (self.baseline + int(needed * share)) // PAGE * PAGE

    def _ran(self, cube, chunk, limit):
        lengths = ",".join(map(str, chunk))
        program = (sys.executable, PROGRAMS / "blocks.py", self.name, self._folder / cube, lengths)
        return bare(program, limit)


class Chunks:
    """What `memtrace recommend` says of an operator, by a law of four small runs."""

    def __init__(self, operator, folder):
        self._operator, self._folder = operator, folder
        self._module, name = operator.name.split(":")
        self._model = folder / f"{name}.json"
        traces = [folder / f"{name}-{number}" for number in range(len(SHAPES))]
        for trace, shape in zip(traces, SHAPES, strict=True):
            run = (sys.executable, ROOT / "examples/run_operator.py", "--operator", name)
            traced = ("-o", trace, "--operator", operator.name)
            memtrace(*traced, "--", *run, "--shape", shape, "--repeat", 2)
        memtrace("fit", *traces, "-o", self._model)

    def chosen(self, limit, slow):
        """The plan for a limit and slow memory; None where nothing fits."""
        module = importlib.import_module(self._module)
        of = ("--operator", self._operator.name, "--shape", written(WHOLE), "--source", "storage")
        of += ("--halo", written(module.HALO), "--baseline", self._operator.baseline)
        if module.WHOLE_AXES:
            of += ("--whole-axes", written(module.WHOLE_AXES))
        memory = ("--fast-memory", limit, "--slow-memory", slow)
        memory += ("--machine", self._folder / "machine.json", "--json")
        command = [*map(str, (MEMTRACE, "recommend", self._model, *of, *memory))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        assert done.returncode in (0, NOTHING_FITS), command
        return json.loads(done.stdout) if done.returncode == 0 else None


def written(lengths):
    return ",".join(map(str, lengths))


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    with swap(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        memtrace("place", "calibrate", "-o", folder / "machine.json")
        cost = byte_seconds(json.loads((folder / "machine.json").read_text()))
        np.save(folder / "cube.npy", synthetic(WHOLE))
        np.save(folder / "tiny.npy", synthetic((8, 8, 8)))
        first = [Operator(name, folder) for name in FIRST]
        moves = [row for each in first for row in moved(each, repeats, cost)]
        choices = [row for each in first for row in compared(each, Chunks(each, folder), repeats)]
        others = (Operator(name, folder) for name in OTHERS)
        later = [row for each in others for row in moved(each, repeats, cost)]
    if not arguments.quick:
        (RESULTS / "placement-chunks.md").write_text(page(moves, later, choices, repeats))
    within = sum(map(is_within, moves + later))
    return within >= WITHIN * len(moves + later) and all(map(is_no_loss, choices))


def byte_seconds(machine):
    """CPU seconds of a byte to swap and back."""
    pages = [each["written"] + each["fault"] for each in machine["contents"]]
    return statistics.mean(pages) / PAGE / 1e6


def moved(operator, repeats, cost):
    """A row for each share of the cube in one piece: how often the excess moves."""
    limits = {share: operator.limit(share) for share in SHARES}
    runs = in_random_order(dict.fromkeys((None, *SHARES), WHOLE), operator, limits, repeats)
    for share, limit in limits.items():
        excess = operator.whole.peak_bytes - limit
        alone, took = middle(runs[None]), middle(runs[share])
        times = took and (took - alone) / (excess * cost)
        row = {"operator": operator.name, "share": share, "excess": excess}
        row |= {"alone": alone, "took": took, "times": times}
        print(row, flush=True)
        yield row


def compared(operator, chunks, repeats):
    """A row for each share: the chunks with slow memory, and those without."""
    for share in SHARES:
        limit = operator.limit(share)
        plans = {kind: chunks.chosen(limit, kind) for kind in (SLOW, NONE)}
        shapes = {kind: plan["chunk_shape"] for kind, plan in plans.items() if plan}
        runs = in_random_order(shapes, operator, dict.fromkeys(shapes, limit), repeats)
        row = {"operator": operator.name, "share": share, "limit": limit, "chunks": shapes}
        row |= {"moved": ((plans[SLOW] or {}).get("slow") or {}).get("predicted_moved_bytes", 0)}
        row |= {"took": {kind: middle(some) for kind, some in runs.items()}}
        print(row, flush=True)
        yield row


def in_random_order(chunks, operator, limits, repeats):
    """Runs of each kind of chunks; the limit of a kind that has none is none."""
    order = [kind for kind in chunks for _ in range(repeats)]
    random.Random(22).shuffle(order)
    runs = {kind: [] for kind in chunks}
    for kind in order:
        runs[kind].append(operator.run(chunks[kind], limits.get(kind)))
    return runs


def middle(runs):
    """The median of the seconds, None where a run was killed."""
    return None if None in runs else statistics.median(run.seconds for run in runs)


def is_within(row):
    return row["times"] is not None and row["times"] <= CAUTIOUS_TIMES


def is_no_loss(row):
    """Whether they lose nothing, where they are others."""
    slow, none = row["took"].get(SLOW), row["took"].get(NONE)
    if row["chunks"].get(NONE) in (None, row["chunks"].get(SLOW)):
        return SLOW not in row["chunks"] or slow is not None
    return None not in (slow, none) and slow <= none * (1 + LOSS)


def moves_table(rows):
    names = ["operator", "share", "beyond it, MB", "in memory, s", "with swap, s", "times"]
    cells = [
        [
            row["operator"].replace("experiments.operators.", "").replace("operators.", ""),
            row["share"],
            f"{row['excess'] / 1e6:.1f}",
            f"{row['alone']:.2f}",
            "killed" if row["took"] is None else f"{row['took']:.2f}",
            "" if row["times"] is None else f"{row['times']:.2f}",
        ]
        for row in rows
    ]
    return table(names, cells)


def choices_table(rows):
    names = ["operator", "share", "memory, MB", "with slow memory", "moves, MB", "s"]
    names += ["without", "s", "holds"]
    cells = [
        [
            row["operator"].partition(":")[2],
            row["share"],
            f"{row['limit'] / 1e6:.0f}",
            *told(row, SLOW)[:1],
            f"{row['moved'] / 1e6:.1f}" if SLOW in row["chunks"] else "",
            *told(row, SLOW)[1:],
            *told(row, NONE),
            "yes" if is_no_loss(row) else "no",
        ]
        for row in rows
    ]
    return table(names, cells)


def told(row, kind):
    """The chunks, and their time."""
    if kind not in row["chunks"]:
        return ["none fit", ""]
    took = row["took"][kind]
    return ["×".join(map(str, row["chunks"][kind])), "killed" if took is None else f"{took:.2f}"]


def page(moves, later, choices, repeats):
    within = sum(map(is_within, moves)), sum(map(is_within, later))
    return f"""# Chunks in slow memory

`scripts/experiments placement chunks` runs operators on the blocks of a cube of {LENGTH}³ float32,
in a control group whose memory ends before its swap (zram) does. Times are CPU seconds of the
process with what the kernel does on its behalf: medians of {repeats} runs, in a random order.

## What moves cost

The cube in one piece, with a share of what the operator needs beside the process. *Times*: what the
run takes longer, divided by what `memtrace place calibrate` says that the bytes beyond the limit
take to swap and back. A plan takes {TIMES} for the estimate, and prefers larger chunks only if they
are faster at {CAUTIOUS_TIMES}. Wanted: no more than that in {WITHIN:.0%} of the runs. It holds in
{within[0]} of {len(moves)} with the operators that these figures were taken from, all of
examples/operators. Where little is beyond the limit, the pages of the interpreter that move with it
count for more.

{moves_table(moves)}

And {within[1]} of {len(later)} with others that were run once, later: of the operators in
experiments/operators by name every {STEP}th.

{moves_table(later)}

## Chunks with slow memory and without

What `memtrace recommend --fast-memory … --slow-memory …` chooses for the same limits. Wanted, where
these are other chunks: at most {LOSS:.0%} slower than those that need no slow memory.

{choices_table(choices)}
"""
