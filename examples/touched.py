"""Asks for more than it touches, and keeps less than it allocated: its numbers all differ.

    memtrace --operator __main__:reserve --operator __main__:texts --operator __main__:fill -- \\
        python touched.py

docs/why-the-numbers-differ.md goes through what comes out.
"""

import time

import numpy as np


def reserve():
    """160 MB of zeroes, a quarter of them written to."""
    volume = np.zeros((1000, 1000, 20))
    volume[:250] = 1.0
    return volume


def texts(count):
    """Many small blocks, every tenth of them kept: the pages between those stay in memory."""
    lines = [f"trace {number:>600}" for number in range(count)]
    return lines[::10]


def fill():
    """100 MB, all of them written to."""
    return np.full((1250, 1000, 10), 2.0)


def main():
    volume, lines, full = reserve(), texts(100_000), fill()
    time.sleep(0.3)
    print(f"{(volume.nbytes + full.nbytes) / 1e6:.0f} MB in arrays, {len(lines)} texts kept")


if __name__ == "__main__":
    main()
