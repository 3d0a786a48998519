"""Everything passes five times in a row while two processes keep both processors busy.

In a fresh clone at each of the paths of `clones`, and twice more in the last one, already built.
What was compiled for one clone is moved to the next, where only memtrace itself is compiled again.
"""

import shutil

from experiments.load import load
from experiments.suite.clones import FOLDERS
from experiments.suite.runs import clone, remove, run

RUNS_IN_LAST = 3


def main(arguments):
    statuses, compiled = [], None
    with load(computing=2, copying=0):
        for place, folder in FOLDERS.items():
            clone(folder)
            if compiled is not None:
                shutil.move(compiled, folder)
                remove(compiled.parent)
            compiled = folder / "target"
            last = folder == list(FOLDERS.values())[-1] and not arguments.quick
            for _ in range(RUNS_IN_LAST if last else 1):
                statuses.append(run(folder, place, "two busy processes")["status"])
    remove(compiled.parent)
    return not any(statuses)
