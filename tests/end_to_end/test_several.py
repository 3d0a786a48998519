"""A directory of traces: what report, fit, load and top make of all of them together."""

import json
import os
import shutil
import subprocess
import sys

import memtrace as package
import pytest
from conftest import MEMTRACE, ROOT, environment, memtrace, succeeded
from memtrace._running import remote

PROGRAM = """
import sys, numpy as np, memtrace

@memtrace.operator
def scale(x):
    return x * 2.0

for length in map(int, sys.argv[1:]):
    scale(np.ones((length, 100)))
"""
#: Of each task of an array: lengths of what it scales.
TASKS = {"7_9": (300, 400), "7_10": (500,), "7_11": (900, 350)}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """The traces of three tasks of an array, on two hosts as far as the directories say."""
    folder = tmp_path_factory.mktemp("campaign")
    for task, lengths in TASKS.items():
        array, index = task.split("_")
        variables = environment(
            SLURM_ARRAY_JOB_ID=array, SLURM_ARRAY_TASK_ID=index, PYTHONPATH=str(ROOT / "python")
        )
        words = ("-q", "-o", folder / "%h" / "%j", "--", sys.executable, "-c", PROGRAM, *lengths)
        done = memtrace(*words, env=variables)
        assert done.returncode == 0, done.stderr.decode()
    return folder


def report(directory):
    return json.loads(memtrace("report", "--json", directory).stdout)


def test_tasks_of_an_array_are_in_one_picture(campaign):
    found = report(campaign)
    singles = {task: report(campaign / os.uname().nodename / task) for task in TASKS}
    for task, single in singles.items():
        assert all(process["job"] == task for process in single["processes"])
        assert single["ranks"] is None, "a task of an array has no rank"
    peaks = {task: single["peak"]["live_bytes"] for task, single in singles.items()}
    spread = found["ranks"]["peak_live"]
    assert spread["sum_bytes"] == sum(peaks.values()) and spread["ranks"] == 3
    assert (spread["min_bytes"], spread["max_bytes"]) == (min(peaks.values()), max(peaks.values()))
    largest = max(peaks, key=peaks.get)
    assert spread["largest"]["job"] == largest
    assert spread["largest"]["trace"].endswith(f"/{largest}")
    assert found["totals"] == {
        key: sum(single["totals"][key] for single in singles.values()) for key in found["totals"]
    }
    [operator] = found["ranks"]["operators"]
    assert operator["calls"] == 5 and operator["inputs"][0]["shape"] == [900, 100]
    calls = [span for single in singles.values() for span in single["operators"][0]["spans"]]
    assert operator["working_peak"]["max_bytes"] == max(c["working_peak_bytes"] for c in calls)
    # They ran one after the other.
    [node] = found["nodes"]
    resident = [single["peak"]["resident_sum_bytes"] for single in singles.values()]
    assert node["resident_at_most_bytes"] == max(resident)
    with open("/proc/meminfo") as lines:
        assert node["memory_bytes"] == int(next(lines).split()[1]) * 1024


def test_traces_are_in_order_and_open_one_by_one(campaign):
    traces = package.load(campaign)
    assert isinstance(traces, package.Traces)
    assert [trace.path.name for trace in traces] == ["7_9", "7_10", "7_11"]
    assert traces.report() == report(campaign)
    with pytest.raises(IndexError):
        traces[3]
    assert isinstance(package.load(traces[0].path), package.Trace)


def test_a_model_of_a_directory_is_that_of_its_traces(campaign, tmp_path):
    one_by_one = [campaign / os.uname().nodename / task for task in ("7_9", "7_10", "7_11")]
    for name, traces in (("directory", [campaign]), ("traces", one_by_one)):
        done = memtrace("fit", "-o", tmp_path / name, *traces)
        assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "directory").read_bytes() == (tmp_path / "traces").read_bytes()
    package.fit(package.load(campaign)).save(tmp_path / "python")
    assert (tmp_path / "python").read_bytes() == (tmp_path / "traces").read_bytes()


def test_workers_of_a_cluster_fit_the_same_model(campaign, lean, tmp_path):
    from distributed import Client, LocalCluster

    settings = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        for name, model in (
            ("one", package.fit(campaign)),
            ("cluster", package.fit(package.load(campaign), client=client)),
            ("url", package.fit(campaign.as_uri(), client=client)),
        ):
            model.save(tmp_path / name)
        with pytest.raises(ValueError, match="No such file"):
            package.fit([tmp_path / "none"], client=client)
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "meta.json").write_text("{")
        with pytest.raises(ValueError, match="meta.json"):
            package.fit([campaign, tmp_path / "empty"], client=client)
    assert (tmp_path / "cluster").read_bytes() == (tmp_path / "one").read_bytes()
    assert laws_of(tmp_path / "url") == laws_of(tmp_path / "one")


