"""Files of DASF's datasets: what they say of their arrays, and blocks read by the tasks.

A dataset of DASF has no shape and element type before it loads.
"""

import os


def array_of(dataset):
    """The array in a dataset's file, of which only shape and type are read; None if it has none.

    ValueError: the file cannot be read.
    """
    path = getattr(dataset, "_root_file", None)
    kinds = (kind.__name__ for kind in type(dataset).__mro__)
    opener = next((OPENERS[kind] for kind in kinds if kind in OPENERS), None)
    if path is None or opener is None:
        return None
    try:
        return opener(os.path.abspath(path), dataset)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"cannot read the array of {path}: {error}") from error


def read_by_blocks(dataset, chunks):
    """Has a dataset load an array of these chunks, each of which is read by its own task.

    DASF has one task load all of a file of NumPy's, and h5py's objects cannot be sent to workers.
    Zarr's arrays are read by chunks anyway.
    """
    array = array_of(dataset)
    if array is not None and not hasattr(array, "store"):
        dataset._lazy_load = lambda xp, **_: _blocks(array, chunks, xp)


def read_as_before(dataset):
    """Undoes `read_by_blocks`; what has loaded stays."""
    vars(dataset).pop("_lazy_load", None)  # its class's shows again


def _blocks(array, chunks, xp):
    import dask.array as da

    about = {"dtype": array.dtype, "meta": xp.empty((0,) * len(array.shape), array.dtype)}
    return da.map_blocks(_block, array=array, xp=xp, chunks=chunks, **about)


def _block(array, xp, block_info):
    """Runs in a worker."""
    place = tuple(slice(*ends) for ends in block_info[None]["array-location"])
    return xp.asarray(array[place])


class HDF5Array:
    """A dataset in a file of HDF5, which every process opens for itself."""

    def __init__(self, path, name):
        self._path, self._name = path, name
        with self._file() as file:
            self.shape, self.dtype = file[name].shape, file[name].dtype

    def __dask_tokenize__(self):
        status = os.stat(self._path)
        return self._path, self._name, status.st_mtime_ns, status.st_size

    def __getitem__(self, place):
        with self._file() as file:
            return file[self._name][place]

    def _file(self):
        import h5py

        return h5py.File(self._path, "r")


def _numpy(path, dataset):
    import numpy as np

    from ..dask._stored import readable

    return readable(np.load(path, mmap_mode="r"))


def _hdf5(path, dataset):
    return HDF5Array(path, dataset._dataset_path)


def _zarr(path, dataset):
    import zarr

    return zarr.open_array(path, mode="r")


OPENERS = {"DatasetArray": _numpy, "DatasetHDF5": _hdf5, "DatasetZarr": _zarr}
