"""Laws of GST3D on CuPy: from four small runs to a large one, and to chunks that fit a GPU."""

import json
import math

import pytest
from conftest import memtrace
from gst3d_traces import CALLS, GST3D, LARGE, OPERATOR, SMALL, name_of

ASKED = ("--operator", "gst3d", "--shape")


@pytest.fixture
def model(record, tmp_path):
    """Fitted to four runs, each twice in its process."""
    options = ["--operator", OPERATOR]
    runs = [record(GST3D, name_of(shape), CALLS, options=options).run for shape in SMALL]
    path = tmp_path / "model.json"
    told("fit", *[run.path for run in runs], "-o", path)
    return path


def told(*arguments, code=0):
    done = memtrace(*arguments)
    assert done.returncode == code, done.stderr.decode()
    return (done.stdout if code == 0 else done.stderr).decode()


def test_four_small_runs_foretell_a_large_one_to_the_byte(record, model):
    """Of 38 times the volume: every block is a form that CuPy's pool has rounded up to 512 bytes."""
    large = record(GST3D, name_of(LARGE), CALLS, options=["--operator", OPERATOR])
    shape = ",".join(map(str, LARGE))
    device = json.loads(told("predict", model, *ASKED, shape, "--json"))["device"]
    peaks = [span["device_peak_bytes"] for span in large.spans(OPERATOR)]
    assert peaks == [device["peak_bytes"]] * CALLS
    assert device["upper_bytes"] == device["peak_bytes"] > 690_000_000
    assert device["input_bytes"] == 4 * math.prod(LARGE)
    # A device that has no more than is foretold does: the pool gives back what nobody uses.
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
        json.loads(told("recommend", model, *asked, limit, "--format", "json"))
        for limit in ("4GB", "80GB")
    )
    for plan in (small, large):
        assert plan["device"]["predicted_worker_bytes"] <= plan["device"]["limit_bytes"]
        assert plan["predicted_frontier_bytes"] == 0, "the volume lies on the device"
    assert small["bound_by"] == "device_memory" and small["tasks"] > large["tasks"]
    task = json.loads(told("predict", model, *ASKED, block_of(small, 9), "--json"))["device"]
    assert small["device"]["predicted_task_bytes"] == task["upper_bytes"] + task["input_bytes"]
    assert "take a device of" in told("recommend", model, *asked, "501MB", code=3)


def block_of(plan, halo):
    """The largest chunk with its halo, as a shape on the command line."""
    lengths = [
        min(max(sizes) + halo * min(len(sizes) - 1, 2), sum(sizes)) for sizes in plan["chunks"]
    ]
    return ",".join(map(str, lengths))


def test_the_longest_axis_that_fits(model):
    """One cell more of it does not."""
    limits = ("--device-memory-limit", "2GB")
    longest = told("recommend", model, *ASKED, "1,300,300", "--axis", "0", *limits)
    assert "bound by the device's memory" in longest
    length = int(longest.split()[2].rstrip(","))

    def needed(length):
        shape = f"{length},300,300"
        device = json.loads(told("predict", model, *ASKED, shape, "--json"))["device"]
        return 500_000_000 + device["reserved_bytes"]

    assert needed(length) <= 2_000_000_000 < needed(length + 1)
