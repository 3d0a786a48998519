"""Calls every transform of the stand-in on a block of each shape, twice: what its laws are made of.

python -m experiments.chunks.standin_blocks 53x61x97 113x59x64
"""

import sys

from experiments.chunks import standin
from experiments.operators.run import WARM_UP, volume

TRANSFORMS = (
    standin.Gaussian,
    standin.Dip,
    standin.Semblance,
    standin.Envelope,
    standin.Running,
    standin.Levelled,
)


def main():
    shapes = [tuple(map(int, text.split("x"))) for text in sys.argv[1:]]
    for shape in (WARM_UP, *shapes):
        block = volume(shape)
        for _ in range(2):
            for transform in TRANSFORMS:
                transform()._transform_cpu(block)
            standin.Coherent()._transform_cpu(block, block)


if __name__ == "__main__":
    main()
