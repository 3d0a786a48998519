"""Series of measurements: each round replaces a third of each, at another place, and takes
statistics of the whole.

windows.py ROUNDS
"""

import sys

import numpy as np

SERIES, THIRD = 24, 512 * 1024

rng = np.random.default_rng(11)
series = [rng.standard_normal(3 * THIRD, dtype=np.float32) for _ in range(SERIES)]

total = 0.0
for n in range(int(sys.argv[1])):
    for k, each in enumerate(series):
        at = (n + k) % 3 * THIRD
        each[at : at + THIRD] = rng.standard_normal(THIRD, dtype=np.float32)
        deviations = np.abs(each - each.mean())
        total += float(deviations.mean() + np.sqrt(each @ each))
print(f"{total:.9g}")
