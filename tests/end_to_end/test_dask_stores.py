"""Waves of blocks that memtrace.dask computes into a store, and the memory that they take."""

# ruff: noqa: F811 (arguments named as the fixtures)

import mmap
from functools import partial

import dask
import numpy as np
import pytest
from chunk_functions import smooth
from dask_cases import MB, SHAPE, client, connected, expected, law, mapped, model, stored, volume  # noqa: F401 (fixtures)

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from memtrace.dask import _stored  # noqa: E402
from memtrace.dask._plan import planned  # noqa: E402
from memtrace.dask._tiling import Tiling  # noqa: E402
from memtrace.dask._waves import Job  # noqa: E402
from memtrace.dask._workers import Workers, status_bytes  # noqa: E402

zarr = pytest.importorskip("zarr")

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


@pytest.mark.parametrize("kind", ["zarr", "memmap", "hdf5"])
@pytest.mark.parametrize("source", ["stored", "graph"])
def test_waves_fill_a_store(model, client, volume, stored, tmp_path, kind, source):
    x = stored if source == "stored" else da.from_zarr(stored) + np.float32(0)
    if kind == "zarr":
        store = zarr.open_array(
            tmp_path / "out.zarr", mode="w", shape=SHAPE, chunks=(12, 12, 12), dtype="f4"
        )
    elif kind == "memmap":
        store = np.memmap(tmp_path / "out.raw", "f4", "w+", shape=SHAPE)
    else:
        h5py = pytest.importorskip("h5py")
        store = h5py.File(tmp_path / "out.h5", "w").create_dataset(
            "x", SHAPE, "f4", chunks=(12, 20, 12)
        )
    done = mdask.map_overlap(
        smooth, x, 2, model, store=store, in_flight=3, baseline_bytes=411 * MB, weight=0.25
    )
    aligned = getattr(store, "chunks", None) or (1, 1, 1)
    for block in done.blocks:
        assert all(cut.start % unit == 0 for cut, unit in zip(block.region, aligned, strict=False))
    assert len(done.blocks) == done.plan.tasks > 1
    assert np.array_equal(store[:], expected(volume, done.plan.chunks, weight=0.25))
    assert set(done.peaks) <= set(client.nthreads()) and all(done.peaks.values())


def test_waves_without_a_cluster(model, volume, stored):
    out = np.empty(SHAPE, "f4")
    small = {"memory_limit": 120 * MB, "baseline_bytes": 110 * MB, "threads": 2}  # all of it
    with dask.config.set(scheduler="sync"):
        done = mdask.map_overlap(smooth, stored, 2, model, store=out, **small)
    assert np.array_equal(out, expected(volume, done.plan.chunks)) and len(done.blocks) > 1


def test_no_two_tasks_write_one_chunk_of_a_store(model, tmp_path):
    volume = np.ones((96, 96, 96), "f4")
    store = zarr.open_array(
        tmp_path / "one.zarr", mode="w", shape=volume.shape, chunks=volume.shape, dtype="f4"
    )
    limits = {"memory_limit": "150 MB", "baseline_bytes": 110 * MB, "threads": 4}
    with pytest.raises(MemoryError):
        mdask.map_overlap(smooth, volume, 2, model, store=store, **limits)
    assert not store[:].any()


def test_a_store_in_this_process_is_written_by_it(model, client, volume, stored):
    memory = zarr.storage.MemoryStore()
    store = zarr.create_array(memory, shape=SHAPE, chunks=(8, 10, 12), dtype="f8")
    done = mdask.map_overlap(smooth, stored, 2, model, store=store, client=client)
    assert np.array_equal(store[:], expected(volume, done.plan.chunks).astype("f8"))


def test_an_array_is_not_stored_over_itself_while_neighbours_are_read(model, stored, mapped):
    limits = {"memory_limit": "900 MB", "baseline_bytes": 100 * MB}
    again = zarr.open_array(stored.store, mode="r", path=stored.path)
    pairs = [(stored, stored), (again, stored), (da.from_zarr(stored), stored), (mapped, mapped)]
    for x, store in pairs:
        with pytest.raises(ValueError, match="array itself"):
            mdask.map_overlap(smooth, x, 1, model, store=store, **limits)
        with pytest.raises(ValueError, match="array itself"):
            mdask.map_overlap(smooth, x, 1, store=store, **limits)
    before = stored[:]
    mdask.map_overlap(smooth, stored, 0, model, store=stored, **limits)
    assert not np.array_equal(stored[:], before)


