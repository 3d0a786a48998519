"""A Dask cluster whose tasks use a GPU, as Dask-CUDA's do: one thread in each worker. Prints what CuPy's pools say, by worker.

cluster.py                 chunks in the host's memory and on the GPU
cluster.py FOLDER MODEL    the same while `memtrace.dask.record` records it, and what that has streamed and shows
"""

import contextlib
import json
import os
import sys

import cupy
import dask.array as da
import gpu_blocks
import memtrace.dask
import numpy as np
from distributed import Client, LocalCluster

SHAPE, CHUNKS, DEPTH = (60, 50, 43), (30, 25, 43), 2
EMPTY = np.empty((0, 0, 0), np.float32)


@contextlib.contextmanager
def cluster(memory_limit="2GB"):
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": memory_limit}
    with (
        LocalCluster(**settings, dashboard_address=":0", silence_logs="ERROR") as cluster,
        Client(cluster) as client,
    ):
        yield client


def in_the_hosts_memory():
    volume = da.ones(SHAPE, dtype="f4", chunks=CHUNKS)
    return volume.map_overlap(gpu_blocks.dip, depth=DEPTH, boundary="none", meta=EMPTY)


def on_the_gpu():
    """GST3D's chunks stay there: without Numba or RMM, CuPy's arrays do not go from worker to worker."""
    blocks = da.ones(SHAPE, dtype="f4", chunks=CHUNKS).map_blocks(cupy.asarray)
    meta = cupy.empty((0, 0, 0, 0), np.float32)
    chunks = ((2,), *blocks.chunks)
    attributes = blocks.map_blocks(gpu_blocks.gst3d, new_axis=0, chunks=chunks, meta=meta)
    return attributes.map_blocks(cupy.asnumpy, meta=np.empty((0, 0, 0, 0), np.float32))


def compute(client):
    """What the pools said, by process, in the order of the calls."""
    shapes = [in_the_hosts_memory().compute().shape, on_the_gpu().compute().shape]
    assert shapes == [SHAPE, (2, *SHAPE)]
    pids = client.run(os.getpid)
    return {pids[worker]: rises for worker, rises in client.run(gpu_blocks.reported).items()}


def recorded(client, folder, model):
    options = ["--operator", "gpu_blocks:gst3d"]
    with memtrace.dask.record(client, folder, model, options) as recording:
        pools = compute(client)
    page = os.path.join(folder, "page.html")
    recording.html(page)
    reported = {"missing": recording.missing, "cut_off": recording.cut_off, "shown": str(recording)}
    with open(page, encoding="utf-8") as file:
        reported["page"] = file.read()
    return {**reported, "pools": pools, "spans": recording.spans, "tasks": recording.tasks()}


if __name__ == "__main__":
    with cluster() as client:
        print(json.dumps(recorded(client, *sys.argv[1:]) if sys.argv[1:] else compute(client)))
