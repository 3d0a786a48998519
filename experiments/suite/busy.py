"""Everything passes five times in a row while two processes that never wait take what a run leaves.

The clone is fresh for the first run and built for the others: the one with the longest path, in
which there is a space. What was compiled for this checkout is copied to it, where only memtrace
itself is compiled again.
"""

import shutil

from experiments.load import load
from experiments.recording import ROOT
from experiments.suite.clones import FOLDERS
from experiments.suite.runs import clone, remove, run

*_, LONG = FOLDERS
RUNS = 5
BESIDE = "two busy processes"


def main(arguments):
    with load(computing=2, copying=0, niceness=19):
        statuses = [run_at(LONG) for _ in range(1 if arguments.quick else RUNS)]
    remove(FOLDERS[LONG])
    return not any(statuses)


def run_at(place):
    """The exit status of a run, in a new clone if there is none."""
    folder = FOLDERS[place]
    if not folder.exists():
        clone(folder)
        others = shutil.ignore_patterns("experiments", "frameworks.log", "fuzz")
        shutil.copytree(ROOT / "target", folder / "target", ignore=others, symlinks=True)
    return run(folder, place, BESIDE)["status"]
