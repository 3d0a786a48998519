"""Workers that the kernel kills at a limit: naive chunks, recommended ones, and what was streamed."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dask_operators import mean_of, warm
from distributed import Client, KilledWorker

from experiments.chunks import tables
from experiments.chunks.models import fitted
from experiments.chunks.ways import auto
from experiments.control_group import group
from experiments.recording import KEPT, MEMTRACE, RESULTS, ROOT

OPERATOR, QUALIFIED, HALO = "gst3d", "operators.gst3d:gst3d", (2, 2, 2)
WORKERS = 2
#: The rest of a group's limit is for what grows beside the worker: recorder, nanny, page cache.
BUDGET_FRACTION = 0.9
PATIENCE = 300  # seconds


def main(arguments):
    shape, limit = ((120, 120, 120), 512 << 20) if arguments.quick else ((200, 200, 200), 1 << 30)
    kept = KEPT / "chunks" / f"limited-{'x'.join(map(str, shape))}.json"
    if not can_limit():
        print("chunks limited: needs root and a memory controller to make control groups in")
        return False
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for name, choose in (("auto", naive), ("ours", recommended)):
        if name not in found:
            found[name] = run(shape, limit, choose)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found, indent=1))
            print(f"{name}: {found[name]}", file=sys.stderr)
    checks = judged(found)
    if not arguments.quick:
        (RESULTS / "chunks-limited.md").write_text(written(shape, limit, found, checks))
    return all(held for _, _, held in checks)


# Choosing chunks ----------------------------------------------------------------------------------


def naive(shape, limit, idle_bytes, model):
    """What Dask takes by itself."""
    return auto(shape, limit, WORKERS), None


def recommended(shape, limit, idle_bytes, model):
    """What the law says fits beside what a group holds when its worker is warm and idle."""
    plan = model.recommend(
        QUALIFIED,
        shape,
        memory_limit=limit,
        workers=WORKERS,
        halo=HALO,
        budget_fraction=BUDGET_FRACTION,
        baseline_bytes=idle_bytes,
        dtype="<f4",
        any_version=True,
    )
    return tuple(plan["chunk_shape"]), plan["predicted_worker_bytes"]


# A cluster of limited workers ---------------------------------------------------------------------


def can_limit():
    try:
        with group() as limits:
            limits.limit(1 << 30)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def cluster(limit):
    """A scheduler and workers as commands over loopback, each worker and its nanny in a group.

    Dask's own limits are off: it is the kernel that kills.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}",
        "PATH": f"{MEMTRACE.parent}:{os.environ['PATH']}",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        "OMP_NUM_THREADS": "1",
    }
    dask_command = [sys.executable, "-m", "dask"]
    groups, started = [], []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file, log = f"{folder}/scheduler.json", stack.enter_context(open(f"{folder}/log", "wb"))

        def start(*command):
            started.append(
                subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
            )

        try:
            scheduler = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
            start(*dask_command, "scheduler", *scheduler, "--scheduler-file", file)
            for number in range(WORKERS):
                groups.append(stack.enter_context(group()))
                groups[-1].limit(limit)
                options = ("--nworkers", "1", "--nthreads", "1", "--memory-limit", "0")
                where = ("--scheduler-file", file, "--name", f"limited-{number}", "--no-dashboard")
                start(*groups[-1].entered_by([*dask_command, "worker", *options, *where]))
            with Client(scheduler_file=file, timeout=60) as client:
                client.wait_for_workers(WORKERS, timeout=60)
                yield client, groups
        except BaseException:
            print(Path(f"{folder}/log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            for process in started:
                process.kill()
                process.wait()


# One run ------------------------------------------------------------------------------------------


def run(shape, limit, choose):
    """A computation on a fresh cluster, recorded: what became of it."""
    import memtrace.dask
    from dask_chunks import chunk_sizes, stored_volume

    volume, model = stored_volume(KEPT / "volumes", shape), fitted(OPERATOR)
    value, error = None, None
    with tempfile.TemporaryDirectory() as folder, cluster(limit) as (client, groups):
        with memtrace.dask.record(client, folder, model) as recording:
            client.run(warm, OPERATOR)
            idle = max(limits.held_bytes() for limits in groups)
            chunk, predicted = choose(shape, limit, idle, model)
            result = mean_of(OPERATOR, volume, chunk_sizes(shape, chunk))
            start = time.perf_counter()
            try:
                value = float(client.compute(result).result(timeout=PATIENCE))
            except KilledWorker as failure:
                error = type(failure).__name__
            seconds = time.perf_counter() - start
            kills = sum(limits.kills() for limits in groups)
            streamed_live = len(recording.spans)
            group_peak = max(limits.peak_bytes() for limits in groups)
        return {
            "chunk": chunk,
            "limit_bytes": limit,
            "idle_bytes": idle,
            "predicted_bytes": predicted,
            "value": value,
            "error": error,
            "kills": kills,
            "group_peak_bytes": group_peak,
            "seconds": seconds,
            "streamed_before_the_end": streamed_live,
            **compared(recording, folder),
        }


def compared(recording, folder):
    """Streamed spans against those of all traces, each as what must be the same."""
    import duckdb

    rows = duckdb.sql(f"""
        select s.host, p.pid, s.span, s.operator, s.call, s.working_peak_bytes, s.net_peak_bytes,
               s.output_bytes, s.start_ns, s.end_ns, s.inputs, s.params
        from read_parquet('{folder}/*/*/spans.parquet', hive_partitioning = true) s
        join read_parquet('{folder}/*/*/processes.parquet', hive_partitioning = true) p
        using (host, nanny, process)
    """).fetchall()
    names = ("host", "pid", "span", "operator", "call", "working_peak_bytes", "net_peak_bytes")
    names += ("output_bytes", "start_ns", "end_ns")
    of_traces = sorted(json.dumps([*row[:10], *map(json.loads, row[10:])]) for row in rows)
    streamed = sorted(
        json.dumps([*(span[name] for name in names), span["inputs"], span["params"]])
        for span in recording.spans
    )
    [(largest,)] = duckdb.sql(
        f"select max(peak_resident_bytes) from '{folder}/*/*/processes.parquet'"
    ).fetchall()
    tasks = [task for task in recording.tasks() if task["predicted_bytes"]]
    ratios = [task["measured_bytes"] / task["predicted_bytes"] for task in tasks if task["seconds"]]
    return {
        "spans_streamed": len(streamed),
        "spans_in_traces": len(of_traces),
        "same": streamed == of_traces,
        "largest_worker_bytes": largest,
        "cut_short": sum(span["end_ns"] is None for span in recording.spans),
        "operators_predicted": len(ratios),
        "measured_to_predicted": [min(ratios), max(ratios)] if ratios else None,
    }


# The page -----------------------------------------------------------------------------------------


def judged(found):
    naive_run, ours = found["auto"], found["ours"]
    budget = BUDGET_FRACTION * ours["limit_bytes"]
    largest = ours["largest_worker_bytes"]
    same = all(each["same"] and each["spans_streamed"] for each in found.values())
    reported = "; ".join(
        f"{name}: {each['spans_streamed']} streamed, {each['spans_in_traces']} in the traces"
        for name, each in found.items()
    )
    outcome = f"{naive_run['kills']} kills, {naive_run['error'] or 'finished'}"
    return [
        ("workers with naive chunks are killed", outcome, naive_run["kills"] > 0),
        (
            "recommended chunks finish, no worker is killed",
            f"{ours['kills']} kills, {ours['error'] or 'finished'}",
            ours["kills"] == 0 and ours["value"] is not None,
        ),
        (
            "its largest worker stays under the budget that the recommendation got",
            f"{tables.megabytes(largest)} of {tables.megabytes(budget)}",
            largest <= budget,
        ),
        (
            "its largest group stays under what was predicted for it",
            f"{tables.megabytes(ours['group_peak_bytes'])} of {tables.megabytes(ours['predicted_bytes'])}",
            ours["group_peak_bytes"] <= ours["predicted_bytes"],
        ),
        ("the streamed view equals the traces, span by span", reported, same),
    ]


def written(shape, limit, found, checks):
    rows = []
    for name, each in found.items():
        expected = tables.megabytes(each["predicted_bytes"]) if each["predicted_bytes"] else ""
        ratio = each["measured_to_predicted"]
        rows.append(
            (
                name,
                tables.shape(each["chunk"]),
                tables.megabytes(each["idle_bytes"]),
                expected,
                tables.megabytes(each["largest_worker_bytes"]),
                each["kills"],
                each["error"] or "finished",
                each["spans_streamed"],
                each["cut_short"],
                f"{ratio[0]:.3f}–{ratio[1]:.3f}" if ratio else "",
            )
        )
    names = ("chunks by", "chunk", "held idle", "predicted for the group", "largest worker")
    names += ("kills", "outcome", "spans streamed", "cut short", "measured / predicted per task")
    return f"""# Chunks where the kernel kills

GST3D on {tables.shape(shape)} float32 read from SEG-Y, {WORKERS} workers started by `dask worker`, each with its nanny
(and the recorder beside it) in a memory control group of {limit >> 20} MiB, without swap and with Dask's own memory
limits off. All runs are recorded with `memtrace.dask.record` ([../cluster.md](../cluster.md)).

{tables.holds(checks)}

{tables.table(names, rows)}

A group holds the nanny, the recorder and the warm worker before anything is computed (`held idle`): that is the
baseline the recommendation gets, with {BUDGET_FRACTION:.0%} of the limit as its budget. The largest worker is the most that any worker
process had resident, killed ones included, as the traces say. Spans that were cut short ran in a worker when it was killed:
they have no end, in the stream as in the trace.

    .venv/bin/python scripts/experiments chunks limited
"""
