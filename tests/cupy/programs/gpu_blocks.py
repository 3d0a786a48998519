"""What tasks of a Dask cluster do with a GPU: GST3D of blocks that lie in the host's memory, or there."""

import cupy
import gst3d_cupy

rises = []  # what CuPy's pool said of each call in this process


def dip(block):
    """Of a NumPy block, as one."""
    return counted(lambda: cupy.asnumpy(gst3d_cupy.gst3d(cupy.asarray(block))[0]))


def gst3d(volume):
    """Of a CuPy array, as one."""
    return counted(lambda: gst3d_cupy.gst3d(volume))


def counted(call):
    peaks = gst3d_cupy.Peaks()
    with peaks:
        peaks.begin()
        result = call()
    rises.append(peaks.within - peaks.before)
    return result


def reported():
    return rises
