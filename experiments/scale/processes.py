"""A Dask cluster whose scheduler, nannies and workers are processes apart, and what each takes."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from experiments.recording import MEMTRACE, ROOT
from experiments.scale.command import most_memory

TICKS = os.sysconf("SC_CLK_TCK")
#: A machine that starts many processes at a time answers late. What each worker does at regular
#: times by itself, many times a second, would fill a few processors with so many workers.
SETTINGS = {
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "300s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "300s",
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1 hour",
}


@contextmanager
def cluster(workers, folder):
    """The scheduler's process, that of all nannies, and a client; workers have no limit."""
    from distributed import Client

    os.environ["PATH"] = f"{MEMTRACE.parent}:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'python'}"
    os.environ |= SETTINGS
    file = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", 0, "--scheduler-file", file)
    scheduler = started("scheduler", folder, *options)
    options = ("--nworkers", workers, "--nthreads", 1, "--memory-limit", 0)
    options += ("--scheduler-file", file, "--local-directory", folder / "workers")
    nannies = started("worker", folder, *options)
    try:
        while not file.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(file), timeout="300s") as client:
            client.wait_for_workers(workers)
            yield scheduler, nannies, client
    finally:
        for process in (nannies, scheduler):
            process.terminate()
            process.wait()


def started(what, folder, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
    with (folder / f"{what}.log").open("w") as log:
        return subprocess.Popen(
            [*command, *map(str, arguments)], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT
        )


def seconds_of(pids):
    """CPU seconds that these processes have taken, all threads."""
    return sum(sum(map(int, stat_of(pid)[11:13])) for pid in pids) / TICKS


def stat_of(pid):
    """The fields of a process after its name, which may have spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def recorders_of(pid):
    """The recorders that a process has started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(child) for file in children for child in file.read_text().split()]
    return [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == "memtrace"]


def most_memory_of(pids):
    """Bytes of memory that these processes had at most."""
    return sum(map(most_memory, pids))
