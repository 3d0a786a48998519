"""The stand-in for NVIDIA's driver, without memtrace: what it does is what CUDA's documentation says, by every road, and
what it reports of itself adds up. What single calls must give is in tests/cuda/programs."""

import re
import signal
import subprocess
import sys
from collections import Counter

import pytest
from cuda_standin import CUDA, PHASES, ROADS, read_oracle

MIB = 1 << 20
# Of these nothing is counted: they work before cuInit.
BEFORE_INIT = {
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
}
DRIVER = {"linear", "pitch", "array", "mipmap", "physical", "pool reserved", "graph reserved"}
NO_BLOCKS = {"pool reserved", "pool used", "graph reserved", "graph used"}


@pytest.fixture
def run(cuda, tmp_path):
    """Runs a program; gives what its processes reported, in the order in which they ended."""

    def run(*command, code=0, **variables):
        oracle = tmp_path / "oracle"
        oracle.unlink(missing_ok=True)
        env = cuda.environment(STANDIN_REPORT=str(oracle), **variables)
        program = cuda.program(*command)
        done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return list(read_oracle(oracle).values()) if not code else done.stderr

    return run


def without_addresses(report):
    blocks = sorted([kind, device, bytes] for kind, device, _, bytes in report["blocks"])
    return {**report, "pid": 0, "blocks": blocks}


def check_sums(report):
    """Blocks add up to what is live of each kind, and kinds to what the driver has."""
    live, blocks = Counter(), Counter()
    for kind, device, _, bytes in report["blocks"]:
        live[kind, device] += bytes
        blocks[kind, device] += 1
    places = [*enumerate(report["devices"]), (-1, report["host"])]
    for device, place in places:
        for kind, count in place["kinds"].items():
            assert count["live"] <= count["peak"]
            if kind not in NO_BLOCKS:
                assert count["live"] == live.pop((kind, device), 0)
                assert count["blocks"] == blocks[kind, device] <= count["acquired"]
    assert not live
    for device in report["devices"]:
        parts = [device["kinds"][kind] for kind in DRIVER & set(device["kinds"])]
        assert device["driver"]["live"] == sum(part["live"] for part in parts)
        peaks = [part["peak"] for part in parts]
        assert max(peaks, default=0) <= device["driver"]["peak"] <= sum(peaks)
    assert report["driver"]["live"] == sum(each["driver"]["live"] for each in report["devices"])


def functions():
    """Names of all functions of the stand-in."""
    return set(re.findall(r"^    X\((\w+),", (CUDA / "functions.h").read_text(), re.MULTILINE))


@pytest.mark.parametrize("road", ROADS)
def test_every_call_by_every_road(run, road):
    reports = run("all_calls", road)
    assert len(reports) == 3, "two children and the program"
    for report in reports:
        check_sums(report)
    assert set().union(*(report["calls"] for report in reports)) == functions() - BEFORE_INIT


def test_all_roads_lead_to_the_same(run):
    in_order = [phase for phase in PHASES if phase != "threads"]
    by_road = {road: run("all_calls", road, *in_order) for road in ROADS}
    expected = [without_addresses(report) for report in by_road["linked"]]
    for road, reports in by_road.items():
        assert [without_addresses(report) for report in reports] == expected, road


def test_what_is_held_to_the_end(run):
    [report] = run("all_calls", "ask_v2", "held")
    check_sums(report)
    held = {kind: (device, bytes) for kind, device, _, bytes in report["blocks"]}
    assert held == {
        "linear": (1, 3 * MIB + 1),
        "pitch": (1, 512 * 100),
        "managed": (1, 70000),
        "array": (1, 128 * 128 * 4 * 4),
        "mipmap": (1, (16**3 + 8**3) * 4),
        "pool": (1, 90000),
        "physical": (1, 4 * MIB),
        "mapped": (1, 4 * MIB),
        "host": (-1, 80000),
        "registered": (-1, 5000),
    }
    first, second = report["devices"]
    assert first["driver"] == {"live": 0, "peak": 0}
    own = sum(held[kind][1] for kind in ("linear", "pitch", "array", "mipmap", "physical"))
    assert second["driver"] == {"live": own + 32 * MIB, "peak": own + 32 * MIB}
    assert second["used"]["live"] == own + 90000
    assert second["kinds"]["pool used"]["live"] == 90112


