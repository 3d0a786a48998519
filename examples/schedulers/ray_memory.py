"""Runs an operator on volumes of several shapes in Ray; each task requests what its law says.

    python schedulers/ray_memory.py model.json gst3d 200,200,200 300,200,100

`memory` is a logical resource: Ray starts a task when a node has as much left, and does not limit
what the task takes then.
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import ray
from memtrace.sizing import Sizes

#: What Ray itself holds in the process of a task.
RAY_BYTES = 110_000_000


@ray.remote(num_cpus=1, max_calls=1)  # a process for each task: that is what a law predicts
def run(operator, shape):
    """The resident peak of the process, and when the task began and ended."""
    began = time.time()
    module = importlib.import_module(f"operators.{operator}")
    getattr(module, operator)(np.ones(shape, np.float32))
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return {"peak": int(peak) * 1024, "began": began, "ended": time.time()}


def main():
    model, operator, *shapes = sys.argv[1:]
    shapes = [tuple(int(cells) for cells in text.split(",")) for text in shapes]
    sizes = Sizes(model)
    memory = [RAY_BYTES + sizes.request(operator, shape) for shape in shapes]
    ray.init(include_dashboard=False)
    tasks = [
        run.options(memory=size).remote(operator, shape)
        for size, shape in zip(memory, shapes, strict=True)
    ]
    for shape, size, told in zip(shapes, memory, ray.get(tasks), strict=True):
        print(json.dumps({"shape": shape, "memory": size, **told}))


if __name__ == "__main__":
    main()
