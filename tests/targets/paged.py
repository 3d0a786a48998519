"""Memory over some time, by lines and operators that a test knows."""

import time

import numpy as np


def base(kept):
    kept.append(np.zeros(3_000_000, "u1"))


def grow(kept):
    for _ in range(4):
        kept.append(np.ones(1_000_000, "u1"))
        time.sleep(0.06)


def smooth(volume):
    padded = np.pad(volume, 1)
    return padded[1:-1] + padded[:-2]


def main():
    kept = []
    base(kept)
    time.sleep(0.1)
    grow(kept)
    for length in (1000, 1000, 1500):
        smooth(np.ones((length, 1000)))
        time.sleep(0.06)
    del kept[1:]
    main.left = np.ones(500_000, "u1")  # live when the program ends
    time.sleep(0.1)


if __name__ == "__main__":
    main()
