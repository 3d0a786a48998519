"""Surveys: F3's dimensions planned, and one larger than memory run out of core in waves."""

import json
import shutil
import sys
import time

import memtrace.dask
import numpy as np
import zarr
from dask_cluster import cluster, measure
from dask_operators import warm
from operators import gaussian, gst3d

from experiments.chunks import tables
from experiments.chunks.lean import tolerance
from experiments.chunks.models import fitted
from experiments.chunks.once import predictions, reported
from experiments.chunks.runs import in_a_process
from experiments.recording import KEPT, RESULTS

F3 = (651, 951, 462)
#: Of workers whose memory is 2 GB; the published rule cuts F3 into 10.6 million chunks for them.
LIMIT = 2_000_000_000
SURVEY = (2000, 1600, 1250)
QUICK = (300, 200, 200)
STORED = (100, 100, 125)
WORKERS, WORKER_LIMIT = 2, "1GB"
FOLDER = KEPT / "chunks" / "survey"


def main(arguments):
    plans = {name: planned(name) for name in ("gst3d", "gaussian", "semblance")}
    file = KEPT / "chunks" / f"survey{'-quick' if arguments.quick else ''}.json"
    if not file.exists():
        quick = ["quick"] if arguments.quick else []
        run = in_a_process("the survey", "-m", "experiments.chunks.survey", *quick)
        file.write_text(json.dumps(run))
    run = json.loads(file.read_text())
    holds = checks(run)
    if not arguments.quick:
        (RESULTS / "chunks-survey.md").write_text(text(plans, run, holds))
    return all(held for _, _, held in holds)


def planned(name):
    """Chunks of F3 for four workers, its tasks reading their own blocks, and shared."""
    halo = {"gst3d": gst3d.HALO, "gaussian": gaussian.HALO}.get(name, (1, 1, 4))
    ask = {"shape": F3, "memory_limit": LIMIT, "workers": 4, "halo": halo, "compare": "auto"}
    ways = {
        source: fitted(name).recommend(name, source=source, **ask) for source in ("dask", "storage")
    }
    return {"auto": ways["dask"]["compare"]["auto"], **ways}


def survey(shape):
    """Runs the Gaussian over a survey on disk, into another array on disk."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    source = made(FOLDER / "source", shape)
    store = zarr.create_array(FOLDER / "result", shape=shape, chunks=chunks(shape), dtype="f4")
    written = []
    with cluster(WORKERS, WORKER_LIMIT) as client:
        client.run(warm, "gaussian")

        def run():
            asked = {"client": client, "store": store}
            written.append(
                memtrace.dask.map_overlap(
                    gaussian.gaussian, source, gaussian.HALO, fitted("gaussian"), **asked
                )
            )

        done = measure(client, lambda: None, run)
    asked = {"memory_limit": WORKER_LIMIT, "workers": WORKERS, "how": "waves"}
    result = {
        "shape": shape,
        **reported(asked, done),
        **predictions(written[0].plan),
        "equal": equal(source, store),
    }
    shutil.rmtree(FOLDER)
    return result


def made(folder, shape):
    """Planes of noise over a slow wave, stored as they are: nothing of it compresses well."""
    source = zarr.create_array(folder, shape=shape, chunks=chunks(shape), dtype="f4")
    random = np.random.default_rng(1)
    step = chunks(shape)[0]
    for start in range(0, shape[0], step):
        slab = random.standard_normal((min(step, shape[0] - start), *shape[1:]), dtype=np.float32)
        slab += np.sin(np.arange(shape[2], dtype=np.float32) / 40)
        source[start : start + step] = slab
    return source


def chunks(shape):
    return tuple(min(pair) for pair in zip(STORED, shape, strict=True))


def equal(source, store):
    """Blocks of the result, at corners and elsewhere, are bit for bit those of the operator on larger blocks."""
    halo, side = gaussian.HALO, 40
    random = np.random.default_rng(2)
    starts = [tuple(0 for _ in store.shape), tuple(n - side for n in store.shape)]
    starts += [tuple(int(random.integers(0, n - side)) for n in store.shape) for _ in range(6)]
    return all(_equal_at(source, store, start, side, halo) for start in starts)


def _equal_at(source, store, start, side, halo):
    inner = tuple(slice(at, at + side) for at in start)
    outer = tuple(
        slice(max(0, cut.start - cells), min(n, cut.stop + cells))
        for cut, cells, n in zip(inner, halo, store.shape, strict=True)
    )
    own = tuple(
        slice(cut.start - wide.start, cut.stop - wide.start)
        for cut, wide in zip(inner, outer, strict=True)
    )
    expected = gaussian.gaussian(np.asarray(source[outer]))[own]
    return bool(np.array_equal(np.asarray(store[inner]), expected))


def checks(run):
    off = run["predicted_bytes"] / run["peak_bytes"] - 1
    return [
        (
            "every worker within budget, no spill, no pause, no kill",
            tables.outcome(run),
            run["within"],
        ),
        (
            "worker peak predicted within 8 % or 25 %, never under",
            f"{off:+.1%}",
            0 <= off <= tolerance(run),
        ),
        (
            "the result is that of the whole array (blocks at two corners and six other places, bit for bit)",
            "equal" if run["equal"] else "differs",
            run["equal"],
        ),
    ]


def text(plans, run, holds):
    rows = []
    for name, ways in plans.items():
        for way, plan in ways.items():
            need = plan["predicted_worker_bytes"]
            fits = "yes" if need <= 0.7 * LIMIT else "no"
            rows.append(
                (
                    name,
                    way,
                    tables.shape(plan["chunk_shape"]),
                    plan["tasks"],
                    tables.megabytes(need),
                    fits,
                    f"{plan['predicted_seconds']:.0f} s",
                )
            )
    names = (
        "operator",
        "chunks",
        "chunk",
        "tasks",
        "worker peak",
        "within 1400 MB",
        "predicted time, 4 workers",
    )
    size = 4 * np.prod(run["shape"], dtype=float) / 1e9
    return TEXT.format(
        holds=tables.holds(holds), plans=tables.table(names, rows), shape=tables.shape(run["shape"]), size=size,
        chunk=tables.shape(run["chunk_shape"]), seconds=run["seconds"], expected=run["predicted_seconds"],
        peak=tables.megabytes(run["peak_bytes"]), predicted=tables.megabytes(run["predicted_bytes"]),
        budget=tables.megabytes(run["budget_bytes"]),
    )  # fmt: skip


TEXT = """# Surveys

## Larger than memory, in waves

{holds}

Gaussian (σ = 3) over {shape} float32 ({size:.0f} GB, and as much for the result) in zarr, two workers of one thread and 1 GB
each: `memtrace.dask.map_overlap(..., store=...)` took chunks of {chunk}, {seconds:.0f} s ({expected:.0f} s predicted; it knows nothing of
disks), peak {peak} ({predicted} predicted, budget {budget}).

## F3 (651×951×462), planned

Workers of one thread and 2 GB. dask: chunks that neighbours share. storage: every task reads its own block.

{plans}

Again: `.venv/bin/python scripts/experiments chunks survey`; to measure anew, remove
`target/experiments/chunks/survey.json` first. It needs 33 GB of disk for a while.
"""

if __name__ == "__main__":
    began = time.perf_counter()
    found = survey(QUICK if "quick" in sys.argv else SURVEY)
    print(json.dumps({**found, "all_seconds": time.perf_counter() - began}))
