"""Jobs of mixed operators and shapes as an array of Slurm, each granted its own bytes."""

import random
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from experiments.chunks import job_runs
from experiments.recording import ROOT, written
from experiments.schedulers.commands import FINISHED, KILLED

#: operator -> cells of the smallest and largest job: some 200 MB to 1 GB each.
OPERATORS = {
    "envelope": (8e6, 48e6),
    "gaussian": (20e6, 110e6),
    "semblance": (12e6, 75e6),
    "instantaneous_phase": (8e6, 48e6),
    "gradient_magnitude": (7e6, 40e6),
    "gst3d": (0.8e6, 4.5e6),
}
SHAPES = 5
#: Of all jobs of an array.
LONGEST_SECONDS = 900

SCRIPT = """\
#!/bin/bash
mapfile -t jobs <jobs
{python} job.py ${{jobs[SLURM_ARRAY_TASK_ID]}}
"""


class Ended(NamedTuple):
    """How a job ended. Bytes."""

    operator: str
    shape: tuple
    request: int
    state: str  # as sacct says
    max_rss: str  # as sacct says, of what Slurm has sampled
    peak: int  # VmHWM, as the job says; 0 where it was killed

    @property
    def was_killed(self):
        return self.state == KILLED

    @property
    def has_finished(self):
        return self.state == FINISHED and self.peak > 0


def jobs(quick):
    """Operators and shapes in an order of chance."""
    mixed = [
        (name, shape)
        for name, cells in list(OPERATORS.items())[: 2 if quick else None]
        for shape in job_runs.shapes(name, cells, 2 if quick else SHAPES)
    ]
    random.Random(0).shuffle(mixed)
    return mixed


def run(slurm, mixed, requests):
    """Runs jobs as one array; how each ended."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        lines = (f"{name} {written(shape)}\n" for name, shape in mixed)
        (folder / "jobs").write_text("".join(lines))
        (folder / "job.py").write_text(job_runs.PROGRAM)
        script = SCRIPT.format(python=sys.executable)
        paths = f"PYTHONPATH={ROOT}:{ROOT / 'examples'}"
        job = slurm.submit_array(
            script, requests, f"--chdir={folder}", "--output=%a.out", f"--export=ALL,{paths}"
        )
        slurm.wait(job, LONGEST_SECONDS)
        accounts = slurm.accounts(job, len(mixed))
        return [
            Ended(*mixed[task], requests[task], account.state, account.max_rss, told(folder, task))
            for task, account in enumerate(accounts)
        ]


def told(folder, task):
    """The peak that a job has printed; 0 if it did not come to that."""
    lines = (folder / f"{task}.out").read_text().splitlines()
    words = lines[-1].split() if lines else []
    return int(words[0]) if len(words) == 2 and words[0].isdigit() else 0
