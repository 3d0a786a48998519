"""Laws in Cubed's plans: what an operator needs, and chunks that keep a plan under `allowed_mem`.

Without a law, Cubed has to be given an operator's needs by hand (`extra_projected_mem`).

    import memtrace.cubed
    chunk = memtrace.cubed.chunks(model, "envelope", shape, "f4", spec=spec, whole_axes=[2])
    volume = cubed.from_array(data, chunks=chunk, spec=spec)
    result = memtrace.cubed.map_blocks(envelope, volume, model=model, dtype="f4")
"""

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple

try:
    import cubed
except ImportError as error:
    raise ImportError("memtrace.cubed needs Cubed: pip install cubed") from error

from ._planning.names import name_in

if TYPE_CHECKING:
    from ._native import Model

#: Copies that Cubed counts of what a task reads and of what it writes (files, no cloud storage).
READ_COPIES, WRITE_COPIES = 1, 1
#: Chunks are planned for one task at a time: otherwise a plan considers times only.
TASKS_AT_ONCE = 1


def map_blocks(
    func: "Callable[..., Any]",
    *args: Any,
    model: "Model",
    operator: "Optional[str]" = None,
    params: "Optional[Dict[str, Any]]" = None,
    **kwargs: Any,
) -> Any:
    """`cubed.map_blocks` whose plan knows what `func` needs.

    Cubed refuses to compute a plan over `allowed_mem`.

    Args:
        func: The function, called with one block of each array.
        *args: Arrays and other arguments, as Cubed takes them.
        model: Has a law for the function.
        operator: The function's name in the model (default: that of `func`).
        params: Parameters that choose its law.
        **kwargs: As for `cubed.map_blocks`.

    Returns:
        An array of Cubed's.

    Raises:
        ValueError: The model has no law for the function.
    """
    block = _first(args).chunksize
    extra = extra_projected_mem(
        model, operator or name_in(model, func), block, _first(args).dtype, **(params or {})
    )
    return cubed.map_blocks(func, *args, extra_projected_mem=extra, **kwargs)


def map_overlap(
    func: "Callable[..., Any]",
    *args: Any,
    model: "Model",
    depth: Any,
    operator: "Optional[str]" = None,
    params: "Optional[Dict[str, Any]]" = None,
    **kwargs: Any,
) -> Any:
    """`cubed.map_overlap` whose plan knows what `func` needs, and the halos Cubed joins for it.

    Args:
        func: The function, called with one block of each array and its halo.
        *args: Arrays and other arguments, as Cubed takes them.
        model: Has a law for the function.
        depth: Cells on both sides, by axis or for all axes.
        operator: The function's name in the model (default: that of `func`).
        params: Parameters that choose its law.
        **kwargs: As for `cubed.map_overlap`.

    Returns:
        An array of Cubed's.

    Raises:
        ValueError: The model has no law for the function.
    """
    array = _first(args)
    halo = [_cells(depth, axis) for axis in range(array.ndim)]
    extra = extra_projected_mem(
        model,
        operator or name_in(model, func),
        array.chunksize,
        array.dtype,
        halo=halo,
        padded=kwargs.get("boundary") not in (None, "none"),
        **(params or {}),
    )
    return cubed.map_overlap(func, *args, depth=depth, extra_projected_mem=extra, **kwargs)


def extra_projected_mem(
    model: "Model",
    operator: str,
    chunk: "Sequence[int]",
    dtype: Any,
    *,
    halo: "Optional[Sequence[int]]" = None,
    padded: bool = False,
    **params: Any,
) -> int:
    """Bytes to declare as `extra_projected_mem` of a task that calls an operator on one chunk.

    Cubed counts chunks and results, each twice. What is missing is the halo, and what the operator
    allocates beyond a result that is counted already: by the upper bound of its law at chunk and
    halo, with what its first call in a process leaves behind.

    Args:
        model: Has a law for the operator.
        operator: Its name in the model.
        chunk: Lengths of the chunk's axes, in elements.
        dtype: Of the array, as NumPy takes it.
        halo: Cells on each side, by axis (default: none).
        padded: Cells are put around the array (a `boundary` that is a value), for which a block is
            copied.
        **params: Parameters that choose its law.

    Returns:
        Bytes.

    Raises:
        ValueError: The model has no law for the operator.
    """
    sides = halo or [0] * len(chunk)
    block = [length + 2 * cells for length, cells in zip(chunk, sides)]
    law = _law(model, operator, block, dtype, params)
    own, given = _bytes(chunk, dtype), _bytes(block, dtype)
    result = law["output_bytes"] or own
    if halo:  # the user's function trims it: Cubed counts the result of a chunk
        result = result * own // given
    joined = (given - own) + (given if padded else 0)
    return joined + max(0, law["upper_bytes"] - (1 + WRITE_COPIES) * result) + law["one_time_bytes"]


