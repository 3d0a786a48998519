"""Transforms: `_transform_cpu` of arrays, `_lazy_transform_cpu` of Dask's."""

import numpy as np

from dasf._handler import task_handler


class Transform:
    @task_handler
    def transform(self, X, **kwargs):
        pass


class ExtractData(Transform):
    """Gives out a dataset's array."""

    def transform(self, X):
        if getattr(X, "_data", None) is None:
            raise ValueError("the dataset has not loaded")
        return X._data


class MappedTransform(Transform):
    """Calls a function for each block, with `depth` cells of the neighbours."""

    def __init__(self, function, depth=None, boundary=None):
        self.function, self.depth, self.boundary = function, depth, boundary

    def _lazy_transform_cpu(self, X):
        about = {"dtype": X.dtype, "meta": np.array(())}
        if not self.depth:
            return X.map_blocks(self.function, chunks=X.chunks, **about)
        return X.map_overlap(self.function, depth=self.depth, boundary=self.boundary, **about)

    def _transform_cpu(self, X):
        return self.function(X)
