"""Time of predict, fit and recommend: as calls from Python and as commands."""

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import memtrace

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
WORK = ROOT / "target" / "experiments" / "laws" / "speed"
RESULTS = ROOT / "docs" / "results" / "laws-speed.md"
SURVEY = (651, 951, 462)  # the F3 volume
LENGTHS = (41, 47, 53, 59)  # of 64 shapes
OPERATOR = "operators.gst3d:gst3d"
TARGETS = {"predict": 10.0, "fit": 200.0, "recommend": 50.0}  # milliseconds

# Each shape once after a first call that fills caches.
PROGRAM = """
import sys
import numpy as np
from operators.gst3d import gst3d

rng = np.random.default_rng(0)
shapes = [tuple(map(int, shape.split(","))) for shape in sys.argv[1:]]
for shape in [shapes[0], *shapes]:
    gst3d(rng.standard_normal(shape, dtype="f4"))
"""


def record(shapes, place):
    """A trace of the operator at these shapes; one that is there is used."""
    if (place / "meta.json").exists() and json.loads((place / "meta.json").read_text())["complete"]:
        return place
    command = [
        MEMTRACE,
        "-q",
        "-o",
        place,
        "--operator",
        OPERATOR,
        "--",
        sys.executable,
        "-c",
        PROGRAM,
    ]
    words = [",".join(map(str, shape)) for shape in shapes]
    subprocess.run(
        [*command, *words], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    )
    return place


def timed(work, repeats):
    """Milliseconds of CPU and of the clock that a call takes, for each of many."""
    found = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return found


def timed_command(arguments, repeats):
    """The same for a command; the CPU time is the child's."""
    found = []
    for _ in range(repeats):
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([MEMTRACE, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append((cpu, time.perf_counter() - wall))
    return found


def row(what, how, times):
    """A line of the table, and whether the best of the clock is within the target."""
    target = TARGETS[what.split(",")[0].split(" ")[0]]
    columns = list(zip(*times, strict=True))
    figures = [f(column) * 1e3 for column in columns for f in (min, statistics.median)]
    numbers = " | ".join(f"{figure:.2f}" for figure in figures)
    return f"| {what} | {how} | {target:g} | {numbers} | {len(times)} |", figures[2] <= target


def main(arguments):
    WORK.mkdir(parents=True, exist_ok=True)
    shapes = list(itertools.product(LENGTHS, repeat=3))
    if arguments.quick:
        shapes = shapes[::4]
    repeats = 20 if arguments.quick else 200
    few = max(repeats // 10, 5)
    name = f"{len(shapes)}"
    one = [record(shapes, WORK / f"{name}-one")]
    step = len(shapes) // 8
    several = [record(shapes[i::8], WORK / f"{name}-part-{i}") for i in range(8)]
    assert all(len(shapes[i::8]) == step for i in range(8))
    each = [record([shape], WORK / f"{name}-single-{i}") for i, shape in enumerate(shapes)]
    model, path = memtrace.fit(one), WORK / f"{name}.json"
    model.save(path)
    law = json.loads(path.read_text())["laws"][0]
    assert len(law["trained_on"]) >= len(shapes)
    assert len(json.loads(fitted(each))["laws"][0]["trained_on"]) == len(shapes)

    limits = {"memory_limit": 4_000_000_000, "workers": 8, "halo": (2, 2, 2)}
    shape = ",".join(map(str, SURVEY))
    asked = ("--operator", "gst3d", "--shape", shape)
    limited = ("--memory-limit", "4GB", "--workers", "8", "--halo", "2", "--format", "json")
    new = ("-o", WORK / "new.json")
    calls = [
        ("predict", "call", timed(lambda: model.predict("gst3d", SURVEY), repeats)),
        ("predict, file read", "call", timed(lambda: predicted(path), repeats)),
        ("predict", "command", timed_command(("predict", path, *asked, "--json"), few)),
        ("fit", f"call, {len(shapes)} runs in one trace", timed(lambda: memtrace.fit(one), few)),
        ("fit", f"call, {len(shapes)} runs in 8 traces", timed(lambda: memtrace.fit(several), few)),
        ("fit", f"call, {len(shapes)} traces of one run", timed(lambda: memtrace.fit(each), few)),
        ("fit", "command, one trace", timed_command(("fit", *one, *new), few)),
        ("fit", f"command, {len(shapes)} traces", timed_command(("fit", *each, *new), few)),
        ("recommend", "call", timed(lambda: model.recommend("gst3d", SURVEY, **limits), few)),
        ("recommend", "command", timed_command(("recommend", path, *asked, *limited), few)),
    ]
    rows = [row(*call) for call in calls]
    if not arguments.quick:
        RESULTS.write_text(TEXT.format(rows="\n".join(line for line, _ in rows), runs=len(shapes)))
    print("\n".join(line for line, _ in rows))
    return all(within for _, within in rows)


def fitted(traces):
    """The model of these traces, as a file has it."""
    memtrace.fit(traces).save(WORK / "each.json")
    return (WORK / "each.json").read_text()


def predicted(path):
    return memtrace.Model.load(path).predict("gst3d", SURVEY)


TEXT = """# Time of predict, fit and recommend

`scripts/experiments laws speed` measures it: GST3D, recorded once at each of {runs} shapes of 41³
to 59³, after a first call that fills caches: in one trace, in 8, and in one trace each, as a sweep with a process
for each run leaves them. The survey is 651×951×462, for 8 workers of 4 GB with a halo of 2. `fit` reads the
Parquet tables, several traces at a time. Milliseconds; best and median of so many. The best is what the work takes; what is above it,
others took. A target is held if the best of the clock is within it.

| what | how | target | CPU, best | CPU, median | clock, best | clock, median | of |
|---|---|---|---|---|---|---|---|
{rows}
"""
