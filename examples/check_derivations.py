"""Check the byte counts of docs/derivations.md against a measurement.

    python check_derivations.py                  counted by tracemalloc, at 100×100×100
    python check_derivations.py --report FILE    from `memtrace report TRACE --json > FILE`

Prints derived and measured bytes and their ratio; exits 1 where they differ by more than 0.5 %.
"""

import argparse
import importlib
import json
import math
import sys
import tracemalloc

import operators
from operators import gaussian
from run_gst3d import cells
from volume import synthetic

TOLERANCE = 0.005
LINE_BUFFER = 256_000  # scipy.ndimage's limit on one line buffer, in bytes


def derived_arrays(name, shape):
    """Bytes of NumPy arrays at the operator's peak, the input aside."""
    voxels = math.prod(shape)
    interior = math.prod(n - 2 for n in shape)
    return {
        "gst3d": 204 * interior,
        "envelope": 16 * voxels,
        "gaussian": 4 * voxels,
        "semblance": 8 * voxels,
    }[name]


def derived_buffers(name, shape):
    """Bytes that compiled code allocates by itself at that moment: tracemalloc misses them."""
    return {
        "gst3d": 0,
        "envelope": 64 * shape[2],
        "gaussian": line_buffers(shape, (gaussian.RADIUS,) * 3),
        "semblance": line_buffers(shape, (1, 1, 4)),
    }[name]


def line_buffers(shape, radii):
    """The largest pair of line buffers of a separable filter: lines in, extended, and out."""
    pairs = []
    for length, radius in zip(shape, radii, strict=True):
        extended = 8 * (length + 2 * radius)
        lines = min(max(LINE_BUFFER // extended, 1), math.prod(shape) // length)
        pairs.append(lines * (extended + 8 * length))
    return max(pairs)


def traced_peak(name, volume):
    """The operator's peak as NumPy reports its allocations to tracemalloc, second call."""
    function = getattr(importlib.import_module(f"operators.{name}"), name)
    function(volume)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    function(volume)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


def by_tracemalloc(shape):
    volume = synthetic(shape)
    for name in operators.NAMES:
        yield name, shape, derived_arrays(name, shape), traced_peak(name, volume)


def by_report(report):
    """Every steady-state span of a known operator.

    One-time bytes mark an operator's first call in its process: they belong to the libraries.
    """
    for operator in report["operators"]:
        name = operator["name"].replace(":", ".").rpartition(".")[2]
        if name not in operators.NAMES:
            continue
        for span in operator["spans"]:
            if not span["one_time_bytes"]:
                shape = tuple(span["inputs"][0]["shape"])
                derived = derived_arrays(name, shape) + derived_buffers(name, shape)
                yield name, shape, derived, span["working_peak_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=cells, default=(100, 100, 100), metavar="N,N,N")
    parser.add_argument("--report", type=argparse.FileType(), metavar="FILE", help="- is stdin")
    args = parser.parse_args()
    rows = list(by_report(json.load(args.report)) if args.report else by_tracemalloc(args.shape))
    if not rows:
        print("no span of a known operator after its first call", file=sys.stderr)
        return 1
    worst = 0.0
    print(f"{'operator':<10} {'shape':>12} {'derived':>13} {'measured':>13} {'ratio':>8}")
    for name, shape, derived, measured in rows:
        ratio = measured / derived
        worst = max(worst, abs(ratio - 1))
        size = "×".join(map(str, shape))
        print(f"{name:<10} {size:>12} {derived:>13,} {measured:>13,} {ratio:>8.5f}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
