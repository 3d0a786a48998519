"""Runs of a job on two real workers, as JSON.

    python -m experiments.chunks.promises_run '{"what": "cases", "job": "traces"}'

cases: memtrace chooses the chunks under each limit, the job runs in them on a fresh cluster each.
hand: the job runs in each of the ten chunkings by hand, on one cluster without a limit.
pairs: ours and one by hand in turn, five times, on one cluster without a limit.
"""

import json
import sys
import tempfile
import time
from functools import partial

import dask.array as da
import memtrace
import memtrace.dask
import numpy as np
import zarr
from dask_cluster import cluster, measure, status_bytes

from experiments.chunks import promises_operators as operators
from experiments.chunks.promises_jobs import JOBS, WORKERS, by_hand, model, volume
from experiments.recording import KEPT

#: More than any job needs: chunks are compared by the CPU time that they take.
FREE = "6GB"
ROUNDS = 5


def main():
    asked = json.loads(sys.argv[1])
    print(json.dumps({**asked, **WHAT[asked["what"]](asked)}))


def cases(asked):
    """Ours under every limit."""
    model(asked["job"])
    volume(asked["job"])
    return {"cases": [case(asked["job"], limit) for limit in asked["limits"]]}


def case(name, limit):
    with cluster(WORKERS, limit) as client:
        warm(client, name)
        told = {"limit": limit, "held_bytes": max(client.run(status_bytes, "VmRSS").values())}
        try:
            chosen = choose(name, client, limit, None)
        except MemoryError as error:
            return {**told, "refused": str(error)}
        return {**told, **run(client, name, chosen)}


def hand(asked):
    """Every chunking by hand."""
    name = asked["job"]
    with cluster(WORKERS, FREE) as client:
        warm(client, name)
        chunks = [{"chunk": chunk} for chunk in by_hand(JOBS[name])]
        return {"runs": [run_anew(client, name, chosen) for chosen in chunks]}


def pairs(asked):
    """Ours in the chunks that it chose, and one by hand, in turn: CPU seconds and seconds of both."""
    with cluster(WORKERS, FREE) as client:
        warm(client, asked["job"])
        return {"pairs": [taken(client, asked["job"], pair) for pair in asked["pairs"]]}


def taken(client, name, pair):
    ways = [{"chunk": pair["ours"]}, {"chunk": pair["by_hand"]}]
    if JOBS[name].way == "map_overlap":
        ways[0] = choose(name, client, pair["limit"], pair["held_bytes"])
    rounds = []
    for turn in range(ROUNDS):
        order = (1, 0) if turn % 2 else (0, 1)
        runs = {way: run_anew(client, name, ways[way]) for way in order}
        both = ("cpu_seconds", "seconds")
        rounds.append({each: (runs[0][each], runs[1][each]) for each in both})
    return rounds


WHAT = {"cases": cases, "hand": hand, "pairs": pairs}


def choose(name, client, limit, baseline):
    """What memtrace chooses for the workers that there are, by the job's way."""
    return CHOICES[JOBS[name].way](name, client, limit, baseline)


def recommended(name, client, limit, baseline):
    job = JOBS[name]
    [operator] = job.names
    plan = memtrace.dask.recommend(
        source(name), function(operator), model(name), client,
        halo=job.halo(operator), whole_axes=job.whole, baseline_bytes=baseline,
    )  # fmt: skip
    return about(plan)


def mapped(name, client, limit, baseline):
    """The chunks are chosen while the job is built, or runs; the plan of a lazy one is asked for."""
    job, chosen = JOBS[name], {"limit": limit, "baseline_bytes": baseline}
    if job.ends == "store":
        return chosen
    [operator] = job.names
    plan = memtrace.dask.recommend(
        volume(name), function(operator), model(name), client, halo=job.halo(operator),
        whole_axes=job.whole, memory_limit=limit, baseline_bytes=baseline,
    )  # fmt: skip
    return {**about(plan), **chosen}


