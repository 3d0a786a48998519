"""Calls every transform of the stand-in on a block of each shape, twice: what its laws are made of.

In as many processes at once as a cluster has workers, so that seconds are those of a machine as busy:
python -m experiments.chunks.standin_blocks 2 53x61x97 113x59x64
"""

import subprocess
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
    number, *written = sys.argv[1:]
    if int(number) > 1:
        once = [sys.executable, "-m", "experiments.chunks.standin_blocks", "1", *written]
        processes = [subprocess.Popen(once) for _ in range(int(number))]
        sys.exit(max(process.wait() for process in processes))
    shapes = [tuple(map(int, text.split("x"))) for text in written]
    for shape in (WARM_UP, *shapes):
        block = volume(shape)
        for _ in range(2):
            for transform in TRANSFORMS:
                transform()._transform_cpu(block)
            standin.Coherent()._transform_cpu(block, block)


if __name__ == "__main__":
    main()
