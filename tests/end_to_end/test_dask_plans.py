"""Chunks that memtrace.dask chooses, on real clusters: the values, the bounds, the refusals."""

import mmap
import os
from functools import partial

import dask
import memtrace
import numpy as np
import pytest
from chunk_functions import hungry, smooth, wait
from conftest import MEMTRACE

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from memtrace.dask import _stored  # noqa: E402
from memtrace.dask._adaptive import Learner  # noqa: E402
from memtrace.dask._halo import without_padding  # noqa: E402
from memtrace.dask._plan import planned  # noqa: E402
from memtrace.dask._tiling import Tiling  # noqa: E402
from memtrace.dask._waves import Job  # noqa: E402
from memtrace.dask._workers import Workers, status_bytes  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

zarr = pytest.importorskip("zarr")
SHAPE = (48, 40, 36)
SHAPES = [(40, 41, 43), (60, 50, 40), (80, 81, 83), (30, 100, 50)]
MB = 1_000_000


def law(name, per_cell):
    return memtrace.fit_table(
        SHAPES, [int(per_cell * np.prod(shape)) for shape in SHAPES], operator=name
    )


@pytest.fixture(scope="module")
def model():
    return law("smooth", 12).merge(law("hungry", 132))


@pytest.fixture(scope="module")
def connected():
    # The limit is far above what a worker holds, so that only plans decide what runs.
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "600MB"}
    with (
        LocalCluster(dashboard_address=None, **settings) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(connected):
    with connected.as_current():
        yield connected


@pytest.fixture(scope="module")
def volume():
    return np.random.default_rng(1).random(SHAPE, "f4")


@pytest.fixture
def stored(tmp_path, volume):
    array = zarr.open_array(
        tmp_path / "volume.zarr", mode="w", shape=SHAPE, chunks=(8, 10, 12), dtype="f4"
    )
    array[:] = volume
    return array


@pytest.fixture
def mapped(tmp_path, volume):
    array = np.memmap(tmp_path / "volume.raw", "f4", "w+", shape=SHAPE)
    array[:] = volume
    array.flush()
    return array


def expected(volume, chunks, function=smooth, **keywords):
    """What Dask makes of it in the same chunks."""
    whole = da.from_array(volume, chunks=chunks)
    return da.map_overlap(
        function, whole, depth=2, boundary="none", dtype="f4", **keywords
    ).compute(scheduler="sync")


def test_a_plan_asks_the_cluster(model, client, stored):
    plan = mdask.recommend(stored, smooth, model, halo=2)
    assert [sum(lengths) for lengths in plan.chunks] == list(SHAPE)
    assert plan.halo == {0: 2, 1: 2, 2: 2} and plan.source == "storage"
    assert plan.workers == 2 and plan.threads == 1 and plan.budget == 420 * MB
    assert plan.worker_peak <= plan.budget and plan.tasks == len(
        list(np.ndindex(*map(len, plan.chunks)))
    )
    assert "smooth" in plan.why and "chunks of" in repr(plan)
    shared = mdask.recommend(da.from_zarr(stored), "smooth", model, halo=2)
    assert shared.source == "dask"
    assert da.from_zarr(stored).rechunk(shared.chunks).chunks == shared.chunks


def test_a_plan_without_a_cluster(model):
    x = da.zeros((400, 400, 400), dtype="f4", chunks=100)
    given = {"memory_limit": "900 MB", "baseline_bytes": 100 * MB}
    plan = mdask.recommend(x, "smooth", model, halo=1, **given)
    assert plan.budget == 630 * MB and plan.tasks > 1 and plan.worker_peak <= plan.budget
    least = mdask.recommend(x, "smooth", model, halo=1, minimise="memory", **given)
    assert least.worker_peak <= plan.worker_peak
    whole = mdask.recommend(x, "smooth", model, whole_axes=[-1], **given)
    assert len(whole.chunks[2]) == 1
    with pytest.raises(MemoryError, match="raise the memory limit to"):
        mdask.recommend(x, "smooth", model, halo=1, memory_limit="101 MB", baseline_bytes=100 * MB)
    with pytest.raises(ValueError, match="memory_limit"):
        mdask.recommend(x, "smooth", model)
    with pytest.raises(ValueError, match="no law for"):
        mdask.recommend(x, np.sort, model, memory_limit="300 MB")


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


def test_waves_without_a_cluster(model, volume, stored):
    out = np.empty(SHAPE, "f4")
    small = {"memory_limit": 120 * MB, "baseline_bytes": 110 * MB, "threads": 2}  # all of it
    with dask.config.set(scheduler="sync"):
        done = mdask.map_overlap(smooth, stored, 2, model, store=out, **small)
    assert np.array_equal(out, expected(volume, done.plan.chunks)) and len(done.blocks) > 1


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


def test_a_plan_knows_whether_the_operator_was_called_in_the_workers(model):
    class Asked:
        """A model that remembers what it was asked."""

        def __getattr__(self, name):
            return getattr(model, name)

        def recommend(self, *call, **options):
            self.baseline, self.warmed = options["baseline_bytes"], options["warmed"]
            return model.recommend(*call, **options)

    def fails(block):
        raise ValueError("too small")

    asked, x = Asked(), np.ones(SHAPE, "f4")
    limits = {"memory_limit": "900 MB", "store": np.empty(SHAPE, "f4"), "operator": "smooth"}
    mdask.map_overlap(smooth, x, 0, asked, baseline_bytes=100 * MB, **limits)
    assert (asked.baseline, asked.warmed) == (100 * MB, False)
    mdask.map_overlap(smooth, x, 0, asked, **limits)
    assert asked.baseline == pytest.approx(status_bytes("VmRSS"), abs=8 * MB)
    assert asked.warmed
    with pytest.raises(ValueError, match="too small"):
        mdask.map_overlap(fails, x, 0, asked, **limits)
    assert not asked.warmed


def test_what_reading_takes_is_planned_where_the_baseline_is_unknown(model, tmp_path):
    array = zarr.open_array(
        tmp_path / "large.zarr", mode="w", shape=(400, 90, 90), chunks=(100, 90, 90), dtype="f4"
    )
    x = da.zeros(array.shape, dtype="f4", chunks=100)
    options = {"memory_limit": "400 MB", "source": "storage", "storage_chunks": (1, 1, 1)}
    plan = mdask.recommend(array, "smooth", model, **options)
    free = mdask.recommend(x, "smooth", model, **options)
    assert plan.worker_peak >= free.worker_peak - free.task_bytes + 4 * 3_240_000
    low = {**options, "memory_limit": "316 MB"}  # room for a task, not for the chunks it reads
    assert mdask.recommend(x, "smooth", model, **low).task_bytes < 4 * 3_240_000
    with pytest.raises(MemoryError):
        mdask.recommend(array, "smooth", model, **low)


def test_what_no_worker_has_declared_is_refused(model, stored):
    few = Workers(1, 1, 600 * MB, 0.7, 100 * MB, declared=(MB // 2, MB))
    assert few.task_budget() == MB // 2
    settings = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "8GB"}  # of this process
    resources = {"resources": {"memory": MB // 4}}
    with (
        LocalCluster(dashboard_address=None, processes=False, **settings, **resources) as cluster,
        Client(cluster) as client,
    ):
        store = np.memmap(stored.store.root / "out.raw", "f4", "w+", shape=SHAPE)
        with pytest.raises(MemoryError, match="no worker has declared"):
            mdask.map_overlap(smooth, stored, 2, model, store=store, client=client)
        with (
            pytest.raises(MemoryError, match="no worker has declared"),
            mdask.checked(model, client),
        ):
            overlapped((40, 40, 40), 20).compute()


def test_what_cannot_be_requested_or_cut_is_said_in_one_sentence(model):
    class Asynchronous:
        asynchronous = True

    with pytest.raises(ValueError, match="asynchronous=False"):
        mdask.recommend(np.ones(SHAPE, "f4"), smooth, model, Asynchronous())
    for call in (
        lambda x: mdask.recommend(x, smooth, model, memory_limit="1 GB"),
        lambda x: mdask.map_overlap(smooth, x, 1, store=x, memory_limit="1 GB"),
    ):
        with pytest.raises(ValueError, match="no cells"):
            call(np.ones((4, 0, 3), "f4"))
    x = np.ones(SHAPE, "f4")
    for options, said in (
        ({"whole_axes": (3,)}, "axes 0 to 2"),
        ({"workers": -1}, "workers must be a whole number of at least 1, not -1"),
        ({"workers": "4"}, "workers must be a whole number"),
        ({"threads": 0}, "threads must be a whole number of at least 1, not 0"),
        ({"halo": -1}, "must not be negative"),
    ):
        with pytest.raises(ValueError, match=said):
            mdask.recommend(x, smooth, model, memory_limit="1 GB", **options)


def test_what_reading_and_storing_take_bounds_the_first_blocks(tmp_path):
    large = zarr.create_array(tmp_path / "large", shape=(256,) * 3, chunks=(128,) * 3, dtype="f4")
    source = np.memmap(tmp_path / "source", "f4", "w+", shape=(256,) * 3)
    job = Job.of(smooth, {}, source, dict.fromkeys(range(3), 1), large, None)
    enough = 2 * 128**3 * 4 + 133**3 * 4 + MB
    Learner(job, Workers(1, 1, enough, 1.0), enough, set(), (128,) * 3)
    with pytest.raises(MemoryError, match="no chunk fits"):
        Learner(job, Workers(1, 1, enough, 1.0), enough - 3 * MB, set(), (128,) * 3)


def test_the_number_of_workers_may_be_chosen_for_a_lazy_array(model, stored):
    limits = {"memory_limit": "400 MB", "baseline_bytes": 100 * MB, "workers": "auto"}
    assert mdask.map_overlap(smooth, stored, 1, model, dtype="f4", **limits).npartitions >= 1
    with pytest.raises(ValueError, match="without store"):
        mdask.map_overlap(smooth, stored, 1, model, store=np.empty(SHAPE, "f4"), **limits)


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
        hungry, array, 1, store=store, threads=threads, memory_limit=budget / 0.7
    )
    whole = da.from_array(volume, chunks=40)
    same = da.map_overlap(hungry, whole, depth=1, boundary="none", dtype="f4")
    assert np.array_equal(store[:], same.compute(scheduler="sync"))
    sizes = [np.prod([cut.stop - cut.start for cut in block.region]) for block in done.blocks]
    assert max(sizes) > 4 * sizes[0], "what is learned is used"
    assert max(done.peaks.values()) <= budget


def test_tasks_that_do_not_fit_together_do_not_run_together():
    settings = {"n_workers": 1, "threads_per_worker": 2, "memory_limit": "400MB"}
    with LocalCluster(dashboard_address=None, **settings) as cluster, Client(cluster) as client:
        [free] = mdask.declare(client).values()
        assert 0 < free < 0.7 * 400 * MB
        big = {"memory": free * 2 // 3}
        calls = [client.submit(wait, 0.2, pure=False, resources=big) for _ in range(3)]
        small = [client.submit(wait, 0.6, pure=False, resources={"memory": free // 4})]
        spans = sorted(client.gather(calls))
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
        [(start, end)] = client.gather(small)
        assert any(a < end and start < b for a, b in spans), "a small one runs beside them"


def test_needs_are_those_of_the_law(model, stored):
    assert mdask.needs(model, "smooth", (50, 50, 50)) == {"memory": 16 * 50**3}
    assert mdask.needs(model, smooth, stored)["memory"] == pytest.approx(16 * stored.size, rel=0.01)
    x = da.zeros((100, 100, 100), chunks=50, dtype="f4")
    both = mdask.needs(model, "smooth", (10, 10, 10), x, halo=1)
    assert both["memory"] == pytest.approx(16 * 51**3, rel=0.01)
    with pytest.raises(ValueError, match="shape"):
        mdask.needs(model, "smooth")


def overlapped(shape, chunks):
    x = da.ones(shape, dtype="f4", chunks=chunks)
    meta = np.empty((0, 0, 0), "f4")
    return da.map_overlap(hungry, x, depth=1, boundary="none", meta=meta)


def test_what_cannot_fit_is_refused_before_it_runs(model, client):
    fits, not_ = overlapped((40, 40, 40), 20), overlapped((300, 200, 200), 150)
    with mdask.checked(model, client) as checks:
        assert fits.sum().compute() > 0
        with pytest.raises(MemoryError, match=r"hungry on a block of 151×1[05]\d×.* would do"):
            not_.sum().compute()
        with pytest.raises(MemoryError, match="hungry"):
            client.compute(not_)
        with pytest.raises(MemoryError, match="hungry"):
            not_.persist()
    assert checks.computations == 1 and checks.tasks == 8
    assert "no law" in checks.notes[0]
    assert "_graph_to_futures" not in vars(client)


def test_what_cannot_fit_in_this_process_is_refused(model):
    with mdask.checked(model, memory_limit="50 MB", baseline_bytes=0) as checks:
        with pytest.raises(MemoryError, match="hungry"), dask.config.set(scheduler="threads"):
            overlapped((100, 100, 100), 100).compute()
        overlapped((40, 40, 40), 20).compute(scheduler="sync")
    assert checks.computations == 1


def test_what_is_computed_takes_its_memory_where_workers_have_declared(model):
    settings = {"n_workers": 1, "threads_per_worker": 2, "memory_limit": "600MB"}
    with LocalCluster(dashboard_address=None, **settings) as cluster, Client(cluster) as client:
        mdask.declare(client)
        result = overlapped((40, 40, 40), 20).sum()
        with mdask.checked(model, client):
            kept = client.persist(result)
            kept.compute()
        reported = client.run_on_scheduler(restrictions)
        needs = {int(each["memory"]) for key, each in reported.items() if "overlap" in key}
        assert needs == {136 * 21**3}
        assert not any(each for key, each in reported.items() if "ones" in key)


def restrictions(dask_scheduler):
    tasks = dask_scheduler.tasks.items()
    return {str(key): task.resource_restrictions for key, task in tasks}


def test_checks_within_checks_leave_the_outer_ones(model, client):
    with memtrace.dask.checked(model, client):
        with memtrace.dask.checked(model, client):
            pass
        still = "_graph_to_futures" in vars(client)
    assert still and "_graph_to_futures" not in vars(client)
