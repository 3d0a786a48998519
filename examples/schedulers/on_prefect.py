"""Tasks of Prefect that hold as many megabytes of a concurrency limit as the operator's law says.

    python -m schedulers.on_prefect model.json 1500 200x250x300 120x130x140 …

The limit `memory` is what the machine has for them, in MB. Tasks that do not fit into it together
wait for each other. Prints a line of JSON for each: what it requested and what it took.
"""

import json
import sys

import memtrace.sizing
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency
from prefect.runtime import task_run
from prefect.task_runners import ThreadPoolTaskRunner
from schedulers import job

OPERATOR = "envelope"


# A retry requests more.
@task(retries=2)
def apply(shape, model):
    sizes = memtrace.sizing.Sizes(model)
    megabytes = sizes.mem_mb(OPERATOR, shape, attempt=task_run.run_count)
    # strict: without the limit the task fails, instead of running with none.
    with concurrency("memory", occupy=megabytes, strict=True):
        return {"requested_bytes": megabytes * 10**6, **job.run_apart(OPERATOR, shape)}


@flow(task_runner=ThreadPoolTaskRunner(max_workers=16))
def volumes(shapes, model):
    tasks = [apply.submit(shape, model) for shape in shapes]
    return [each.result() for each in tasks]


def main():
    model, megabytes, *shapes = sys.argv[1:]
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name("memory", int(megabytes))
    for took in volumes([job.shape_of(shape) for shape in shapes], model):
        print(json.dumps(took))


if __name__ == "__main__":
    main()
