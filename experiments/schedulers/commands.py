"""What a Slurm is told and asked: jobs, what they are granted, what they took."""

import os
import subprocess
import time
from typing import NamedTuple

#: As sacct writes the state of a job: it ended by itself, or for its memory.
FINISHED, KILLED = "COMPLETED", "OUT_OF_MEMORY"
UNDER_WAY = ("PENDING", "RUNNING")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
#: By then Slurm has answered, and accounted for what has ended.
LONGEST_SECONDS = 60


class Account(NamedTuple):
    """What sacct says of a job that has ended, sizes as it writes them."""

    state: str
    requested: str
    max_rss: str  # of the batch script


class Slurm:
    """A Slurm that runs; `environment` is what its commands need."""

    def __init__(self, configuration):
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}

    def run(self, *command, **options):
        """What a command prints. RuntimeError where it fails, TimeoutExpired where it hangs."""
        done = subprocess.run(
            list(map(str, command)),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
            **options,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
        return done.stdout

    def submit(self, script, *options):
        """Submits a batch script; the job's number."""
        return self.run("sbatch", "--parsable", *options, input=script).strip()

    def submit_array(self, script, requests, *options):
        """Submits an array with a task for each request, in bytes; the job's number.

        `--mem` is the same for every task of an array. So it is held until each has its own.
        """
        job = self.submit(script, "--hold", f"--array=0-{len(requests) - 1}", *options)
        for task, request in enumerate(requests):
            memory = f"MinMemoryNode={mebibytes(request)}"
            self.run("scontrol", "update", f"JobId={job}_{task}", memory)
        self.run("scontrol", "release", job)
        return job

    def wait(self, job, seconds):
        """Waits until a job has ended, with all of its tasks."""
        self._wait_until("", f"job {job} still runs", "squeue", f"--jobs={job}", seconds=seconds)

    def wait_for_node(self):
        """Waits until the node takes jobs."""
        self._wait_until("idle", "the node is not idle", "sinfo", "--format=%T")

    def cancel_all(self):
        """Ends every job."""
        user = f"--user={os.geteuid()}"
        self.run("scancel", user)
        self._wait_until("", "jobs cannot be ended", "squeue", user)

    def accounts(self, job, tasks=1):
        """The account of each task of a job that has ended, in the order of their numbers."""
        known = {}

        def complete():
            known.update(self._accounts(job))
            return len(known) == tasks

        wait_until(complete, LONGEST_SECONDS, f"sacct does not say how job {job} ended")
        return [known[task] for task in sorted(known)]

    def _accounts(self, job):
        """task -> account; the only task of a job that is no array is 0."""
        command = ("sacct", "--noheader", "--parsable2", f"--jobs={job}")
        lines = self.run(*command, "--format=JobID,State,ReqMem,MaxRSS").splitlines()
        rows = {name: values for name, *values in (line.split("|") for line in lines)}
        known = {}
        for name, (state, requested, _) in rows.items():
            script = rows.get(f"{name}.batch")
            # A request that the database does not have yet reads as 16 of an unknown unit.
            if script is not None and state not in UNDER_WAY and not requested.endswith("?"):
                known[int(name.partition("_")[2] or 0)] = Account(state, requested, script[2])
        return known

    def _wait_until(self, said, otherwise, *command, seconds=LONGEST_SECONDS):
        command = (*command, "--noheader")
        wait_until(lambda: self.run(*command).strip() == said, seconds, otherwise)


def wait_until(ready, seconds, otherwise):
    """RuntimeError, with what is the case instead, after so many seconds."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.2)


def mebibytes(size):
    """What Slurm calls M, rounded up."""
    return -(-size // (1 << 20))


def in_bytes(size):
    """Bytes of a size as sacct writes it: K, M and G are powers of 1024; nothing if not sampled."""
    return int(float(size.rstrip("KMG") or 0) * UNITS.get(size[-1:], 1))
