"""Dip and azimuth of a SEG-Y volume by GST3D, on NumPy or on chunked Dask.

    python run_gst3d.py --make volume.sgy --shape 200,200,200
    python run_gst3d.py volume.sgy
    python run_gst3d.py volume.sgy --engine dask --chunks 100,100,100 \\
        --workers 2 --memory-limit 1.5GB
"""

import argparse
import sys
import time
from contextlib import contextmanager, nullcontext

import numpy as np
from operators.gst3d import gst3d
from volume import SegyVolume, write_segy


def main():
    args = parse()
    try:
        if args.make:
            write_segy(args.make, args.shape)
            print(f"wrote {args.make}: {'×'.join(map(str, args.shape))}")
        else:
            run(args)
    except (OSError, ValueError, MemoryError) as error:
        print(f"run_gst3d: {error}", file=sys.stderr)
        return 1
    return 0


def run(args):
    volume = SegyVolume.open(args.file)
    engine = on_numpy(volume) if args.engine == "numpy" else on_dask(volume, args)
    with engine as once:
        for _ in range(args.repeat):
            start = time.perf_counter()
            summary = once()
            print(f"{describe(summary, volume)}, {time.perf_counter() - start:.2f} s")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="SEG-Y volume to read")
    parser.add_argument("--make", metavar="FILE", help="write a volume with known dip, and stop")
    parser.add_argument("--shape", type=cells, default=(100, 100, 100), metavar="N,N,N")
    parser.add_argument("--engine", choices=("numpy", "dask"), default="numpy")
    parser.add_argument("--chunks", type=cells, metavar="N,N,N", help="Dask: cells of a chunk")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="Dask: worker processes (default: threads)"
    )
    parser.add_argument("--memory-limit", default="auto", metavar="SIZE", help="Dask: per worker")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times")
    args = parser.parse_args()
    if bool(args.file) == bool(args.make):
        parser.error("give a SEG-Y file to read, or --make FILE to write one")
    if args.engine == "dask" and not args.chunks:
        parser.error("--engine dask needs --chunks, for example --chunks 100,100,100")
    return args


def cells(text):
    """Three positive numbers of cells, as in 100,100,100."""
    numbers = tuple(int(part) for part in text.split(","))
    if len(numbers) != 3 or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not three positive numbers")
    return numbers


def on_numpy(volume):
    """GST3D of the whole volume at once; the volume is read once."""
    samples = volume.read()
    return nullcontext(lambda: summarise(gst3d(samples), volume.dip))


@contextmanager
def on_dask(volume, args):
    """GST3D chunk by chunk; each chunk is summarised where it is, so none is held or moved."""
    import chunked
    import dask

    angles = chunked.apply("gst3d", chunked.load(volume, args.chunks))
    parts = [dask.delayed(summarise)(chunk, volume.dip) for chunk in angles.to_delayed().ravel()]
    with cluster(args) if args.workers else nullcontext():
        yield lambda: combine(dask.compute(*parts))


@contextmanager
def cluster(args):
    """Real worker processes of one thread each; says at the end what they needed."""
    from distributed import Client, KilledWorker, LocalCluster

    with (
        LocalCluster(
            n_workers=args.workers,
            threads_per_worker=1,
            memory_limit=args.memory_limit,
            dashboard_address=None,
        ) as workers,
        Client(workers) as client,
    ):
        try:
            yield
        except KilledWorker as error:
            raise MemoryError("a worker was killed: its chunks need more memory") from error
        peaks = sorted(client.run(peak_resident).values())
        print("workers' peak resident: " + ", ".join(f"{peak / 1e6:.0f} MB" for peak in peaks))


def summarise(angles, known_dip):
    """(summed |dip error|, cells, checksum): adds up over chunks, whatever their order.

    The checksum is the sum of the numbers' bits: the same only where every bit is the same.
    """
    error = 0.0 if known_dip is None else float(np.abs(angles[0] - known_dip).sum(dtype=float))
    return error, angles[0].size, int(angles.view(np.uint32).sum(dtype=np.uint64))


def combine(summaries):
    return tuple(sum(column) for column in zip(*summaries, strict=True))


def describe(summary, volume):
    error, cells, checksum = summary
    parts = [f"gst3d {'×'.join(map(str, volume.shape))}", f"checksum {checksum % 2**64:016x}"]
    if volume.dip is not None:
        parts.append(f"mean |dip - {volume.dip:g}°| = {error / cells:.4f}°")
    return ", ".join(parts)


def peak_resident():
    """This process's largest resident size so far, in bytes (Linux: VmHWM)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())
