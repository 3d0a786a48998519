"""Chunks learned while a job runs, beside the fastest fixed ones that a search finds."""

import json
import math
import statistics
import tempfile
from functools import partial

from experiments.chunks import tables
from experiments.chunks.runs import in_a_process, kept
from experiments.recording import KEPT, RESULTS

PART = "adaptive"
TARGET = 1.2
ROUNDS = 5
#: Operator: shape, memory limit of a worker, chunks of the store, splits per axis that are searched.
CASES = {
    "gaussian": ((400, 400, 400), "340MB", 40, (12, 16, 18), (1, 2, 3, 4)),
    "dip": ((320, 320, 240), "700MB", 20, (16, 32, 64), (2, 4, 8)),
}
BASELINES = 3


def dip(block):
    """GST3D's dip, in the shape of its input: the outermost cells have their neighbours' value."""
    import numpy as np
    from operators.gst3d import gst3d

    return np.pad(gst3d(block)[0], 1, mode="edge")


def main(arguments):
    rounds = 1 if arguments.quick else ROUNDS
    studies = {name: study(name, rounds, arguments.quick) for name in CASES}
    holds = [each for name, found in studies.items() for each in checks(name, found)]
    if not arguments.quick:
        (RESULTS / "chunks-adaptive.md").write_text(text(studies, holds, rounds))
    return all(held for _, _, held in holds)


