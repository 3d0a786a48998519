"""A stand-in for DASF: pipelines, datasets and transforms with its interface, and no more."""

import dask.array as da
import numpy as np
from operators import envelope, gaussian, gst3d, semblance


class Dataset:
    """Knows shape and element type before it loads; `_chunks` are the proposal's block size."""

    def __init__(self, shape, dtype, chunks="auto"):
        self.shape, self.dtype, self._chunks = tuple(shape), np.dtype(dtype), chunks


class DatasetArray(Dataset):
    """An array in a file of NumPy's, read block by block."""

    def __init__(self, path, chunks="auto"):
        self.path = str(path)
        known = np.load(self.path, mmap_mode="r")
        super().__init__(known.shape, known.dtype, chunks)

    def load(self):
        def read(block_info):
            place = tuple(slice(*each) for each in block_info[None]["array-location"])
            return np.array(np.load(path, mmap_mode="r")[place])

        path, chunks = (
            self.path,
            da.core.normalize_chunks(self._chunks, self.shape, dtype=self.dtype),
        )
        meta = np.empty((0,) * len(self.shape), self.dtype)
        return da.map_blocks(read, chunks=chunks, dtype=self.dtype, meta=meta)


class DatasetZarr(Dataset):
    """A zarr array."""

    def __init__(self, path, chunks="auto"):
        import zarr

        self.path = str(path)
        known = zarr.open_array(self.path, mode="r")
        super().__init__(known.shape, known.dtype, chunks)

    def load(self):
        return da.from_zarr(self.path, chunks=self._chunks)


class Transform:
    """An operator on blocks; a Dask array is mapped, with `halo` cells from the neighbours."""

    halo = (0, 0, 0)

    def transform(self, X):
        if not isinstance(X, da.Array):
            return self._transform_cpu(X)
        depth = {
            axis: cells if X.numblocks[axis] > 1 else 0 for axis, cells in enumerate(self.halo)
        }
        meta = np.empty((0,) * X.ndim, X.dtype)
        if not any(depth.values()):
            return da.map_blocks(self._transform_cpu, X, meta=meta)
        return da.map_overlap(self._transform_cpu, X, depth=depth, boundary="none", meta=meta)


class Gaussian(Transform):
    halo = gaussian.HALO

    def _transform_cpu(self, X):
        return gaussian.gaussian(X)


class Dip(Transform):
    """GST3D's first component, on all cells: those without neighbours have the next one's."""

    halo = gst3d.HALO

    def _transform_cpu(self, X):
        return np.pad(gst3d.gst3d(X)[0], gst3d.MARGIN, mode="edge")


class Semblance(Transform):
    halo = semblance.HALO

    def _transform_cpu(self, X):
        return semblance.semblance(X)


class Envelope(Transform):
    """Needs whole traces."""

    def _transform_cpu(self, X):
        return envelope.envelope(X)


class Running(Transform):
    """Sum along inlines so far: needs whole columns of axis 0."""

    def _transform_cpu(self, X):
        return np.cumsum(X, axis=0, dtype=X.dtype)


class Levelled(Transform):
    """Deviation from the mean along crosslines: needs whole columns of axis 1."""

    def _transform_cpu(self, X):
        return X - X.mean(axis=1, keepdims=True)


class Coherent:
    """Dips where neighbouring traces are alike."""

    def transform(self, X, Y):
        if not isinstance(X, da.Array):
            return self._transform_cpu(X, Y)
        return da.map_blocks(self._transform_cpu, X, Y, meta=np.empty((0,) * X.ndim, X.dtype))

    def _transform_cpu(self, X, Y):
        return np.where(np.float32(0.5) < Y, X, np.float32(0))


class Executor:
    """Runs what a pipeline says; Dask's workers do the rest when a result is asked for."""

    is_connected = True

    def __init__(self, client=None):
        self.client = client

    def pre_run(self, pipeline):
        pass

    def post_run(self, pipeline):
        pass

    def execute(self, fn, *args, **kwargs):
        return fn(*args, **kwargs)


class Pipeline:
    """Elements in the order they were added; parameters are the elements they come from."""

    def __init__(self, name, executor=None):
        self._name, self._executor = name, executor or Executor()
        self._dag_table, self._plugins = {}, []

    def register_plugin(self, plugin):
        self._plugins.append(plugin)

    def add(self, element, **parameters):
        for origin in parameters.values():
            if self._key(origin) not in self._dag_table:
                self.add(origin)
        function = _function(element)
        owner = type(function.__self__).__name__
        name = f"{owner}.{function.__name__}"
        entry = {"fn": function, "name": name, "parameters": parameters or None, "ret": None}
        self._dag_table[self._key(element)] = entry
        return self

    def run(self):
        keys = list(self._dag_table)  # an element is added after those it takes in
        self._executor.pre_run(self)
        self._tell("on_pipeline_start", keys)
        for entry in self._dag_table.values():
            given = entry["parameters"] or {}
            taken = {
                name: self._dag_table[self._key(origin)]["ret"] for name, origin in given.items()
            }
            self._tell("on_task_start", entry["fn"], given, entry["name"])
            try:
                entry["ret"] = self._executor.execute(fn=entry["fn"], **taken)
            except Exception as error:
                self._tell("on_task_error", entry["fn"], given, entry["name"], error)
                raise
            self._tell("on_task_end", entry["fn"], given, entry["name"], entry["ret"])
        self._tell("on_pipeline_end")
        self._executor.post_run(self)

    def get_result_from(self, element):
        return self._dag_table[self._key(element)]["ret"]

    def _key(self, element):
        """Its function's hash, or the next that is free: those of two bound methods may be equal."""
        function = _function(element)
        key = hash(function)
        while key in self._dag_table and self._dag_table[key]["fn"] != function:
            key += 1
        return key

    def _tell(self, hook, *arguments):
        for plugin in self._plugins:
            getattr(plugin, hook)(*arguments)


def _function(element):
    if isinstance(element, Dataset):
        return element.load
    return element.transform if hasattr(element, "transform") else element
