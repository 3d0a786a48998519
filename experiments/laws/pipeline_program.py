"""The pipeline of six operators, as a plain program and as a graph of Dask's.

    python -m experiments.laws.pipeline_program plain 53x61x97 113x59x64
    python -m experiments.laws.pipeline_program dask 220x200x180 2

The span `pipeline` is around what is measured; the volume that goes in is there before it.
"""

import sys

import numpy as np
from operators.envelope import envelope
from operators.gaussian import HALO as GAUSSIAN_HALO
from operators.gaussian import gaussian
from operators.semblance import HALO as SEMBLANCE_HALO
from operators.semblance import semblance

from experiments.operators.attributes import cosine_of_phase, time_gain
from experiments.operators.run import WARM_UP, volume

#: As recordings name them.
OPERATORS = (
    "experiments.operators.attributes:time_gain",
    "operators.gaussian:gaussian",
    "operators.envelope:envelope",
    "operators.semblance:semblance",
    "experiments.operators.attributes:cosine_of_phase",
    "__main__:blend",
)


def blend(amplitude, likeness, phase):
    """Amplitude where neighbouring traces are alike, with the sign of the phase."""
    return amplitude * likeness * np.sign(phase)


def plain(data):
    """One operator after another, each array let go after its last use."""
    gained = time_gain(data)
    smooth = gaussian(gained)
    amplitude = envelope(smooth)
    likeness = semblance(smooth)
    del smooth
    phase = cosine_of_phase(gained)
    del gained
    return blend(amplitude, likeness, phase)


def graph(shape):
    """The same as a graph for `memtrace plan`."""
    step = lambda name, operator, *inputs: {"name": name, "operator": operator, "inputs": inputs}  # noqa: E731
    return {
        "version": 1,
        "sources": {"data": {"shape": list(shape), "dtype": "<f4", "retained": "not_counted"}},
        "steps": [
            step("gained", "time_gain", "data"),
            step("smooth", "gaussian", "gained"),
            step("amplitude", "envelope", "smooth"),
            step("likeness", "semblance", "smooth"),
            step("phase", "cosine_of_phase", "gained"),
            step("picture", "blend", "amplitude", "likeness", "phase"),
        ],
    }


def chunked(data):
    """The same on chunks of whole traces."""
    import dask.array as da

    meta = np.empty((0, 0, 0), "f4")
    split = (-(-data.shape[0] // 4), -(-data.shape[1] // 2), data.shape[2])

    def overlap(function, array, halo):
        depth = {0: halo[0], 1: halo[1], 2: 0}
        return da.map_overlap(function, array, depth=depth, boundary="none", meta=meta)

    # No name from the contents: that would cost a pass over them, and memory.
    gained = da.from_array(data, chunks=split, name=False).map_blocks(time_gain, meta=meta)
    smooth = overlap(gaussian, gained, GAUSSIAN_HALO)
    amplitude = smooth.map_blocks(envelope, meta=meta)
    likeness = overlap(semblance, smooth, SEMBLANCE_HALO)
    phase = gained.map_blocks(cosine_of_phase, meta=meta)
    return da.map_blocks(blend, amplitude, likeness, phase, meta=meta)


def main():
    import memtrace

    how, *rest = sys.argv[1:]
    lengths = [tuple(map(int, text.split("x"))) for text in rest if "x" in text]
    if how == "plain":
        plain(volume(WARM_UP))
        for shape in lengths:
            data = volume(shape, seed=sum(shape))
            with memtrace.span("pipeline", data):
                plain(data)
        return
    [shape], threads = lengths, int(rest[1])
    settings = {"scheduler": "threads", "num_workers": threads}
    chunked(volume((61, 53, 13))).compute(**settings)
    data = volume(shape, seed=sum(shape))
    picture = chunked(data)
    with memtrace.span("pipeline", data):
        picture.compute(**settings)


if __name__ == "__main__":
    main()
