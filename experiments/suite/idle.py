"""A fresh clone beside nothing, and the same clone once more when all in it is built."""

from experiments.suite.clones import FOLDERS
from experiments.suite.runs import clone, remove, run

PLACE, FOLDER = next(iter(FOLDERS.items()))
MOST_MINUTES = {"fresh": 25, "built": 12}


def main(_arguments):
    clone(FOLDER)
    rows = [run(FOLDER, PLACE) for _ in MOST_MINUTES]
    remove(FOLDER)
    return all(row["status"] == 0 and row["minutes"] <= MOST_MINUTES[row["clone"]] for row in rows)
