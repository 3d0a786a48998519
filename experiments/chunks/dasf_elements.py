"""Elements of a pipeline of DASF: two transforms of its own, and GST3D as a transform."""

import numpy as np
from dasf.transforms import MappedTransform, Transform
from dasf.transforms.operations import Roll
from operators import gaussian, gst3d


class GST3D(Transform):
    """GST3D's first component, the dip, on all cells: those without neighbours have the next
    one's."""

    def _lazy_transform_cpu(self, X):
        depth = {
            axis: cells if X.numblocks[axis] > 1 else 0 for axis, cells in enumerate(gst3d.HALO)
        }
        meta = np.empty((0,) * X.ndim, X.dtype)
        return X.map_overlap(self._transform_cpu, depth=depth, boundary="none", meta=meta)

    def _transform_cpu(self, X):
        return np.pad(gst3d.gst3d(X)[0], gst3d.MARGIN, mode="edge")


def smoothed():
    """DASF's MappedTransform of the Gaussian, with cells from the neighbours."""
    return MappedTransform(gaussian.gaussian, depth=gaussian.HALO, boundary="reflect")


def rolled():
    """DASF's Roll: each block by one cell along each axis."""
    return Roll((1, 1, 1))
