"""One computation on a fresh cluster of one thread per worker: what its workers needed, as JSON.

    python -m experiments.chunks.once '{"operator": "gst3d", "shape": [200, 200, 200], "workers": 2,
        "memory_limit": "1.5GB", "how": "shared", "chunk": null}'

how: "shared": chunks are tasks that neighbours share (`map_overlap`), and the mean of the result is
computed. "storage": each task reads its chunk and halo from the file (`memtrace.dask.map_overlap`),
the mean again. "waves": the same, the result written to a zarr array, a few blocks at a time.
chunk: null to take what memtrace recommends. operator: one of the examples', or several in a row
("gaussian+semblance", shared only).
"""

import functools
import importlib
import json
import sys
import tempfile
from functools import partial

import chunked
import memtrace.dask
import zarr
from dask.utils import parse_bytes
from dask_chunks import chunk_sizes, stored_volume
from dask_cluster import budget_fraction, cluster, measure, status_bytes
from dask_operators import warm

from experiments.chunks.models import fitted
from experiments.chunks.ways import auto
from experiments.recording import KEPT

#: Chunks of the zarr array that waves write.
STORED = (80, 80, 80)
#: What is kept of a run that was refused before it began.
REFUSED = {"refused": True, "seconds": None, "within": False, "busy": False}


def main():
    asked = json.loads(sys.argv[1])
    try:
        found = outcome(asked)
    except MemoryError as error:
        found = {**asked, **REFUSED, "error": str(error)}
    print(json.dumps(found))


def outcome(asked):
    volume = stored_volume(KEPT / "volumes", tuple(asked["shape"]))
    prepare = partial(warm_all, names_of(asked))
    with (
        cluster(asked["workers"], asked["memory_limit"]) as client,
        tempfile.TemporaryDirectory(dir=KEPT) as folder,
    ):
        client.run(prepare)
        plan = {} if asked["chunk"] else recommended(asked, volume, client)
        chunk = tuple(asked["chunk"] or plan.pop("chunk_shape"))
        written = []  # in waves the plan is made for the store
        try:
            what = computation(asked, volume, chunk, client, folder, written)
        except ValueError as error:
            if "needs chunks of at least" not in str(error):
                raise
            return {**asked, **REFUSED, "error": str(error)}
        run = measure(client, prepare, what)
    for each in written:
        plan = predictions(each.plan)
        chunk = plan.pop("chunk_shape")
    return {**asked, "chunk": chunk, **reported(asked, run), **plan}


def names_of(asked):
    return asked["operator"].split("+")


def warm_all(names):
    for name in names:
        warm(name)


def module_of(name):
    return importlib.import_module(f"operators.{name}")


def recommended(asked, volume, client):
    """What the plan for the workers that are there, warmed, says."""
    if len(names_of(asked)) > 1:
        return planned(asked, volume, client)
    module = module_of(asked["operator"])
    source = volume
    if asked["how"] == "shared":
        source = chunked.load(volume, chunk_sizes(volume.shape, auto(volume.shape, 0, 0)))
    operator = getattr(module, asked["operator"])
    model = fitted(asked["operator"])
    whole = {"whole_axes": module.WHOLE_AXES}
    return predictions(
        memtrace.dask.recommend(source, operator, model, client, halo=module.HALO, **whole)
    )


def predictions(plan):
    return {
        "chunk_shape": plan.chunk_shape,
        "predicted_bytes": plan.worker_peak,
        "predicted_seconds": plan.seconds,
        "task_bytes": plan.task_bytes,
        "why": plan.why,
    }


def planned(asked, volume, client):
    """One grid for operators in a row."""
    names = names_of(asked)
    model = functools.reduce(lambda one, other: one.merge(other), map(fitted, names))
    steps = [
        {"name": name, "operator": name, "inputs": [before], "halo": module_of(name).HALO}
        for before, name in zip(["volume", *names], names, strict=False)
    ]
    source = {"shape": volume.shape, "dtype": "<f4"}
    held = max(client.run(status_bytes, "VmRSS").values())
    plan = memtrace.plan(
        model,
        {"version": 1, "sources": {"volume": source}, "steps": steps, "results": []},
        memory_limit=asked["memory_limit"],
        workers=asked["workers"],
        baseline_bytes=held,
    )
    return {
        "chunk_shape": plan["chunk_shape"],
        "predicted_bytes": plan["predicted_worker_bytes"],
        "predicted_seconds": plan["predicted_seconds"],
        "task_bytes": max(each["task_bytes"] for each in plan["operators"]),
        "why": plan["why"],
    }


def computation(asked, volume, chunk, client, folder, written):
    """What is computed: a Dask array, or a function."""
    if asked["how"] == "shared":
        cut = chunked.load(volume, chunk_sizes(volume.shape, chunk))
        done = functools.reduce(
            lambda array, name: chunked.apply(name, array), names_of(asked), cut
        )
        return done.mean(dtype="f8")
    module = module_of(asked["operator"])
    operator = getattr(module, asked["operator"])
    mapped = partial(
        memtrace.dask.map_overlap,
        operator,
        volume,
        module.HALO,
        fitted(asked["operator"]),
        client=client,
        whole_axes=module.WHOLE_AXES,
        dtype="f4",
    )
    if asked["how"] == "storage":
        return mapped().mean(dtype="f8")
    stored = {"shape": volume.shape, "chunks": STORED, "dtype": "f4", "overwrite": True}
    store = zarr.create_array(folder, **stored)
    return lambda: written.append(mapped(store=store))


def reported(asked, run):
    budget = int(parse_bytes(asked["memory_limit"]) * budget_fraction())
    counted = "operators" if asked["how"] == "shared" else "tasks"
    untouched = not (run.error or run.killed or run.paused or run.spilled_bytes)
    return {
        "seconds": run.seconds,
        "cpu_seconds": run.cpu_seconds,
        "error": run.error,
        "killed": run.killed,
        "paused": run.paused,
        "spilled_bytes": run.spilled_bytes,
        "budget_bytes": budget,
        "peak_bytes": run.peak_bytes,
        "peaks": [worker["vmhwm_bytes"] for worker in run.workers],
        "baseline_bytes": run.baseline_bytes,
        "within": untouched and (budget == 0 or run.peak_bytes <= budget),  # 0: no limit
        "busy": len(run.workers) == asked["workers"] and all(w[counted] for w in run.workers),
    }


if __name__ == "__main__":
    main()
