"""Transforms that move cells."""

import numpy as np

from dasf.transforms import Transform


class Roll(Transform):
    """Rolls each block by itself."""

    def __init__(self, shift=(1, 1, 1)):
        self._shift = shift

    def _lazy_transform_cpu(self, X):
        return X.map_blocks(self._transform_generic, xp=np)

    def _transform_cpu(self, X):
        return self._transform_generic(X, np)

    def _transform_generic(self, X, xp):
        return xp.roll(X, shift=self._shift, axis=list(range(len(self._shift))))
