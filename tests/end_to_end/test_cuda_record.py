"""Whole recordings of programs that use the stand-in for NVIDIA's driver (tests/cuda): what the trace says of devices, against
what the stand-in itself has counted."""

import contextlib
import json
import subprocess
import sys
import time
from collections import Counter

import duckdb
import pytest
from conftest import ROOT, environment, memtrace
from cuda_standin import PHASES, ROADS, read_oracle
from test_flamegraph import draw
from test_recover import recover, start

MIB = 1 << 20
# Kinds of rows, by what the stand-in calls them.
KINDS = {
    "linear": "cuda",
    "pool": "cuda_pool",
    **{
        name: "cuda_" + name.replace(" ", "_")
        for name in ("pitch", "managed", "host", "registered", "array", "mipmap", "physical")
        + ("imported physical", "ipc", "imported pool", "mapped")
    },
}
# Of a graph's nodes the driver counts what is there when it runs; rows are of the nodes.
GRAPHS = {"graphs", "captures", "held"}
ALL_ROWS = "SELECT kind, device, count(*), sum(bytes) FROM {allocations} WHERE kind LIKE 'cuda%' AND process = ? GROUP BY ALL"


@pytest.fixture
def recorded(cuda, record, tmp_path):
    """Records a program of the stand-in; what the trace says, and what each process's driver counted."""

    def run(name, road, *arguments, options=()):
        path = tmp_path / f"oracle-{len(list(tmp_path.iterdir()))}"
        variables = cuda.environment(STANDIN_REPORT=str(path))
        command = cuda.program(name, road, *arguments)
        done = record(*command, options=("--quiet", *options), env=variables)
        assert done.code == 0, done.stderr.decode()
        return done, read_oracle(path)

    return run


def devices(report, pid):
    """Its devices in the report, by number."""
    of = next(
        index for index, row in reversed(list(enumerate(report["processes"]))) if row["pid"] == pid
    )
    return {row["device"]: row for row in report["devices"] if row["process"] == of}, of


def agrees_with_driver(run, oracles, used=True, exact=True):
    """Of threads that allocate at one time, a release is reported before and an acquire after it is done: a peak may be less by
    what is under way then."""
    report = run.report
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    assert len(oracles) > 0
    for pid, oracle in oracles.items():
        found, _ = devices(report, pid)
        for number, device in enumerate(oracle["devices"]):
            row = found.get(number)
            if row is None:
                assert device["driver"]["peak"] == 0
                continue
            peak, least = device["driver"]["peak"], 1 if exact else 0.95
            assert least * peak <= row["peak_driver_bytes"] <= peak, (pid, number)
            assert (row["name"], row["total_bytes"]) == (device["name"], device["memory"])
            if used:
                assert row["peak_used_bytes"] == device["used"]["peak"], (pid, number)
            assert row["used_at_peak_bytes"] <= row["peak_driver_bytes"]
            kinds = {name: figures["peak"] for name, figures in device["kinds"].items()}
            assert row["peak_managed_bytes"] == kinds.get("managed", 0)
        kinds = {name: figures["peak"] for name, figures in oracle["host"]["kinds"].items()}
        on_host = found.get(None, {"peak_host_bytes": 0, "peak_registered_bytes": 0})
        assert on_host["peak_registered_bytes"] == kinds.get("registered", 0)
        if not kinds.keys() & {"pool", "physical"}:  # which may be on the host, too
            assert on_host["peak_host_bytes"] == kinds.get("host", 0)


def rows_agree(run, oracles):
    """Every block that the driver handed out has its row, and none other; those that are live then are live in rows."""
    report = run.report
    for pid, oracle in oracles.items():
        _, process = devices(report, pid)
        places = [*enumerate(oracle["devices"]), (None, oracle["host"])]
        expected = Counter()
        for device, place in places:
            for name, figures in place["kinds"].items():
                if name in KINDS and figures["acquired"]:
                    expected[KINDS[name], device] = (figures["acquired"], figures["acquired_bytes"])
        rows = run.sql(ALL_ROWS.replace("?", str(process)))
        found = {
            (kind, device): (count, size)
            for kind, device, count, size in rows
            if kind != "cuda_graph"
        }
        assert found == dict(expected)
        live = run.sql(
            "SELECT kind, device, address, bytes FROM {allocations} WHERE kind LIKE 'cuda%' "
            f"AND free_ns IS NULL AND process = {process}"
        )
        without_address = ("cuda_physical", "cuda_imported_physical")
        held = Counter(
            (
                KINDS[kind],
                None if device < 0 else device,
                None if KINDS[kind] in without_address else key,
                size,
            )
            for kind, device, key, size in oracle["blocks"]
            if kind in KINDS
        )
        assert Counter(row for row in live if row[0] != "cuda_graph") == held


