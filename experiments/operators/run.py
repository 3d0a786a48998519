"""Calls one operator at a row of shapes, in one process.

    python -m experiments.operators.run median float32 53x61x97 113x59x64:sorted 113x59x64:mixed:7

After a shape may stand what is in it (see `volume`), and a seed.

Every result is dropped before the next call. The first call, at a small shape, fills caches
(OpenBLAS's buffers, lazy imports), so that the others find the process in its steady state.
"""

import importlib
import sys

import numpy as np

from experiments.operators import OPERATORS, VARYING

WARM_UP = (37, 41, 43)
BLOCK = 1 << 20


def volume(shape, dtype="float32", data_values="noise", seed=0):
    """A volume of a shape: noise in [-1, 1] (integers: of a thousand levels), or other contents."""
    rng = np.random.default_rng(seed)
    result = np.empty(shape, dtype)
    flat = result.reshape(-1)
    scale = 1.0 if result.dtype.kind == "f" else 1000.0
    # One block of noise over and over: it is there to be computed with, not to be looked at.
    block = (rng.uniform(-1, 1, min(BLOCK, flat.size)) * scale).astype(dtype)
    if data_values == "constant":
        block[:] = block.flat[0]
    elif data_values == "sorted":
        block.sort()
    elif data_values == "sparse":
        block[rng.uniform(size=block.size) > 0.02] = 0
    elif data_values == "positive":
        block = np.abs(block)
    elif data_values == "mixed":
        block = (block * rng.uniform(0.1, 2) + scale * rng.uniform(-1, 1)).astype(dtype)
    elif data_values == "nan" and result.dtype.kind == "f":
        block[rng.uniform(size=block.size) > 0.9] = np.nan
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        part[:] = block[: part.size]
    return result


def function(name):
    """The operator of that name, looked up at each call: a recorder may have wrapped it."""
    module = OPERATORS.get(name) or VARYING[name]
    return getattr(importlib.import_module(f"experiments.operators.{module}"), name)


def main():
    name, dtype, *shapes = sys.argv[1:]
    function(name)(volume(WARM_UP, dtype))
    for text in shapes:
        shape, data_values, seed, *_ = [*text.split(":"), "", ""]
        lengths = tuple(int(n) for n in shape.split("x"))
        array = volume(lengths, dtype, data_values or "noise", seed=int(seed or sum(lengths)))
        try:
            function(name)(array)
        except (ValueError, np.linalg.LinAlgError, MemoryError) as error:
            print(f"{name} at {text}: {error}", file=sys.stderr)
        del array


if __name__ == "__main__":
    main()
