"""NumPy, its linear algebra and SciPy on arrays of 10 elements: small_calls.py CALLS"""

import sys

import numpy as np
from scipy import ndimage
from section import section


def calls(count):
    """That many calls; one in ten of a function that would be a span if the array were large."""
    x, y = np.ones(10), np.arange(10.0)
    for _ in range(count // 20):
        np.add(x, y), np.multiply(x, y), np.sqrt(x), np.dot(x, y), np.where(x > y, x, y)
        x.sum(), x.mean(), y.max(), np.sort(y), np.concatenate((x, y)), np.cumsum(x)
        x + y, x * 2.0, y.reshape(2, 5), np.abs(x), np.clip(y, 2, 5), np.stack((x, y)), np.zeros(10)
        np.linalg.norm(y)
        ndimage.uniform_filter1d(x, 3)


def main():
    count = int(sys.argv[1])
    calls(20_000)
    with section(count):
        calls(count)


main()
