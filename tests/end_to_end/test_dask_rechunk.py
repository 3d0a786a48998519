"""Chunks of Dask arrays that are cut anew: what that makes workers hold is in the plan."""

import sys

import dask
import memtrace
import numpy as np
import pytest
from chunk_functions import smooth

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from memtrace.dask import _rechunked  # noqa: E402
from memtrace.dask._rechunked import held_bytes, lengths_of_chunks  # noqa: E402
from memtrace.dask._workers import status_bytes  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

zarr = pytest.importorskip("zarr")
SHAPES = [(40, 41, 43), (60, 50, 40), (80, 81, 83), (30, 100, 50)]
MB = 1_000_000


@pytest.fixture(scope="module")
def model():
    peaks = [int(12 * np.prod(shape)) for shape in SHAPES]
    return memtrace.fit_table(SHAPES, peaks, operator="smooth")


def stored(folder, shape, chunks):
    array = zarr.create_array(str(folder / "in.zarr"), shape=shape, chunks=chunks, dtype="f4")
    for at in range(0, shape[0], chunks[0]):
        array[at : at + chunks[0]] = 1
    return array


@pytest.mark.parametrize("chunks", [(8, 250, 400), (80, 50, 50), (50, 100, 100)])
def test_workers_stay_within_their_budget_while_an_array_is_cut_anew(model, tmp_path, chunks):
    """Slabs that become traces, and cubes."""
    x = da.from_zarr(stored(tmp_path, (200, 250, 400), chunks))
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "600MB"}
    with LocalCluster(dashboard_address=None, **settings) as cluster, Client(cluster) as client:
        plan = mdask.recommend(x, smooth, model, client, halo=1, whole_axes=0)
        # The baseline is with what tasks on arrays import.
        assert all(client.run(lambda: "dask.array" in sys.modules).values())
        whole = x.rechunk(plan.chunks)
        result = da.map_overlap(smooth, whole, depth=plan.halo, boundary="none", dtype="f4")
        assert float(result.mean().compute()) == pytest.approx(1)
        peaks = client.run(status_bytes, "VmHWM")
    assert max(peaks.values()) <= plan.worker_peak <= plan.budget


def test_slabs_that_become_columns_are_all_held(model):
    x = da.zeros((100, 100, 100), dtype="f4", chunks=(10, 100, 100))
    depths, columns = dict.fromkeys(range(3), 0), ((100,), (10,) * 10, (100,))
    task = 16 * 100_000
    assert held_bytes(x, columns, depths, task, 1, model) > x.nbytes
    joined = held_bytes(x, ((20,) * 5, (100,), (100,)), depths, 2 * task, 1, model)
    assert 2 * task < joined < x.nbytes + 2 * task


def test_a_graph_that_is_not_understood_is_taken_to_hold_the_array(model, monkeypatch):
    monkeypatch.setattr(_rechunked._Graph, "add_all", None)
    x = da.zeros((100, 100, 100), dtype="f4", chunks=(10, 100, 100))
    depths, columns = dict.fromkeys(range(3), 0), ((100,), (10,) * 10, (100,))
    assert held_bytes(x, columns, depths, MB, 1, model) == MB + 800_000 + x.nbytes


def test_chunks_of_whole_ones_of_the_array_come_first(model):
    x = da.zeros((400, 400, 400), dtype="f4", chunks=(45, 70, 400))
    limits = {"memory_limit": "600 MB", "baseline_bytes": 100 * MB, "workers": 2}
    plan = mdask.recommend(x, "smooth", model, halo=1, **limits)
    own = zip(plan.chunk_shape, (45, 70, 400), x.shape, strict=True)
    assert all(length % unit == 0 or length == n for length, unit, n in own)
    assert plan.tasks > 1
    given = mdask.recommend(x, "smooth", model, storage_chunks=(50, 50, 50), **limits)
    own = zip(given.chunk_shape, x.shape, strict=True)
    assert all(length % 50 == 0 or length == n for length, n in own)


def test_one_chunk_is_cut_for_all_workers(model):
    x = da.zeros((400, 400, 400), dtype="f4", chunks=400)
    limits = {"memory_limit": "4 GB", "baseline_bytes": 100 * MB, "workers": 4}
    assert mdask.recommend(x, "smooth", model, **limits).tasks >= 4


def test_an_array_that_is_cut_as_planned_needs_nothing_more(model):
    x = da.zeros((400, 400, 400), dtype="f4", chunks=100)
    limits = {"memory_limit": "900 MB", "baseline_bytes": 100 * MB, "workers": 2}
    plan = mdask.recommend(x, "smooth", model, halo=1, **limits)
    again = mdask.recommend(x.rechunk(plan.chunks), "smooth", model, halo=1, **limits)
    assert again.worker_peak <= plan.worker_peak


def test_what_cutting_an_array_anew_leaves_no_room_for_is_refused(model):
    x = da.zeros((400, 400, 400), dtype="f4", chunks=(8, 400, 400))
    limits = {"memory_limit": "300 MB", "baseline_bytes": 100 * MB, "workers": 2}
    with pytest.raises(
        MemoryError, match="for what reading or cutting .*; raise the memory limit to"
    ):
        mdask.recommend(x, "smooth", model, whole_axes=0, **limits)


def test_pieces_that_workers_pass_on_through_their_disks_have_buffers(model):
    x = da.zeros((100, 100, 100), dtype="f4", chunks=(10, 100, 100))
    depths, columns = dict.fromkeys(range(3), 0), ((100,), (10,) * 10, (100,))
    buffers = {"distributed.p2p.comm.buffer": "1 MB", "distributed.p2p.storage.buffer": "2 MB"}
    settings = {"n_workers": 1, "processes": False, "dashboard_address": None}
    passing = dask.config.set({"array.rechunk.method": "p2p", **buffers})
    with LocalCluster(**settings) as cluster, Client(cluster), passing:
        assert held_bytes(x, columns, depths, MB, 1, model) == 4 * MB + 800_000


def test_a_graph_that_is_too_large_to_count_is_not_made(model, monkeypatch):
    monkeypatch.setattr(_rechunked, "MOST_TASKS", 10)
    x = da.zeros((100, 100, 100), dtype="f4", chunks=(10, 100, 100))
    monkeypatch.setattr(x, "rechunk", None)
    depths, columns = dict.fromkeys(range(3), 0), ((100,), (10,) * 10, (100,))
    joined = held_bytes(x, ((20,) * 5, (100,), (100,)), depths, MB, 1, model)
    assert joined == MB + 4 * 800_000
    with dask.config.set({"array.rechunk.method": "tasks"}):
        assert held_bytes(x, columns, depths, MB, 1, model) == MB + 800_000 + x.nbytes


def test_lengths_of_chunks_are_those_of_regular_ones():
    assert lengths_of_chunks(da.zeros((10, 7), chunks=(4, 7))) == (4, 7)
    assert lengths_of_chunks(da.zeros((10,), chunks=((4, 2, 4),))) is None
    assert lengths_of_chunks(da.zeros((10,), chunks=((4, 6),))) is None
