"""Halos: what a chunk needs of its neighbours, and what a boundary puts around the array.

With a boundary other than "none" Dask gives the array's faces a halo too. Chunks are planned for
the padded array then, and cut from the array itself so that no block is larger than the plan's.
"""

import math
from numbers import Integral


def depth_of(x, depth):
    """Cells that a chunk needs from its neighbours, for every axis.

    ValueError: the array is empty or of unknown length, or a depth is negative, no whole number or
    of an axis that is not there.
    """
    from dask.array.overlap import coerce_depth

    if 0 in x.shape:
        raise ValueError(f"an array of shape {tuple(x.shape)} has no cells to cut into chunks")
    if any(map(math.isnan, x.shape)):
        raise ValueError(
            "the lengths of the array's axes are not known: call its compute_chunk_sizes() first"
        )
    given = _by_axis(depth, len(x.shape))
    for axis, cells in given.items():
        if not (isinstance(axis, Integral) and 0 <= axis < len(x.shape)):
            axes = len(x.shape)
            raise ValueError(f"a depth is given for axis {axis!r} of an array of {axes} axes")
        if not all(isinstance(each, Integral) for each in sides(cells)) or min(sides(cells)) < 0:
            raise ValueError(
                f"the depth along axis {axis} must be a whole number of cells and must not be "
                f"negative, as {cells!r} is"
            )
    found = coerce_depth(len(x.shape), depth)
    return {axis: found.get(axis, 0) for axis in range(len(x.shape))}


def _by_axis(depth, axes):
    """One depth is meant for all axes."""
    if isinstance(depth, dict):
        return depth
    return dict(enumerate(depth if isinstance(depth, (list, tuple)) else [depth] * axes))


def whole_axes_of(shape, axes):
    """Axes counted from the first, of one or of several.

    ValueError: the array has no such axis.
    """
    axes = [axes] if isinstance(axes, Integral) else list(axes)
    for axis in axes:
        if not isinstance(axis, Integral) or not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"axis {axis} cannot stay whole: the array has axes 0 to {len(shape) - 1}"
            )
    return [axis % len(shape) for axis in axes]


def block_shape(chunk, shape, depths):
    """The largest chunk with its halo: on one side where there are two, at the array's faces
    none."""
    return tuple(
        min(n, c + (sum(sides(depths[axis])) if n > 2 * c else most(depths[axis])))
        for axis, (c, n) in enumerate(zip(chunk, shape))
    )


def sides(depth):
    """Cells before and after a chunk along an axis."""
    return depth if isinstance(depth, tuple) else (depth, depth)


def most(depth):
    """The larger of both sides."""
    return max(sides(depth))


def padding_of(shape, depths, boundary):
    """Cells that Dask puts around an array along each axis."""
    from dask.array.overlap import coerce_boundary

    kinds = coerce_boundary(len(shape), boundary)
    return tuple(
        0 if kinds.get(axis) in (None, "none") else sum(sides(depths[axis]))
        for axis in range(len(shape))
    )


def without_padding(chunks, shape, padding, depths):
    """Chunks of the array in place of those of the padded one.

    ValueError: the array has none of at least its depth whose blocks are no larger.
    """
    return tuple(
        _recut(axis, lengths, n, depths[axis]) if pad else tuple(lengths)
        for axis, (lengths, n, pad) in enumerate(zip(chunks, shape, padding))
    )


def _recut(axis, lengths, n, depth):
    """As many chunks along an axis, or as few as its depth lets there be. They are even: one
    smaller last chunk could be below the depth."""
    number = max(1, min(len(lengths), n // max(1, most(depth))))
    length = -(-n // number)
    [planned] = block_shape([max(lengths)], [sum(lengths)], [depth])
    if length + sum(sides(depth)) > planned:
        raise ValueError(
            f"axis {axis} of {n} cells has no chunks of at least {most(depth)} cells that fit with "
            'what its boundary adds: take boundary="none", or raise the memory limit'
        )
    longer = n - number * (length - 1)
    return (length,) * longer + (length - 1,) * (number - longer)
