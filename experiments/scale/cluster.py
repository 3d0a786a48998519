"""Fits a model to many traces on a Dask cluster of one worker, and of two, one thread each.

Their models are those of one machine, byte for byte.
"""

import shutil
import statistics
import time

from experiments.recording import KEPT, RESULTS
from experiments.scale.traces import SPANS, multiplied, recordings

TRACES = 1000
REPEATS = 3
#: How many times faster two workers are.
TARGET = 1.6


def main(arguments):
    import memtrace

    count, repeats = (100, 1) if arguments.quick else (TRACES, REPEATS)
    folder = KEPT / "scale"
    directory = folder / "traces"
    multiplied(recordings(folder), directory, count)
    expected = saved(memtrace.fit(directory), folder)
    seconds, same = {1: [], 2: []}, True
    for _ in range(repeats):
        for workers in seconds:
            taken, model = fitted(directory, workers)
            seconds[workers].append(taken)
            same &= saved(model, folder) == expected
    shutil.rmtree(folder)
    one, two = (statistics.median(each) for each in seconds.values())
    print({"seconds": seconds, "same": same}, flush=True)
    if arguments.quick:
        return same
    (RESULTS / "scale-cluster.md").write_text(page(count, repeats, one, two, same))
    return same and one / two >= TARGET


def fitted(directory, workers):
    """Seconds, once the workers are there, and the model."""
    import memtrace
    from dask.distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        start = time.monotonic()
        model = memtrace.fit(directory, client=client)
        return time.monotonic() - start, model


def saved(model, folder):
    path = folder / "model.json"
    model.save(path)
    return path.read_bytes()


def page(count, repeats, one, two, same):
    equal = "byte for byte those" if same else "NOT those"
    return f"""# Fitting on a cluster

`memtrace.fit(traces, client=client)` on {count:,} traces of {SPANS:,} spans each, on a
`LocalCluster` of workers with one thread each; medians of {repeats}, interleaved.
`scripts/experiments scale cluster` measured this on a machine with two processors. The models are
{equal} that one machine fits.

| workers | seconds |
|---:|---:|
| 1 | {one:.1f} |
| 2 | {two:.1f} |

Two workers are {one / two:.2f} times as fast as one.
"""
