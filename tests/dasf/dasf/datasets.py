"""Datasets in files. They know no shape and element type before they load; `load` returns them."""

import dask
import dask.array as da
import h5py
import numpy as np
import zarr

from dasf._handler import task_handler


class Dataset:
    def __init__(self, name, download=False, root=None, chunks="auto"):
        self._name, self._root_file, self._chunks = name, root, chunks
        self._data = None

    @task_handler
    def load(self):
        pass

    def _lazy_load_cpu(self):
        self._data = self._lazy_load(np)
        return self

    def _load_cpu(self):
        self._data = self._load(np)
        return self


class DatasetArray(Dataset):
    """A file of NumPy's, loaded by one task, and taken for float32 whatever it is."""

    def _lazy_load(self, xp):
        shape = np.load(self._root_file, mmap_mode="r").shape
        loaded = dask.delayed(xp.load)(self._root_file)
        array = da.from_delayed(loaded, shape=shape, dtype=xp.float32, meta=xp.array(()))
        return array.rechunk(self._chunks) if isinstance(self._chunks, tuple) else array

    def _load(self, xp):
        return xp.load(self._root_file)


class DatasetZarr(Dataset):
    def __init__(self, name, download=False, root=None, backend=None, chunks=None):
        super().__init__(name, download, root, chunks)

    def _lazy_load(self, xp):
        chunks = {} if self._chunks is None else {"chunks": self._chunks}
        return da.from_zarr(self._root_file, **chunks).map_blocks(xp.asarray)

    def _load(self, xp):
        return zarr.open_array(self._root_file, mode="r")


class DatasetHDF5(Dataset):
    """h5py's objects are in its array's tasks: they cannot be sent to another process."""

    def __init__(self, name, download=False, root=None, chunks="auto", dataset_path=None):
        super().__init__(name, download, root, chunks)
        self._dataset_path = dataset_path

    def _lazy_load(self, xp):
        array = h5py.File(self._root_file)[self._dataset_path]
        return da.from_array(array, chunks=self._chunks, meta=xp.array(()))

    def _load(self, xp):
        return h5py.File(self._root_file)[self._dataset_path]
