"""Run one operator on a synthetic volume in memory, as a sweep over shapes needs it.

    python run_operator.py --operator gaussian --shape 41,43,47 --repeat 2

Each result is dropped before the next call starts; from the second call on the process is in
its steady state.
"""

import argparse
import importlib

import operators
from run_gst3d import cells
from volume import synthetic


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operator", choices=operators.NAMES, required=True)
    parser.add_argument("--shape", type=cells, required=True, metavar="N,N,N")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times")
    args = parser.parse_args()
    module = importlib.import_module(f"operators.{args.operator}")
    volume = synthetic(args.shape)
    for _ in range(args.repeat):
        # Looked up at each call, so that a wrapper put in its place is used.
        mean = getattr(module, args.operator)(volume).mean()
        print(f"{args.operator} of {'×'.join(map(str, args.shape))}: mean {mean:.6g}")


if __name__ == "__main__":
    main()
