"""Memory as a resource of Dask: tasks run together if they fit together."""

from ._halo import block_shape, depth_of
from ._laws import Operator
from ._workers import FRAMEWORK_BYTES, current_client, facts_of_worker

#: What the resource is called, in bytes.
MEMORY = "memory"


def declare(client=None, warm=None):
    """Gives every worker a `memory` resource: what it may use less its resident size, in bytes.

    Workers that join later get theirs too.

    Args:
        client: Of the cluster (default: the current one).
        warm: A function of no arguments that is called in each worker first, one time per thread,
            so that what the operators retain is allocated already.

    Returns:
        Bytes by the workers' addresses.

    Raises:
        ValueError: There is no client.
        RuntimeError: A worker cannot declare its memory.
    """
    client = current_client(client)
    if client is None:
        raise ValueError("resources are of a cluster's workers: give its client")
    plugin = _plugin(warm)
    for address, answer in client.register_plugin(plugin).items():
        if answer.get("status") != "OK":
            raise RuntimeError(f"worker {address} cannot declare its memory: {answer}")
    return client.run(_declared)


def _declared(dask_worker):
    return int(dask_worker.state.total_resources[MEMORY])


def _plugin(warm):
    from distributed.diagnostics.plugin import WorkerPlugin

    class Declares(WorkerPlugin):
        name = "memtrace-memory"
        idempotent = False

        async def setup(self, worker):
            facts = facts_of_worker(warm, dask_worker=worker)
            free = facts["memory_limit"] * facts["budget_fraction"] - facts["resident_bytes"]
            await worker.set_resources(**{MEMORY: max(0, int(free) - FRAMEWORK_BYTES)})

    return Declares()


def needs(model, operator, *blocks, halo=0, dtype=None, any_version=False, **params):
    """What a call of an operator takes of a worker's memory.

    Args:
        model: A `memtrace.Model`, or its file.
        operator: Its name in the model, or the function itself.
        *blocks: Shapes or arrays it may be called with; the largest need counts. Of a Dask array
            its largest chunk counts, with `halo` cells of its neighbours.
        halo: Cells from the neighbours, as the `depth` of `da.map_overlap`.
        dtype: Of shapes.
        any_version: Also use laws that were recorded with other releases of libraries.
        **params: Parameters of the operator, which choose among its laws.

    Returns:
        `{"memory": bytes}`, for `client.submit(..., resources=...)` and
            `dask.annotate(resources=...)`.

    Raises:
        ValueError: There is no law, or no block.
    """
    if not blocks:
        raise ValueError("say what the operator is called with: a shape or an array")
    found = []
    for block in blocks:
        shape = getattr(block, "shape", block)
        if hasattr(block, "chunksize"):
            shape = block_shape(block.chunksize, block.shape, depth_of(block, halo))
        law = Operator.of(operator, model, params=params, any_version=any_version)
        own = getattr(block, "dtype", None)
        law = law._replace(dtype=dtype if own is None else own.str)
        found.append(law.task_bytes(shape))
    return {MEMORY: max(found)}
