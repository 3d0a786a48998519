"""Everything passes in fresh clones at paths of 8, 60 and 150 characters, one with a space."""

from pathlib import Path

from experiments.suite.runs import clone, remove, run

FOLDERS = {
    "8 characters": Path("/tmp/mt1"),
    "60 characters": Path("/tmp") / ("b" * 55),
    "150 characters, a space": Path("/tmp") / ("c d" * 48 + "e"),
}


def main(_arguments):
    statuses = []
    for place, folder in FOLDERS.items():
        clone(folder)
        statuses.append(run(folder, place)["status"])
        remove(folder)
    return not any(statuses)
