"""memtrace.dask.checked: what does not fit is refused before it runs, or waits."""

# ruff: noqa: F811 (arguments named as the fixtures)

import dask
import memtrace
import pytest
from chunk_functions import wait
from dask_cases import MB, client, connected, law, model, overlapped  # noqa: F401 (fixtures)

pytest.importorskip("distributed", reason="distributed is not installed")
import memtrace.dask as mdask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


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
