"""Everything passes six times, two runs at a time, while both processors are busy.

Two runs share the machine, and what they leave of it goes to two processes that compute without a
pause. Each path of `clones` has a fresh clone; the other runs are in one that is built. What was
compiled for this checkout is copied to the fresh ones, where only memtrace itself is compiled
again.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor

from experiments.load import load
from experiments.recording import ROOT
from experiments.suite.clones import FOLDERS
from experiments.suite.runs import clone, remove, run

SHORT, MIDDLE, LONG = FOLDERS
PAIRS = ((MIDDLE, LONG), (MIDDLE, LONG), (SHORT, MIDDLE))
BESIDE = "another run, two busy processes"


def main(arguments):
    statuses = []
    with load(computing=2, copying=0, niceness=19), ThreadPoolExecutor(2) as runs:
        for pair in PAIRS[:1] if arguments.quick else PAIRS:
            statuses += runs.map(run_at, pair)
    for folder in FOLDERS.values():
        remove(folder)
    return not any(statuses)


def run_at(place):
    """The exit status of a run, in a new clone if there is none."""
    folder = FOLDERS[place]
    if not folder.exists():
        clone(folder)
        others = shutil.ignore_patterns("experiments", "frameworks.log")
        shutil.copytree(ROOT / "target", folder / "target", ignore=others, symlinks=True)
    return run(folder, place, BESIDE)["status"]