def laws_of(path):
    """A model without the places of its traces, and the checksum over them."""
    model = json.loads(path.read_text())
    del model["sha256"]
    for source in model["sources"]:
        del source["path"]
    return model


def nameless(value):
    """A report without the paths of traces."""
    if isinstance(value, list):
        return [nameless(each) for each in value]
    if isinstance(value, dict):
        return {key: nameless(each) for key, each in value.items() if key != "trace"}
    return value


def test_traces_at_a_url_are_read_as_those_in_a_directory(campaign, tmp_path):
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.put(str(campaign), "/bucket/campaign", recursive=True)
    url = "memory://bucket/campaign"
    traces = package.load(url)
    expected = report(campaign)
    found = traces.report()
    assert len(traces) == expected["traces"] == 3
    assert nameless(found) == nameless(expected)
    host = os.uname().nodename
    one = package.load(f"{url}/{host}/7_10/")
    assert isinstance(one, package.Trace)
    assert len(one.spans) == len(package.load(campaign / host / "7_10").spans) > 0
    for name, source in (
        ("here", campaign),
        ("there", url),
        ("each", [f"{url}/{host}/7_9", campaign / host / "7_10", f"{url}/{host}/7_11"]),
    ):
        package.fit(source).save(tmp_path / name)
    expected = laws_of(tmp_path / "here")
    assert laws_of(tmp_path / "there") == laws_of(tmp_path / "each") == expected
    model = json.loads((tmp_path / "each").read_text())
    paths = [source["path"] for source in model["sources"]]
    assert paths[::2] == [f"{url}/{host}/7_9", f"{url}/{host}/7_11"]
    assert paths[1] == str(campaign / host / "7_10")


def test_traces_in_an_archive_and_in_a_cache(campaign, tmp_path):
    pytest.importorskip("fsspec")
    archive = shutil.make_archive(tmp_path / "traces", "zip", campaign)
    expected = nameless(report(campaign))
    host = os.uname().nodename
    for url, there in (
        (f"zip://::{archive}", f"zip://{host}/7_9::{archive}"),
        (f"zip://::simplecache::file://{archive}", None),
        (f"zip::file://{archive}", f"zip://{host}/7_9::file://{archive}"),
        (f"simplecache::file://{campaign}", f"simplecache::file://{campaign}/{host}/7_9"),
    ):
        assert nameless(package.load(url).report()) == expected
        assert there in (None, remote.traces_in(url)[0])
        package.fit(url).save(tmp_path / "model")
        assert len(json.loads((tmp_path / "model").read_text())["sources"]) == 3


def test_a_password_is_in_no_model_and_no_message(campaign, tmp_path):
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.put(str(campaign), "/me:secret@shop/campaign", recursive=True)
    files.pipe("/me:secret@shop/broken/meta.json", b"{")
    package.fit("memory://me:secret@shop/campaign").save(tmp_path / "model")
    assert "secret" not in (tmp_path / "model").read_text()
    for read in (package.load, package.fit):
        for name, why in (
            ("broken", "memory://me@shop/broken/meta.json"),
            ("none", "memory://me@shop/none"),
        ):
            with pytest.raises(ValueError, match=why) as raised:
                read(f"memory://me:secret@shop/{name}")
            assert "secret" not in str(raised.value)
    for url, shown in (
        ("https://me:secr@et@shop/a@b?signature=secret", "https://shop/a@b"),
        (
            "zip://a?b::simplecache::s3://key:secret@bucket/x",
            "zip://a?b::simplecache::s3://key@bucket/x",
        ),
        ("https://token@shop/x?version=1", "https://shop/x?version=1"),
        ("az://c/x?sv=1&sig=secret", "az://c/x"),
        ("abfs://box@account.net/traces", "abfs://box@account.net/traces"),
        ("github://org:repository@main/x", "github://org:repository@main/x"),
    ):
        assert remote.public(url) == shown


def test_the_trace_that_cannot_be_read_is_named():
    files = pytest.importorskip("fsspec").filesystem("memory")
    for number in range(14):
        files.pipe(f"/bucket/many-broken/r{number}/meta.json", b"{")
    with pytest.raises(ValueError, match=r"memory://bucket/many-broken/r0/meta\.json"):
        package.fit("memory://bucket/many-broken")
    files.rm("/bucket/many-broken", recursive=True)


