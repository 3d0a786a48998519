"""What memtrace.dask is given and cannot use: one sentence each, before anything runs."""

import memtrace
import memtrace.sizing
import numpy as np
import pytest
from chunk_functions import smooth

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

SHAPES = [(40, 41, 43), (60, 50, 40), (80, 81, 83), (30, 100, 50)]
X = da.zeros((48, 40, 36), dtype="f4", chunks=20)


@pytest.fixture(scope="module")
def model():
    sizes = [12 * int(np.prod(shape)) for shape in SHAPES]
    return memtrace.fit_table(SHAPES, sizes, operator="smooth")


@pytest.mark.parametrize(
    "asked, error, word",
    [
        ({"halo": {5: 2}}, ValueError, "axis 5 of an array of 3 axes"),
        ({"halo": {"x": 2}}, ValueError, "'x'"),
        ({"halo": 1.5}, ValueError, "whole number of cells"),
        ({"halo": -1}, ValueError, "must not be negative"),
        ({"whole_axes": 7}, ValueError, "axis 7 cannot stay whole"),
        ({"storage_chunks": 10}, ValueError, "one length of at least 1"),
        ({"storage_chunks": (10, 10)}, ValueError, "one length of at least 1"),
        ({"memory_limit": 2**70}, ValueError, "not a size"),
        ({"memory_limit": "much"}, ValueError, "not a size"),
        ({"baseline_bytes": "some"}, ValueError, "not a size"),
        ({"minimise": None}, ValueError, "time, memory, tasks"),
        ({"source": "cloud"}, ValueError, "dask, storage, waves"),
        ({"operator": None}, TypeError, "a name or a function"),
        ({"model": None}, TypeError, "memtrace.Model"),
        ({"x": X[X > 0]}, ValueError, "compute_chunk_sizes"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(model, asked, error, word):
    given = {"x": X, "operator": "smooth", "model": model, "memory_limit": "1GB", **asked}
    with pytest.raises(error, match=word):
        mdask.recommend(**given)


def test_texts_one_axis_and_files_of_models_are_taken(model, tmp_path):
    file = tmp_path / "model.json"
    model.save(str(file))
    asked = {"memory_limit": "1GB", "baseline_bytes": "200 MB", "halo": np.int64(2)}
    plan = mdask.recommend(X, smooth, file, whole_axes=1, **asked)
    assert len(plan.chunks[1]) == 1 and plan.halo == {0: 2, 1: 2, 2: 2}
    same = mdask.recommend(X, "smooth", model, whole_axes=[1], **{**asked, "baseline_bytes": 2e8})
    assert plan == same
    sizes = memtrace.sizing.Sizes(file)
    assert sizes.killed("smooth", (40, 40, 40), "2 GB") > 2_000_000_000


def test_a_store_is_an_array(model):
    with pytest.raises(TypeError, match="takes regions"):
        mdask.map_overlap(smooth, X, 1, model, store=5, memory_limit="1GB")


def test_a_refusal_advises_fewer_threads_where_there_are_several(model):
    for threads, advised in ((1, False), (4, True)):
        with pytest.raises(MemoryError) as refusal:
            mdask.recommend(X, "smooth", model, memory_limit="60MB", threads=threads)
        assert ("fewer threads" in str(refusal.value)) == advised
