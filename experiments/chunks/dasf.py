"""A pipeline of DASF on workers with a limit: its default blocks, and those that the plugin sets.

Needs DASF itself: DASF_CORE names a checkout, and the Python that runs this has what it depends on.
Laws come from two processes at once that call each transform on small blocks, with what the nanny
tells malloc; no shape that is run here was among them.
"""

import os
import shutil
import sys
from contextlib import contextmanager

import dask
import h5py
import memtrace
import numpy as np
import zarr
from dask.utils import parse_bytes
from dask_cluster import TaskCount, budget_fraction, measure

from experiments.chunks import runs
from experiments.operators.run import WARM_UP, volume
from experiments.recording import KEPT, RESULTS, ROOT, written
from experiments.recording import memtrace as command

CHECKOUT = os.environ.get("DASF_CORE")
if CHECKOUT is None:
    sys.exit("DASF_CORE is not set: name a checkout of DASF, and run this with its Python")
sys.path.insert(0, CHECKOUT)
PATHS = [CHECKOUT, *(str(ROOT / name) for name in (".", "examples", "python"))]

from dasf.datasets import DatasetArray, DatasetHDF5, DatasetZarr  # noqa: E402
from dasf.pipeline import Pipeline  # noqa: E402
from dasf.pipeline.executors import (  # noqa: E402
    DaskPipelineExecutor,
    DaskTasksPipelineExecutor,
)
from dasf.transforms import ExtractData  # noqa: E402
from memtrace.dasf import BlockSize  # noqa: E402

from experiments.chunks.dasf_blocks import NAMES, call  # noqa: E402
from experiments.chunks.dasf_elements import GST3D, rolled, smoothed  # noqa: E402

FOLDER = KEPT / "chunks" / "dasf"
PAGE = RESULTS / "dasf.md"
TRAINING = ((53, 61, 97), (113, 59, 64), (62, 119, 71), (127, 103, 89))
WORKERS = 2
#: What Dask's nanny sets in its worker's environment.
SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
#: Runs with the plugin's blocks: what a worker comes to hold differs from run to run.
REPEATS = 5
#: DASF binds its tasks to a worker's address. When that worker is killed, they wait for ever.
LONGEST_SECONDS = 30
LIMIT = "800MB"

EXECUTORS = {each.__name__: each for each in (DaskPipelineExecutor, DaskTasksPipelineExecutor)}
SHAPES = {
    "DatasetZarr": (220, 200, 160),
    "DatasetHDF5": (180, 260, 150),
    "DatasetArray": (300, 160, 150),
}
HEAD = (
    "| executor | dataset | shape | blocks | largest | how many | predicted, MB | VmHWM, MB "
    "| budget, MB | outcome | s |"
)
ABOUT = f"""\
The pipeline is DASF's own (its `ExtractData`, `Roll`, and `MappedTransform` of a Gaussian) with
GST3D as a last transform, of which the mean is computed. Two workers of one thread and {LIMIT}
under a nanny, each run on a cluster of its own that DASF's executor starts; VmHWM is that of the
fuller worker of those that lived to the end. *default* is what DASF takes by itself: one block for
these files (the zarr array is stored as DASF's `ArrayToZarr` stores a file of NumPy's: as one
chunk). h5py's objects cannot be sent to workers by this release of Dask, so the default for HDF5
ends before it needs memory on `DaskPipelineExecutor`. The tasks of `DaskTasksPipelineExecutor` are
bound to a worker: when it is killed, they wait for ever, here for {LONGEST_SECONDS} seconds. The plugin's
blocks are run {REPEATS} times. The laws are fitted on small blocks
({", ".join(map(written, TRAINING))}), recorded in two
processes at once."""


def main(arguments):
    model = fitted()
    repeats = 1 if arguments.quick else REPEATS
    rows = [
        once(model, (executor, kind, blocks), again)
        for executor in EXECUTORS
        for kind in SHAPES
        for blocks, times in (("default", 1), ("plugin", repeats))
        for again in range(times)
    ]
    held, text = judged(rows)
    if not arguments.quick:
        PAGE.write_text(text, encoding="utf-8")
    return held


def fitted():
    """Laws of what the transforms call for each block."""
    folder = FOLDER / "training"
    if not (folder / "meta.json").exists():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        named = [f"--operator={name}" for name in NAMES]
        blocks = ["-m", "experiments.chunks.dasf_blocks", str(WORKERS), *map(written, TRAINING)]
        run = ("--quiet", "-o", unfinished, *named, "--", sys.executable, *blocks)
        command(*run, environment={**SETTINGS, "PYTHONPATH": os.pathsep.join(PATHS)})
        unfinished.rename(folder)
    return memtrace.fit(folder)


def once(model, case, again):
    """A run of a case, or the one that was kept."""
    key = " ".join(map(str, (*case, again)))
    return runs.kept("dasf", key, lambda: {"case": [*case, again], **run(model, *case)}, line)


def stored(kind):
    """The dataset in its file."""
    shape = SHAPES[kind]
    path = FOLDER / "data" / f"{kind}-{written(shape)}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        WRITERS[kind](str(unfinished), volume(shape))
        unfinished.rename(path)
    about = {"dataset_path": "volume"} if kind == "DatasetHDF5" else {}
    kinds = {each.__name__: each for each in (DatasetZarr, DatasetHDF5, DatasetArray)}
    return kinds[kind]("volume", root=str(path), **about)


