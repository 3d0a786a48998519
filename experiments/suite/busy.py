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

PLACE, FOLDER = list(FOLDERS.items())[-1]
RUNS = 5


def main(arguments):
    if not FOLDER.exists():
        clone(FOLDER)
        others = shutil.ignore_patterns("experiments", "frameworks.log", "fuzz")
        shutil.copytree(ROOT / "target", FOLDER / "target", ignore=others, symlinks=True)
    with load(computing=2, copying=0, niceness=19):
        runs = 1 if arguments.quick else RUNS
        statuses = [run(FOLDER, PLACE, "two busy processes")["status"] for _ in range(runs)]
    remove(FOLDER)
    return not any(statuses)
