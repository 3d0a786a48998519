"""Synthetic seismic volumes with known dip, in memory and as SEG-Y.

Axis 0 is the inline, axis 1 the crossline, axis 2 the samples of a trace. Nothing here holds
more than the volume it returns and a few of its planes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import segyio

SPACING_M = 25  # between inlines and between crosslines
INTERVAL_US = 4000  # between samples
INLINE_SORTING = 2  # SEG-Y's code for traces of one inline lying together
IEEE_FLOAT = 5  # SEG-Y's code for 4-byte IEEE numbers


@dataclass(frozen=True)
class Layers:
    """Plane layers, sin(k·x), under noise that differs from trace to trace.

    Dip and azimuth in degrees as `operators.gst3d` defines them; lengths in cells.
    """

    dip: float = 25.0
    azimuth: float = 40.0
    wavelength: float = 12.0
    noise: float = 0.02  # standard deviation; the layers' amplitude is 1
    seed: int = 0

    def normal(self):
        """Unit vector across the layers."""
        dip, azimuth = np.radians((self.dip, self.azimuth))
        horizontal = np.sin(dip)
        return np.array([horizontal * np.sin(azimuth), horizontal * np.cos(azimuth), np.cos(dip)])

    def plane(self, inline, shape):
        """One inline's traces: float32 (n1, n2), the same in a volume of any n0."""
        k = self.normal() * (2 * np.pi / self.wavelength)
        crossline, sample = np.ogrid[: shape[1], : shape[2]]
        # Noise first: each inline has its own stream, each trace its own piece of it.
        random = np.random.default_rng((self.seed, inline))
        plane = random.standard_normal(shape[1:], dtype=np.float32)
        plane *= self.noise
        plane += np.sin(k[0] * inline + k[1] * crossline + k[2] * sample)
        return plane


def synthetic(shape, layers=None):
    """The layers as a float32 array, filled plane by plane."""
    layers = layers or Layers()
    volume = np.empty(shape, np.float32)
    for inline in range(shape[0]):
        volume[inline] = layers.plane(inline, shape)
    return volume


def write_segy(path, shape, layers=None):
    """Write the layers as SEG-Y, inline by inline; its text header says their dip."""
    layers = layers or Layers()
    Path(path).touch()  # its error names the path, segyio's does not
    spec = segyio.spec()
    spec.sorting = INLINE_SORTING
    spec.format = IEEE_FLOAT
    spec.ilines = range(1, shape[0] + 1)
    spec.xlines = range(1, shape[1] + 1)
    spec.samples = np.arange(shape[2]) * (INTERVAL_US / 1000)
    with segyio.create(path, spec) as file:
        file.text[0] = segyio.tools.create_text_header(
            {
                1: "SYNTHETIC PLANE LAYERS",
                2: f"DIP {layers.dip:g} AZIMUTH {layers.azimuth:g} DEGREES",
                3: "INLINE NUMBER IN BYTES 189-192, CROSSLINE NUMBER IN BYTES 193-196",
            }
        )
        file.bin.update(tsort=INLINE_SORTING, hdt=INTERVAL_US, hns=shape[2])
        for inline in range(shape[0]):
            first = inline * shape[1]
            for crossline in range(shape[1]):
                file.header[first + crossline] = _trace_header(inline, crossline, shape[2])
            file.trace[first : first + shape[1]] = layers.plane(inline, shape)


def _trace_header(inline, crossline, samples):
    field = segyio.TraceField
    return {
        field.INLINE_3D: inline + 1,
        field.CROSSLINE_3D: crossline + 1,
        field.CDP_X: inline * SPACING_M,
        field.CDP_Y: crossline * SPACING_M,
        field.TRACE_SAMPLE_COUNT: samples,
        field.TRACE_SAMPLE_INTERVAL: INTERVAL_US,
    }


@dataclass(frozen=True)
class SegyVolume:
    """A SEG-Y file's geometry; the samples stay on disk until `read`."""

    path: Path
    shape: tuple
    dip: float | None  # degrees, where the text header says it
    dtype = np.dtype(np.float32)

    @classmethod
    def open(cls, path):
        """Scan the headers. ValueError where there is no grid of traces sorted by inline."""
        try:
            with segyio.open(path) as file:
                if file.sorting != INLINE_SORTING or len(file.offsets) != 1:
                    raise ValueError(f"{path}: only post-stack, inline-sorted files are read")
                shape = (len(file.ilines), len(file.xlines), len(file.samples))
                text = bytes(file.text[0]).decode("ascii", "replace")
        except (OSError, RuntimeError) as error:  # neither names the file
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"cannot read {path} as a SEG-Y volume: {reason}") from error
        known = re.search(r"\bDIP (\d+(?:\.\d+)?)\b", text)
        return cls(Path(path), shape, float(known[1]) if known else None)

    def read(self, region=None):
        """The samples in `region`, one slice per axis (default all): float32, C order.

        Reads whole traces, one inline of the region at a time.
        """
        region = region or (slice(None),) * 3
        bounds = [part.indices(n)[:2] for part, n in zip(region, self.shape, strict=True)]
        (inline, _), (crossline, after), (sample, end) = bounds
        volume = np.empty([stop - start for start, stop in bounds], np.float32)
        with segyio.open(self.path, ignore_geometry=True) as file:
            for plane in volume:
                first = inline * self.shape[1]
                traces = file.trace.raw[first + crossline : first + after]
                plane[:] = traces[:, sample:end]
                inline += 1
        return volume

    def __getitem__(self, region):
        return self.read(region)
