"""Steps of a network with Adam: its weights and their two moments are used in turn.

adam.py ROUNDS
"""

import sys

import numpy as np

WIDTH, LAYERS, BATCH = 1536, 4, 32

rng = np.random.default_rng(1)
weights = [rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / 40 for _ in range(LAYERS)]
first = [np.zeros_like(each) for each in weights]
second = [np.zeros_like(each) for each in weights]
for _ in range(int(sys.argv[1])):
    inputs = [rng.standard_normal((BATCH, WIDTH), dtype=np.float32)]
    for each in weights:
        inputs.append(np.maximum(inputs[-1] @ each, 0))
    back = inputs[-1] - 1
    for n in reversed(range(LAYERS)):
        back = back * (inputs[n + 1] > 0)
        gradient = inputs[n].T @ back
        back = back @ weights[n].T
        first[n] *= np.float32(0.9)
        first[n] += np.float32(0.1) * gradient
        gradient *= gradient
        second[n] *= np.float32(0.999)
        second[n] += np.float32(0.001) * gradient
        rate = np.sqrt(second[n])
        rate += np.float32(1e-8)
        np.divide(first[n], rate, out=rate)
        rate *= np.float32(1e-3)
        weights[n] -= rate
print(float(sum(np.abs(each).sum() for each in weights)))
