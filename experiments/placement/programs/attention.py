"""Training steps of a small transformer: forward and back through its layers, with momentum.

attention.py ROUNDS
"""

import sys

import numpy as np

WIDTH, LAYERS, TOKENS = 768, 6, 192

rng = np.random.default_rng(2)
SHAPES = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
layers = [
    [rng.standard_normal(shape, dtype=np.float32) / 60 for shape in SHAPES] for _ in range(LAYERS)
]
moments = [[np.zeros_like(each) for each in layer] for layer in layers]


def forward(x, layer):
    mixed, out, up, down = layer
    q, k, v = np.split(x @ mixed, 3, axis=1)
    scores = np.exp(np.clip(q @ k.T / np.float32(WIDTH**0.5), -20, 20))
    scores /= scores.sum(axis=1, keepdims=True)
    seen = scores @ v
    y = x + seen @ out
    hidden = np.maximum(y @ up, 0)
    return y + hidden @ down, (x, scores, v, seen, y, hidden)


def backward(error, layer, kept):
    """Gradients of the weights, without what the scores depend on."""
    mixed, out, up, down = layer
    x, scores, v, seen, y, hidden = kept
    of_down = hidden.T @ error
    of_hidden = (error @ down.T) * (hidden > 0)
    of_up = y.T @ of_hidden
    error = error + of_hidden @ up.T
    of_out = seen.T @ error
    of_v = scores.T @ (error @ out.T)
    of_mixed = np.concatenate([np.zeros((WIDTH, 2 * WIDTH), np.float32), x.T @ of_v], axis=1)
    return error + of_v @ mixed[:, 2 * WIDTH :].T, (of_mixed, of_out, of_up, of_down)


for _ in range(int(sys.argv[1])):
    x = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)
    tape = []
    for layer in layers:
        x, kept = forward(x, layer)
        tape.append(kept)
    error = (x - 1) / np.float32(TOKENS * WIDTH)
    for layer, moment in zip(reversed(layers), reversed(moments), strict=True):
        error, gradients = backward(error, layer, tape.pop())
        for weight, mean, gradient in zip(layer, moment, gradients, strict=True):
            mean *= np.float32(0.9)
            mean += gradient
            weight -= np.float32(0.01) * mean
print(float(sum(np.abs(each).sum() for layer in layers for each in layer)))
