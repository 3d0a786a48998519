"""Calls the elements' functions on blocks of these shapes, twice: what their laws are made of.

python -m dasf_blocks 38x41x43 47x46x45
"""

import sys

from dasf_elements import Coherent, Levelled, Running
from operators import semblance

from experiments.chunks import dasf_blocks
from experiments.operators.run import WARM_UP, volume


def main():
    shapes = [tuple(map(int, text.split("x"))) for text in sys.argv[1:]]
    for shape in (WARM_UP, *shapes):
        block = volume(shape)
        for _ in range(2):
            dasf_blocks.call(block)
            semblance.semblance(block)
            Coherent()._transform_cpu(block, block)
            Running()._transform_cpu(block)
            Levelled()._transform_cpu(block)


if __name__ == "__main__":
    main()
