"""Elements of DASF's pipelines that take in two arrays, or need whole columns."""

import dask.array as da
import numpy as np
from dasf.transforms import Transform

from experiments.chunks import dasf_blocks


class Coherent(Transform):
    """`X` where `Y` is high."""

    def _lazy_transform_cpu(self, X, Y):
        return da.map_blocks(self._transform_cpu, X, Y, meta=np.empty((0,) * X.ndim, X.dtype))

    def _transform_cpu(self, X, Y):
        return np.where(np.float32(0.5) < Y, X, np.float32(0))


class Blockwise(Transform):
    def _lazy_transform_cpu(self, X):
        return X.map_blocks(self._transform_cpu, meta=np.empty((0,) * X.ndim, X.dtype))


class Running(Blockwise):
    """Sum along axis 0 so far: needs it whole."""

    def _transform_cpu(self, X):
        return np.cumsum(X, axis=0, dtype=X.dtype)


class Levelled(Blockwise):
    """Deviation from the mean along axis 2: needs it whole."""

    def _transform_cpu(self, X):
        return X - X.mean(axis=2, keepdims=True)


NAMES = (
    *dasf_blocks.NAMES,
    "operators.semblance:semblance",
    *(f"dasf_elements:{each.__name__}._transform_cpu" for each in (Coherent, Running, Levelled)),
)
