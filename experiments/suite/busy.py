"""Everything passes five times in a row while two processes that never wait take what a run leaves.

The clones are fresh for the first run in them and built for the others. What was compiled for this
checkout is copied to a fresh one, where only memtrace itself is compiled again.
"""

import shutil

from experiments.load import load
from experiments.recording import ROOT
from experiments.suite.clones import FOLDERS
from experiments.suite.runs import clone, remove, run

_, MIDDLE, LONG = FOLDERS
RUNS = (LONG, LONG, LONG, MIDDLE, MIDDLE)
BESIDE = "two busy processes"


def main(arguments):
    with load(computing=2, copying=0, niceness=19):
        statuses = [run_at(place) for place in (RUNS[:1] if arguments.quick else RUNS)]
    for folder in FOLDERS.values():
        remove(folder)
    return not any(statuses)


def run_at(place):
    """The exit status of a run, in a new clone if there is none."""
    folder = FOLDERS[place]
    if not folder.exists():
        clone(folder)
        others = shutil.ignore_patterns("experiments", "frameworks.log", "fuzz")
        shutil.copytree(ROOT / "target", folder / "target", ignore=others, symlinks=True)
    return run(folder, place, BESIDE)["status"]
