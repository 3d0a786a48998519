"""Tasks of Ray that request what the operator's law says.

    python -m schedulers.on_ray model.json 1500000000 200x250x300 120x130x140 …

Tasks that do not fit into the node's memory together wait for each other. Prints a line of JSON for
each: what it requested and what it took.
"""

import json
import sys

import memtrace
import memtrace.sizing
import ray
from schedulers import job

OPERATOR = "envelope"
#: A worker beyond a plain Python with the same libraries: Ray's own libraries and threads.
RAY_BYTES = 100_000_000
ATTEMPTS = 3


# A process of its own for each task: what an earlier one left would count for the next. Ray does
# not repeat a task that it has killed: it would request the same again.
@ray.remote(max_calls=1, max_retries=0)
def apply(operator, shape):
    return job.run(operator, shape)


def requests(sizes, shape):
    """Bytes of a task."""
    return RAY_BYTES + sizes.request(OPERATOR, shape)


def apply_all(sizes, shapes):
    """Each task's result, with what it requested; a task that was killed runs again with more."""
    waiting = {}

    def submit(shape, request, attempt):
        task = apply.options(memory=request).remote(OPERATOR, shape)
        waiting[task] = shape, request, attempt

    for shape in shapes:
        submit(shape, requests(sizes, shape), 1)
    while waiting:
        [task], _ = ray.wait(list(waiting), num_returns=1)
        shape, request, attempt = waiting.pop(task)
        try:
            took = ray.get(task)
        except ray.exceptions.OutOfMemoryError:
            if attempt == ATTEMPTS:
                raise
            sizes.killed(OPERATOR, shape, request - RAY_BYTES)
            submit(shape, requests(sizes, shape), attempt + 1)
            continue
        sizes.finished(OPERATOR, shape, max(took["peak_bytes"] - RAY_BYTES, 0))
        yield {"requested_bytes": request, "attempt": attempt, **took}


def main():
    model, memory, *shapes = sys.argv[1:]
    sizes = memtrace.sizing.Sizes(model)
    ray.init(
        num_cpus=len(shapes),  # memory alone decides here what runs together
        _memory=int(memory),
        object_store_memory=100_000_000,
        include_dashboard=False,
        log_to_driver=False,
    )
    for task in apply_all(sizes, [job.shape_of(shape) for shape in shapes]):
        print(json.dumps(task), flush=True)


if __name__ == "__main__":
    main()
