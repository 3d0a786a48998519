"""What memtrace records of PyTorch's own caching allocator, here on the stand-in runtime:
blocks and segments to the byte, and what each module allocated. The program is that of
scripts/gpu-check."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.gpu.check import first_device, peaks_of_calls  # noqa: E402


@pytest.fixture(scope="module")
def recorded(record, memtrace, tmp_path_factory):
    """What the program says of itself, and the report of its recording."""
    trace = tmp_path_factory.mktemp("recorded") / "trace"
    reported = record(trace, 2, 64)
    return reported, json.loads(memtrace("report", "--json", "--all-spans", trace))


def test_blocks_and_segments_are_those_that_pytorch_counts(recorded):
    reported, report = recorded
    device = first_device(report)
    assert device["peak_framework_bytes"] == reported["allocated_peak_bytes"] > 500_000_000
    assert device["peak_used_bytes"] == reported["allocated_peak_bytes"]
    assert device["peak_framework_reserved_bytes"] == reported["reserved_peak_bytes"]
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}


def test_modules_have_the_peaks_that_pytorch_counts(recorded):
    reported, report = recorded
    ours = peaks_of_calls(report)
    assert len(reported["calls"]) == 4
    for kind, own in reported["calls"].items():
        assert ours[kind][-len(own) :] == own
