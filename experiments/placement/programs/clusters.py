"""Clusters of points by k-means: each round measures every block of points against the centres.

clusters.py ROUNDS
"""

import sys

import numpy as np

BLOCKS, POINTS, WIDTH, CENTRES = 32, 65_536, 16, 6

rng = np.random.default_rng(5)
blocks = [rng.standard_normal((POINTS, WIDTH), dtype=np.float32) for _ in range(BLOCKS)]
centres = rng.standard_normal((CENTRES, WIDTH), dtype=np.float32)

for _ in range(int(sys.argv[1])):
    sums, counts = np.zeros((CENTRES, WIDTH)), np.zeros(CENTRES)
    for block in blocks:
        nearest = (block @ (-2 * centres.T) + (centres**2).sum(axis=1)).argmin(axis=1)
        counts += np.bincount(nearest, minlength=CENTRES)
        for k in range(CENTRES):
            sums[k] += block[nearest == k].sum(axis=0)
    centres = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
print(f"{float(np.abs(centres).sum()):.6g}")