@pytest.mark.parametrize("road", ROADS)
def test_every_call_on_every_road(recorded, road):
    run, oracles = recorded("all_calls", road)
    assert len(oracles) > 1
    agrees_with_driver(run, oracles, used=False)


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase not in GRAPHS])
def test_every_call_has_its_rows(recorded, phase):
    run, oracles = recorded("all_calls", "ask_v2", phase)
    agrees_with_driver(run, oracles, used=phase != "threads", exact=phase != "threads")
    if phase != "processes":  # how large imported memory is, the other process says
        rows_agree(run, oracles)


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_calls(recorded, seed):
    """Several processes and threads, one call at a time in each process: every peak is exact."""
    run, oracles = recorded("random_calls", ROADS[seed % len(ROADS)], seed, 300, "ordered")
    agrees_with_driver(run, oracles, used=False)
    rows_agree(run, oracles)


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_calls_all_at_once(recorded, seed):
    """Order is known to less than a call: nothing is lost, and every block has its row."""
    run, oracles = recorded("random_calls", "ask_v2", seed, 300, "free")
    assert run.report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    for pid, oracle in oracles.items():
        _, process = devices(run.report, pid)
        acquired = Counter()
        for place in (*oracle["devices"], oracle["host"]):
            for name, figures in place["kinds"].items():
                if name in KINDS:
                    acquired[KINDS[name]] += figures["acquired"]
        rows = Counter()
        for kind, _, count, _ in run.sql(ALL_ROWS.replace("?", str(process))):
            rows[kind] += count
        del rows["cuda_graph"]
        # A handle that is given anew before its last unmapping is reported is taken for one more reference.
        made = acquired.pop("cuda_physical", 0)
        assert 0.8 * made <= rows.pop("cuda_physical", 0) <= made
        assert rows == +acquired


def spans_of(run):
    return {
        operator["name"]: (
            operator["spans"][0]["device_peak_bytes"],
            operator["spans"][0]["device_driver_peak_bytes"],
        )
        for operator in run.report["operators"]
    }


EXPECTED = {
    "early": (None, None),
    "outer": (30 * MIB, 31 * MIB),
    "inner": (20 * MIB, 31 * MIB),
    "failing": (0, 23 * MIB),
    "first of pool": (9 * MIB, 87 * MIB),
    "second of pool": (7 * MIB, 87 * MIB),
}


def test_a_block_of_a_graph_that_is_freed_outside_of_it_is_used_no_more(recorded):
    run, oracles = recorded("graph_freed", "dlsym")
    [oracle] = oracles.values()
    assert run.report["devices"][-1]["peak_used_bytes"] == oracle["devices"][0]["used"]["peak"]


def test_spans_have_a_working_peak_on_devices(recorded):
    run, _ = recorded("spans", "linked")
    report = run.report
    assert spans_of(run) == EXPECTED
    assert (report["peak"]["device_driver_bytes"], report["peak"]["device_used_bytes"]) == (
        87 * MIB,
        38 * MIB,
    )
    # None of it is the host's.
    assert report["peak"]["live_bytes"] < 5 * MIB
    assert all(operator["spans"][0]["working_peak_bytes"] < MIB for operator in report["operators"])
    [device] = [row for row in report["devices"] if row["device"] == 0]
    figures = ("used_at_peak_bytes", "peak_framework_bytes", "peak_framework_reserved_bytes")
    assert [device[figure] >> 20 for figure in figures] == [38, 15, 64]
    assert device["fragmentation"] == pytest.approx(1 - 38 / 87)
    rows = run.sql(
        "SELECT operator, kind, bytes / 1048576, role FROM {allocations} AS a JOIN {spans} AS s USING (span) "
        "WHERE device = 0 ORDER BY a.alloc_ns"
    )
    assert rows == [
        ("outer", "cuda", 10, "none"),
        ("inner", "cuda", 20, "temporary"),
        ("inner", "cuda", 5, "none"),
        ("outer", "cuda", 8, "none"),
        ("first of pool", "cuda", 64, "none"),
        ("first of pool", "pool_block", 3, "temporary"),
        ("first of pool", "pool_block", 6, "none"),
        ("first of pool", "pool_block", 2, "none"),
        ("second of pool", "pool_block", 7, "none"),
    ]
    places = run.sql(
        "SELECT DISTINCT f.function, p.function FROM {allocations} AS a JOIN {sites} AS s USING (site) "
        "JOIN {frames} AS f USING (frame) JOIN {frames} AS p ON p.frame = f.parent "
        "WHERE a.kind = 'pool_block'"
    )
    assert places == [("memtrace_device_block_", "pool")]


def test_the_report_names_devices_and_operators_there(recorded):
    run, _ = recorded("spans", "dlsym")
    text = run.details
    assert "peak device bytes      91.2 MB" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(
        line.startswith("0 ") and "91.2 MB 39.8 MB 56.3 % 39.8 MB 1.07 GB 10" in line
        for line in lines
    )
    assert "peaks of: 67.1 MB reserved by frameworks" in lines
    assert "outer 1 31.5 MB 32.5 MB" in lines


