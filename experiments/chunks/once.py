"""One computation on a fresh cluster of one thread per worker: what its workers needed, as JSON.

    python -m experiments.chunks.once '{"operator": "gst3d", "shape": [200, 200, 200], "workers": 2,
        "memory_limit": "1.5GB", "how": "shared", "chunk": null}'

how: "shared": chunks are tasks that neighbours share (`map_overlap`), and the mean of the result is
computed. "storage": each task reads its chunk and halo from the file (`memtrace.dask.map_overlap`),
the mean again. "waves": the same, the result written to a zarr array, a few blocks at a time.
chunk: null to take what memtrace recommends.
"""

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
from dask_cluster import budget_fraction, cluster, measure
from dask_operators import mean_of, warm

from experiments.chunks.models import fitted
from experiments.chunks.ways import auto
from experiments.recording import KEPT


def main():
    asked = json.loads(sys.argv[1])
    module = importlib.import_module(f"operators.{asked['operator']}")
    volume = stored_volume(KEPT / "volumes", tuple(asked["shape"]))
    prepare = partial(warm, asked["operator"])
    with cluster(asked["workers"], asked["memory_limit"]) as client:
        client.run(prepare)
        plan = None if asked["chunk"] else recommended(asked, module, volume, client)
        chunk = tuple(asked["chunk"] or (max(axis) for axis in plan.chunks))
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            what = computation(asked, module, volume, chunk, client, folder)
            run = measure(client, prepare, what)
    print(json.dumps({**asked, "chunk": chunk, **told(asked, run), **foretold(plan)}))


def recommended(asked, module, volume, client):
    """The plan for the workers that are there, warmed."""
    source = volume
    if asked["how"] == "shared":
        source = chunked.load(volume, chunk_sizes(volume.shape, auto(volume.shape, 0, 0)))
    operator = getattr(module, asked["operator"])
    model = fitted(asked["operator"])
    whole = {"whole_axes": module.WHOLE_AXES}
    return memtrace.dask.recommend(source, operator, model, client, depth=module.HALO, **whole)


def computation(asked, module, volume, chunk, client, folder):
    """What is computed: a Dask array, or a function."""
    chunks = chunk_sizes(volume.shape, chunk)
    if asked["how"] == "shared":
        return mean_of(asked["operator"], volume, chunks)
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
    store = zarr.create_array(folder, shape=volume.shape, chunks=chunk, dtype="f4", overwrite=True)
    return partial(mapped, store=store)


def told(asked, run):
    budget = int(parse_bytes(asked["memory_limit"]) * budget_fraction())
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
        "within": untouched and run.peak_bytes <= budget,
        "busy": len(run.workers) == asked["workers"] and all(w["operators"] for w in run.workers),
    }


def foretold(plan):
    if plan is None:
        return {}
    return {
        "predicted_bytes": plan.worker_peak,
        "predicted_seconds": plan.seconds,
        "task_bytes": plan.task_bytes,
        "why": plan.why,
    }


if __name__ == "__main__":
    main()
