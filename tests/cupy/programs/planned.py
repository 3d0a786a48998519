"""GST3D of a stored volume on a Dask cluster, in chunks that fit host and GPU: its folder, the model, a small limit of the GPU's memory.

Prints what a plan has picked for that limit, for a large one, and for none, and what came of computing it.
"""

import json
import sys
from pathlib import Path

import gpu_blocks
import memtrace.dask
import numpy as np
from cluster import EMPTY, cluster

SHAPE, DEPTH, LARGE = (120, 130, 140), 9, "80GB"


def computed(volume, model, client, limit):
    asked = {"model": model, "client": client, "device_memory_limit": limit}
    plan = memtrace.dask.recommend(volume, gpu_blocks.dip, source="storage", halo=DEPTH, **asked)
    reported = {name: getattr(plan, name) for name in ("bound_by", "tasks", "block_shape")}
    reported.update(peak=plan.device_peak, text=str(plan))
    result = memtrace.dask.map_overlap(
        gpu_blocks.dip, volume, depth=DEPTH, meta=EMPTY, dtype="f4", **asked
    )
    assert result.chunks == plan.chunks
    try:
        assert result.compute().shape == SHAPE
    except Exception as error:
        reported["error"] = f"{type(error).__name__}: {error}"
    return reported


def main(folder, model, limit):
    volume = np.memmap(Path(folder, "volume"), np.float32, "w+", shape=SHAPE)
    with cluster() as client:
        plans = [computed(volume, model, client, each) for each in (limit, LARGE, None)]
        print(json.dumps({"plans": plans, "pools": [*client.run(gpu_blocks.reported).values()]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
