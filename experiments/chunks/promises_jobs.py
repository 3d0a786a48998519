"""The jobs of the promises on chunks, their limits and ten chunkings by hand: rules written before
anything ran."""

import shutil
import sys
from typing import NamedTuple

import memtrace
import numpy as np
import zarr
from dask.array.core import normalize_chunks

from experiments.chunks import promises_operators as operators
from experiments.chunks.models import WORKER
from experiments.recording import KEPT, written
from experiments.recording import memtrace as command

FOLDER = KEPT / "chunks" / "promises"
#: A warmed worker holds about 220 MB; Dask lets it use 70 % of these.
LIMITS = ("400MB", "550MB", "1GB")
WORKERS = 2
#: Bytes of a chunk in the store.
STORED_BYTES = 1e6
RECORDED = "from experiments.chunks import promises_operators as operators; operators.main()"


class Job(NamedTuple):
    """Operators in a row over an array in a zarr store."""

    way: str  # what chooses the chunks
    shape: tuple
    dtype: str
    names: tuple  # of the operators that chunks are chosen for
    earlier: tuple = ()  # operators that make their input, in the chunks of the store
    ends: str = "mean"  # or "store"; "back": in the chunks of the store, and stored

    @property
    def whole(self):
        """Axes that stay in one chunk."""
        last = len(self.shape) - 1
        return (last,) if set(self.names) & set(operators.WHOLE) else ()

    def halo(self, name):
        cells = operators.HALO.get(name, 0)
        whole = self.whole if name in operators.WHOLE or self.shape[-1] == 4 else ()
        return tuple(0 if axis in whole else cells for axis in range(len(self.shape)))

    @property
    def stored_chunks(self):
        return cube(self.shape, np.dtype(self.dtype).itemsize, STORED_BYTES, ())


#: Four jobs for each way to choose; one to four axes, three element types. The first and third of
#: each way may be looked at while chunks are mended, the others are untouched until the end.
JOBS = {
    "traces": Job("recommend", (200, 240, 320), "f4", ("bandpass",), ends="back"),
    "section": Job("recommend", (4000, 3000), "f8", ("energy",), earlier=("clip",)),
    "join": Job("recommend", (2_000_000, 4), "i2", ("join",)),
    "lapse": Job("recommend", (24, 80, 80, 100), "f4", ("smooth",)),
    "series": Job("map_overlap", (16_000_000,), "f8", ("smooth",), ends="store"),
    "picture": Job("map_overlap", (5000, 4000), "i2", ("median",), ends="store"),
    "cube": Job("map_overlap", (240, 250, 260), "f4", ("gradient",), earlier=("clip",), ends="store"),
    "lapses": Job("map_overlap", (20, 60, 80, 100), "f8", ("energy",)),
    "signal": Job("plan", (24_000_000,), "f4", ("smooth", "energy", "clip")),
    "table": Job("plan", (1_000_000, 4), "f8", ("join", "rolling", "standardise", "clip")),
    "survey": Job("plan", (200, 200, 200), "i2", ("smooth", "clip", "gradient", "smooth", "envelope")),
    "chain": Job("plan", (160, 200, 240), "f4", ("bandpass", "smooth", "gradient", "energy", "envelope", "clip")),
}  # fmt: skip
LOOKED_AT = tuple(
    name
    for way in ("recommend", "map_overlap", "plan")
    for name in [name for name, job in JOBS.items() if job.way == way][::2]
)


def cube(shape, item, most_bytes, whole):
    """Equal sides, or whole axes, of at most so many bytes."""
    axes = sorted((n, axis) for axis, n in enumerate(shape))
    axes.sort(key=lambda each: each[1] not in whole)
    left, lengths = most_bytes / item, [1] * len(shape)
    for at, (n, axis) in enumerate(axes):
        side = int(left ** (1 / (len(axes) - at)))
        lengths[axis] = n if axis in whole else max(1, min(n, side))
        left /= lengths[axis]
    return tuple(lengths)


def by_hand(job):
    """Ten chunkings of a person: the first axis into 2, 4, 8 and 32; the second (without one to
    cut, the first) into 3 and 16; cubes of 1, 4 and 16 MB; Dask's own choice. Where some of these
    are the same, the first axis into 6, 12, 24 and 64, until there are ten."""
    item, axes = np.dtype(job.dtype).itemsize, range(len(job.shape))
    free = [axis for axis in axes if axis not in job.whole]
    second = free[1] if len(free) > 1 else free[0]
    found = [cut(job, free[0], count) for count in (2, 4, 8, 32)]
    found += [cut(job, second, count) for count in (3, 16)]
    found += [cube(job.shape, item, size, job.whole) for size in (1e6, 4e6, 16e6)]
    auto = {axis: -1 if axis in job.whole else "auto" for axis in axes}
    found.append(tuple(map(max, normalize_chunks(auto, job.shape, dtype=job.dtype))))
    found += [cut(job, free[0], count) for count in (6, 12, 24, 64)]
    return list(dict.fromkeys(found))[:10]


def cut(job, axis, count):
    """An axis in even parts, none below the halo."""
    least = max(1, *(job.halo(name)[axis] for name in job.names))
    length = max(least, -(-job.shape[axis] // count))
    return tuple(length if at == axis else n for at, n in enumerate(job.shape))


def volume(name):
    """The job's array in a zarr store, written once."""
    job, path = JOBS[name], FOLDER / f"{name}.zarr"
    if not (path / "complete").exists():
        path.mkdir(parents=True, exist_ok=True)
        store = zarr.create_array(
            str(path / "data"), shape=job.shape, chunks=job.stored_chunks, dtype=job.dtype, overwrite=True
        )  # fmt: skip
        step = max(1, job.shape[0] // 8)
        for at in range(0, job.shape[0], step):
            part = store[at : at + step].shape
            store[at : at + step] = operators.values(part, job.dtype, at)
        (path / "complete").touch()
    return zarr.open_array(str(path / "data"), mode="r")


def training(job):
    """Four shapes of 1/600 to 1/50 of the job's cells; axes of a table's columns stay."""
    few = len([n for n in job.shape if n <= 4])
    for step, part in enumerate((600, 250, 110, 50)):
        scale = part ** (-1 / (len(job.shape) - few))
        jitter = [1 + 0.07 * ((3 * axis + 2 * step) % 5 - 2) for axis in range(len(job.shape))]
        yield tuple(
            n if n <= 4 else max(6, round(n * scale * j))
            for n, j in zip(job.shape, jitter, strict=True)
        )


def model(name):
    """The laws of a job's operators: one recorded process that calls them at small shapes."""
    job, folder = JOBS[name], FOLDER / f"{name}.model"
    file = folder / "model.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = (*job.earlier, *job.names)
        spans = [f"--operator={operators.__name__}:{each}" for each in dict.fromkeys(names)]
        run = ("-c", RECORDED, ",".join(names), job.dtype, *map(written, training(job)))
        trace = folder / "trace"
        shutil.rmtree(trace, ignore_errors=True)  # of a recording that was interrupted
        command("--quiet", "-o", trace, *spans, "--", sys.executable, *run, environment=WORKER)
        memtrace.fit([str(trace)]).save(str(file))
    return memtrace.Model.load(str(file))
