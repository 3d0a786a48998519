"""A Dask cluster with and without `memtrace.dask.record`: 64 workers and 100,000 tasks.

The job is run in pairs, one of them recorded, each in workers that have just been started.
"""

import json
import os
import shutil
import statistics
import textwrap
import time
from contextlib import nullcontext

from experiments.recording import KEPT, RESULTS, memtrace
from experiments.scale import graph, processes

WORKERS, TASKS, BATCH, PAIRS = 64, 100_000, 5_000, 2
QUICK = (8, 5_000, 1_000, 1)
#: Seconds in which all workers start on a machine that does other work too.
PATIENCE = 900
#: Recorded, as a multiple of unrecorded.
TARGETS = {"job": 1.05, "scheduler": 1.1}
#: What is measured of each run, in seconds, and what the page calls it.
SECONDS = {
    "job": "the job, from its first task to its result",
    "scheduler": "CPU of the scheduler",
    "workers": "CPU of the workers",
    "nannies": "CPU of the nannies' process",
    "client": "CPU of the client",
    "recorders": "CPU of the recorder",
}


def main(arguments):
    workers, tasks, batch, pairs = QUICK if arguments.quick else (WORKERS, TASKS, BATCH, PAIRS)
    folder = KEPT / "dask"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found, expected = [], []
    with processes.cluster(workers, folder) as (*servers, client):
        for pair in range(pairs):
            runs = {}
            for is_recorded in (True, False) if pair % 2 else (False, True):
                trace = folder / f"traces-{pair}" if is_recorded else None
                if not is_recorded and expected:
                    client.restart(timeout=PATIENCE)
                row, result = run(servers, client, tasks, batch, trace)
                print({"recorded": is_recorded, **row}, flush=True)
                runs[is_recorded] = row
                expected.append(result)
            found.append(runs)
    shutil.rmtree(folder)
    right = len(set(expected)) == 1 and all(is_complete(runs[True], tasks) for runs in found)
    ratios = {name: median(ratios_of(found, name)) for name in TARGETS}
    print({**ratios, "complete": right}, flush=True)
    if not arguments.quick:
        (RESULTS / "scale-dask.md").write_text(page(workers, tasks, found, right))
    return right and all(ratios[name] <= most for name, most in TARGETS.items())


def run(servers, client, tasks, batch, trace):
    """What one job took, in workers that have just been started; and its result."""
    from memtrace.dask import record

    shipped = []
    recording = nullcontext() if trace is None else counted(record(client, trace), shipped)
    count = len(client.nthreads())
    with recording:
        client.wait_for_workers(count)
        workers = list(client.run(os.getpid).values())
        client.submit(graph.total, client.submit(graph.first, 0, pure=False)).result()
        row, result = job(servers, client, workers, tasks, batch)
    if trace is not None:
        row |= recorded(recording, shipped)
    return row, result


def counted(recording, shipped):
    """The same recording, which also notes the sizes of what arrives at the client."""
    receive = recording._receive

    def receive_counted(event):
        shipped.append(len(event[1]["data"]))
        receive(event)

    recording._receive = receive_counted
    return recording


def job(servers, client, workers, tasks, batch):
    scheduler, nannies = servers
    recorders = processes.recorders_of(nannies.pid)
    parts = {
        "scheduler": [scheduler.pid],
        "workers": workers,
        "nannies": [nannies.pid],
        "client": [os.getpid()],
        "recorders": recorders,
    }
    before = {name: processes.seconds_of(pids) for name, pids in parts.items()}
    start = time.monotonic()
    result = graph.compute(client, tasks, batch)
    row = {"job": time.monotonic() - start}
    row |= {name: processes.seconds_of(pids) - before[name] for name, pids in parts.items()}
    return row | {"memory": processes.most_memory_of(recorders)}, result


def recorded(recording, shipped):
    """What the recording has, at its end."""
    # The study's own task before the job makes one more of two operators.
    spans = sum(1 for task in recording.tasks() if task["seconds"] is not None) - 2
    lost, size = 0, 0
    for trace in recording.traces:
        report = json.loads(memtrace("report", "--json", trace))
        lost += sum(report["lost"].values())
        size += sum(file.stat().st_size for file in os.scandir(trace))
    problems = sum(bool(trace["problem"]) for trace in recording.traces.values())
    row = {"spans": spans, "lost": lost, "missing": recording.missing, "problems": problems}
    return row | {"trace": size, "shipped": sum(shipped), "messages": len(shipped)}


def is_complete(row, tasks):
    return row["spans"] == tasks and not (row["lost"] or row["missing"] or row["problems"])


def ratios_of(found, name):
    return [runs[True][name] / runs[False][name] for runs in found]


def median(values):
    return statistics.median(values)


def page(workers, tasks, found, right):
    lines = [
        "# A recorded Dask cluster",
        "",
        f"{tasks:,} tasks on {workers} workers of one thread each, without and with",
        "`memtrace.dask.record`: four of five tasks make and free small arrays for a millisecond,",
        f"the fifth reduces theirs. Medians of {len(found)} pairs of runs, each in workers that",
        "have just been started; the ratio is that of a pair, from the smallest to the largest.",
        "`scripts/experiments scale dask` measured this on a machine with two processors, which",
        "all of these processes share.",
        "",
        "| seconds | unrecorded | recorded | ratio | smallest to largest | wanted |",
        "|---|---:|---:|---:|---:|---:|",
        *(line_of(found, name, what) for name, what in SECONDS.items()),
        "",
    ]
    text = " ".join(summary([runs[True] for runs in found], tasks, right))
    lines.append(textwrap.fill(text, 100))
    return "\n".join(lines) + "\n"


def line_of(found, name, what):
    plain, recorded = (median([runs[kind][name] for runs in found]) for kind in (False, True))
    if not plain:
        return f"| {what} | – | {recorded:.1f} | – | – | – |"
    ratios = ratios_of(found, name)
    wanted = f"≤ {TARGETS[name]}" if name in TARGETS else "–"
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"| {what} | {plain:.1f} | {recorded:.1f} | {median(ratios):.2f} | {spread} | {wanted} |"


def summary(rows, tasks, right):
    middle = {name: median([row[name] for row in rows]) for name in rows[0]}
    yield f"A recording has {middle['spans']:,.0f} spans of {tasks:,} tasks, and its report says"
    yield f"that {middle['lost']:,.0f} events were lost; {middle['missing']:,.0f} spans did not"
    yield f"arrive at the client. {'Nothing' if right else 'SOMETHING'} was lost in all runs."
    yield f"The trace has {middle['trace'] / 1e6:.1f} MB, {middle['shipped'] / 1e6:.1f} MB in"
    yield f"{middle['messages']:,.0f} messages went to the client through the scheduler, and the"
    yield f"recorder had {middle['memory'] / 1e6:.0f} MB of memory at most."
