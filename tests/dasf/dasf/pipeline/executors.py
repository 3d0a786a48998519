"""Where a pipeline's elements are called."""

from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import NannyPlugin, WorkerPlugin


class LocalExecutor:
    """In this process. It takes no plugins."""

    is_connected = True

    def pre_run(self, pipeline):
        pass

    def post_run(self, pipeline):
        pass

    def execute(self, fn, *args, **kwargs):
        return fn(*args, **kwargs)


class Executor:
    """What the others are made of: it is connected to nothing, and executes nothing."""

    is_connected = False

    def pre_run(self, pipeline):
        pass

    def post_run(self, pipeline):
        pass

    def execute(self, fn, *args, **kwargs):
        pass


class DaskPipelineExecutor(Executor):
    """In the client: elements make Dask arrays."""

    is_connected = True

    def __init__(self, address=None, port=8786, local=False, use_gpu=False, cluster_kwargs=None):
        if address:
            self.client = Client(f"tcp://{address}:{port}")
        else:
            self.client = Client(LocalCluster(**(cluster_kwargs or {})))

    def register_plugin(self, plugin):
        """Others than those of Dask are dropped."""
        if isinstance(plugin, (WorkerPlugin, NannyPlugin)):
            self.client.register_plugin(plugin)

    def execute(self, fn, *args, **kwargs):
        return fn(*args, **kwargs)

    def close(self):
        self.client.close()


class DaskTasksPipelineExecutor(DaskPipelineExecutor):
    """In a worker, where an element finds no client: one task each, of a whole array."""

    def pre_run(self, pipeline):
        self._worker = next(iter(self.client.nthreads()))

    def execute(self, fn, *args, **kwargs):
        return self.client.submit(fn, *args, **kwargs, workers=[self._worker])


class DaskPBSPipelineExecutor(Executor):
    """Has a client of a cluster of PBS."""

    def __init__(self, **kwargs):
        from dask_jobqueue import PBSCluster

        self.client = Client(PBSCluster(**kwargs))
