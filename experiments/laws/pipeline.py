"""Six operators in a row, planned from laws of small runs and measured under two executors."""

import shutil
import sys

import duckdb
import memtrace

from experiments.laws import pipeline_program as program
from experiments.recording import KEPT, RESULTS, written
from experiments.recording import memtrace as command

TRAINING = ((53, 61, 97), (113, 59, 64), (62, 119, 71), (89, 86, 123))
VERIFICATION = (211, 223, 227)
TESTS = ((131, 149, 163), (230, 210, 190), (301, 260, 240))
TARGET = 0.03

#: what is measured -> threads of Dask's scheduler, None for the plain program
EXECUTORS = {"NumPy, one after another": None, "Dask, one thread": 1, "Dask, two threads": 2}


def main(arguments):
    tests = TESTS[:1] if arguments.quick else TESTS
    model = fitted(arguments.quick)
    rows = []
    for shape in tests:
        for executor, threads in EXECUTORS.items():
            plan = planned(model, shape, threads)
            measured = peak(shape, threads)
            rows.append((shape, executor, plan, measured))
            print(f"{written(shape)} {executor}: {plan['peak_bytes'] / measured - 1:+.2%}")
    if not arguments.quick:
        (RESULTS / "laws-pipeline.md").write_text(text(rows))
    # The target is for two executors; two threads are a third.
    within = {executor for executor in EXECUTORS if worst(rows, executor) <= TARGET}
    return {name for name, threads in EXECUTORS.items() if threads in (None, 1)} <= within


def fitted(quick):
    """Laws of the six operators from recordings of the plain program at small shapes."""
    shapes = TRAINING if quick else (*TRAINING, VERIFICATION)
    trace = recorded(f"training-{len(shapes)}", ("plain", *map(written, shapes)), operators=True)
    return memtrace.fit(trace)


def recorded(name, arguments, operators=False):
    folder = KEPT / "laws" / "pipeline" / name
    if not (folder / "meta.json").exists():
        unfinished = folder.with_name(name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        each = [f"--operator={operator}" for operator in program.OPERATORS if operators]
        spans = each or ["--auto-operators=none"]
        run = (sys.executable, "-m", "experiments.laws.pipeline_program", *arguments)
        command("--quiet", "-o", unfinished, *spans, "--", *run)
        unfinished.rename(folder)
    return folder


def planned(model, shape, threads):
    if threads is None:
        return memtrace.plan(model, program.graph(shape))
    import numpy as np

    data = np.broadcast_to(np.float32(0), shape)
    plan = memtrace.plan(model, program.chunked(data), threads=threads)
    data_bytes = data.nbytes  # the volume is there before the span that is measured begins
    plan["peak_bytes"] -= data_bytes
    return plan


def peak(shape, threads):
    """Largest sum of bytes allocated while the span `pipeline` ran and not yet released."""
    arguments = (
        ("plain", written(shape)) if threads is None else ("dask", written(shape), str(threads))
    )
    folder = recorded("-".join(arguments), arguments)
    trace = memtrace.load(folder)
    spans = trace.spans  # noqa: F841 (DuckDB finds it by its name)
    query = "select start_ns, end_ns from spans where operator = 'pipeline'"
    [(start, end)] = duckdb.sql(query).fetchall()
    return trace.during(start, end)["peak_bytes"]


def worst(rows, executor):
    errors = [
        abs(plan["peak_bytes"] / bytes_ - 1) for _, name, plan, bytes_ in rows if name == executor
    ]
    return max(errors)


def text(rows):
    lines = []
    for shape, executor, plan, measured in rows:
        cells = (
            written(shape),
            executor,
            f"{plan['peak_bytes']:,}",
            f"{measured:,}",
            f"{plan['peak_bytes'] / measured - 1:+.2%}",
            plan["set_by"]["operator"],
            plan["confidence"],
        )
        lines.append(f"| {' | '.join(cells)} |")
    summary = []
    for executor in EXECUTORS:
        error = worst(rows, executor)
        summary.append(
            f"| {executor} | ≤ 3 % | {error:.2%} | {'yes' if error <= TARGET else 'no'} |"
        )
    training = ", ".join(map(written, TRAINING))
    return TEXT.format(rows="\n".join(lines), summary="\n".join(summary), training=training)


TEXT = """# A pipeline of six operators, planned and measured

Time gain, Gaussian, envelope, semblance, cosine of the phase, and a blend of three arrays,
float32: two arrays are used by two operators each and are held meanwhile. Laws from one process
that ran the pipeline at {training} and once at 211×223×227; the same laws for every executor.
`memtrace.plan` of the graph (NumPy) and of the Dask collection (chunks of a quarter, a half and the
whole of the axes; `map_overlap`), against the largest sum of bytes that were allocated while the
pipeline ran and not yet released (`trace.during`), in a process that had run it once at a small
shape.

| executor | target | worst error | holds |
|---|---|---|---|
{summary}

| shape | executor | planned bytes | measured bytes | error | set by | laws |
|---|---|---|---|---|---|---|
{rows}

With two threads the plan takes the largest moments of tasks that run at the same time to meet; the
target is for one thread and for NumPy.

Again: `.venv/bin/python scripts/experiments laws pipeline`; to measure anew, remove
`target/experiments/laws/pipeline` first.
"""
