"""A pipeline of DASF on workers with a limit: blocks set by the plugin, and the default ones.

The pipelines are those of a stand-in (experiments/chunks/standin.py). Laws come from two
processes at once that call each transform on small blocks, with what the nanny tells malloc; no shape that is run here was among
them.
"""

import shutil
import statistics
import sys

import memtrace
import numpy as np
from dask.utils import parse_bytes
from dask_cluster import budget_fraction, cluster, measure
from memtrace.dasf import BlockSize

from experiments.chunks import runs, standin
from experiments.chunks.standin_blocks import TRANSFORMS
from experiments.operators.run import volume
from experiments.recording import KEPT, RESULTS, written
from experiments.recording import memtrace as command

FOLDER = KEPT / "chunks" / "dasf"
PAGE = RESULTS / "chunks-dasf.md"
TRAINING = ((53, 61, 97), (113, 59, 64), (62, 119, 71), (127, 103, 89))
WORKERS = 2
#: What Dask's nanny sets in its worker's environment.
SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
STORED = 64  # cells along each axis of a zarr chunk
TIME_TARGET = 0.20
#: Runs with the plugin's blocks: what a worker comes to hold differs from run to run.
REPEATS = 3

#: pipeline, shape, memory limit of each of two workers
RUNS = (
    ("coherent dip", (240, 240, 240), "1.2GB"),
    ("coherent dip", (180, 260, 330), "1.2GB"),
    ("coherent dip", (500, 160, 160), "1.2GB"),
    ("smooth envelope", (520, 500, 480), "1GB"),
    ("smooth envelope", (900, 360, 350), "1GB"),
    ("smooth envelope", (400, 640, 420), "1GB"),
    ("three ways", (320, 300, 280), "0.8GB"),
)
QUICK = (
    ("coherent dip", (110, 120, 130), "0.6GB"),
    ("smooth envelope", (300, 280, 260), "0.55GB"),
    ("three ways", (210, 200, 190), "0.55GB"),
)


HEAD = (
    "| pipeline | shape | limit | blocks | largest | how many | predicted, MB | VmHWM, MB "
    "| budget, MB | outcome | predicted, s | s | CPU, s |"
)
ABOUT = f"""\
Two workers of one thread under a nanny, each run on a cluster of its own; VmHWM is that of the
fuller worker of those that lived to the end, *CPU* the CPU time of the busier one. The plugin's blocks are run
{REPEATS} times: the same graph is predicted the same peak, and who comes to hold which chunk differs. *default* is Dask's `auto`, of 128 MiB. The laws are
fitted on small blocks ({", ".join(map(written, TRAINING))}), recorded in two processes at once. Where nothing is predicted, no grid for
the whole pipeline fitted: each operator has blocks of its own, rechunked between them.

- *coherent dip*: zarr → Gaussian → {{GST3D's dip, semblance}} → dip where semblance is high
- *smooth envelope*: NumPy's file → Gaussian → semblance → envelope, which needs whole traces
- *three ways*: NumPy's file → envelope → sum along axis 0 → deviation from the mean along axis 1. Each
  needs another axis whole: no grid but a single block would do for all"""


def main(arguments):
    model = fitted()
    cases, repeats = (QUICK, 1) if arguments.quick else (RUNS, REPEATS)
    rows = [
        once(model, (*case, blocks), again)
        for case in cases
        for blocks, times in (("default", 1), ("plugin", repeats))
        for again in range(times)
    ]
    held, text = judged(rows)
    if not arguments.quick:
        PAGE.write_text(text, encoding="utf-8")
    return held


def fitted():
    """Laws of the transforms' blocks."""
    folder = FOLDER / "training"
    blocks = ["-m", "experiments.chunks.standin_blocks", str(WORKERS), *map(written, TRAINING)]
    if not (folder / "meta.json").exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        named = [
            f"--operator=experiments.chunks.standin:{each.__name__}._transform_cpu"
            for each in (*TRANSFORMS, standin.Coherent)
        ]
        run = (*named, "--", sys.executable, *blocks)
        command("--quiet", "-o", unfinished, *run, environment=SETTINGS)
        unfinished.rename(folder)
    return memtrace.fit(folder)


def once(model, case, again):
    """A run of a case, or the one that was kept."""
    key = " ".join(map(str, (*case[:1], written(case[1]), *case[2:], again)))

    def compute():
        return {"case": [case[0], written(case[1]), *case[2:]], **run(model, *case)}

    return runs.kept("dasf", key, compute, line)


def stored(pipeline, shape):
    """The dataset of a pipeline: zarr for one, a file of NumPy's for the other."""
    folder = FOLDER / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if pipeline == "coherent dip":
        path = folder / f"{written(shape)}.zarr"
        if not path.exists():
            import zarr

            unfinished = path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            array = zarr.create_array(
                unfinished, shape=shape, chunks=(STORED,) * 3, dtype="f4", compressors=None
            )
            array[:] = volume(shape)
            unfinished.rename(path)
        return standin.DatasetZarr(path)
    path = folder / f"{written(shape)}.npy"
    if not path.exists():
        with path.with_suffix(".unfinished").open("wb") as file:
            np.save(file, volume(shape))
        path.with_suffix(".unfinished").rename(path)
    return standin.DatasetArray(path)


def built(name, dataset, executor):
    """A pipeline and the element whose result is asked for."""
    pipeline, smooth = standin.Pipeline(name, executor), standin.Gaussian()
    if name == "three ways":
        first, second, last = standin.Envelope(), standin.Running(), standin.Levelled()
        pipeline.add(first, X=dataset).add(second, X=first).add(last, X=second)
        return pipeline, last
    pipeline.add(smooth, X=dataset)
    if name == "coherent dip":
        dip, alike, last = standin.Dip(), standin.Semblance(), standin.Coherent()
        pipeline.add(dip, X=smooth).add(alike, X=smooth).add(last, X=dip, Y=alike)
    else:
        alike, last = standin.Semblance(), standin.Envelope()
        pipeline.add(alike, X=smooth).add(last, X=alike)
    return pipeline, last


