"""Everything passes five times in a row while two processes keep both processors busy."""

from pathlib import Path

from experiments.load import load
from experiments.suite.runs import run

RUNS = 5


def main(arguments):
    statuses = []
    with load(computing=2, copying=0):
        for _ in range(1 if arguments.quick else RUNS):
            statuses.append(run(Path("/tmp/mt2"), "8 characters", "two busy processes")["status"])
    return not any(statuses)