def write_zarr(path, array):
    stored = zarr.open_array(path, mode="w", shape=array.shape, chunks=array.shape, dtype="f4")
    stored[:] = array


def write_hdf5(path, array):
    with h5py.File(path, "w") as file:
        file["volume"] = array


def write_array(path, array):
    with open(path, "wb") as file:
        np.save(file, array)


WRITERS = {"DatasetZarr": write_zarr, "DatasetHDF5": write_hdf5, "DatasetArray": write_array}


@contextmanager
def started(kind):
    """An executor on a cluster of its own."""
    workers = {
        "n_workers": WORKERS,
        "threads_per_worker": 1,
        "memory_limit": LIMIT,
        "dashboard_address": None,
        "silence_logs": "ERROR",
    }
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):  # a kill is enough
        executor = EXECUTORS[kind](local=True, use_gpu=False, cluster_kwargs=workers)
        try:
            executor.client.register_plugin(TaskCount())
            yield executor
        finally:
            executor.client.cluster.close()
            executor.client.close()


def built(data, executor):
    """A pipeline and the element whose result is asked for."""
    extracted, roll, smooth, dip = ExtractData(), rolled(), smoothed(), GST3D()
    pipeline = Pipeline("dips", executor)
    pipeline.add(extracted, X=data).add(roll, X=extracted).add(smooth, X=roll).add(dip, X=smooth)
    return pipeline, dip


def run(model, executor_kind, kind, blocks):
    """One fresh cluster, one computation."""
    with started(executor_kind) as executor:
        pipeline, dip = built(stored(kind), executor)
        plugin = BlockSize(pipeline, model, halo={"GST3D": (2, 2, 2)}, results=[])
        if blocks == "plugin":
            pipeline.register_plugin(plugin)
        refused = []

        def compute():
            pipeline.run()
            result = pipeline.get_result_from(dip)
            try:
                if hasattr(result, "result"):  # of DASF's tasks
                    return result.result(timeout=LONGEST_SECONDS).mean()
                return result.mean(dtype="f8").compute()
            except (TypeError, TimeoutError) as error:
                refused.append(type(error).__name__)

        done = measure(executor.client, warm, compute)
    plan = plugin.plan or {}
    return {
        "chunks": plan.get("chunk_shape"),
        "count": int(np.prod([len(axis) for axis in plan["chunks"]])) if plan else 1,
        "budget_bytes": int(parse_bytes(LIMIT) * budget_fraction()),
        "peak_bytes": done.peak_bytes,
        "baseline_bytes": done.baseline_bytes,
        "killed": done.killed,
        "paused": done.paused,
        "spilled_bytes": done.spilled_bytes,
        "error": done.error or next(iter(refused), None),
        "seconds": done.seconds,
        "predicted_bytes": plan.get("predicted_worker_bytes"),
    }


def warm():
    """Imports and caches of a worker that has worked before."""
    call(volume(WARM_UP))


def fits(row):
    touched = row["error"] or row["killed"] or row["paused"] or row["spilled_bytes"]
    return not touched and row["peak_bytes"] <= row["budget_bytes"]


def ratio(row):
    return row["predicted_bytes"] / row["peak_bytes"]


def outcome(row):
    if row["error"] == "KilledWorker" or row["killed"]:
        return "killed"
    if row["error"]:
        return row["error"]
    return "within budget" if fits(row) else "over budget"


def line(row):
    executor, kind, blocks, _ = row["case"]
    predicted = row["predicted_bytes"]
    shape = SHAPES[kind]
    cells = [executor, kind, written(shape), blocks, written(row["chunks"] or shape), row["count"]]
    cells += [f"{predicted / 1e6:.0f}" if predicted else "", f"{row['peak_bytes'] / 1e6:.0f}"]
    cells += [f"{row['budget_bytes'] / 1e6:.0f}", outcome(row), f"{row['seconds']:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def judged(rows):
    """Whether all targets hold, and the page."""
    ours = [row for row in rows if row["case"][2] == "plugin"]
    theirs = [row for row in rows if row["case"][2] == "default"]
    inside, beyond = sum(map(fits, ours)), sum(not fits(row) for row in theirs)
    killed = sum(outcome(row) == "killed" for row in theirs)
    ratios = [ratio(row) for row in ours if row["predicted_bytes"] and row["peak_bytes"]]
    near = sum(1 <= each <= 1.15 for each in ratios)
    targets = [
        ("runs with the plugin's blocks within budget", "all", f"{inside} of {len(ours)}"),
        ("runs with the default blocks that are not", "all", f"{beyond} of {len(theirs)}"),
        ("of these, with a worker killed", "", f"{killed}"),
        (
            "predicted worker peaks ÷ VmHWM",
            "1 to 1.15",
            f"{near} of {len(ours)} runs; {min(ratios):.2f}–{max(ratios):.2f}",
        ),
    ]
    holds = [inside == len(ours), beyond == len(theirs), True, near == len(ours)]
    lines = [
        "# DASF's pipelines on its own package",
        "",
        "`DASF_CORE=CHECKOUT PYTHON scripts/experiments chunks dasf` writes this page; PYTHON is one",
        "that has what DASF depends on.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
    ]
    for target, held in zip(targets, holds, strict=True):
        lines.append(f"| {' | '.join(target)} | {('yes' if held else 'no') if target[1] else ''} |")
    lines += ["", ABOUT, "", HEAD, "|---" * 11 + "|", *map(line, rows), ""]
    return all(holds), "\n".join(lines)
