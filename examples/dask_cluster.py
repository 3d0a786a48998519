from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dask
from distributed import Client, KilledWorker, LocalCluster, Worker
from distributed.diagnostics.plugin import WorkerPlugin


def status_bytes(field_name: str) -> int:
    """One field of /proc/self/status in bytes (VmRSS, VmHWM, RssAnon, …)."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field_name}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


class TaskCount(WorkerPlugin):
    """Counts the tasks a worker finished, its CPU time and the most bytes of results it held."""

    name = "task-count"

    def setup(self, worker: Worker) -> None:
        self.worker = worker
        self.reset()

    def reset(self) -> None:
        self.tasks = 0
        self.operators = 0
        self.held_bytes = 0
        self.cpu_start = time.process_time()

    def transition(self, key, start, finish, **kwargs) -> None:
        if finish != "memory":
            return
        if start in ("executing", "long-running"):
            self.tasks += 1
            self.operators += "overlap" in str(key)  # what Dask fuses the operator with
        self.held_bytes = max(self.held_bytes, self.worker.state.nbytes)


def written_bytes(data) -> float:
    """What a worker's store of results has written to disk so far."""
    metrics = getattr(data, "cumulative_metrics", {})
    return metrics.get(("disk-write", "bytes"), 0)


def worker_state(dask_worker: Worker) -> dict:
    """Runs in a worker."""
    count = dask_worker.plugins[TaskCount.name]
    return {
        "pid": os.getpid(),
        "rss_bytes": status_bytes("VmRSS"),
        "vmhwm_bytes": status_bytes("VmHWM"),
        "tasks": count.tasks,
        "operators": count.operators,
        "held_bytes": count.held_bytes,
        "spilled_bytes": int(written_bytes(dask_worker.data)),
        "cpu_seconds": time.process_time() - count.cpu_start,
    }


def worker_reset(dask_worker: Worker) -> None:
    dask_worker.plugins[TaskCount.name].reset()


@dataclass
class Run:
    """What one computation did to the workers. Bytes are VmRSS and VmHWM of each process."""

    seconds: float
    value: float | None
    error: str | None
    killed: int
    paused: int = 0
    workers: list[dict] = field(default_factory=list)

    @property
    def peak_bytes(self) -> int:
        return max((w["vmhwm_bytes"] for w in self.workers), default=0)

    @property
    def spilled_bytes(self) -> int:
        return sum(w["spilled_bytes"] for w in self.workers)

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the busiest worker: unlike wall time, it does not measure
        what else ran on the host."""
        return max((w["cpu_seconds"] for w in self.workers), default=0.0)

    @property
    def baseline_bytes(self) -> int:
        return max((w["baseline_bytes"] for w in self.workers), default=0)


def budget_fraction() -> float:
    """The lowest enabled of spill and pause: the part of a limit that a worker may use."""
    fractions = [dask.config.get(f"distributed.worker.memory.{key}") for key in ("spill", "pause")]
    enabled = [f for f in fractions if f]
    return min(enabled) if enabled else 1.0


@contextmanager
def cluster(workers: int, memory_limit: str, threads: int = 1) -> Iterator[Client]:
    """Real worker processes under a nanny, with Dask's own memory settings."""
    settings = {
        "n_workers": workers,
        "threads_per_worker": threads,
        "memory_limit": memory_limit,
        "dashboard_address": None,
        "silence_logs": "ERROR",
    }
    once = dask.config.set({"distributed.scheduler.allowed-failures": 1})  # a kill is enough
    with once, LocalCluster(**settings) as local, Client(local) as client:
        client.register_plugin(TaskCount())
        yield client


def measure(client: Client, warm: Callable[[], None], array) -> Run:
    """Warm every worker with `warm`, compute `array`, or call it if it is a function, and read the
    counters of each."""
    client.run(warm)
    client.run(worker_reset)
    before = client.run(worker_state)
    start, value, error = time.perf_counter(), None, None
    try:
        if callable(array):
            array()
        else:
            value = float(client.compute(array).result())
    except (KilledWorker, MemoryError) as failure:  # a result as well
        error = type(failure).__name__
    seconds = time.perf_counter() - start
    after = client.run(worker_state, on_error="ignore")
    pids = {state["pid"] for state in after.values()}
    killed = sum(state["pid"] not in pids for state in before.values())
    workers = [
        {**state, "baseline_bytes": before[address]["rss_bytes"]}
        for address, state in after.items()
        if address in before and state["pid"] == before[address]["pid"]
    ]
    return Run(seconds, value, error, killed, pauses(client, before), workers)


def pauses(client: Client, workers) -> int:
    """How often a worker stopped taking tasks because of its memory."""
    events = (event for address in workers for _, event in client.get_events(address))
    return sum(isinstance(event, dict) and event.get("status") == "paused" for event in events)
