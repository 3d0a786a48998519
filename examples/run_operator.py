"""Run one operator on a synthetic volume in memory, as a sweep over shapes needs it.

    python run_operator.py --operator gaussian --shape 41,43,47 --repeat 2

Each result is dropped before the next call starts; from the second call on the process is in
its steady state. The samples may be others than those of a seismic volume, and lie in memory in
another order: memory that depends on either shows when both are varied.
"""

import argparse
import importlib

import numpy as np
import operators
from run_gst3d import cells
from volume import synthetic

DATA_VALUES = {
    "random": lambda volume: volume,
    "constant": lambda volume: np.ones_like(volume),
    "sorted": lambda volume: np.sort(volume, axis=None).reshape(volume.shape),
    "sparse": lambda volume: np.where(volume > 0.95, volume, np.float32(0)),
    "nan": lambda volume: np.where(volume > 0.95, np.float32(np.nan), volume),
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda volume: np.pad(volume, 1)[1:-1, 1:-1, 1:-1],
}
ORDERS = {"little": "<f4", "big": ">f4"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operator", choices=operators.NAMES, required=True)
    parser.add_argument("--shape", type=cells, required=True, metavar="N,N,N")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times")
    parser.add_argument("--data-values", choices=DATA_VALUES, default="random")
    parser.add_argument("--layout", choices=LAYOUTS, default="C")
    parser.add_argument("--order", choices=ORDERS, default="little", help="of the bytes")
    args = parser.parse_args()
    module = importlib.import_module(f"operators.{args.operator}")
    volume = DATA_VALUES[args.data_values](synthetic(args.shape)).astype(ORDERS[args.order])
    volume = LAYOUTS[args.layout](volume)
    for _ in range(args.repeat):
        # Looked up at each call, so that a wrapper put in its place is used.
        mean = getattr(module, args.operator)(volume).mean()
        print(f"{args.operator} of {'×'.join(map(str, args.shape))}: mean {mean:.6g}")


if __name__ == "__main__":
    main()
