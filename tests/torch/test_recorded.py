"""What memtrace records of PyTorch's own caching allocator, here on the stand-in runtime:
blocks and segments to the byte, what each module allocated, and the snapshot that `memtrace export`
makes of it (what reads that: tests/end_to_end/test_export_devices.py). The program is that of
scripts/gpu-check."""

import json
import pickle
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.gpu.check import first_device, peaks_of_calls  # noqa: E402


@pytest.fixture(scope="module")
def recorded(record, memtrace, tmp_path_factory):
    """What the program says of itself, the report of its recording, and the trace."""
    trace = tmp_path_factory.mktemp("recorded") / "trace"
    reported = record(trace, 2, 64)
    return reported, json.loads(memtrace("report", "--json", "--all-spans", trace)), trace


def test_blocks_and_segments_are_those_that_pytorch_counts(recorded):
    reported, report, _ = recorded
    device = first_device(report)
    assert device["peak_framework_bytes"] == reported["allocated_peak_bytes"] > 500_000_000
    assert device["peak_used_bytes"] == reported["allocated_peak_bytes"]
    assert device["peak_framework_reserved_bytes"] == reported["reserved_peak_bytes"]
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}


def test_modules_have_the_peaks_that_pytorch_counts(recorded):
    reported, report, _ = recorded
    ours = peaks_of_calls(report)
    assert len(reported["calls"]) == 4
    for kind, own in reported["calls"].items():
        assert ours[kind][-len(own) :] == own


def test_the_peak_of_a_snapshot_is_what_pytorch_counts(recorded, memtrace, tmp_path):
    reported, report, trace = recorded
    file = tmp_path / "snapshot.pickle"
    memtrace("export", trace, "--format", "memory_viz", "-o", file)
    [events] = pickle.loads(file.read_bytes())["device_traces"]
    now = most = 0
    for event in events:
        now += event["size"] * ({"alloc": 1, "free_completed": -1}.get(event["action"], 0))
        most = max(most, now)
    [device] = [row for row in report["devices"] if row["device"] == 0]
    assert most == reported["allocated_peak_bytes"] == device["peak_used_bytes"]
    functions = {frame["filename"] for event in events for frame in event["frames"]}
    assert any(name.endswith("transformer.py") for name in functions)