def test_the_flame_graph_of_devices_at_their_peak(recorded, tmp_path):
    run, _ = recorded("spans", "linked")
    # The arena of 64 MiB is not used but for what is handed out of it, and a block of 20 MiB was released.
    frames = draw(run, tmp_path / "peak.svg", "--at", "device-peak")
    assert frames["all"] == run.report["peak"]["device_used_bytes"] == 38 * MIB
    by_function = Counter()
    for name, width in frames.items():
        by_function[name.split(" ")[0]] += width >> 20
    assert (by_function["nested"], by_function["pool"]) == (23, 15)
    assert "cuMemAlloc_v2" in by_function and "(no" not in by_function
    [(at_peak,)] = run.sql("SELECT sum(device_bytes_at_peak) FROM {sites}")
    assert at_peak == 38 * MIB
    sites = run.report["device_sites"]
    assert [site["device_bytes_at_peak"] >> 20 for site in sites] == [10, 8, 7, 6, 5, 2]
    assert "nested" in sites[0]["stack"][2] and "cuMemAlloc_v2" in sites[0]["stack"][0]
    text = [" ".join(line.split()) for line in run.details.split("\n")]
    table = text[text.index("on device share allocated at") + 1 :]
    assert table[0].startswith("10.5 MB 26.3 % allocated") and len(table) > 6
    host = draw(run, tmp_path / "host.svg")
    assert host["all"] == run.report["peak"]["live_bytes"]


def test_the_device_peak_of_sites_that_give_back_before_it(recorded):
    """The peak is that of all together: what a site held before, or holds later, is no part of it."""
    run, _ = recorded("random_calls", "dlsym", 4, 300, "ordered")
    [(at_peak,)] = run.sql("SELECT sum(device_bytes_at_peak) FROM {sites}")
    peak = run.report["peak"]["device_used_bytes"]
    assert 0.9 * peak < at_peak <= peak, "what graphs use has no stack"


def test_there_is_no_flame_graph_of_devices_without_any(record, target, tmp_path):
    run = record(target("heap.c"))
    done = memtrace("flamegraph", run.path, "--at", "device-peak", "-o", tmp_path / "none.svg")
    assert done.returncode == 1
    assert "there is nothing to draw: no used bytes of devices" in done.stderr.decode()
    assert run.sql("SELECT count(device_bytes_at_peak) FROM {sites}") == [(0,)]


def test_rows_that_are_summed_up_or_left_out(recorded):
    for option in (["--aggregate"], ["--min-size", "1GB"]):
        run, _ = recorded("spans", "linked", options=option)
        assert spans_of(run) == EXPECTED
        rows = run.sql(
            "SELECT kind, count(*) FROM {allocations} WHERE device = 0 GROUP BY ALL ORDER BY ALL"
        )
        assert rows == ([] if option == ["--aggregate"] else [("cuda", 6), ("pool_block", 4)])
        folded = run.sql(
            "SELECT kind, sum(blocks), sum(released) FROM {folded} "
            "WHERE kind IN ('cuda', 'pool_block') GROUP BY ALL ORDER BY ALL"
        )
        assert folded == (
            [("cuda", 6, 2), ("pool_block", 4, 1)] if option == ["--aggregate"] else []
        )


def test_recomputed_figures_are_the_host_s(recorded):
    run, _ = recorded("spans", "linked")
    done = memtrace("report", "--recompute", "--json", run.path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["agrees"]


def wait_until_noted(path):
    """Until what is live on devices lies beside the trace."""
    count = f"SELECT count(*) FROM '{path}/live.parquet' WHERE kind = 'pool_block'"
    noted = 0
    while noted < 3:
        with contextlib.suppress(duckdb.Error):  # it is not there yet, or is being replaced
            [(noted,)] = duckdb.sql(count).fetchall()
        time.sleep(0.01)


def test_what_a_recorder_that_was_killed_had_written(cuda, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda.folder))
    path = tmp_path / "t"
    with start(path, *cuda.program("spans", "linked", "hold")) as running:
        assert running.stdout.readline() == b"holding\n"
        wait_until_noted(path)
        running.kill()
        running.wait()
        running.stdin.write(b"\n")
        running.stdin.close()
    run = recover(path)
    assert spans_of(run) == EXPECTED
    assert run.report["devices"][-1]["peak_driver_bytes"] == 87 * MIB
    live = run.sql(
        "SELECT kind, bytes / 1048576 FROM {allocations} WHERE device = 0 AND free_ns IS NULL ORDER BY ALL"
    )
    assert live == [
        ("cuda", 5),
        ("cuda", 8),
        ("cuda", 10),
        ("cuda", 64),
        ("pool_block", 2),
        ("pool_block", 6),
        ("pool_block", 7),
    ]


def test_programs_without_devices_have_none(record, target):
    run = record(target("heap.c"))
    report = run.report
    assert (report["devices"], report["peak"]["device_driver_bytes"]) == ([], None)
    assert run.sql("SELECT count(*) FROM {timeline} WHERE device_bytes IS NOT NULL") == [(0,)]


def test_python_reads_them(recorded):
    program = (
        "import sys, memtrace\n"
        "trace = memtrace.load(sys.argv[1])\n"
        "print(len(trace.devices), 'device_peak_bytes' in trace.operators.columns)"
    )
    run, _ = recorded("spans", "linked")
    done = subprocess.run(
        [sys.executable, "-c", program, run.path],
        env=environment(PYTHONPATH=str(ROOT / "python")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 True\n"
