"""Records the tasks that the online-learning study replays: real operators on chunks of one array.

    .venv/bin/python -m experiments.laws.online_tasks       writes experiments/laws/online_tasks.csv

Each operator runs under memtrace on the block (chunk and halo) of every chunk shape of a grid, all
shapes once before any again, in random order. The file has the working peaks as recorded and the
processor seconds (CPU time: the machine may be shared, each operator runs on one thread) of every
steady call, and what a law fitted on five small runs predicts.
"""

import argparse
import csv
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import memtrace
import numpy as np
import pyarrow

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("online_tasks.csv")
MEMTRACE = ROOT / "target" / "release" / "memtrace"

#: The array; every length below divides its own.
SHAPE = (240, 120, 96)
LENGTHS = ((240, 120, 80, 60, 40, 30), (120, 60, 40, 30, 20, 15), (96, 48, 24))
#: Operators that take so long per cell that chunks of an axis' full length are left out.
SLOW = ("gst3d",)
#: Rounds over all shapes: more where calls are short.
REPEATS = {"gst3d": 9, "median": 7, "gaussian": 31, "envelope": 101}
USUAL_REPEATS = 61
#: Small runs for the law, and one to verify it.
TRAINING = ((38, 41, 43), (45, 46, 47), (49, 53, 52), (58, 59, 55), (121, 117, 119))

#: name -> module:function, further arguments, halo, axes that stay whole
OPERATORS = {
    "gst3d": ("operators.gst3d:gst3d", {}, (2, 2, 2), ()),
    "envelope": ("operators.envelope:envelope", {}, (0, 0, 0), (2,)),
    "gaussian": ("operators.gaussian:gaussian", {}, (12, 12, 12), ()),
    "semblance": ("operators.semblance:semblance", {}, (1, 1, 4), ()),
    "median": ("scipy.ndimage:median_filter", {"size": 3}, (1, 1, 1), ()),
    "fftconvolve": ("scipy.signal:fftconvolve", {"mode": "same"}, (2, 2, 2), ()),
}
COLUMNS = ["operator", "chunk", "block", "input_bytes", "law_bytes"]
COLUMNS += ["working_peak_bytes", "seconds"]


def blocks(name):
    """Chunk shape -> the largest block it makes, for every chunk shape of the grid."""
    _, _, halo, whole = OPERATORS[name]
    first = 1 if name in SLOW else 0
    lengths = [(SHAPE[a],) if a in whole else LENGTHS[a][first:] for a in range(3)]
    found = {}
    for chunk in [(a, b, c) for a in lengths[0] for b in lengths[1] for c in lengths[2]]:
        neighbours = [min(SHAPE[a] // chunk[a] - 1, 2) for a in range(3)]
        found[chunk] = tuple(chunk[a] + neighbours[a] * halo[a] for a in range(3))
    return found


def run(name, repeats, shapes, times):
    """The recorded program: calls the operator at each shape in rounds; writes its CPU times."""
    target, arguments, _, _ = OPERATORS[name]
    module, function = target.split(":")
    call = getattr(importlib.import_module(module), function)
    extra = [np.ones((5, 5, 5), np.float32)] if name == "fftconvolve" else []
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(1 << 20).astype(np.float32)
    call(np.resize(noise, (37, 31, 33)), *extra, **arguments)  # the first call fills caches
    for round_ in range(repeats):
        order = list(shapes)
        random.Random(round_).shuffle(order)
        for shape in order:
            block = np.resize(noise, shape)
            start = time.process_time()
            call(block, *extra, **arguments)
            times.write(f"{time.process_time() - start}\n")


def record(name, repeats, shapes, output, *options):
    texts = ["x".join(map(str, shape)) for shape in shapes]
    command = [MEMTRACE, "-q", "-o", output, "--operator", OPERATORS[name][0], *options, "--"]
    command += [sys.executable, "-m", __spec__.name, "--run", name, "--repeats", str(repeats)]
    command += ["--times", f"{output}.seconds", *texts]
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
    environment = os.environ | {"PYTHONPATH": path} | threads
    subprocess.run([str(word) for word in command], check=True, env=environment)


def spans(trace):
    """Steady calls of a trace: (shape, working peak, seconds), in order."""
    rows = pyarrow.table(memtrace.load(trace).spans).to_pylist()
    rows = [row for row in rows if row["call"] > 0 and row["parent"] is None]
    seconds = Path(f"{trace}.seconds").read_text().split()
    for row, spent in zip(sorted(rows, key=lambda row: row["call"]), seconds, strict=True):
        shape = json.loads(row["inputs"])[0]["shape"]
        yield tuple(shape), row["working_peak_bytes"], float(spent)


def measure(name, folder):
    """The rows of the file for one operator."""
    record(name, 2, TRAINING, folder / f"{name}-law")
    model = memtrace.fit(folder / f"{name}-law")
    grid = blocks(name)
    record(
        name,
        REPEATS.get(name, USUAL_REPEATS),
        sorted(set(grid.values())),
        folder / name,
        "--aggregate",
    )
    peaks, seconds = {}, {}
    for shape, peak, spent in spans(folder / name):
        peaks.setdefault(shape, []).append(peak)
        seconds.setdefault(shape, []).append(spent)
    rows = []
    for chunk, block in grid.items():
        law = predicted(model, OPERATORS[name][0], block)
        words = [
            name,
            "x".join(map(str, chunk)),
            "x".join(map(str, block)),
            4 * np.prod(block),
            law,
        ]
        words += [" ".join(map(str, peaks[block])), " ".join(f"{s:.6f}" for s in seconds[block])]
        rows.append(words)
    return rows


def predicted(model, operator, block):
    try:
        return model.predict(operator, block)["upper_bytes"]
    except ValueError:
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", choices=OPERATORS, help="the recorded program itself")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--times", help="file for its CPU times")
    parser.add_argument("what", nargs="*", help="operators (default: all)")
    arguments = parser.parse_args()
    if arguments.run:
        shapes = [tuple(map(int, text.split("x"))) for text in arguments.what]
        with open(arguments.times, "w") as times:
            run(arguments.run, arguments.repeats, shapes, times)
        return
    for name in arguments.what or OPERATORS:
        with tempfile.TemporaryDirectory() as folder:
            store(name, measure(name, Path(folder)))
        print(name, flush=True)


def store(name, rows):
    """Puts an operator's rows in the place of those that the file has of it."""
    others = list(csv.DictReader(FILE.open())) if FILE.exists() else []
    others = [[row[column] for column in COLUMNS] for row in others if row["operator"] != name]
    order = list(OPERATORS)
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(sorted(others + rows, key=lambda row: order.index(row[0])))


if __name__ == "__main__":
    main()
