"""Laws of figures that were measured elsewhere."""

import pytest

import memtrace

SHAPES = [[20 + 7 * i, 30 + 5 * i, 41 + 3 * i] for i in range(20)]


def bytes_of(shape):
    return 1_000_000 + 12 * shape[0] * shape[1] * shape[2]


def test_a_table_becomes_a_law():
    model = memtrace.fit_table(SHAPES, [bytes_of(shape) for shape in SHAPES], "<f4", "blur")
    inside = model.predict("blur", SHAPES[7])
    assert inside["peak_bytes"] == pytest.approx(bytes_of(SHAPES[7]), rel=1e-6)
    assert inside["input_bytes"] == 4 * SHAPES[7][0] * SHAPES[7][1] * SHAPES[7][2]
    assert inside["confidence"] == "calibrated 20"
    assert inside["resident_bytes"] is None and inside["data_dependent"] is None
    assert model.predict("blur", [400, 400, 400])["confidence"] == "unverified"


def test_no_law_without_a_table():
    with pytest.raises(ValueError, match="one number of bytes"):
        memtrace.fit_table(SHAPES, [1])
    with pytest.raises(ValueError, match="dtype"):
        memtrace.fit_table(SHAPES, [1] * 20, dtype="f")
