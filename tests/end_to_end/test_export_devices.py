"""`memtrace export --format memory_viz`, of programs on the stand-in for NVIDIA's driver: the peaks of the
report, and what PyTorch's own reader makes of it."""

import importlib.util
import pickle
import pickletools
import re
from typing import NamedTuple

import pytest
from conftest import ROOT, Recording, memtrace

MIB = 1 << 20
READER = ROOT / "target" / "torch" / "torch" / "cuda" / "_memory_viz.py"
# What the page at pytorch.org/memory_viz reads of a pickle (torch/utils/viz/MemoryViz.js).
OPCODES = {
    *("APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT"),
    *("BINUNICODE", "DICT", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "LIST", "LONG1"),
    *("LONG_BINGET", "LONG_BINPUT", "MARK", "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO"),
    *("SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}


class Exported(NamedTuple):
    """A recording and its snapshot."""

    run: Recording
    snapshot: dict
    said: list  # what the command printed

    def devices(self):
        """Rows of the report, in the order of processes and devices; those without a device left out."""
        rows = [row for row in self.run.report["devices"] if row["device"] is not None]
        return sorted(rows, key=lambda row: (row["process"], row["device"]))


@pytest.fixture
def exported(cuda, record, tmp_path):
    """Records a program of the stand-in, and exports it."""

    def run(name, *arguments):
        command = cuda.program(name, "ask_v2", *arguments)
        done = record(*command, options=("--quiet", "--stacks", "all"), env=cuda.environment())
        file = tmp_path / "snapshot.pickle"
        said = memtrace("export", done.path, "--format", "memory_viz", "-o", file)
        assert said.returncode == 0, said.stderr.decode()
        content = file.read_bytes()
        assert {opcode.name for opcode, _, _ in pickletools.genops(content)} <= OPCODES
        return Exported(done, pickle.loads(content), said.stderr.decode().splitlines())

    return run


def course(events, begins, ends):
    """The most bytes that these actions had at one time, and what they had at the end."""
    now = most = 0
    for event in events:
        now += event["size"] * ((event["action"] in begins) - (event["action"] in ends))
        assert now >= 0
        most = max(most, now)
    return most, now


def used(events):
    return course(events, {"alloc"}, {"free_completed"})


def reserved(events):
    return course(events, {"segment_alloc", "segment_map"}, {"segment_free", "segment_unmap"})


def live(snapshot):
    return [
        (block["address"], block["size"])
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]


def test_blocks_lie_in_the_segments_that_they_were_carved_from(exported):
    done = exported("spans")
    snapshot = done.snapshot
    [events] = snapshot["device_traces"]
    [device] = done.devices()
    assert used(events)[0] == device["peak_used_bytes"] > 0
    assert reserved(events)[0] == device["peak_driver_bytes"]
    arena = next(event for event in events if event["size"] == 64 * MIB)
    assert arena["action"] == "segment_alloc"
    inside = [
        event["size"] // MIB
        for event in events
        if event["action"] == "alloc" and 0 <= event["addr"] - arena["addr"] < 64 * MIB
    ]
    assert inside == [3, 6, 2, 7]
    [block] = [event for event in events if event["action"] == "alloc" and event["size"] == 6 * MIB]
    assert any(frame["name"] == "pool" and frame["line"] for frame in block["frames"])
    times = [event["time_us"] for event in events]
    assert times == sorted(times)


def test_what_is_live_at_the_end_is_in_segments(exported):
    done = exported("spans")
    blocks = live(done.snapshot)
    [events] = done.snapshot["device_traces"]
    assert sum(size for _, size in blocks) == used(events)[1]
    rows = "SELECT address, bytes FROM {allocations} WHERE kind = 'pool_block' AND free_ns IS NULL"
    assert set(done.run.sql(rows)) <= set(blocks)
    assert sum(each["total_size"] for each in done.snapshot["segments"]) == reserved(events)[1]


@pytest.mark.parametrize(
    "arguments", [("random_calls", 3, 300, "ordered"), ("images", "exec"), ("images", "spawn")]
)
def test_each_device_of_each_process_has_a_list(exported, arguments):
    """Memory of graphs has no rows that say when it is used."""
    done = exported(*arguments)
    graphs = "SELECT DISTINCT process, device FROM {allocations} WHERE kind = 'cuda_graph'"
    left_out = set(done.run.sql(graphs))
    lists = [used(events)[0] for events in done.snapshot["device_traces"] if events]
    rows = [row for row in done.devices() if row["allocations"] > 0 and row["peak_used_bytes"] > 0]
    assert len(lists) == len(rows)
    for most, row in zip(lists, rows, strict=True):
        if (row["process"], row["device"]) not in left_out:
            assert most == row["peak_used_bytes"]
    processes = {row["process"] for row in rows}
    named = [line for line in done.said if re.search(r"device \d+ is device \d+ in process", line)]
    assert len(named) == (len(rows) if len(processes) > 1 else 0)


def test_pytorchs_own_reader_says_the_same(exported):
    if not READER.is_file():
        pytest.skip("no PyTorch in target/torch: scripts/torch installs it (540 MB)")
    spec = importlib.util.spec_from_file_location("memory_viz", READER)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    snapshot = exported("spans").snapshot
    [events] = snapshot["device_traces"]
    told = reader.trace(snapshot)
    assert f"{len(events)} entries" in told and "cudaMalloc(" in told
    # It adds up the blocks of each segment itself, and fails if they are not the segment.
    there = reader.segsum(snapshot)
    blocks, segments = used(events)[1], reserved(events)[1]
    assert f"total_allocated: {reader.Bytes(blocks)}\n" in there
    assert f"total_reserved: {reader.Bytes(segments)}\n" in there
    widths = {"active_allocated": 0, "inactive": 0}
    for line in reader.memory(snapshot, format_flamegraph=str).splitlines():
        stream, state, rest = line.split(";", 2)
        assert stream == "stream_0"
        widths[state] += int(rest.rsplit(" ", 1)[1])
    assert widths == {"active_allocated": blocks, "inactive": segments - blocks}
    for page in (reader.trace_plot(snapshot), reader.segment_plot(snapshot)):
        assert re.search(r'"base64": "[\w+/]{100}', page)


def test_a_trace_without_devices_is_refused_in_one_sentence(record, python):
    trace = record(python, "-c", "x = bytearray(10_000_000)").path
    done = memtrace("export", trace, "--format", "memory_viz", "-o", "-")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1 and b"no allocations on devices" in done.stderr


def test_a_trace_without_rows_is_refused(cuda, record):
    command = cuda.program("spans", "ask_v2")
    done = record(*command, options=("--quiet", "--aggregate"), env=cuda.environment())
    refused = memtrace("export", done.path, "--format", "memory_viz")
    assert refused.returncode == 1 and b"--aggregate" in refused.stderr