def planned(name, client, limit, baseline):
    job = JOBS[name]
    steps, before = [], "volume"
    for at, each in enumerate(job.names):
        step = {"name": f"{each} {at}", "operator": each, "inputs": [before]}
        step |= {"halo": job.halo(each)}
        if each in operators.WHOLE:
            step["whole_axes"] = job.whole
        steps.append(step)
        before = step["name"]
    volumes = {"volume": {"shape": job.shape, "dtype": np.dtype(job.dtype).str}}
    graph = {"version": 1, "sources": volumes, "steps": steps, "results": []}
    held = baseline or max(client.run(status_bytes, "VmRSS").values())
    plan = memtrace.plan(
        model(name), graph, memory_limit=limit, workers=WORKERS, baseline_bytes=held
    )
    predicted = plan["predicted_worker_bytes"]
    return {"chunk": plan["chunk_shape"], "predicted_bytes": predicted, "why": plan["why"]}


CHOICES = {"recommend": recommended, "map_overlap": mapped, "plan": planned}


def run_anew(client, name, chosen):
    """The job once on workers that have run it before: their peaks begin anew."""
    client.run(forget_peak)
    return run(client, name, chosen)


def run(client, name, chosen):
    """The job once."""
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        job = partial(job_in, name, chosen, client, folder)
        told = {}
        begun = time.process_time()
        done = measure(client, partial(prepare, name), lambda: told.update(job()))
        own = time.process_time() - begun  # the scheduler runs in this process
    return {
        **{key: value for key, value in chosen.items() if key != "baseline_bytes"},
        **told,
        "seconds": done.seconds,
        "cpu_seconds": own + sum(worker["cpu_seconds"] for worker in done.workers),
        "error": done.error,
        "killed": done.killed,
        "paused": done.paused,
        "spilled_bytes": done.spilled_bytes,
        "peak_bytes": done.peak_bytes,
        "baseline_bytes": done.baseline_bytes,
    }


def job_in(name, chosen, client, folder):
    """Builds the job in the chunks that were chosen, runs it, and tells these if it chose them."""
    job, told = JOBS[name], {}
    target = None if job.ends == "mean" else store(job, folder)
    if "limit" in chosen:
        options = {"client": client, "memory_limit": chosen["limit"], "whole_axes": job.whole}
        options["baseline_bytes"] = chosen["baseline_bytes"]
        [operator] = job.names
        x, arguments = source(name), (job.halo(operator), model(name))
        if target is not None:
            done = memtrace.dask.map_overlap(
                function(operator), x, *arguments, store=target, **options
            )
            return about(done.plan)
        result = memtrace.dask.map_overlap(
            function(operator), x, *arguments, dtype=job.dtype, **options
        )
        told = {"chunk": tuple(map(max, result.chunks))}
    else:
        result = in_chunks(name, tuple(chosen["chunk"]))
    if target is None:
        client.compute(result.mean(dtype="f8")).result()
        return told
    if job.ends == "back":
        result = result.rechunk(job.stored_chunks)
    da.store(result, target, lock=False)
    return told


def about(plan):
    return {"chunk": plan.chunk_shape, "predicted_bytes": plan.worker_peak, "why": plan.why}


def in_chunks(name, chunk):
    """The job's operators in chunks: of an array that is cut anew, or read in them."""
    job = JOBS[name]
    if job.way == "plan":
        result = da.from_zarr(volume(name), chunks=chunk)
    else:
        result = source(name).rechunk(chunk)
    for each in job.names:
        result = da.map_overlap(
            function(each), result, depth=job.halo(each), boundary="none", dtype=made_by(each, result)
        )  # fmt: skip
    return result


def made_by(operator, x):
    return "f4" if operator == "gradient" else x.dtype


def source(name):
    """The array in its store, and what earlier operators make of it."""
    x = da.from_zarr(volume(name))
    for earlier in JOBS[name].earlier:
        x = x.map_blocks(function(earlier), dtype=x.dtype)
    return x


def function(operator):
    return getattr(operators, operator)


def store(job, folder):
    dtype = "f4" if "gradient" in job.names else job.dtype
    return zarr.create_array(folder, shape=job.shape, chunks=job.stored_chunks, dtype=dtype, overwrite=True)  # fmt: skip


def warm(client, name):
    client.run(partial(prepare, name))


def prepare(name):
    """Every operator on a small block, and a chunk of the store: imports are there after it."""
    job = JOBS[name]
    shape = tuple(n if n <= 4 else min(n, 12) for n in job.shape)
    for each in (*job.earlier, *job.names):
        function(each)(operators.values(shape, job.dtype))
    volume(name)[tuple(slice(1) for _ in shape)]


def forget_peak():
    with open("/proc/self/clear_refs", "w") as peaks:
        peaks.write("5")


if __name__ == "__main__":
    main()
