"""One operator over a zarr array as a plan of Cubed's, each task in a process of its own.

    python -m experiments.chunks.cubed_tasks envelope IN.zarr RESERVED [MODEL.json]

Prints what Cubed projected and measured of the operator's tasks as JSON. With a model, its law is
declared as the operator's extra memory.
"""

import json
import os
import sys
import tempfile

import cubed
import numpy as np
from cubed.diagnostics.history import HistoryCallback
from cubed.runtime.create import create_executor

from experiments.operators.run import function, volume

#: Cells around a chunk; operators that are not here need none.
HALO = {"gaussian": 12, "median": 1, "semblance": 4, "gst3d": 2}
ALLOWED = "2.2GB"


def tiny(block, name):
    """What a process needs before there is data: imports and caches of an operator."""
    function(name)(volume((30, 30, 30)))
    return block


def whole(block, name):
    """The operator on a block: for the plan it has the block's shape and element type."""
    return fitting(function(name)(block), block.shape)


def inner(block, name):
    """The same without the halo."""
    cut = (slice(HALO[name], -HALO[name]),) * 3
    return fitting(function(name)(block), block.shape)[cut]


def fitting(result, shape):
    """A result of other shape (GST3D's two components, a sample less) as one the plan can store."""
    result = result[0] if result.ndim > len(shape) else result
    if result.shape != shape:
        result = np.pad(result, [(0, a - b) for a, b in zip(shape, result.shape, strict=True)])
    return result.astype("f4", copy=False)


def main():
    name, path, reserved, *model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # Cubed writes its history where it runs
        spec = cubed.Spec(folder, allowed_mem=ALLOWED, reserved_mem=int(reserved))
        array = cubed.from_zarr(path, spec=spec)
        result = mapped(name, array, model)
        history = HistoryCallback()
        cubed.store(
            [result],
            [f"{folder}/result.zarr"],
            executor=create_executor("processes", {"max_tasks_per_child": 1, "max_workers": 1}),
            callbacks=[history],
        )
        stats = history.stats_df
        law = declared(name, array, model)
    row = stats.loc[stats["peak_measured_mem_delta_mb_max"].idxmax()]
    print(
        json.dumps(
            {
                "tasks": int(row["num_tasks"]),
                "projected_bytes": int(row["projected_mem_mb"] * 1e6),
                "start_bytes": int(row["peak_measured_mem_start_mb_max"] * 1e6),
                "measured_bytes": int(row["peak_measured_mem_end_mb_max"] * 1e6),
                **law,
            }
        )
    )


def declared(name, array, model):
    """The law at the largest block, and what it makes the plan add."""
    if not model:
        return {}
    import memtrace
    from memtrace import cubed as laws

    cells, known = HALO.get(name, 0), memtrace.Model.load(model[0])
    halo = [cells] * array.ndim
    block = [length + 2 * cells for length in array.chunksize]
    extra = laws.extra_projected_mem(
        known, name, array.chunksize, "<f4", halo=halo if cells else None, padded=cells > 0
    )
    return {"law_bytes": known.predict(name, block)["upper_bytes"], "extra_bytes": extra}


def mapped(name, array, model):
    """The operator's array, with its law as extra memory or, as Cubed has it, with none."""
    if name.startswith("tiny:"):
        return cubed.map_blocks(tiny, array, dtype="f4", name=name[5:])
    kwargs = {"dtype": "f4", "name": name}
    halo = HALO.get(name)
    if halo:
        kwargs |= {"depth": halo, "boundary": 0.0, "chunks": array.chunks}
    if not model:
        plain = cubed.map_overlap if halo else cubed.map_blocks
        return plain(inner if halo else whole, array, **kwargs)
    import memtrace
    from memtrace import cubed as laws

    kwargs |= {"model": memtrace.Model.load(model[0]), "operator": name}
    if halo:
        return laws.map_overlap(inner, array, **kwargs)
    return laws.map_blocks(whole, array, **kwargs)


if __name__ == "__main__":
    main()
