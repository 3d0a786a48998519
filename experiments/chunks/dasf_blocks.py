"""Calls the elements' functions on a block of each shape, twice: what their laws are made of.

In as many processes at once as a cluster has workers, so that seconds are those of a machine as
busy: python -m experiments.chunks.dasf_blocks 2 53x61x97 113x59x64
"""

import subprocess
import sys

from experiments.chunks.dasf_elements import GST3D, rolled, smoothed
from experiments.operators.run import WARM_UP, volume

#: How a recording names what is called for each block.
NAMES = (
    "experiments.chunks.dasf_elements:GST3D._transform_cpu",
    "operators.gaussian:gaussian",
    "dasf.transforms.operations:Roll._transform_cpu",
)


def call(block):
    for element in (smoothed(), rolled(), GST3D()):
        element._transform_cpu(block)


def main():
    number, *written = sys.argv[1:]
    if int(number) > 1:
        once = [sys.executable, "-m", "experiments.chunks.dasf_blocks", "1", *written]
        processes = [subprocess.Popen(once) for _ in range(int(number))]
        sys.exit(max(process.wait() for process in processes))
    shapes = [tuple(map(int, text.split("x"))) for text in written]
    for shape in (WARM_UP, *shapes):
        block = volume(shape)
        for _ in range(2):
            call(block)


if __name__ == "__main__":
    main()
