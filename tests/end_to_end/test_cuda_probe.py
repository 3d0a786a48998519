"""The library in front of the CUDA driver, for every look-up and call: what it reports, against the stand-in driver's own
count."""

import json
import subprocess
import sys

import pytest
from conftest import CUDA_PROBE, environment
from cuda_sent import (
    ACQUIRE,
    BLOCK,
    FOUND,
    GRAPH,
    IMPORTED,
    IMPORTED_IN_POOL,
    IN_POOL,
    IPC,
    POOL,
    RELEASE,
    TORCH,
    Blocks,
    library,
    oracle_acquired,
    oracle_held,
    sent_by,
)
from cuda_standin import ROADS, read_oracle

# Their bytes are what the other process says.
IMPORTS = {"imported physical"}

# Those that do the same each time, by themselves.
PHASES = [
    *("devices", "linear", "old_names", "host", "arrays", "contexts", "primary", "pools"),
    *("pool_streams", "pool_ends", "stream_names", "physical", "graphs", "captures"),
    *("injected", "held"),
]


def same_each_time(events):
    """Without addresses and handles."""
    keys = ("kind", "memory", "device", "bytes", "extra", "most", "name")
    return [tuple(event[key] for key in keys) for event in events]


@pytest.fixture(scope="session")
def linked(standin, door, tmp_path_factory):
    """Events of programs that are linked with the driver."""
    events = tmp_path_factory.mktemp("linked") / "reported"
    variables = environment(
        LD_PRELOAD=f"{door}:{CUDA_PROBE}", TOLD=str(events), LD_LIBRARY_PATH=str(standin)
    )
    command = [standin / "all_calls_linked", "linked", *PHASES]
    subprocess.run(command, env=variables, check=True, capture_output=True)
    return [json.loads(line) for line in events.read_text().splitlines()]


@pytest.mark.parametrize("road", ROADS[1:])
def test_all_roads_lead_to_the_same(reported, standin, linked, road):
    _, events = reported(standin / "all_calls", road, *PHASES, driver=standin)
    assert same_each_time(events) == same_each_time(linked)
    assert len(events) > 200


@pytest.mark.parametrize("phase", PHASES)
def test_every_call_is_reported_as_the_driver_counts_it(reported, standin, tmp_path, phase):
    report = tmp_path / "oracle"
    done, events = reported(
        standin / "all_calls", "ask_v2", phase, driver=standin, STANDIN_REPORT=str(report)
    )
    assert done.stdout.split() == [phase]
    oracle, blocks = json.loads(report.read_text()), Blocks(events)
    assert blocks.held() == oracle_held(oracle)
    acquired = {key: count for key, count in blocks.acquired.items() if count}
    if phase != "graphs" and phase != "captures":
        assert acquired == oracle_acquired(oracle)
    devices = {event["address"]: event for event in events if event["kind"] == FOUND}
    for number, event in devices.items():
        device = oracle["devices"][number]
        assert (event["name"], event["bytes"]) == (device["name"], device["memory"])
    used = {event["device"] for event in events if event["kind"] == ACQUIRE}
    assert used - {-1} == set(devices)


@pytest.mark.parametrize("phases", [("pools", "stream_names", "held"), ("pool_streams",)])
def test_pools_are_looked_at_whenever_they_may_have_changed(reported, standin, tmp_path, phases):
    """After every call, what was said last of each pool is what the driver knows. Where streams give blocks back, a pool is
    looked at until all of them were waited for."""
    report = tmp_path / "oracle"
    _, events = reported(
        standin / "all_calls", "ask", *phases, driver=standin, STANDIN_REPORT=str(report)
    )
    oracle, blocks = json.loads(report.read_text()), Blocks(events)
    for number, device in enumerate(oracle["devices"]):
        last = [figures for (_, of, _), figures in blocks.pools.items() if of == number]
        live = {name: kind["live"] for name, kind in device["kinds"].items()}
        assert sum(reserved for reserved, _ in last) == live.get("pool reserved", 0)
        assert sum(used for _, used in last) == live.get("pool used", 0)
    kinds = [device["kinds"] for device in oracle["devices"]]
    peaks = [each["pool reserved"]["peak"] for each in kinds if "pool reserved" in each]
    assert max(event["bytes"] for event in events if event["kind"] == POOL) == max(peaks)


