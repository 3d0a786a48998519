"""An operator over a volume on disk as one Dask computation that leaves nothing to hold."""

from __future__ import annotations

import importlib

import chunked
import dask.array as da
import numpy as np
from volume import SegyVolume


def mean_of(operator: str, volume: SegyVolume, chunks: tuple[tuple[int, ...], ...]) -> da.Array:
    """The mean of the operator's result, reduced per chunk: only sources and halos are held."""
    return chunked.apply(operator, chunked.load(volume, chunks)).mean(dtype="f8")


def warm(operator: str) -> None:
    """One call on a small block: imports, caches and BLAS buffers are there after it."""
    module = importlib.import_module(f"operators.{operator}")
    getattr(module, operator)(np.ones([2 * halo + 8 for halo in module.HALO], np.float32))
