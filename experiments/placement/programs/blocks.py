"""An operator on the blocks of a cube, each read from its file with the halo around it.

blocks.py MODULE:OPERATOR CUBE.npy CHUNK
"""

import importlib
import itertools
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

name, path, lengths = sys.argv[1:]
module = importlib.import_module(name.partition(":")[0])
operator = getattr(module, name.partition(":")[2])
halos = getattr(module, "HALO", (0, 0, 0))
chunk = [int(length) for length in lengths.split(",")]
cube = np.load(path, mmap_mode="r")


def block(corner):
    """What an operator needs for the chunk at this corner."""
    axes = zip(corner, chunk, halos, cube.shape, strict=True)
    return tuple(slice(max(0, at - halo), min(at + n + halo, end)) for at, n, halo, end in axes)


corners = itertools.product(*(range(0, n, c) for n, c in zip(cube.shape, chunk, strict=True)))
for corner in corners:
    operator(np.array(cube[block(corner)]))
