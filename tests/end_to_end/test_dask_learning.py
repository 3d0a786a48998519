"""Chunks that memtrace.dask learns on the way, without a law."""

# ruff: noqa: F811 (arguments named as the fixtures)

import numpy as np
import pytest
from chunk_functions import hungry, hungry_and_slow, smooth
from dask_cases import MB, client, connected, volume  # noqa: F401 (fixtures)

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from memtrace.dask._adaptive import Learner  # noqa: E402
from memtrace.dask._waves import Job  # noqa: E402
from memtrace.dask._workers import Workers, status_bytes  # noqa: E402

zarr = pytest.importorskip("zarr")

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


def test_what_reading_and_storing_take_bounds_the_first_blocks(tmp_path):
    large = zarr.create_array(tmp_path / "large", shape=(256,) * 3, chunks=(128,) * 3, dtype="f4")
    source = np.memmap(tmp_path / "source", "f4", "w+", shape=(256,) * 3)
    job = Job.of(smooth, {}, source, dict.fromkeys(range(3), 1), large, None)
    enough = 2 * 128**3 * 4 + 133**3 * 4 + MB
    Learner(job, Workers(1, 1, enough, 1.0), enough, set(), (128,) * 3)
    with pytest.raises(MemoryError, match="no chunk fits"):
        Learner(job, Workers(1, 1, enough, 1.0), enough - 3 * MB, set(), (128,) * 3)


@pytest.mark.parametrize("room", [350 * MB, 30_000 * MB])
def test_a_small_array_is_learned_in_few_blocks(room):
    limit = status_bytes("VmRSS") + room
    volume = np.random.default_rng(5).random((48, 48, 48), "f4")
    store = np.empty_like(volume)
    done = mdask.map_overlap(np.copy, volume, 0, store=store, memory_limit=limit, threads=2)
    assert np.array_equal(store, volume) and len(done.blocks) <= 16


def test_chunks_are_learned_where_no_block_was_measured_yet(tmp_path):
    shape = (96, 96, 96)
    store = zarr.open_array(
        tmp_path / "two.zarr", mode="w", shape=shape, chunks=(48, 96, 96), dtype="f4"
    )
    volume = np.random.default_rng(6).random(shape, "f4")
    mdask.map_overlap(np.copy, volume, 1, store=store, memory_limit="2 GB", threads=4)
    assert np.array_equal(store[:], volume)


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_are_learned_on_the_way(client, tmp_path, threads):
    shape = (96, 90, 80)
    volume = np.random.default_rng(2).random(shape, "f4")
    array = zarr.create_array(tmp_path / "in.zarr", data=volume, chunks=(16, 16, 16))
    store = zarr.open_array(
        tmp_path / "out.zarr", mode="w", shape=shape, chunks=(8, 8, 8), dtype="f4"
    )
    held = max(client.run(status_bytes, "VmRSS").values())
    budget = held + 8 * MB + 40 * MB * threads  # one block of everything takes 90 MB
    done = mdask.map_overlap(
        hungry_and_slow, array, 1, store=store, threads=threads, memory_limit=budget / 0.7
    )
    whole = da.from_array(volume, chunks=40)
    same = da.map_overlap(hungry, whole, depth=1, boundary="none", dtype="f4")
    assert np.array_equal(store[:], same.compute(scheduler="sync"))
    sizes = [np.prod([cut.stop - cut.start for cut in block.region]) for block in done.blocks]
    assert max(sizes) > 4 * sizes[0], "what is learned is used"
    assert max(done.peaks.values()) <= budget
