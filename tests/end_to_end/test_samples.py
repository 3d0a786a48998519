"""Perf events: page faults where BPF is not allowed, sampled accesses joined with the blocks they met."""

import ctypes
import os
import shutil
import signal
import struct

import pytest
from conftest import ROOT, Recording, environment, memtrace

MIB = 1 << 20
PAGE = 4096
PERIOD = 64


def doctor(what):
    """What doctor says of something, and whether it is there."""
    lines = memtrace("doctor").stdout.decode().splitlines()
    [line] = [line.strip() for line in lines if what in line[:24]]
    return line.startswith("yes"), line


@pytest.fixture(scope="session")
def perf_events():
    """Skips, with memtrace's own words, where perf events are not to be had."""
    there, line = doctor("page faults")
    if not there:
        pytest.skip(line)


@pytest.fixture
def open_target(as_nobody, target):
    """Compiles a target where every user may execute it."""
    folder, _ = as_nobody
    return lambda name: shutil.copy(target(name), folder)


@pytest.fixture
def record_as_nobody(as_nobody):
    """Records as a user who may not load BPF programs."""
    folder, run = as_nobody

    def record(*command, options=()):
        path = folder / f"trace{len(list(folder.iterdir()))}"
        done = run("-o", path, *options, "--", *command)
        recording = Recording(path, done.returncode, done.stdout, done.stderr)
        reason = recording.report["recorded"].get("page_faults_why")
        if reason:
            pytest.skip(reason)
        return recording

    return record


def most_missing(runs=1):
    """Faults after the last sample, on each processor that a thread ran on."""
    return PERIOD * (os.cpu_count() + runs)


def test_page_faults_are_counted_without_privilege(perf_events, record_as_nobody, open_target):
    run = record_as_nobody(open_target("held.c"), "malloc", "48")
    assert run.code == 0
    assert run.report["recorded"]["page_faults"] == "perf_user"
    assert run.report["lost_samples"] == 0
    [process] = run.report["processes"]
    touched = 2 * 48 * MIB // PAGE  # twice
    assert touched - most_missing() <= process["page_faults"] <= touched * 1.2
    said = run.details
    assert "page faults, by perf events" in said and "the kernel's own are left out" in said
    assert run.report["accesses"] is None


def test_processes_are_counted_apart(perf_events, record_as_nobody, open_target):
    held = open_target("held.c")
    script = f"{held} malloc 32 >/dev/null; {held} malloc 8 >/dev/null; exec {held} malloc 16"
    run = record_as_nobody("sh", "-c", script)
    faults = {}
    for process in run.report["processes"]:
        faults[process["command"].split()[-1]] = process["page_faults"]
    for size in (32, 8, 16):
        touched = 2 * size * MIB // PAGE
        assert touched - most_missing() <= faults[str(size)] <= touched + 1500


def test_what_faults_touch_is_live_without_privilege(perf_events, record_as_nobody, open_target):
    """Nothing is read in time: it is killed right after it has touched three of eight parts, each from front to back."""
    run = record_as_nobody(open_target("touched.c"))
    assert run.code == 128 + signal.SIGKILL
    live = run.report["peak"]["live_bytes"] - run.report["peak"]["heap_bytes"]
    assert 24 * MIB - 3 * 2 * PERIOD * PAGE <= live <= 24 * MIB


MATCHED = """
    SELECT a.bytes, count(DISTINCT f.address // 4096), max(f.address - a.address), count(DISTINCT f.tid)
    FROM {allocations} a LEFT JOIN {accesses} f ON f.block_thread = a.thread AND f.block_ns = a.alloc_ns
    WHERE a.bytes >= 1048576 GROUP BY a.thread, a.alloc_ns, a.bytes ORDER BY a.bytes
"""