def test_a_store_of_a_wider_dtype_needs_a_copy_of_the_result(model, stored):
    lean = law("smooth", 1)
    limits = {"memory_limit": "900 MB", "baseline_bytes": 100 * MB}
    narrow, wide = (
        mdask.map_overlap(smooth, stored, 1, lean, store=np.empty(SHAPE, dtype), **limits).plan
        for dtype in ("f4", "f8")
    )
    assert wide.chunk_shape == narrow.chunk_shape
    assert wide.task_bytes >= narrow.task_bytes + 8 * np.prod(narrow.chunk_shape)


def test_smaller_blocks_are_taken_where_gathering_large_ones_leaves_no_room():
    lean = law("smooth", 4)
    x = da.zeros((400, 400, 400), dtype="f4", chunks=50)
    for limit in (164, 166, 168, 170, 175, 180):
        workers = Workers(1, 1, limit * MB, 0.7, 100 * MB)
        operator = mdask._laws.Operator.of("smooth", lean, x)
        depths = dict.fromkeys(range(3), 1)
        job = Job.of(smooth, {}, x, depths, x, None)
        transfer = partial(mdask._overlap._transfer_bytes, job, lean)
        plan = planned(operator, x, workers, depths, source="storage", transfer=transfer)
        assert plan.worker_peak <= limit * MB * 0.7


def test_regions_tile_an_array_whatever_chunks_are_requested():
    shape, random = (37, 20, 55), np.random.default_rng(3)
    tiling = Tiling(shape, (4, 5, 6))
    count, restored = np.zeros(shape, int), 0
    while tiling.left:
        region = tiling.take(random.integers(1, 40, 3))
        if random.random() < 0.2 and restored < 5:
            tiling.restore(region)
            restored += 1
            continue
        count[region] += 1
        assert all(cut.start % atom == 0 for cut, atom in zip(region, (4, 5, 6), strict=True))
    assert (count == 1).all() and restored == 5
    assert tiling.take((1, 1, 1)) is None


def test_a_result_of_another_shape_is_not_broadcast_into_the_store(model, stored):
    def mean(block):
        return block.mean(keepdims=True)

    out = np.zeros(SHAPE, "f4")
    small = {"memory_limit": 120 * MB, "baseline_bytes": 110 * MB, "operator": "smooth"}
    with pytest.raises(ValueError, match=r"the shape of its block: .*\(1, 1, 1\)"):
        mdask.map_overlap(mean, stored, 0, model, store=out, **small)
    assert not out.any()


def test_what_was_written_to_a_copy_on_write_memmap_is_seen(model, mapped, volume):
    copy = np.memmap(mapped.filename, "f4", "c", shape=SHAPE)
    copy[:] = 7
    out = np.empty(SHAPE, "f4")
    small = {"memory_limit": 120 * MB, "baseline_bytes": 110 * MB}
    with dask.config.set(scheduler="sync"):
        mdask.map_overlap(smooth, copy, 2, model, store=out, **small)
        assert np.allclose(out, 7)
        mdask.map_overlap(smooth, mapped, 2, model, store=copy, **small)
    assert not np.allclose(copy, 7)
    assert np.array_equal(mapped, volume)


@pytest.mark.parametrize("order", ["C", "F"])
def test_of_a_memmap_few_pages_are_resident_at_a_time(tmp_path, order, monkeypatch):
    shape = (6, 1100, 1000) if order == "C" else (1000, 1100, 6)  # planes of 4.4 MB
    array = np.memmap(tmp_path / "large.raw", "f4", "w+", shape=shape, order=order)
    array[:] = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    array.flush()
    array.base.madvise(mmap.MADV_DONTNEED)
    resident, release = [], _stored._Mapping.release

    def measured(mapping):
        resident.append(status_bytes("RssFile"))
        release(mapping)

    monkeypatch.setattr(_stored._Mapping, "release", measured)
    monkeypatch.setattr(_stored, "MAPPED_BYTES", 500_000)
    before, region = status_bytes("RssFile"), (slice(1, 5), slice(20, 1090), slice(1, 990))
    block = _stored.MappedFile.of(array)[region]
    assert max(resident) < before + 2_000_000
    assert np.array_equal(block, array[region])
    _stored.MappedFile.of(array)[region] = block + 1
    assert np.array_equal(block + 1, array[region])


def test_stores_that_cannot_be_meant(model, client, stored):
    with pytest.raises(ValueError, match="shape"):
        mdask.map_overlap(smooth, stored, 2, model, store=np.empty((3, 3, 3), "f4"))
    with pytest.raises(ValueError, match="memmap"):
        mdask.map_overlap(smooth, stored, 2, model, store=np.empty(SHAPE, "f4"))
    with pytest.raises(ValueError, match="store="):
        mdask.map_overlap(smooth, stored, 2)
