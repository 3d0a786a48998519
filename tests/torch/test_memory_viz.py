"""`memtrace export --format memory_viz` of PyTorch's own allocator.

What reads it: tests/end_to_end/test_export_devices.py."""

import json
import pickle


def test_the_peak_is_what_pytorch_counts(record, memtrace, tmp_path):
    reported = record(tmp_path / "trace", 2, 64)
    file = tmp_path / "snapshot.pickle"
    memtrace("export", tmp_path / "trace", "--format", "memory_viz", "-o", file)
    [events] = pickle.loads(file.read_bytes())["device_traces"]
    now = most = 0
    for event in events:
        now += event["size"] * ({"alloc": 1, "free_completed": -1}.get(event["action"], 0))
        most = max(most, now)
    report = json.loads(memtrace("report", "--json", tmp_path / "trace"))
    [device] = [row for row in report["devices"] if row["device"] == 0]
    assert most == reported["allocated_peak_bytes"] == device["peak_used_bytes"]
    functions = {frame["filename"] for event in events for frame in event["frames"]}
    assert any(name.endswith("transformer.py") for name in functions)