def expected():
    sizes = [first * MIB + 2 * PAGE * at for first in (1, 2, 3) for at in range(12)]
    # glibc has touched the first page before it handed the block out, and those after it lie 16 bytes behind a page.
    return [(size, size // PAGE - 1, size - PAGE, 1) for size in sizes]


def check_joined(run):
    assert run.code == 0 and run.report["lost_samples"] == 0
    assert run.sql("SELECT DISTINCT access FROM {accesses}") == [("fault",)]
    assert run.sql(MATCHED) == expected()
    assert run.sql(
        "SELECT count(*) FROM {accesses} f JOIN {allocations} a "
        "ON f.block_thread = a.thread AND f.block_ns = a.alloc_ns "
        "WHERE a.bytes <> f.block_bytes OR a.site IS DISTINCT FROM f.site OR a.process <> f.process "
        "OR f.time_ns < a.alloc_ns OR f.time_ns > a.free_ns OR f.address < f.block_address "
        "OR f.address >= f.block_address + f.block_bytes"
    ) == [(0,)]
    report = run.report["accesses"]
    assert report["samples"] == 0 and report["first_touches_in_blocks"] >= 36 * 255
    assert report["retained_but_unused"] is None, "a first touch is no access"
    assert "what was accessed after that is not known" in run.details


def test_first_touches_are_joined_with_their_blocks(perf_events, record, target):
    check_joined(record(target("accesses.c"), options=("--accesses", "faults")))


def test_first_touches_by_many_threads_at_once(perf_events, record, target):
    """Some of them are always in the middle of an event, while others touch."""
    options = ("--accesses", "faults", "--stacks", "all")
    run = record(target("accesses.c"), "100", options=options)
    assert run.code == 0
    [(faults, met, not_met, wrong)] = run.sql(
        f"SELECT count(*), count(f.block_ns), count(*) FILTER (f.block_ns IS NULL AND a.bytes IS NOT NULL), "
        f"count(*) FILTER (f.block_ns <> a.alloc_ns) FROM {{accesses}} f LEFT JOIN {{allocations}} a "
        f"ON a.bytes >= {MIB} AND f.address BETWEEN a.address AND a.address + a.bytes - 1 "
        # Equal times are not ordered: those of a trace are multiples of 8 ns.
        f"AND f.time_ns > a.alloc_ns AND f.time_ns < a.free_ns"
    )
    assert (not_met, wrong) == (0, 0)
    # Where so much is touched at once on a busy machine, rings may overflow: that is counted.
    assert met + run.report["lost_samples"] >= 1200 * 255 and faults >= met


def test_first_touches_without_privilege(perf_events, record_as_nobody, open_target):
    run = record_as_nobody(open_target("accesses.c"), options=("--accesses", "faults"))
    check_joined(run)
    assert run.report["recorded"]["page_faults"] == "perf_user"
    faults = sum(process["page_faults"] for process in run.report["processes"])
    assert faults >= run.report["accesses"]["first_touches"]


def test_inside_small_blocks(perf_events, record, python):
    """Below 16 KiB; first and last pages may have been touched by malloc itself, before the block was handed out."""
    code = "x = [b'x' * (12000 + i) for i in range(3000)]"
    run = record(python, "-c", code, options=("--accesses", "faults", "--python-allocators"))
    [(inside, outside)] = run.sql(
        "SELECT count(*) FILTER (block_bytes BETWEEN 12000 AND 15100), count(*) FILTER "
        "(address < block_address OR address >= block_address + block_bytes) FROM {accesses}"
    )
    assert inside > 2000 and outside == 0


def test_where_the_processor_cannot_sample_that_is_said(record, target):
    there, line = doctor("memory accesses")
    if there:
        pytest.skip(line)
    run = record(target("untouched.c"), options=("--accesses", "hardware"))
    assert run.code == 0
    assert run.report["accesses"]["source"] == "hardware"
    assert "no unit" in run.report["accesses"]["why"]
    assert (
        run.report["accesses"]["samples"] == 0
        and run.report["accesses"]["retained_but_unused"] is None
    )
    assert "no memory accesses were sampled: this machine has no unit" in run.details


def test_the_clock_meets_the_block_that_takes_the_time(perf_events, record, target):
    """Reads at random in one of two arrays, and in order in the other; the place is the line that allocated it."""
    run = record(target("random_reads.c"), options=("--accesses", "clock"))
    assert run.code == 0
    clock = run.report["accesses"]["clock"]
    assert clock["samples"] > 100 and clock["known"] > 0.9 * clock["samples"]
    largest = clock["sites"][0]
    assert largest["largest_block_bytes"] == 64 * MIB and "random_reads" in largest["place"]
    assert (
        largest["samples"] > 0.5 * clock["samples"] and largest["stores"] < 0.1 * largest["samples"]
    )
    [(outside, read_at, in_span)] = run.sql(
        "SELECT count(*) FILTER (address < block_address OR address >= block_address + block_bytes), "
        f"count(*) FILTER (block_bytes = {64 * MIB}), "
        "count(*) FILTER (active_span IS NOT NULL OR span IS NOT NULL) FROM {accesses}"
    )
    assert outside == 0 and read_at == largest["samples"] and in_span == 0
    assert "moments of the program's own code sampled" in run.details
    assert run.report["accesses"]["retained_but_unused"] is None


def test_chains_of_pointers_are_told_apart(perf_events, record, target):
    run = record(target("random_reads.c"), "chain", options=("--accesses", "clock"))
    clock = run.report["accesses"]["clock"]
    assert clock["without_address"] > 0.5 * clock["samples"]
    assert "as in a chain of pointers" in run.details


def test_the_clock_knows_the_operator_at_work(perf_events, record, python):
    code = """
import memtrace, numpy as np
x = np.ones(4_000_000)
with memtrace.span("sum", x.shape, x.dtype):
    for _ in range(200):
        x.sum()
"""
    options = ("--accesses", "clock")
    variables = environment(PYTHONPATH=str(ROOT / "python"))
    run = record(python, "-c", code, options=options, env=variables)
    assert run.code == 0
    [(at_work, elsewhere)] = run.sql(
        "SELECT count(*) FILTER (operator = 'sum'), count(*) FILTER (operator IS NULL) FROM {accesses} a "
        "LEFT JOIN {spans} s ON s.span = a.active_span WHERE block_bytes >= 32000000"
    )
    assert at_work > 100 and elsewhere < 0.2 * at_work


def forbid_perf_events():
    """As containers do: perf_event_open (298 on x86-64) is EPERM, by a filter (seccomp(2))."""
    libc = ctypes.CDLL(None)
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 298), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    header = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, ctypes.c_char_p(header), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        os._exit(9)


@pytest.mark.parametrize("asked", ["off", "faults", "clock"])
def test_where_perf_events_are_forbidden_the_recording_goes_on(record, target, asked):
    options = ("--kernel", "proc", "--accesses", asked)
    run = record(target("untouched.c"), options=options, preexec_fn=forbid_perf_events)
    assert run.code == 0
    recorded = run.report["recorded"]
    assert recorded["page_faults"] == "off" and "filter" in recorded["page_faults_why"]
    assert [process["page_faults"] for process in run.report["processes"]] == [None]
    assert run.report["totals"]["requested_bytes"] >= 40 * MIB
    said = run.details
    assert "page faults are not counted" in said
    assert ("no memory accesses were sampled" in said) == (asked != "off")


def test_nothing_runs_on_after_the_recording(perf_events, record, target):
    """The command's own children that outlive it are not slowed by events that are not read."""
    run = record(
        "sh",
        "-c",
        "sleep 30 >/dev/null 2>&1 & exit 3",
        options=("--accesses", "faults"),
        may_fail=True,
    )
    assert run.code == 3
    assert run.report["complete"]
