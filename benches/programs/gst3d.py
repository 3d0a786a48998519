"""GST3D of a volume in memory, from the examples: gst3d.py CELLS ROUNDS"""

import sys
from pathlib import Path

import numpy as np
from section import section

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from operators.gst3d import gst3d  # noqa: E402


def main():
    cells, rounds = map(int, sys.argv[1:])
    volume = np.random.default_rng(1).standard_normal((cells,) * 3, np.float32)
    gst3d(volume)
    with section():
        for _ in range(rounds):
            gst3d(volume)


main()