def study(name, rounds, quick):
    """Every fixed chunk once; the fastest that stayed in budget and ours in rounds."""
    shape, limit, unit, counts, splits = CASES[name]
    if quick:
        shape, counts = tuple(n // 2 for n in shape), counts[:1]
    asked = {"operator": name, "shape": shape, "memory_limit": limit, "unit": unit, "workers": 2}
    fixed = {chunk: run(0, chunk=chunk, **asked) for chunk in searched(shape, unit, counts, splits)}
    fitting = sorted((c for c in fixed if fixed[c]["within"]), key=lambda c: fixed[c]["seconds"])
    baselines = fitting[:BASELINES]
    if not baselines:
        raise RuntimeError(f"{name}: no fixed chunk stays in budget; raise the limit in CASES")
    turns = []
    for turn in range(1, rounds + 1):
        entered = [None, *baselines][:: 1 if turn % 2 else -1]
        turns.append({chunk: run(turn, chunk=chunk, **asked) for chunk in entered})
    return {"fixed": fixed, "baselines": baselines, "turns": turns}


def searched(shape, unit, counts, splits):
    """Chunks of whole pieces of the store, of these numbers of splits in all."""
    found = {}
    for by in ((a, b, c) for a in splits for b in splits for c in splits):
        if math.prod(by) in counts:
            found[tuple(unit * -(-n // (k * unit)) for n, k in zip(shape, by, strict=True))] = None
    return list(found)


def run(again, **asked):
    """One fresh cluster, in a process of its own; kept."""
    key = json.dumps([asked, again], sort_keys=True)
    command = f"from experiments.chunks import adaptive; adaptive.once({asked!r})"
    program = f"if __name__ == '__main__':\n    {command}"
    return kept(PART, key, lambda: in_a_process(asked, "-c", program), line)


def line(reported):
    peak, budget = reported["peak_bytes"] / 1e6, reported["budget_bytes"] / 1e6
    chunk = "learned" if reported["chunk"] is None else tables.shape(reported["chunk"])
    return (
        f"{reported['operator']} by {chunk}: {reported['seconds']:.2f} s, second half "
        f"{reported['second_half']:.2f} s, {peak:.0f} of {budget:.0f} MB, {reported['error'] or ''}"
    )


def once(asked):
    """What a computation with fixed chunks, or from no model, needed."""
    import zarr
    from dask_chunks import stored_volume
    from dask_cluster import cluster, measure

    from experiments.chunks.once import reported

    asked = {**asked, "how": "waves"}
    volume = stored_volume(KEPT / "volumes", tuple(asked["shape"]))
    operator, halo = operator_of(asked["operator"])
    stored = {"shape": volume.shape, "chunks": (asked["unit"],) * 3, "dtype": "f4"}
    written = []
    with (
        cluster(asked["workers"], asked["memory_limit"]) as client,
        tempfile.TemporaryDirectory(dir=KEPT) as folder,
    ):
        store = zarr.create_array(folder, overwrite=True, **stored)
        compute = partial(stored_in, store, operator, volume, halo, client, asked["chunk"])
        warm = partial(warmed, asked["operator"])
        found = measure(client, warm, lambda: written.append(compute()))
    figures = reported(asked, found)
    if written:
        figures |= of_blocks(written[0], volume.shape, figures)
    print(json.dumps({**asked, "second_half": None, **figures}))


def operator_of(name):
    import importlib

    if name == "dip":
        from experiments.chunks.adaptive import dip as operator

        return operator, 2
    module = importlib.import_module(f"operators.{name}")
    return getattr(module, name), module.HALO[0]


def warmed(name):
    import numpy as np

    operator, halo = operator_of(name)
    operator(np.ones([2 * halo + 8] * 3, np.float32))


def stored_in(store, operator, volume, halo, client, chunk):
    """The operator's result into a store; with fixed chunks as waves of a plan would be."""
    import memtrace.dask
    from memtrace.dask._waves import Flight, Job, Written

    if chunk is None:
        return memtrace.dask.map_overlap(operator, volume, halo, store=store, client=client)
    job = Job.of(operator, {}, volume, dict.fromkeys(range(3), halo), store, client)
    starts = [range(0, n, c) for n, c in zip(volume.shape, chunk, strict=True)]
    blocks = []
    with Flight(job, None, len(client.nthreads())) as flight:
        for a in starts[0]:
            for b in starts[1]:
                for c in starts[2]:
                    if flight.is_full():
                        blocks.append(flight.landed())
                    corner = zip((a, b, c), chunk, volume.shape, strict=True)
                    flight.submit(tuple(slice(at, min(at + own, n)) for at, own, n in corner))
        while flight.running:
            blocks.append(flight.landed())
        return Written(blocks, flight.seconds)


def of_blocks(written, shape, figures):
    """Peaks before they were reset too; seconds from when half of the cells were done to the end."""
    peak = max([figures["peak_bytes"], *written.peaks.values()])
    half, done, at = math.prod(shape) / 2, 0, 0.0
    for block in written.blocks:
        if done >= half:
            break
        done += math.prod(cut.stop - cut.start for cut in block.region)
        at = block.at
    left = math.prod(shape) - done
    return {
        "peak_bytes": peak,
        "within": figures["within"] and peak <= figures["budget_bytes"],
        "seconds": written.seconds,
        # In proportion, as the block in which half was reached went beyond it.
        "second_half": (written.seconds - at) * half / left if left else 0.0,
        "chunks": [[cut.stop - cut.start for cut in block.region] for block in written.blocks],
    }


def checks(name, found):
    ours = [turn[None] for turn in found["turns"]]
    ratio, best = against(found)
    return [
        (
            f"{name}: second half ≤ {TARGET} × half of the fastest fixed chunks' time, paired medians",
            f"{ratio:.2f} (against {tables.shape(best)})",
            ratio <= TARGET,
        ),
        (
            f"{name}: no worker over its budget on the way",
            f"{sum(each['within'] for each in ours)} of {len(ours)} runs, at most "
            f"{max(each['peak_bytes'] for each in ours) / 1e6:.0f} of "
            f"{ours[0]['budget_bytes'] / 1e6:.0f} MB",
            all(each["within"] for each in ours),
        ),
    ]


def against(found):
    """The largest of the paired medians of our second half over half of a baseline's time."""

    def ratio(baseline):
        pairs = [(turn[None], turn[baseline]) for turn in found["turns"]]
        return statistics.median(a["second_half"] / (b["seconds"] / 2) for a, b in pairs)

    best = max(found["baselines"], key=ratio)
    return ratio(best), best


def text(studies, holds, rounds):
    parts = []
    for name, found in studies.items():
        shape, limit, unit, *_ = CASES[name]
        title = f"## {name}, {tables.shape(shape)}, limit {limit}, stored by {unit}³"
        fixed = [
            (tables.shape(chunk), *tables.state(reported)[1:])
            for chunk, reported in found["fixed"].items()
        ]
        head = ("fixed chunks", "peak / budget", "outcome", "time")
        parts += [title, tables.table(head, fixed), table_of_rounds(found), way(found)]
    return TEXT.format(holds=tables.holds(holds), parts="\n\n".join(parts), rounds=rounds)


def table_of_rounds(found):
    rows = []
    for chunk in [None, *found["baselines"]]:
        runs = [turn[chunk] for turn in found["turns"]]
        times = [f"{statistics.median(each[key] for each in runs):.2f} s" for key in TIMES]
        peak = max(each["peak_bytes"] for each in runs) / 1e6
        name = "learned" if chunk is None else tables.shape(chunk)
        rows.append((name, *times, f"{peak:.0f} MB"))
    return tables.table(("chunks", "time", "second half", "largest peak"), rows)


TIMES = ("seconds", "second_half")


def way(found):
    """Which chunks the first round went through."""
    steps = []
    for chunk in found["turns"][0][None]["chunks"]:
        if not steps or steps[-1][0] != chunk:
            steps.append([chunk, 0])
        steps[-1][1] += 1
    said = [f"{count} of {tables.shape(chunk)}" for chunk, count in steps]
    return f"The first round's blocks, as they were finished: {', '.join(said)}."


TEXT = (
    """# Chunks learned while the job runs

From no model: `memtrace.dask.map_overlap(operator, volume, depth, store=store)`. Float32 in a SEG-Y file, two
workers of one thread, a fresh cluster for every run; budget: 70 % of the memory limit. Fixed chunks
are run the same way, each block read with its halo by its own task, as many in flight as there are
workers; they are all searched once, and the fastest {baselines} that stayed in budget are run again
beside ours, {rounds} rounds, the order alternating. The second half begins when half of the cells
are stored. Peaks are VmHWM, with what it was before each of the resets that measure a block.

{{holds}}

{{parts}}

Again: `.venv/bin/python scripts/experiments chunks adaptive`; to measure anew, remove
`target/experiments/chunks/adaptive.jsonl` first.
""".replace("{baselines}", str(BASELINES))
    .replace("{{", "{")
    .replace("}}", "}")
)
