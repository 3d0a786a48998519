"""Chunked results have the bits of unchunked ones, and not with a smaller halo."""

import importlib

import chunked
import dask.array as da
import numpy as np
import pytest
from volume import SegyVolume, synthetic, write_segy

SHAPE = (41, 43, 47)
GRIDS = {  # uneven on purpose; each chunk at least as large as the operator's halo
    "gst3d": ((13, 13, 13, 2), (20, 23), (2, 43, 2)),
    "envelope": ((13, 13, 13, 2), (1, 41, 1), (47,)),
    "gaussian": ((20, 21), (43,), (12, 12, 23)),
    "semblance": ((1, 20, 20), (21, 22), (30, 17)),
}


def both(name, grid):
    volume = synthetic(SHAPE)
    whole = getattr(importlib.import_module(f"operators.{name}"), name)(volume)
    parts = chunked.apply(name, da.from_array(volume, chunks=grid))
    return whole, parts


@pytest.mark.parametrize("name", GRIDS)
def test_chunked_has_the_bits_of_unchunked(name):
    whole, parts = both(name, GRIDS[name])
    assert parts.shape == whole.shape
    assert parts.dtype == whole.dtype
    np.testing.assert_array_equal(parts.compute(), whole)


@pytest.mark.parametrize("name", ["gst3d", "gaussian", "semblance"])
def test_a_smaller_halo_is_not_enough(name, monkeypatch):
    module = importlib.import_module(f"operators.{name}")
    monkeypatch.setattr(module, "HALO", tuple(cells - 1 for cells in module.HALO))
    whole, parts = both(name, GRIDS[name])
    result = parts.compute()
    assert result.shape == whole.shape
    assert (result != whole).any()


def test_an_axis_that_must_stay_whole_is_not_split():
    with pytest.raises(ValueError, match="axis 2 in one chunk"):
        both("envelope", (41, 43, 24))


def test_chunks_smaller_than_the_halo_are_refused():
    with pytest.raises(ValueError, match="at least 12 cells along axis 0"):
        both("gaussian", (11, 43, 47))


def test_chunks_are_read_from_a_file(tmp_path):
    path = tmp_path / "volume.sgy"
    write_segy(path, SHAPE)
    parts = chunked.load(SegyVolume.open(path), (13, 20, 47))
    assert parts.chunks == ((13, 13, 13, 2), (20, 20, 3), (47,))
    np.testing.assert_array_equal(parts.compute(), synthetic(SHAPE))
