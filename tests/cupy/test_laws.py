"""Laws of GST3D on CuPy: from four small runs to a large one, and to chunks that fit a GPU."""

import json
import math

import dask.array
import device_recording
import pytest
from conftest import memtrace
from gst3d_traces import CALLS, GST3D, LARGE, OPERATOR, SMALL, name_of
from memtrace.dask import recommend

ASKED = ("--operator", "gst3d", "--shape")


@pytest.fixture(scope="module")
def model(standin, tmp_path_factory):
    """Fitted to four runs, each twice in its process."""
    folder = tmp_path_factory.mktemp("model")
    options = ["--operator", OPERATOR]
    runs = [
        device_recording.record(
            standin, folder / name_of(shape), GST3D, name_of(shape), CALLS, options=options
        ).run
        for shape in SMALL
    ]
    path = folder / "model.json"
    reported("fit", *[run.path for run in runs], "-o", path)
    return path


def reported(*arguments, code=0):
    done = memtrace(*arguments)
    assert done.returncode == code, done.stderr.decode()
    return (done.stdout if code == 0 else done.stderr).decode()


def test_four_small_runs_predict_a_large_one_to_the_byte(record, model):
    """Of 38 times the volume: every block is a form that CuPy's pool has rounded up to 512 bytes."""
    large = record(GST3D, name_of(LARGE), CALLS, options=["--operator", OPERATOR])
    shape = ",".join(map(str, LARGE))
    device = json.loads(reported("predict", model, *ASKED, shape, "--json"))["device"]
    peaks = [span["device_peak_bytes"] for span in large.spans(OPERATOR)]
    assert peaks == [device["peak_bytes"]] * CALLS
    assert device["upper_bytes"] == device["peak_bytes"] > 690_000_000
    assert device["input_bytes"] == 4 * math.prod(LARGE)
    # A device that has no more than is predicted will do: the pool gives back unused memory.
    limited = record(
        GST3D,
        name_of(LARGE),
        CALLS,
        options=["--operator", OPERATOR],
        STANDIN_MEMORY=str(device["reserved_bytes"]),
    )
    assert [span["device_peak_bytes"] for span in limited.spans(OPERATOR)] == peaks
    assert limited.device["peak_driver_bytes"] <= device["reserved_bytes"]


def test_chunks_fit_the_device_and_the_host(model):
    limits = ("--memory-limit", "4GB", "--device-memory-limit")
    asked = (*ASKED, "600,600,600", "--halo", "9", *limits)
    small, large = (
        json.loads(reported("recommend", model, *asked, limit, "--format", "json"))
        for limit in ("4GB", "80GB")
    )
    for plan in (small, large):
        assert plan["device"]["predicted_worker_bytes"] <= plan["device"]["limit_bytes"]
        assert plan["predicted_frontier_bytes"] == 0, "the volume lies on the device"
    assert small["bound_by"] == "device_memory" and small["tasks"] > large["tasks"]
    task = json.loads(reported("predict", model, *ASKED, block_of(small, 9), "--json"))["device"]
    assert small["device"]["predicted_task_bytes"] == task["upper_bytes"] + task["input_bytes"]
    assert "take a device of" in reported("recommend", model, *asked, "501MB", code=3)


def test_what_is_read_for_the_device_is_in_the_hosts_memory_first(model):
    asked = (*ASKED, "600,600,600", "--halo", "9", "--source", "storage", "--memory-limit")
    limits = ("400MB", "--device-memory-limit", "80GB", "--format", "json")
    plan = json.loads(reported("recommend", model, *asked, *limits))
    block = 4 * math.prod(map(int, block_of(plan, 9).split(",")))
    assert block <= plan["predicted_task_bytes"] < plan["budget_bytes"] < 4 * 600**3


@pytest.mark.parametrize("limit", ["400MB", "1000MB", "1200MB", "1600MB"])
def test_plans_for_dask_need_no_more_of_the_host_than_the_command_line(model, limit):
    x = dask.array.zeros((600, 600, 600), dtype="f4", chunks=200)
    limits = {"memory_limit": limit, "device_memory_limit": "80GB"}
    one = {"workers": 1, "threads": 1, "any_version": True}
    plan = recommend(x, "gst3d", str(model), halo=9, **limits, **one)
    assert plan.worker_peak <= plan.budget and plan.device_peak <= plan.device_limit


def block_of(plan, halo):
    """The largest chunk with its halo, as a shape on the command line."""
    lengths = [
        min(max(sizes) + halo * min(len(sizes) - 1, 2), sum(sizes)) for sizes in plan["chunks"]
    ]
    return ",".join(map(str, lengths))


def test_the_longest_axis_that_fits(model):
    """One cell more of it does not."""
    limits = ("--device-memory-limit", "2GB")
    longest = reported("recommend", model, *ASKED, "1,300,300", "--axis", "0", *limits)
    assert "bound by the device's memory" in longest
    length = int(longest.split()[2].rstrip(","))

    def needed(length):
        shape = f"{length},300,300"
        device = json.loads(reported("predict", model, *ASKED, shape, "--json"))["device"]
        return 500_000_000 + device["reserved_bytes"]

    assert needed(length) <= 2_000_000_000 < needed(length + 1)


def law_of(record, tmp_path, operator):
    """Of an operator of mixed_memory.py: its model, and the spans at the largest shape."""
    recorded = record("mixed_memory.py", operator, options=["--operator", f"__main__:{operator}"])
    path = tmp_path / f"{operator}.json"
    reported("fit", recorded.run.path, "-o", path)
    spans = recorded.spans(f"__main__:{operator}")
    return path, [span for span in spans if span["inputs"][0]["shape"] == [411, 607]]


def asked_of(operator, shape="411,607"):
    return ("--operator", f"__main__:{operator}", "--shape", shape)


def test_managed_memory_is_none_of_the_device(record, tmp_path):
    model, spans = law_of(record, tmp_path, "beside_managed")
    found = json.loads(reported("predict", model, *asked_of("beside_managed"), "--json"))["device"]
    assert {span["device_peak_bytes"] for span in spans} == {found["peak_bytes"]}
    assert found["before_bytes"] < 1000, "100 MB of managed memory are held"
    assert found["reserved_bytes"] < 10_000_000


def test_a_device_used_at_too_few_shapes_is_not_taken_for_none(record, tmp_path):
    model, spans = law_of(record, tmp_path, "large_only")
    assert all(span["device_peak_bytes"] > 0 for span in spans)
    found = json.loads(reported("predict", model, *asked_of("large_only"), "--json"))
    assert found["device"] is None and "2 shapes" in found["device_unknown"]
    limits = ("--memory-limit", "4GB", "--device-memory-limit", "4GB")
    asked = ("recommend", model, *asked_of("large_only", "4000,4000"), *limits)
    assert "of a device is not known" in reported(*asked, code=2)


def test_inputs_on_a_device_count_where_nothing_is_allocated(record, tmp_path):
    model, _ = law_of(record, tmp_path, "in_place")
    found = json.loads(reported("predict", model, *asked_of("in_place", "4000,4000"), "--json"))
    assert found["device"]["peak_bytes"] == 0
    assert found["device"]["input_bytes"] == 64_000_000 <= found["device"]["reserved_bytes"]
    limits = ("--memory-limit", "4GB", "--device-memory-limit", "640MB", "--format", "json")
    asked = ("recommend", model, *asked_of("in_place", "16000,4000"), *limits)
    plan = json.loads(reported(*asked))
    assert plan["tasks"] > 1 and plan["bound_by"] == "device_memory"