def test_traces_at_a_url_are_those_that_a_directory_has():
    """Neither hidden ones, nor those within others, nor too deep ones; 9 before 10."""
    files = pytest.importorskip("fsspec").filesystem("memory")
    for trace in ("h/10", "h/9", "h/9/a", "h/9/z", "h/.old", ".h/1", "1/2/3", "1/2/4/5"):
        files.pipe(f"/bucket/many/{trace}/meta.json", b"{}")
    url = "memory://bucket/many"
    assert remote.traces_in(url) == [f"{url}/{trace}" for trace in ("1/2/3", "h/9", "h/10")]


def test_what_is_no_trace_at_a_url_is_refused():
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.pipe({"/bucket/other/file": b"x", "/bucket/broken/meta.json": b"{"})
    for url, why in {
        "memory://bucket/nothing": "has no trace",
        "memory://bucket/other": "has no trace",
        "memory://bucket/broken": "meta.json",
        "nonsense://bucket": "nonsense",
    }.items():
        for read in (package.load, package.fit):
            with pytest.raises(ValueError, match=why):
                read(url)
    files.pipe("/bucket/out/meta.json", b"{}")
    files.store["/bucket/out/../../../tmp/out"] = files.store["/bucket/out/meta.json"]
    with pytest.raises(ValueError, match="outside of itself"):
        package.load("memory://bucket/out")


def test_a_trace_that_cannot_be_read_is_left_out(campaign, tmp_path):
    good = campaign / os.uname().nodename / "7_9"
    (tmp_path / "traces").mkdir()
    for name in ("a", "b"):
        succeeded("cp", "-r", good, tmp_path / "traces" / name)
    (tmp_path / "traces" / "b" / "meta.json").write_text("{")
    found = report(tmp_path / "traces")
    assert (found["traces"], found["unreadable"]) == (1, 1)
    assert "meta.json" in found["unreadable_why"][0]
    text = memtrace("report", tmp_path / "traces").stdout.decode()
    assert "note: 1 of the traces cannot be read: " in text
    (tmp_path / "traces" / "a" / "meta.json").write_text("{")
    done = memtrace("report", tmp_path / "traces")
    assert done.returncode == 1 and b"none of these traces can be read" in done.stderr


@pytest.mark.parametrize("option", ["--details", "--leaks", "--html=x", "--recompute"])
def test_what_is_of_one_trace_is_refused(campaign, option):
    done = memtrace("report", option, campaign)
    assert done.returncode == 2
    assert b"is of one trace, and" in done.stderr and b"name one, e.g. " in done.stderr


def test_a_percent_sign_in_a_name_is_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{MEMTRACE.parent}:{os.environ['PATH']}")
    assert memtrace("-q", "-o", tmp_path / "100%%", "--", "true").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["100%"]
    assert package.record("x = 1", output=tmp_path / "%j").path == tmp_path / "%j"


def test_an_id_of_a_job_is_no_way_out_of_the_directory(tmp_path):
    (tmp_path / "in").mkdir()
    done = memtrace(
        "-o", tmp_path / "in" / "%j", "--", "true", env=environment(SLURM_JOB_ID="../out")
    )
    assert done.returncode == 2 and b"cannot be part of a directory's name" in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in"]


def test_top_shows_what_runs_in_a_directory_together(tmp_path):
    program = "import sys; x = bytearray(50 << 20); print(flush=True); sys.stdin.read()"
    running = [
        subprocess.Popen(
            [MEMTRACE, "-q", "-o", tmp_path / "%r", "--", sys.executable, "-c", program],
            env=environment(PMI_RANK=str(rank)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    for each in running:
        each.stdout.readline()
    figures = json.loads(memtrace("top", tmp_path, "--json", "--once").stdout)
    while figures["live_bytes"] < 100 << 20:  # what was not read yet comes with the next figures
        figures = json.loads(memtrace("top", tmp_path, "--json", "--once").stdout)
    assert {process["rank"] for process in figures["processes"]} == {0, 1}
    assert figures["peak"]["live_bytes"] >= 100 << 20
    assert len({limit["name"] for limit in figures["limits"]}) == len(figures["limits"])
    with subprocess.Popen(
        [MEMTRACE, "top", tmp_path, "--json", "--every", "0.1"], stdout=subprocess.PIPE
    ) as top:
        top.stdout.readline()
        for each in running:
            each.communicate()
        last = json.loads(top.stdout.read().splitlines()[-1])
    assert last["ended"] and last["exit"] == 0
    done = memtrace("top", tmp_path, "--json")
    assert done.returncode == 1 and b"is recorded on this machine" in done.stderr
