"""Dips of a volume by GST3D, again and again: the tensor, nine numbers for each cell of the volume,
is written in steps of one number and read once.

    dips.py ROUNDS
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
from operators.gst3d import gst3d

volume = np.random.default_rng(1).standard_normal((72, 72, 72)).astype(np.float32)
for _ in range(int(sys.argv[1])):
    found = gst3d(volume)
print(type(found).__name__)