def run(model, name, shape, limit, blocks):
    """One fresh cluster, one computation."""
    with cluster(WORKERS, limit) as client:
        pipeline, last = built(name, stored(name, shape), standin.Executor(client))
        plugin = block_size(pipeline, model)
        if blocks == "plugin":
            pipeline.register_plugin(plugin)
        pipeline.run()
        result = pipeline.get_result_from(last)
        done = measure(client, warm, result.mean(dtype="f8"))
    plan = plugin.plan or {}
    return {
        "chunks": list(result.chunksize),
        "count": result.npartitions,
        "budget_bytes": int(parse_bytes(limit) * budget_fraction()),
        "peak_bytes": done.peak_bytes,
        "baseline_bytes": done.baseline_bytes,
        "killed": done.killed,
        "paused": done.paused,
        "spilled_bytes": done.spilled_bytes,
        "task_bytes": max((each["task_bytes"] for each in plan.get("operators", ())), default=0),
        "error": done.error,
        "seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds,
        "predicted_bytes": plan.get("predicted_worker_bytes"),
        "predicted_seconds": plan.get("predicted_seconds"),
    }


def block_size(pipeline, model):
    elements = (*TRANSFORMS, standin.Coherent)
    halo = {each.__name__: each.halo for each in elements if hasattr(each, "halo")}
    whole = {"Envelope": (2,), "Running": (0,), "Levelled": (1,)}
    return BlockSize(pipeline, model, halo=halo, whole_axes=whole, results=[])


def warm():
    """Imports and caches of a worker that has worked before."""
    from experiments.chunks.standin_blocks import TRANSFORMS
    from experiments.operators.run import volume

    for transform in TRANSFORMS:
        transform()._transform_cpu(volume((30, 30, 30)))


def fits(row):
    touched = row["error"] or row["killed"] or row["paused"] or row["spilled_bytes"]
    return not touched and row["peak_bytes"] <= row["budget_bytes"]


def near(row):
    """Predicted within 8 % where tasks are most of a worker, 25 % elsewhere, never under."""
    allowed = 1.08 if row["task_bytes"] >= 0.6 * row["peak_bytes"] else 1.25
    return 1 <= row["predicted_bytes"] / row["peak_bytes"] <= allowed


def fullest_of(rows):
    """Of each case, the run with the largest peak."""
    fullest = {}
    for row in sorted(rows, key=lambda row: row["peak_bytes"]):
        fullest[tuple(row["case"])] = row
    return list(fullest.values())


def outcome(row):
    if row["error"]:
        return row["error"]
    if row["killed"]:
        return f"{row['killed']} killed"
    return "within budget" if fits(row) else "over budget"


def line(row):
    name, shape, limit, blocks = row["case"]
    predicted = row["predicted_bytes"]
    cells = [name, shape, limit, blocks, written(row["chunks"]), row["count"]]
    cells += [f"{predicted / 1e6:.0f}" if predicted else "", f"{row['peak_bytes'] / 1e6:.0f}"]
    cells += [f"{row['budget_bytes'] / 1e6:.0f}", outcome(row)]
    cells += [f"{row['predicted_seconds']:.1f}" if predicted else "", f"{row['seconds']:.1f}"]
    cells += [f"{row['cpu_seconds']:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def judged(rows):
    """Whether all targets hold, and the page."""
    ours = [row for row in rows if row["case"][3] == "plugin"]
    theirs = [row for row in rows if row["case"][3] == "default"]
    inside = sum(map(fits, ours))
    beyond = sum(not fits(row) for row in theirs)
    finished = [row for row in ours if row["error"] is None and row["predicted_bytes"]]
    errors = [abs(row["predicted_seconds"] / row["seconds"] - 1) for row in finished]
    median = statistics.median(errors) if errors else 1.0
    peaks = [row["predicted_bytes"] / row["peak_bytes"] for row in finished]
    fullest = fullest_of(finished)
    of_fullest = [row["predicted_bytes"] / row["peak_bytes"] for row in fullest]
    targets = [
        ("runs with the plugin's blocks within budget", "all", f"{inside} of {len(ours)}"),
        ("runs with the default blocks that are not", "all", f"{beyond} of {len(theirs)}"),
        ("time: median error", f"≤ {TIME_TARGET:.0%}", f"{median:.0%}"),
        (
            "predicted worker peaks ÷ VmHWM",
            "1 to 1.25 (1.08 where tasks are 60 % of it)",
            f"{sum(map(near, finished))} of {len(finished)} runs; {min(peaks):.2f}–{max(peaks):.2f}",
        ),
        (
            "the same, of the fullest of each case's repeats",
            "as above",
            f"{sum(map(near, fullest))} of {len(fullest)} cases; "
            f"{min(of_fullest):.2f}–{max(of_fullest):.2f}",
        ),
    ]
    holds = [
        inside == len(ours),
        beyond == len(theirs),
        median <= TIME_TARGET,
        bool(finished) and all(map(near, finished)),
        bool(fullest) and all(map(near, fullest)),
    ]
    lines = [
        "# A DASF pipeline's block size",
        "",
        "`scripts/experiments chunks dasf` writes this page.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
    ]
    for target, held in zip(targets, holds, strict=True):
        lines.append(f"| {' | '.join(target)} | {'yes' if held else 'no'} |")
    lines += ["", ABOUT, "", HEAD, "|---" * 13 + "|", *map(line, rows), ""]
    return all(holds), "\n".join(lines)
