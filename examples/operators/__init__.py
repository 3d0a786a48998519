"""Seismic operators on NumPy arrays, one per module.

The module `operators.NAME` holds the function `NAME(volume)` and what a framework must know to
run it on chunks:

- `HALO`: extra cells per face and axis a chunk needs from its neighbours;
- `MARGIN`: cells per face by which the result is smaller than the volume;
- `COMPONENTS`: length of the result's leading axis, None where there is no such axis;
- `WHOLE_AXES`: axes that must not be split.

Axis 0 is the inline, axis 1 the crossline, axis 2 the samples of a trace. Each function takes a
three-dimensional float array and leaves it unchanged; `docs/derivations.md` counts the bytes it
allocates.
"""

NAMES = ("gst3d", "envelope", "gaussian", "semblance")
