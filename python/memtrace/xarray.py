"""Chunks of xarray's arrays that fit: importing this module gives them `.memtrace`.

import memtrace.xarray
sizes = data.memtrace.chunk("gaussian", model="model.json", memory_limit="1.5GB", workers=2)
smooth = data.chunk(sizes).map_overlap(...)
"""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

try:
    import xarray
except ImportError as error:
    raise ImportError("memtrace.xarray needs xarray: pip install xarray") from error


from ._planning import worker_limits
from ._planning.names import name_in
from ._planning.plan import plan
from ._running.load import model_of

if TYPE_CHECKING:
    from ._native import Model


class Accessor:
    """`.memtrace` of a DataArray or a Dataset."""

    def __init__(self, data: "Union[xarray.DataArray, xarray.Dataset]"):
        self._data = data

    def chunk(self, op: "Union[str, Callable[..., Any]]", **request: Any) -> "Dict[Any, Tuple]":
        """Sizes of the chunks along each dimension, ready for xarray's `.chunk()`.

        Arguments and errors are those of `recommend`.
        """
        return self.recommend(op, **request)["chunks"]

    def recommend(
        self,
        op: "Union[str, Callable[..., Any]]",
        *,
        model: "Union[Model, str, os.PathLike[str]]",
        memory_limit: "Optional[Union[int, str]]" = None,
        workers: "Optional[Union[int, str]]" = None,
        threads: "Optional[int]" = None,
        halo: "Optional[Mapping[Any, int]]" = None,
        whole: "Sequence[Any]" = (),
        variable: Any = None,
        **more: Any,
    ) -> "Dict[str, Any]":
        """Chunks for an operator with what they are predicted to need, and why.

        Chunks of the file that the data comes from, as its encoding has them, are kept together
        where that fits.

        Args:
            op: An operator of the model, by its name or as the function itself.
            model: A model or its file.
            memory_limit: Of each worker: bytes, or a text like "1.5GB" (default: that of the
                current Dask client; so are `workers` and `threads`).
            workers: The number of workers, or "auto": as many as are worth having.
            threads: Threads of each.
            halo: Extra cells per face, by dimension.
            whole: Dimensions that are not to be cut.
            variable: Of a Dataset, the one that chunks are made for (default: the largest).
            **more: As for `Model.recommend`, parameters of the operator among them.

        Returns:
            The keys of `memtrace recommend --format json`; `chunks` is by dimension.

        Raises:
            MemoryError: Nothing fits; the message names the smallest limit that would.
            ValueError: There is no law, no limit is known, or a dimension is none of the array's.
        """
        array = self._array(variable)
        limits = {**worker_limits.of_current_client(), **_given(memory_limit, workers, threads)}
        if "memory_limit" not in limits:
            raise ValueError("say the memory limit of a worker, e.g. memory_limit='1.5GB'")
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
        lengths = (tuple(axis) for axis in found["chunks"])
        return {**found, "chunks": dict(zip(array.dims, lengths))}

    def plan(
        self, model: "Union[Model, str, os.PathLike[str]]", **request: Any
    ) -> "Dict[str, Any]":
        """What computing the data, which has chunks, is predicted to need: see `memtrace.plan`."""
        return plan(model_of(model), self._data, **request)

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
    """Chunk lengths of the file that an array comes from, None if it has none.

    zarr's `preferred_chunks` or `chunks`, netCDF's `chunksizes`. A part of a file's array, as far
    as that can be seen, has none: where its chunks begin is not known.
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


def _given(memory_limit, workers, threads):
    given = {"memory_limit": memory_limit, "workers": workers, "threads": threads}
    return {name: value for name, value in given.items() if value is not None}


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