def chunks(
    model: "Model",
    operator: str,
    shape: "Sequence[int]",
    dtype: Any,
    *,
    spec: "Optional[cubed.Spec]" = None,
    workers: int = 1,
    halo: "Optional[Sequence[int]]" = None,
    whole_axes: "Sequence[int]" = (),
    padded: bool = False,
    storage_chunks: "Optional[Sequence[int]]" = None,
    **params: Any,
) -> "Tuple[int, ...]":
    """The largest chunk of the fastest regular grid whose tasks Cubed lets pass.

    Args:
        model: Has a law for the operator.
        operator: Its name in the model.
        shape: Lengths of the array's axes, in elements.
        dtype: Of the array, as NumPy takes it.
        spec: Its `allowed_mem` and `reserved_mem` count (default: Cubed's own).
        workers: Tasks that run at the same time, each in a process.
        halo: Cells on each side of a chunk, by axis (default: none).
        whole_axes: Axes to leave in one chunk.
        padded: As for `extra_projected_mem`.
        storage_chunks: Chunk lengths of the store that the array lies in.
        **params: Parameters that choose the law.

    Returns:
        Lengths of the chunk's axes, in elements.

    Raises:
        MemoryError: No chunk fits.
        ValueError: The model has no law for the operator.
    """
    spec = spec or cubed.Spec()
    allowed, reserved = int(spec.allowed_mem), int(spec.reserved_mem)
    limit = allowed
    # Cubed counts more than a task needs: the limit is lowered until that fits as well.
    while True:
        found = model.recommend(
            operator,
            shape,
            limit,
            workers,
            TASKS_AT_ONCE,
            halo=halo,
            whole_axes=list(whole_axes),
            dtype=_text(dtype),
            budget_fraction=1.0,
            baseline_bytes=reserved,
            source="storage",
            storage_chunks=storage_chunks,
            **params,
        )
        chunk = tuple(found["chunk_shape"])
        needed = projected_mem(
            model, operator, chunk, dtype, spec=spec, halo=halo, padded=padded, **params
        )
        if needed <= allowed:
            return chunk
        limit -= needed - allowed
        if limit <= 0:
            raise MemoryError(
                f"no chunk of {operator} fits allowed_mem of {allowed} bytes: Cubed projects "
                f"{needed} for the smallest"
            )


def projected_mem(
    model: "Model",
    operator: str,
    chunk: "Sequence[int]",
    dtype: Any,
    *,
    spec: "Optional[cubed.Spec]" = None,
    halo: "Optional[Sequence[int]]" = None,
    padded: bool = False,
    **params: Any,
) -> int:
    """Bytes that Cubed projects for a task that calls an operator on one chunk, with its law.

    The arguments are those of `extra_projected_mem` and `chunks`.
    """
    spec = spec or cubed.Spec()
    sides = halo or [0] * len(chunk)
    block = [length + 2 * cells for length, cells in zip(chunk, sides)]
    law = _law(model, operator, block, dtype, params)
    own = _bytes(chunk, dtype)
    result = (law["output_bytes"] or own) * own // _bytes(block, dtype)
    counted = (1 + READ_COPIES) * own + (1 + WRITE_COPIES) * result
    extra = extra_projected_mem(model, operator, chunk, dtype, halo=halo, padded=padded, **params)
    return int(spec.reserved_mem) + counted + extra


def _law(model, operator, block, dtype, params):
    return model.predict(operator, list(block), _text(dtype), **params)


def _first(arrays):
    found = next((each for each in arrays if hasattr(each, "chunksize")), None)
    if found is None:
        raise ValueError("none of the arguments is an array of Cubed's")
    return found


def _cells(depth, axis):
    cells = depth.get(axis, 0) if hasattr(depth, "get") else depth
    if isinstance(cells, (tuple, list)) and hasattr(depth, "get"):
        return max(cells)
    return cells[axis] if isinstance(cells, (tuple, list)) else int(cells)


def _bytes(shape, dtype):
    import numpy

    return math.prod(shape) * numpy.dtype(dtype).itemsize


def _text(dtype):
    import numpy

    return numpy.dtype(dtype).str


__all__ = [
    "chunks",
    "extra_projected_mem",
    "map_blocks",
    "map_overlap",
    "projected_mem",
]
