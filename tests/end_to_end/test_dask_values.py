"""Blocks that memtrace.dask chooses have the values of Dask, whatever the boundary."""

# ruff: noqa: F811 (arguments named as the fixtures)

import os

import memtrace
import numpy as np
import pytest
from chunk_functions import smooth
from conftest import MEMTRACE
from dask_cases import MB, SHAPE, client, connected, expected, mapped, model, stored, volume  # noqa: F401 (fixtures)

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from memtrace.dask._halo import without_padding  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


@pytest.mark.parametrize("kind", ["stored", "mapped", "from_zarr", "graph", "persisted"])
def test_blocks_have_the_values_of_dask(model, client, volume, kind, request):
    array = request.getfixturevalue("mapped" if kind == "mapped" else "stored")
    x = array if kind in ("stored", "mapped") else da.from_zarr(array, chunks=(20, 20, 36))
    if kind in ("graph", "persisted"):
        x = x.rechunk((17, 40, 11)) + np.float32(0)
    if kind == "persisted":
        x = x.persist()
    few = {"baseline_bytes": 411 * MB}  # leaves room for small blocks only
    result = mdask.map_overlap(smooth, x, 2, model, dtype="f4", client=client, **few)
    assert result.npartitions > 1
    assert np.array_equal(client.compute(result).result(), expected(volume, result.chunks))
    roots = [key for key, needs in result.dask.get_all_dependencies().items() if not needs]
    if kind in ("stored", "mapped", "from_zarr"):
        assert len(roots) == result.npartitions  # every block by its own task


def test_other_boundaries_are_those_of_dask(model, client, stored, volume):
    result = mdask.map_overlap(
        smooth, stored, 2, model, boundary="reflect", dtype="f4", baseline_bytes=411 * MB
    )
    whole = da.from_array(volume, chunks=result.chunks)
    same = da.map_overlap(smooth, whole, depth=2, boundary="reflect", dtype="f4")
    assert np.array_equal(result.compute(), same.compute(scheduler="sync"))


@pytest.mark.parametrize("boundary", ["reflect", {0: "none", 1: "nearest", 2: 0}])
@pytest.mark.parametrize("shape, depth", [((100, 8, 8), 4), ((101, 90, 80), {0: 30, 1: 2, 2: 0})])
def test_no_block_is_larger_than_planned_whatever_the_boundary(model, boundary, shape, depth):
    called, budget = [], 24 * MB if shape[1] > 8 else 350_000

    def shapes(block):
        called.append(block.size)
        return block

    limits = {"memory_limit": (58 * MB + budget) / 0.7, "baseline_bytes": 50 * MB}
    volume = np.random.default_rng(4).random(shape, "f4")
    options = {"boundary": boundary, "dtype": "f4", "meta": np.empty((0, 0, 0), "f4")}
    result = mdask.map_overlap(shapes, volume, depth, model, operator="smooth", **limits, **options)
    assert np.array_equal(result.compute(scheduler="sync"), volume)
    assert 16 * max(called) <= budget


def test_a_boundary_that_no_chunk_leaves_room_for_is_refused():
    assert without_padding([(54, 54, 52)], (100,), (60,), {0: 30}) == ((34, 33, 33),)
    with pytest.raises(ValueError, match="axis 0 of 59 cells has no chunks of at least 30"):
        without_padding([(40, 40, 39)], (59,), (60,), {0: 30})


def test_a_call_must_be_one_that_the_law_is_about(stored, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{MEMTRACE.parent}:{os.environ['PATH']}")
    script = """
import numpy as np
def scale(x, factor=2.0):
    return x * np.float32(factor)
for n in (60, 70, 90):
    for _ in range(2):
        scale(np.ones((n, n + 3, n + 7), "f4"), factor=3.0)
"""
    trace = memtrace.record(
        script, output=tmp_path / "trace", options=["--operator", "__main__:scale"]
    )
    known = memtrace.fit(trace)
    limits = {"memory_limit": "300 MB", "baseline_bytes": 100 * MB}

    def scale(x, factor=2.0, shade="none", shape=None):
        return x * np.float32(factor)

    options = {"dtype": "f4", "operator": "scale", **limits}
    mdask.map_overlap(scale, stored, 0, known, factor=3.0, shade="dark", **options)
    for factor in (5.0, np.float32(5)):
        with pytest.raises(ValueError, match=r"factor 5.* but with 3"):
            mdask.map_overlap(scale, stored, 0, known, factor=factor, **options)
    mdask.map_overlap(scale, stored, 0, known, factor=np.float64(3), shape=(1, 2), **options)
    with pytest.raises(ValueError, match="no number or text"):
        mdask.map_overlap(scale, stored, 0, known, factor=(3.0, 3.0), **options)
    array = da.ones(SHAPE, dtype="f4", chunks=30)
    for factor, tasks in ((3.0, 8), (5.0, 0)):
        with mdask.checked(known, memory_limit="300 MB", baseline_bytes=0) as checks:
            array.map_blocks(scale, factor=factor, dtype="f4").compute(scheduler="sync")
        assert checks.tasks == tasks and checks.unknown.get("scale", 0) == 8 - tasks


@pytest.mark.parametrize("dropped", [0, 2, -1])
def test_an_axis_that_the_function_drops_has_no_halo_to_trim(model, stored, dropped):
    depth = {0: 2, 1: 1, 2: 0} if dropped != 0 else {0: 0, 1: 1, 2: 2}
    small = (78 * MB + 600_000) / 0.7
    limits = {"memory_limit": small, "baseline_bytes": 70 * MB, "operator": "smooth"}
    options = {"drop_axis": dropped, "dtype": "f4", "meta": np.empty((0, 0), "f4"), "axis": dropped}
    whole = {"whole_axes": [dropped], **limits}
    result = mdask.map_overlap(np.sum, stored, depth, model, **options, **whole)
    same = np.sum(stored[:], dropped)
    assert result.npartitions > 1 and result.shape == same.shape
    assert np.allclose(result.compute(scheduler="sync"), same)
