"""Gaussian filter: a separable low-pass over all three axes."""

from scipy.ndimage import gaussian_filter

SIGMA = 3.0
TRUNCATE = 4.0
RADIUS = round(TRUNCATE * SIGMA)

HALO = (RADIUS, RADIUS, RADIUS)
MARGIN = 0
COMPONENTS = None
WHOLE_AXES = ()


def gaussian(volume):
    """`volume` smoothed with standard deviation `SIGMA` cells, edges reflected."""
    return gaussian_filter(volume, SIGMA, truncate=TRUNCATE)
