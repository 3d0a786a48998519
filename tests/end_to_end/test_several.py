"""A directory of traces: what report, fit, load and top make of all of them together."""

import json
import os
import subprocess
import sys

import memtrace as package
import pytest
from conftest import MEMTRACE, ROOT, environment, memtrace, succeeded

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
        ):
            model.save(tmp_path / name)
        with pytest.raises(ValueError, match="No such file"):
            package.fit([tmp_path / "none"], client=client)
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "meta.json").write_text("{")
        with pytest.raises(ValueError, match="meta.json"):
            package.fit([campaign, tmp_path / "empty"], client=client)
    assert (tmp_path / "cluster").read_bytes() == (tmp_path / "one").read_bytes()


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
