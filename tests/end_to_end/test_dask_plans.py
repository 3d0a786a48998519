"""Plans of memtrace.dask: what they ask a cluster, and what they refuse."""

# ruff: noqa: F811 (arguments named as the fixtures)

import numpy as np
import pytest
from chunk_functions import smooth
from dask_cases import MB, SHAPE, client, connected, law, model, overlapped, stored, volume  # noqa: F401 (fixtures)

pytest.importorskip("distributed", reason="distributed is not installed")
import dask.array as da  # noqa: E402
import memtrace.dask as mdask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from memtrace.dask._workers import Workers, status_bytes  # noqa: E402

zarr = pytest.importorskip("zarr")

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


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


def test_the_number_of_workers_may_be_chosen_for_a_lazy_array(model, stored):
    limits = {"memory_limit": "400 MB", "baseline_bytes": 100 * MB, "workers": "auto"}
    assert mdask.map_overlap(smooth, stored, 1, model, dtype="f4", **limits).npartitions >= 1
    with pytest.raises(ValueError, match="without store"):
        mdask.map_overlap(smooth, stored, 1, model, store=np.empty(SHAPE, "f4"), **limits)


def test_needs_are_those_of_the_law(model, stored):
    assert mdask.needs(model, "smooth", (50, 50, 50)) == {"memory": 16 * 50**3}
    assert mdask.needs(model, smooth, stored)["memory"] == pytest.approx(16 * stored.size, rel=0.01)
    x = da.zeros((100, 100, 100), chunks=50, dtype="f4")
    both = mdask.needs(model, "smooth", (10, 10, 10), x, halo=1)
    assert both["memory"] == pytest.approx(16 * 51**3, rel=0.01)
    with pytest.raises(ValueError, match="shape"):
        mdask.needs(model, "smooth")
