"""Replays recorded spans event by event against their laws: do warnings come in time?"""

import bisect
import json
import os
import subprocess
import sys

import memtrace
import numpy as np
import pyarrow
import pyarrow.compute as compute

from experiments.laws import online_spans
from experiments.laws.online_tasks import MEMTRACE, ROOT
from experiments.operators import OPERATORS

#: Recorded once; remove it to record anew.
FOLDER = ROOT / "target" / "experiments" / "online"
#: Budgets as parts of what a span needs: those it exceeds, those it stays within.
EXCEEDED = (0.5, 0.7, 0.85, 0.95)
KEPT_WITHIN = (1.05, 1.15, 1.3, 2.0)
#: A shape that is announced this much shorter along each axis than it is.
ANNOUNCED = 0.85
#: Forecasts are asked for at most this often per span (a recording asks every 50 ms).
LOOKS = 400
#: What memtrace counts as live: heap, and memory of the program's own.
COUNTED = ("malloc", "calloc", "realloc", "aligned", "map_anonymous", "map_shared", "map_break")


def qualified(name):
    """How a trace and a model name an operator."""
    return f"experiments.operators.{OPERATORS[name]}:{name}"


def recorded(part):
    """The trace of one part of online_spans, recorded if it is not there."""
    folder = FOLDER / part
    if not (folder / "meta.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        watched = [f"--operator={qualified(name)}" for name in OPERATORS]
        watched.append(f"--operator={online_spans.COPIED}")
        command = [MEMTRACE, "-q", "-o", folder, *watched, "--", sys.executable]
        path = f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"
        environment = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        words = [str(word) for word in (*command, "-m", "experiments.laws.online_spans", part)]
        subprocess.run(words, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    return memtrace.load(folder)


def spans(trace):
    """Spans to follow: (kind, operator, shape, [(allocates, bytes)], peak by these blocks)."""
    rows = {row["span"]: row for row in pyarrow.table(trace.spans).to_pylist()}
    table = pyarrow.table(trace.allocations)
    table = table.filter(compute.greater_equal(table["bytes"], 4096))
    blocks = table.select(["span", "kind", "bytes", "alloc_ns", "free_ns"]).to_pylist()
    events = {span: [] for span in rows}
    for block in blocks:
        span = block["span"]
        while span is not None and block["kind"] in COUNTED:
            events[span].append((block["alloc_ns"], 0, True, block["bytes"]))
            if block["free_ns"] is not None and block["free_ns"] <= rows[span]["end_ns"]:
                events[span].append((block["free_ns"], 1, False, block["bytes"]))
            span = rows[span]["parent"]
    short = {qualified(name): name for name in OPERATORS}
    inner = {row["parent"]: short.get(row["operator"]) for row in rows.values() if row["parent"]}
    for number, row in rows.items():
        [lead, *_] = json.loads(row["inputs"])
        ordered = [event[2:] for event in sorted(events[number])]
        if row["operator"] == online_spans.COPIED:
            yield "a second copy", inner[number], lead["shape"], ordered
        elif row["parent"] is None and row["call"] > 0 and row["operator"] in short:
            kind = "float64 by a float32 law" if lead["dtype"] == "<f8" else "as announced"
            yield kind, short[row["operator"]], lead["shape"], ordered


def followed(model, operator, shape, events):
    """What is predicted after events: [(part of the events, bytes)]; and the peaks so far."""
    follower = model.follow(operator, shape)
    every = max(len(events) // LOOKS, 1)
    reported, live, peaks = [(0.0, follower.forecast()["least_bytes"])], 0, [0]
    for at, (allocates, size) in enumerate(events, 1):
        (follower.allocated if allocates else follower.released)(size)
        live += size if allocates else -size
        peaks.append(max(peaks[-1], live))
        if at % every == 0:
            reported.append((at / len(events), follower.forecast()["least_bytes"]))
    return reported, peaks


def replay(model, trace):
    """One row per span and way of announcing it."""
    for kind, name, shape, events in spans(trace):
        cases = [(kind, shape)]
        if kind == "as announced":
            cases.append(("15 % longer than announced", [round(n * ANNOUNCED) for n in shape]))
        for label, announced in cases:
            reported, peaks = followed(model, qualified(name), announced, events)
            yield label, name, reported, peaks


def judged(reported, peaks, budget):
    """When the warning came and the budget was passed, as parts of the events; None: never."""
    warned = next((part for part, predicted in reported if predicted > budget), None)
    passed = bisect.bisect_right(peaks, budget)
    return warned, passed / (len(peaks) - 1) if passed < len(peaks) else None


def study():
    """label -> figures; a span counts once per budget."""
    model = memtrace.fit(recorded("training"))
    figures = {}
    for label, name, reported, peaks in replay(model, recorded("tests")):
        own = figures.setdefault(
            label, {"in_time": [], "before": [], "alarms": [], "under": [], "missed": []}
        )
        for part in EXCEEDED:
            warned, passed = judged(reported, peaks, part * peaks[-1])
            in_time = warned is not None and warned < 0.8
            own["in_time"].append(in_time)
            own["before"].append(warned is not None and warned < passed)
            if reported[0][1] <= part * peaks[-1]:
                own["under"].append(in_time)
            if not in_time:
                own["missed"].append((name, part))
        for part in KEPT_WITHIN:
            warned, _ = judged(reported, peaks, part * peaks[-1])
            own["alarms"].append(warned is not None)
            if warned is not None:
                own["missed"].append((name, part))
    return figures


def share(values):
    return float(np.mean(values)) if values else float("nan")
