"""Steps of a small network with Adam, one example at a time: the weights of its wide layer are read
and changed in each, and take the time.

    mlp.py ROUNDS
"""

import sys

import numpy as np

rng = np.random.default_rng(1)
rounds = int(sys.argv[1])
wide = rng.standard_normal((1024, 8192), dtype=np.float32) / 32
narrow = rng.standard_normal((8192, 16), dtype=np.float32) / 90
moment = np.zeros_like(narrow)
for _ in range(rounds):
    x = rng.standard_normal(1024, dtype=np.float32)
    hidden = np.maximum(x @ wide, 0)
    error = hidden @ narrow - 1
    back = (narrow @ error) * (hidden > 0)
    wide -= np.float32(1e-6) * x[:, None] * back
    gradient = hidden[:, None] * error
    moment *= np.float32(0.9)
    moment += gradient
    narrow -= np.float32(1e-6) * moment
print(float(np.abs(narrow).sum()))
