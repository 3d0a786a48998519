"""Chunks of xarray's arrays that fit: importing this module gives them `.memtrace`.

import memtrace.xarray
sizes = data.memtrace.chunk("gaussian", model="model.json", limit="1.5GB", workers=2)
smooth = data.chunk(sizes).map_overlap(...)
"""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

try:
    import xarray
except ImportError as error:
    raise ImportError("memtrace.xarray needs xarray: pip install xarray") from error

import memtrace

from . import _sizes, _workers
from ._load import model_of
from ._names import name_in

if TYPE_CHECKING:
    from ._native import Model


class Accessor:
    """`.memtrace` of a DataArray or a Dataset."""

    def __init__(self, data: "Union[xarray.DataArray, xarray.Dataset]"):
        self._data = data

    def chunk(self, op: "Union[str, Callable[..., Any]]", **asked: Any) -> "Dict[Any, Tuple]":
        """Sizes of the chunks along each dimension, ready for xarray's `.chunk()`.

        Arguments and errors are those of `recommend`.
        """
        return self.recommend(op, **asked)["chunks"]

    def recommend(
        self,
        op: "Union[str, Callable[..., Any]]",
        *,
        model: "Union[Model, str, os.PathLike[str]]",
        limit: "Optional[Union[int, str]]" = None,
        workers: "Optional[Union[int, str]]" = None,
        threads: "Optional[int]" = None,
        halo: "Optional[Mapping[Any, int]]" = None,
        whole: "Sequence[Any]" = (),
        variable: Any = None,
        **more: Any,
    ) -> "Dict[str, Any]":
        """Chunks for an operator with what they are foretold to need, and why.

        op: an operator of the model, by its name or as the function itself. model: a model or its
        file. limit, workers, threads: memory limit of each worker in bytes (or "1.5GB"), how many
        ("auto": as many as are worth having), threads of each; by default those of the current
        Dask client. halo: extra cells per face by dimension; whole: dimensions that are not to be
        cut. variable: of a Dataset, the one that is chunked for (default: the largest).
        Chunks of the file that the data comes from, as its encoding tells them, are kept together
        where that fits. more: as for `Model.recommend`, parameters of the operator among them.

        The keys are those of `memtrace recommend --format json`; `chunks` is by dimension.
        MemoryError: nothing fits; it names the smallest limit that would. ValueError: there is no
        law, no limit is known, or a dimension is none of the array's.
        """
        array = self._array(variable)
        limits = {**_workers.of_current_client(), **_said(limit, workers, threads)}
        if "memory_limit" not in limits:
            raise ValueError("say the memory limit of a worker, e.g. limit='1.5GB'")
        known = model_of(model)
        about = {
            "dtype": array.dtype.str,
            "halo": _along(array.dims, halo or {}),
            "whole_axes": sorted(_axes(array.dims, whole)),
            "storage_chunks": stored_chunks(array),
        }
        if "budget_fraction" in limits:
            about["budget_fraction"] = limits["budget_fraction"]
        found = known.recommend(
            name_in(known, op),
            array.shape,
            limits["memory_limit"],
            limits.get("workers", 1),
            limits.get("threads", 1),
            **{**about, **more},
        )
        sizes = (tuple(axis) for axis in found["chunks"])
        return {**found, "chunks": dict(zip(array.dims, sizes))}

    def plan(self, model: "Union[Model, str, os.PathLike[str]]", **asked: Any) -> "Dict[str, Any]":
        """What computing the data, which has chunks, is foretold to hold: see `memtrace.plan`."""
        return memtrace.plan(model_of(model), self._data, **asked)

    def _array(self, variable):
        if not hasattr(self._data, "data_vars"):
            return self._data
        arrays = self._data.data_vars
        if variable is None:
            if not arrays:
                raise ValueError("the dataset has no variables")
            variable = max(arrays, key=lambda name: arrays[name].nbytes)
        if variable not in arrays:
            raise ValueError(f"the dataset has no variable {variable!r}, but {list(arrays)}")
        return arrays[variable]


def stored_chunks(array: "xarray.DataArray") -> "Optional[Sequence[int]]":
    """Chunk lengths of the file that an array comes from, None if it tells none.

    zarr's `preferred_chunks` or `chunks`, netCDF's `chunksizes`. A part of a file's array, as far
    as that can be seen, tells none: where its chunks begin is not known.
    """
    encoding = array.encoding
    if tuple(encoding.get("original_shape") or array.shape) != array.shape:
        return None
    by_name = encoding.get("preferred_chunks")
    if isinstance(by_name, Mapping) and set(array.dims) <= set(by_name):
        lengths = [by_name[dim] for dim in array.dims]
    else:
        lengths = encoding.get("chunks") or encoding.get("chunksizes") or ()
    plain = all(isinstance(length, int) and length > 0 for length in lengths)
    return list(lengths) if lengths and plain and len(lengths) == array.ndim else None


def _said(limit, workers, threads):
    said = {
        "memory_limit": None if limit is None else _sizes.parse(limit),
        "workers": workers,
        "threads": threads,
    }
    return {name: value for name, value in said.items() if value is not None}


def _along(dims, cells):
    """Numbers by dimension as numbers by axis."""
    if not isinstance(cells, Mapping):
        raise ValueError(f"say the halo by dimension, e.g. halo={{{dims[0]!r}: 2}}, not {cells!r}")
    _axes(dims, cells)
    found = [cells.get(dim, 0) for dim in dims]
    if not all(isinstance(each, int) and each >= 0 for each in found):
        raise ValueError(f"the halo must be a number of cells for each dimension, not {cells!r}")
    return found


def _axes(dims, names):
    unknown = [name for name in names if name not in dims]
    if unknown:
        raise ValueError(f"the array has no dimension {unknown[0]!r}, but {list(dims)}")
    return [dims.index(name) for name in names]


xarray.register_dataarray_accessor("memtrace")(Accessor)
xarray.register_dataset_accessor("memtrace")(Accessor)