def test_peaks_are_of_what_was_there_together(run):
    [report] = run("all_calls", "dlsym", "contexts")
    check_sums(report)
    first, second = report["devices"]
    # 10 MiB were freed before 30 were allocated, with a pool's first segment.
    assert first["driver"]["peak"] == 30 * MIB + 32 * MIB
    assert second["driver"]["peak"] == 20 * MIB
    assert report["driver"]["peak"] == 30 * MIB + 32 * MIB + 20 * MIB
    assert report["driver"]["live"] == 0


def test_processes_have_their_own(run):
    own, exporter, importer = run("all_calls", "linked", "processes")
    assert own["devices"][1]["driver"] == {"live": 11 * MIB, "peak": 20 * MIB}
    kinds = exporter["devices"][0]["kinds"]
    assert exporter["driver"]["live"] == 0
    assert kinds["physical"]["peak"] == 8 * MIB
    assert kinds["pitch"]["peak"] == 1024 * 1000
    kinds = importer["devices"][0]["kinds"]
    assert kinds["ipc"]["acquired_bytes"] == 7 * MIB + 1024 * 1000, "opened again is not one more"
    assert kinds["imported pool"]["peak"] == 6 * MIB
    assert kinds["imported physical"]["peak"] == 8 * MIB
    assert importer["driver"]["peak"] == 5 * MIB, "of its own"


@pytest.mark.parametrize("mode", ["ordered", "free"])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_add_up(run, mode, seed):
    small = "100000000,150000000"
    reports = run("random_calls", ROADS[seed], seed, 500, mode, STANDIN_MEMORY=small)
    assert len(reports) == 1 + seed % 3
    for report in reports:
        check_sums(report)
        assert report["blocks"]
        for device in report["devices"]:
            assert device["driver"]["peak"] <= device["memory"]


def test_devices_and_their_memory_can_be_set(run):
    error = run("all_calls", "ask", "held", code=1, STANDIN_MEMORY="1000000,3000000")
    assert "cuMemAlloc_v2" in error and "gives 2" in error
    [report] = run("all_calls", "ask", "devices", STANDIN_MEMORY="5000000000,7,8")
    assert [device["memory"] for device in report["devices"]] == [5_000_000_000, 7, 8]


def test_the_nth_call_can_be_made_to_fail(run):
    error = run("all_calls", "dlsym", "linear", code=1, STANDIN_FAIL="cuMemAlloc_v2:3:999")
    assert "gives 999" in error
    run("all_calls", "dlsym", "linear", STANDIN_FAIL="cuMemAlloc_v2:1000:999,cuInit:9:3")


PRELOADED = """
static int called;
int cuMemHostAlloc(void **address, unsigned long bytes, unsigned flags) { called++; return 77; }
int times_called(void) { return called; }
"""
OWN_AND_OTHERS = """
import ctypes, sys
preloaded, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
context, host, found = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAllocHost_v2(ctypes.byref(host), ctypes.c_size_t(1000)) == 77
assert preloaded.times_called() == 1
assert cuda.cuGetProcAddress_v2(b"cuMemHostAlloc", ctypes.byref(found), 12000, 0, None) == 0
allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)(found.value)
assert allocate(ctypes.byref(host), 1000, 0) == 0
assert preloaded.times_called() == 1
"""


def test_what_is_preloaded_is_called_by_name_but_not_found(cuda, tmp_path):
    """As with the real one, of which a preloaded library must not count nested calls, nor trust that it sees all."""
    source, library = tmp_path / "preloaded.c", tmp_path / "preloaded.so"
    source.write_text(PRELOADED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    command = [sys.executable, "-c", OWN_AND_OTHERS, library]
    subprocess.run(command, env=cuda.environment(LD_PRELOAD=str(library)), check=True)


TOUCH = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000)) == 0
print(ctypes.string_at(block.value, 1))
"""


def test_device_memory_cannot_be_touched(cuda):
    command = [sys.executable, "-c", TOUCH]
    done = subprocess.run(command, env=cuda.environment(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGSEGV
