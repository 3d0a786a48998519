"""Jobs as a scheduler has them: one operator at one shape in a fresh process, with its real peak.

Each is run once and kept; the mix of the study draws from them.
"""

import json
import os
import random
import subprocess
import sys

from experiments.recording import KEPT, ROOT, written

FOLDER = KEPT / "chunks" / "jobs"
#: operator -> cells of the smallest and largest job
OPERATORS = {
    "envelope": (0.5e6, 24e6),
    "gaussian": (2e6, 60e6),
    "semblance": (1e6, 40e6),
    "median": (0.5e6, 8e6),
    "gradient_magnitude": (1e6, 30e6),
    "argsort_rank": (0.5e6, 16e6),
    "rfft_bandpass": (1e6, 24e6),
    "gst3d": (0.1e6, 2.5e6),
}
SHAPES = 10
QUICK = {"envelope": (0.5e6, 4e6), "gaussian": (2e6, 8e6)}

# The resident peak of the process and the CPU time of the operator: other work changes neither.
PROGRAM = """
import sys, time
from pathlib import Path
from experiments.operators.run import function, volume
name, shape = sys.argv[1], tuple(map(int, sys.argv[2].split("x")))
array = volume(shape)
start = time.process_time()
function(name)(array)
seconds = time.process_time() - start
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(int(peak) * 1024, seconds)
"""


def shapes(name, cells, number=SHAPES):
    """Shapes of about these many cells, none a cube, volumes evenly apart in their logarithm."""
    chance, (low, high) = random.Random(name), cells
    for step in range(number):
        volume = low * (high / low) ** (step / (number - 1))
        a, b = (chance.uniform(0.6, 1.6) for _ in range(2))
        side = (volume / (a * b)) ** (1 / 3)
        yield (round(side * a), round(side * b), round(side))


def jobs(quick=False):
    """All distinct jobs with their peak (bytes) and seconds, those that are not known run now."""
    file = FOLDER / "runs.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    known = {}
    if file.exists():
        rows = [json.loads(text) for text in file.read_text().splitlines()]
        known = {(row["operator"], tuple(row["shape"])): row for row in rows}
    found = []
    for name, cells in (QUICK if quick else OPERATORS).items():
        for shape in shapes(name, cells):
            if (name, shape) not in known:
                known[name, shape] = row = {"operator": name, "shape": shape, **run(name, shape)}
                with file.open("a") as out:
                    out.write(json.dumps(row) + "\n")
            found.append(known[name, shape])
    return found


def run(name, shape):
    """One job in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, written(shape)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    peak, seconds = done.stdout.split()
    return {"peak_bytes": int(peak), "seconds": float(seconds)}


if __name__ == "__main__":
    jobs()