def test_pools_that_are_gone_are_not_queried(reported, standin, tmp_path):
    """While one thread destroys pools, another waits for its stream, and with that reads which pools there are."""
    report = tmp_path / "oracle"
    _, events = reported(
        *(standin / "ending_pools", "dlsym", 100),
        driver=standin,
        STANDIN_REPORT=str(report),
        STANDIN_SLOW_POOLS="100",
    )
    read_oracle(report)  # counts those questions
    ends = [e for e in events if (e["kind"], e["memory"]) == (RELEASE, IN_POOL)]
    assert len(ends) == 100


def test_graphs_are_looked_at_when_they_run(reported, standin, tmp_path):
    _, events = reported(standin / "all_calls", "dlsym", "graphs", driver=standin)
    looks = [e for e in events if e["kind"] == POOL]
    assert {(e["memory"], e["owner"], e["device"]) for e in looks} == {(GRAPH, 0, 0)}
    # Four launches, two blocks that are freed outside of their graph, and what was reserved is given back.
    assert [e["bytes"] >> 20 for e in looks] == [64, 64, 64, 64, 64, 64, 0]
    assert looks[0]["extra"] == 30 << 20
    assert looks[0]["most"] == 64 << 20


def test_threads_and_processes_each_report_all(reported, standin, tmp_path):
    report = tmp_path / "oracle"
    _, events = reported(
        *(standin / "all_calls", "dlsym", "processes", "threads"),
        driver=standin,
        STANDIN_REPORT=str(report),
    )
    by_process = sent_by(events)
    assert len(by_process) > 2
    oracles = read_oracle(report)
    assert len(oracles) > 1
    for pid, oracle in oracles.items():
        acquired = {
            key: count
            for key, count in Blocks(by_process[pid]).acquired.items()
            if count and key[0] != "imported physical"
        }
        assert acquired == oracle_acquired(oracle)
    kinds = {event["memory"] for event in events if event["kind"] == ACQUIRE}
    assert {IPC, IMPORTED, IMPORTED_IN_POOL} <= kinds


@pytest.mark.parametrize("how", ["ordered", "free"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_programs(reported, standin, tmp_path, seed, how):
    report = tmp_path / "oracle"
    road = ROADS[1 + seed % 5]
    _, events = reported(
        *(standin / "random_calls", road, seed, 400, how),
        driver=standin,
        STANDIN_REPORT=str(report),
    )
    by_process = sent_by(events)
    for pid, oracle in read_oracle(report).items():
        blocks = Blocks(by_process[pid])
        acquired = {key: count for key, count in blocks.acquired.items() if count}
        for counts in (acquired, expected := oracle_acquired(oracle)):
            for key in [key for key in counts if key[0] in ("graph", "imported physical")]:
                del counts[key]
        if how == "free":
            # The driver may hand out a handle anew before the thread that has unmapped its last range reports it: then its
            # memory is taken for one more reference to what was there.
            for key in [key for key in expected if key[0] == "physical"]:
                assert 0.8 * expected[key] <= acquired.pop(key) <= expected.pop(key)
        assert acquired == expected
        if how == "ordered":
            held = [block for block in blocks.held() if block[0] not in IMPORTS]
            assert held == [block for block in oracle_held(oracle) if block[0] not in IMPORTS]


def test_blocks_of_pytorch_are_reported_and_passed_on(reported, tmp_path):
    base = library(tmp_path, "libc10.so", "torch_blocks.c", "-DBASE")
    library(tmp_path, "libc10_cuda.so", "torch_blocks.c", base, f"-Wl,-rpath,{tmp_path}")
    program = f"""
import ctypes
cuda = ctypes.CDLL("{tmp_path}/libc10_cuda.so")
base = ctypes.CDLL("{base}")
reported = (ctypes.c_int64 * 5).in_dll(base, "reported")
def report(bytes, kind, index):
    cuda.report(ctypes.c_void_p(4096), ctypes.c_int64(bytes), ctypes.c_uint64(7), ctypes.c_uint64(9), kind, index)
    assert list(reported) == [4096, bytes, 7, 9, 100 * kind + index], list(reported)
report(512, 1, 3)
report(-512, 1, 3)
report(1000, 0, 0)
"""
    _, events = reported(sys.executable, "-c", program)
    blocks = [event for event in events if event["kind"] == BLOCK]
    keys = ("memory", "address", "device", "bytes", "extra", "most")
    assert [tuple(event[key] for key in keys) for event in blocks] == [
        (TORCH, 4096, 3, 512, 9, 7),
        (TORCH, 4096, 3, 0, 9, 7),
    ]
