"""How much memory and time one chunking needs on a real Dask cluster, and which is fastest.

    python examples/dask_chunks.py run --operator gst3d --shape 200,200,200 --splits 2,2,1
    python examples/dask_chunks.py exhaustive --operator gst3d --shape 200,200,200 \
        --recommended 100,100,200 --output gst3d.jsonl

`run` prints one JSON object. `exhaustive` runs every split up to 4x4x4 once, then the
recommended chunks against the fastest few in interleaved pairs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

from dask.utils import parse_bytes
from dask_cluster import Run, budget_fraction, cluster, measure
from dask_operators import mean_of, warm
from operators import NAMES
from volume import SegyVolume, write_segy

Shape = tuple[int, int, int]


def main() -> None:
    options = parse_options()
    if options.command == "run":
        chunk = options.chunks or split_chunk(options.shape, options.splits or (1, 1, 1))
        print(json.dumps(run_once(options, chunk), indent=2))
    else:
        exhaustive(options)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "exhaustive"])
    parser.add_argument("--operator", choices=NAMES, required=True)
    parser.add_argument("--shape", type=triple, required=True)
    parser.add_argument("--chunks", type=triple, help="size of a chunk per axis (run)")
    parser.add_argument("--splits", type=triple, help="number of chunks per axis (run)")
    parser.add_argument("--recommended", type=triple, help="size of a chunk (exhaustive)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads-per-worker", type=int, default=1)
    parser.add_argument("--memory-limit", default="1.5GB")
    parser.add_argument("--most-splits", type=int, default=4)
    parser.add_argument("--baselines", type=int, default=3, help="fastest splits to pair with")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--output", type=Path, help="JSON lines of every run (exhaustive)")
    parser.add_argument(
        "--data", type=Path, default=Path(tempfile.gettempdir()) / "memtrace-volumes"
    )
    return parser.parse_args()


def triple(text: str) -> Shape:
    a, b, c = (int(part) for part in text.split(","))
    return a, b, c


def split_chunk(shape: Shape, splits: Shape) -> Shape:
    """The chunk of ⌈n/k⌉ per axis."""
    return tuple(-(-n // k) for n, k in zip(shape, splits, strict=True))


def chunk_sizes(shape: Shape, chunk: Shape) -> tuple[tuple[int, ...], ...]:
    """Per axis equal chunks with one smaller last one, as zarr and Cubed can store them."""
    return tuple(
        tuple(min(c, n - start) for start in range(0, n, c))
        for n, c in zip(shape, chunk, strict=True)
    )


def stored_volume(folder: Path, shape: Shape) -> SegyVolume:
    """The same synthetic SEG-Y for the same shape, written once."""
    path = folder / f"layers-{'x'.join(map(str, shape))}.sgy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial_path = path.with_suffix(".part")
        write_segy(partial_path, shape)
        partial_path.rename(path)
    return SegyVolume.open(path)


def run_once(options: argparse.Namespace, chunk: Shape) -> dict:
    """One fresh cluster, one computation."""
    volume = stored_volume(options.data, options.shape)
    chunks = chunk_sizes(options.shape, chunk)
    with cluster(options.workers, options.memory_limit, options.threads_per_worker) as client:
        result = mean_of(options.operator, volume, chunks)
        run = measure(client, partial(warm, options.operator), result)
    return describe(options, chunk, chunks, run)


def describe(options: argparse.Namespace, chunk: Shape, chunks, run: Run) -> dict:
    budget = int(parse_bytes(options.memory_limit) * budget_fraction())
    return {
        "operator": options.operator,
        "shape": options.shape,
        "chunk": chunk,
        "splits": [len(c) for c in chunks],
        "budget_bytes": budget,
        "peak_bytes": run.peak_bytes,
        "baseline_bytes": run.baseline_bytes,
        "cpu_seconds": run.cpu_seconds,
        "spilled_bytes": run.spilled_bytes,
        "within_budget": not (run.error or run.killed or run.paused or run.spilled_bytes)
        and run.peak_bytes <= budget,
        "all_busy": len(run.workers) == options.workers
        and all(w["operators"] for w in run.workers),
        **asdict(run),
    }


def exhaustive(options: argparse.Namespace) -> None:
    """Every split once, then the recommended chunks paired with the fastest few."""
    done = read_lines(options.output)
    for splits in itertools.product(range(1, options.most_splits + 1), repeat=3):
        chunk = split_chunk(options.shape, splits)
        if str(chunk) not in done:
            done[str(chunk)] = run_once(options, chunk)
            report(done[str(chunk)], options.output)
    if options.recommended:
        print(json.dumps(duel(options, fastest(options, list(done.values()))), indent=2))


def fastest(options: argparse.Namespace, runs: list[dict]) -> list[Shape]:
    """The chunks to beat: fastest by the clock, and by the CPU time of the busiest worker,
    which other programs on the machine disturb less."""
    others = [r for r in runs if r["within_budget"] and tuple(r["chunk"]) != options.recommended]
    chosen: dict[Shape, None] = {}
    for key in ("seconds", "cpu_seconds"):
        for run in sorted(others, key=lambda r: r[key])[: options.baselines]:
            chosen[tuple(run["chunk"])] = None
    return list(chosen)


def duel(options: argparse.Namespace, baselines: list[Shape]) -> dict:
    """Interleaved runs; the order within a round alternates so that no one is always first.

    A baseline that leaves its budget in any round is out: it is no chunking to recommend.
    """
    rounds: dict[Shape, list[dict]] = {chunk: [] for chunk in [options.recommended, *baselines]}
    for turn in range(options.pairs):
        for chunk in list(rounds)[:: -1 if turn % 2 else 1]:
            rounds[chunk].append(run_once(options, chunk))
            report(rounds[chunk][-1])
    ours = rounds[options.recommended]
    return {
        "recommended": summary(options.recommended, ours, ours),
        "baselines": [summary(chunk, rounds[chunk], ours) for chunk in baselines],
    }


def summary(chunk: Shape, runs: list[dict], ours: list[dict]) -> dict:
    """Medians of a duel; the ratio is that of the recommended chunks to these, round by round."""
    pairs = zip(ours, runs, strict=True)
    return {
        "chunk": chunk,
        "seconds": statistics.median(r["seconds"] for r in runs),
        "cpu_seconds": statistics.median(r["cpu_seconds"] for r in runs),
        "ratio": statistics.median(a["seconds"] / b["seconds"] for a, b in pairs),
        "peak_bytes": max(r["peak_bytes"] for r in runs),
        "always_within_budget": all(r["within_budget"] for r in runs),
        "always_all_busy": all(r["all_busy"] for r in runs),
    }


def read_lines(path: Path | None) -> dict[str, dict]:
    """The sweep's runs of an earlier call, by chunk: a long experiment can be continued."""
    if path is None or not path.exists():
        return {}
    runs = (json.loads(line) for line in path.read_text().splitlines())
    return {str(tuple(run["chunk"])): run for run in runs}


def report(run: dict, output: Path | None = None) -> None:
    """One line per run for the reader, the whole of it for the file."""
    fits = "fits" if run["within_budget"] else run["error"] or "over budget"
    print(
        f"{run['splits']} chunk {run['chunk']}: {run['seconds']:.2f} s, "
        f"peak {run['peak_bytes'] / 1e6:.0f} of {run['budget_bytes'] / 1e6:.0f} MB, {fits}",
        file=sys.stderr,
    )
    if output:
        with output.open("a") as file:
            file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
