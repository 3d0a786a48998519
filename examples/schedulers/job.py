"""One operator on a volume of one shape, for the examples in this folder.

    python -m schedulers.job envelope 200x250x300

It prints what the process took as JSON: its resident peak, and when the operator ran.
"""

import importlib
import json
import os
import subprocess
import sys
import time

import numpy as np


def shape_of(text):
    """(200, 250, 300) of 200x250x300."""
    return tuple(int(cells) for cells in text.split("x"))


def run(operator, shape):
    """Runs it in this process; the peak is that of the process since it started."""
    function = getattr(importlib.import_module(f"operators.{operator}"), operator)
    began = time.time()
    mean = float(function(np.ones(shape, np.float32)).mean())
    time.sleep(float(os.environ.get("LONGER_BY_SECONDS", 0)))  # as a slower operator would take
    ended = time.time()
    took = {"peak_bytes": peak_bytes(), "began": began, "ended": ended, "mean": mean}
    return {"operator": operator, "shape": list(shape), **took}


def run_apart(operator, shape):
    """Runs it in a process of its own."""
    command = [sys.executable, "-m", "schedulers.job", operator, "x".join(map(str, shape))]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def peak_bytes():
    """VmHWM: the largest resident size that this process has had."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], shape_of(sys.argv[2]))))
