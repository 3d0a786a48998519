"""Laws of the study's operators from one process each at a few small shapes."""

import memtrace

from experiments import recording

FOLDER = recording.KEPT / "chunks" / "small"
TRAINING = ((79, 71, 65), (62, 119, 83), (127, 74, 97), (103, 89, 106), (167, 151, 139))


def traces(name, shapes=TRAINING):
    """A recording of each shape: a warm-up, then two calls."""
    return [
        recording.recorded(
            FOLDER / name / recording.written(shape), name, "float32", [shape, shape]
        )
        for shape in shapes
    ]


def fitted(name, shapes=TRAINING):
    """The law as a model."""
    return memtrace.fit([str(trace) for trace in traces(name, shapes)])
