"""Recording a real cluster: what is streamed is what the traces have, while it is computed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pytest
from conftest import MEMTRACE, ROOT, TARGETS, memtrace

pytest.importorskip("distributed", reason="distributed is not installed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

sys.path.insert(0, str(TARGETS))
import memtrace as mt  # noqa: E402
from memtrace.dask import record  # noqa: E402
from memtrace.dask._view import Live, workers_of  # noqa: E402
from tasks import doubled, slept, warmed, worked  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]


@pytest.fixture(scope="module")
def client():
    """A cluster with a nanny for each worker."""
    before = {name: os.environ.get(name) for name in ("PATH", "PYTHONPATH")}
    os.environ["PATH"] = f"{MEMTRACE.parent}:{before['PATH']}"
    os.environ["PYTHONPATH"] = f"{ROOT / 'python'}:{TARGETS}"
    settings = {
        "distributed.scheduler.allowed-failures": 10,
        # Else it closes nannies whose workers happen to be started again at that time.
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    with (
        # A cluster that ends may look for a worker that it has just forgotten.
        suppress(KeyError),
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit="1GB",
            silence_logs="ERROR",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def volume():
    x = da.random.default_rng(1).random((1200, 900), chunks=(300, 310))
    return da.map_overlap(
        doubled, x, depth=2, boundary="reflect", dtype="f8", meta=np.empty((0, 0))
    )


def in_traces(directory):
    """Every span of all traces, as the documentation queries them."""
    rows = duckdb.sql(f"""
        select s.host, s.nanny, p.pid, s.span, s.operator, s.call, s.working_peak_bytes,
               s.net_peak_bytes, s.one_time_bytes, s.output_bytes, s.start_ns, s.end_ns,
               s.inputs, s.outputs, s.params
        from read_parquet('{directory}/*/*/spans.parquet', hive_partitioning = true) s
        join read_parquet('{directory}/*/*/processes.parquet', hive_partitioning = true) p
        using (host, nanny, process)
    """).fetchall()
    return sorted((*row[:12], *map(json.loads, row[12:])) for row in rows)


def streamed(recording):
    fields = ("span", "operator", "call", "working_peak_bytes", "net_peak_bytes", "one_time_bytes")
    fields += ("output_bytes", "start_ns", "end_ns")
    return sorted(
        (
            span["host"],
            int(Path(span["trace"]).name.partition("=")[2]),
            span["pid"],
            *(span[field] for field in fields),
            *(span[field] for field in ("inputs", "outputs", "params")),
        )
        for span in recording.spans
    )


def test_what_is_streamed_is_what_the_traces_have(client, tmp_path):
    with record(client, tmp_path / "traces") as recording:
        futures = client.compute([volume().sum(), client.submit(slept, 1000, 0)])
        total = futures[0].result()
        # The recorder runs on: what has ended is here already.
        deadline = time.monotonic() + 30
        while not any("doubled" in task["operator"] for task in recording.tasks()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert recording.running and not recording.traces
    assert total == pytest.approx(5 * 0.5 * 1200 * 900, rel=0.01)
    assert recording.missing == 0
    [trace] = recording.traces.values()
    assert trace["problem"] == "" and Path(trace["trace"]).parts[-2].startswith("host=")
    assert streamed(recording) == in_traces(tmp_path / "traces")
    doubles = [task for task in recording.tasks() if "doubled" in task["operator"]]
    assert len(doubles) == 12 and len({task["pid"] for task in doubles}) == 2
    assert {task["worker"] for task in doubles} == {"0", "1"}
    report = json.loads(memtrace("report", "--json", trace["trace"]).stdout)
    assert report["lost"]["events"] == 0
    peaks = {process["pid"]: process["peak_live_bytes"] for process in report["processes"]}
    for task in doubles:
        assert 300 * 310 * 8 <= task["measured_bytes"] <= peaks[task["pid"]]


def test_spans_arrive_while_tasks_run(client, tmp_path):
    with record(client, tmp_path / "traces") as recording:
        quick = client.submit(worked, 100_000)
        long = client.submit(slept, 1000, 3600)
        quick.result()
        deadline = time.monotonic() + 30
        while not any(span["operator"] == "worked" for span in recording.spans):
            assert time.monotonic() < deadline, "it is reported while another task runs"
            time.sleep(0.05)
        assert not long.done()
        client.cancel(long)
        client.restart()
    # A task that was cut short has no end, in the stream as in the trace.
    assert streamed(recording) == in_traces(tmp_path / "traces")
    [cut] = [task for task in recording.tasks() if task["operator"] == "slept"]
    assert cut["seconds"] is None and "killed" in str(recording)


def test_a_killed_worker_loses_nothing(client, tmp_path):
    with record(client, tmp_path / "traces") as recording:
        client.gather(client.map(worked, range(50_000, 50_040)))
        victim = client.run(os.getpid)
        address, pid = next(iter(victim.items()))
        client.submit(os.kill, pid, signal.SIGKILL, workers=[address], pure=False)
        deadline = time.monotonic() + 60
        while pid in client.run(os.getpid, on_error="ignore").values():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        client.wait_for_workers(2)
        client.cancel(list(client.futures.values()))
        client.gather(client.map(worked, range(60_000, 60_040)))
    assert streamed(recording) == in_traces(tmp_path / "traces")
    done = [task for task in recording.tasks() if task["operator"] == "worked"]
    assert len(done) == 80 and len({task["pid"] for task in done}) == 3, "in one trace again"
    assert len(recording.traces) == 1
    assert "LD_PRELOAD" not in os.environ and "MEMTRACE_TOKEN" not in os.environ


def test_workers_that_join_later_are_recorded(client, tmp_path):
    with record(client, tmp_path / "traces") as recording:
        client.cluster.scale(3)
        client.wait_for_workers(3)
        pids = client.run(os.getpid)
        client.gather([client.submit(worked, 1000, workers=[at], pure=False) for at in pids])
    client.cluster.scale(2)
    assert {task["pid"] for task in recording.tasks()} == set(pids.values())
    assert streamed(recording) == in_traces(tmp_path / "traces")


@pytest.mark.parametrize("ahead", [0, 0.1, 0.3])
def test_a_worker_that_leaves_meanwhile_does_no_harm(client, tmp_path, ahead):
    client.cluster.scale(3)
    client.wait_for_workers(3)
    client.cluster.scale(2)  # which returns before the third has left
    time.sleep(ahead)
    patient = {"distributed.comm.timeouts.connect": "5 s"}  # with a nanny that has left
    with dask.config.set(patient), record(client, tmp_path / "traces") as recording:
        client.submit(worked, 1000).result()
    assert [task["operator"] for task in recording.tasks()] == ["worked"]
    deadline = time.monotonic() + 60
    while len(client.nthreads()) != 2:
        assert time.monotonic() < deadline, "a worker stays without its nanny"
        time.sleep(0.1)


def test_workers_go_on_with_their_data(client, tmp_path):
    with record(client, tmp_path / "traces"):
        kept = client.scatter(np.arange(1000))
        before = client.run(os.getpid)
    assert client.run(os.getpid) == before
    assert client.submit(np.sum, kept).result() == 499_500
    with record(client, tmp_path / "again") as recording:
        client.submit(worked, 1000).result()
    assert [task["operator"] for task in recording.tasks()] == ["worked"]


def test_predicted_against_measured(client, tmp_path, capsys):
    """A model of the very operator, one that is half of it, and the page of both."""
    shapes, sizes = [], []
    for rows, columns in ((150, 160), (210, 130), (330, 340), (64, 511)):
        shapes.append((rows, columns))
        sizes.append(16 * rows * columns)  # NumPy adds into the first product
    whole = mt.fit_table(shapes, sizes, dtype="<f8", operator="doubled")
    half = mt.fit_table(shapes, [size // 2 for size in sizes], dtype="<f8", operator="doubled")
    shapes = [(700, 900), (1000, 810)]
    with record(client, tmp_path / "whole", whole) as recording:
        client.gather(client.map(doubled, client.map(np.ones, shapes)))
    tasks = [task for task in recording.tasks() if task["law"] == "doubled"]
    assert len(tasks) == 2 and not any(task["over"] for task in tasks)
    for task in tasks:
        assert task["measured_bytes"] == pytest.approx(task["predicted_bytes"], rel=0.05)
    with record(client, tmp_path / "half", half) as under:
        client.gather(client.map(doubled, client.map(np.ones, shapes)))
    assert sum(task["over"] for task in under.tasks()) == 2
    assert "OVER" in str(under) and "2 over their prediction" in str(under)
    Live(under)._draw()
    assert "2 over their prediction" in capsys.readouterr().out
    page = tmp_path / "page.html"
    under.html(page)
    text = page.read_text()
    assert text.count("<circle") == 2 and 'http-equiv="refresh"' not in text
    assert "//" not in text.replace("http://www.w3.org", ""), "nothing from elsewhere"


def test_all_workers_are_listed_though_the_client_refreshes_what_it_knows(client):
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1 ms"}),
        Client(client.scheduler.address, set_as_default=False) as refreshing,
    ):
        fractions = dict.fromkeys(client.nthreads(), 0.5)
        listed = {len(workers_of(refreshing, fractions)) for _ in range(300)}
    assert listed == {2}


def test_one_time_bytes_are_predicted_of_the_first_call_of_each_worker(client, tmp_path):
    shapes = [(150, 160), (210, 130), (330, 340), (64, 511)]
    sizes = [16 * rows * columns for rows, columns in shapes]
    path = tmp_path / "model.json"
    mt.fit_table(shapes, sizes, dtype="<f8", operator="warmed").save(str(path))
    document = json.loads(path.read_text())
    document["laws"][0]["one_time"]["bytes"] = 32_000_000
    path.write_text(json.dumps(document))
    model = mt.Model.load(str(path))
    with record(client, tmp_path / "traces", model) as recording:
        blocks = client.map(np.ones, [(700, 900 + n) for n in range(8)])
        client.gather(client.map(warmed, blocks))
    tasks = [task for task in recording.tasks() if task["law"] == "warmed"]
    assert len(tasks) == 8 and not any(task["over"] for task in tasks), str(recording)
    first = [task for task in tasks if task["predicted_bytes"] > 32_000_000]
    assert len(first) == len({task["pid"] for task in tasks})
    for task in tasks:
        assert task["measured_bytes"] == pytest.approx(task["predicted_bytes"], rel=0.05)
    assert "OVER" not in str(recording)


def test_the_page_opens_in_a_browser(client, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    model = mt.fit_table([(1000,), (3000,), (9000,)], [8000, 24000, 72000], "<f8", "doubled")
    with record(client, tmp_path / "traces", model) as recording:
        client.gather(client.map(doubled, [np.ones(5000), np.ones(7000)]))
    recording.html(tmp_path / "page.html")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        + [f"--user-data-dir={tmp_path}/profile", f"file://{tmp_path}/page.html"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.count(b"<circle") == 2, done.stderr.decode()[-2000:]


def test_collected_traces_are_the_same(client, tmp_path):
    with record(client, tmp_path / "traces") as recording:
        client.submit(worked, 1000).result()
        with pytest.raises(RuntimeError, match="ended"):
            recording.collect(tmp_path / "early")
    recording._is_here = lambda trace: False  # as on a host that shares no file system with them
    recording.collect(tmp_path / "collected")
    assert in_traces(tmp_path / "collected") == in_traces(tmp_path / "traces") != []
    # Others cannot read what was recorded.
    assert all(p.stat().st_mode & 0o077 == 0 for p in (tmp_path / "collected").rglob("nanny=*"))


def test_a_host_without_memtrace_is_named(client, tmp_path):
    bad = record(client, tmp_path / "traces", options=["--no-such-option"])
    with pytest.raises(RuntimeError, match="could not record"), bad:
        pass
    assert client.submit(worked, 10).result() == 70


def test_workers_without_a_nanny_are_named(tmp_path):
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
        pytest.warns(UserWarning, match="1 of 1 workers have no nanny and are not recorded"),
        record(client, tmp_path / "traces") as recording,
    ):
        assert client.submit(worked, 10).result() == 70
    assert recording.spans == []
