"""MPI programs: recorded as one trace and as one per rank they have the same figures."""

import json
import shutil
import subprocess
import sys

import duckdb
import jsonschema
import memtrace as package
import pytest
from conftest import MEMTRACE, ROOT, TARGETS, Recording, environment, memtrace

#: scripts/mpi installs mpi4py there.
INSTALLED = ROOT / "target" / "mpi"
OPERATOR = "operators.gst3d:gst3d"
RANKS = 3


@pytest.fixture(scope="module")
def mpirun():
    """Runs a command as so many ranks; what it prints."""
    if shutil.which("mpirun") is None or not INSTALLED.is_dir():
        pytest.skip("no OpenMPI or mpi4py: scripts/mpi installs them (70 MB)")
    paths = ":".join(map(str, (ROOT / "python", ROOT / "examples", INSTALLED)))
    variables = environment(
        PYTHONPATH=paths,
        OPENBLAS_NUM_THREADS="1",
        # Root may start ranks, and more of them than there are processors.
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
    )

    def run(ranks, *command, before=()):
        words = [*before, "mpirun", "-np", ranks, *command]
        done = subprocess.run(
            list(map(str, words)), env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def recorded(mpirun, tmp_path_factory):
    """A trace of all ranks, and a directory with one of each."""
    folder = tmp_path_factory.mktemp("mpi")
    program = (sys.executable, ROOT / "examples" / "ranks.py")
    memtrace_of = (MEMTRACE, "-q", "--operator", OPERATOR, "-o")
    said = mpirun(RANKS, *program, before=(*memtrace_of, folder / "one", "--"))
    assert said.startswith(f"{RANKS} ranks, ")
    assert mpirun(RANKS, *memtrace_of, folder / "each" / "%j.%r", "--", *program) == said
    return folder / "one", folder / "each"


def report(directory):
    return json.loads(memtrace("report", "--json", directory).stdout)


def peaks_of_ranks(directory):
    """Heap bytes and mapped bytes of each rank at their peaks, by rank."""
    rows = duckdb.sql(
        "select max(peak_heap_bytes), max(peak_mapped_bytes)"
        f" from '{directory}/**/processes.parquet' where rank is not null group by rank order by rank"
    ).fetchall()
    return [heap for heap, _ in rows], [mapped for _, mapped in rows]


def test_every_process_of_a_rank_has_its_host_job_and_rank(recorded):
    one, each = recorded
    processes = report(one)["processes"]
    launcher = [process for process in processes if process["command"].startswith("mpirun")]
    assert launcher and all(process["rank"] is None for process in launcher)
    python = [process for process in processes if "ranks.py" in process["command"]]
    python = [process for process in python if process not in launcher]
    assert sorted(process["rank"] for process in python) == list(range(RANKS))
    assert len({process["job"] for process in python}) == 1
    assert len({process["host"] for process in processes}) == 1
    names = sorted(trace.name for trace in each.iterdir())
    job = names[0].split(".")[0]
    assert names == [f"{job}.{rank}" for rank in range(RANKS)]
    query = "select distinct job, rank from {processes} where rank is not null"
    assert Recording(each / f"{job}.1", 0, b"", b"").sql(query) == [(job, 1)]


def test_the_report_of_ranks_is_as_its_schema_describes(recorded):
    schema = json.loads((ROOT / "docs" / "schemas" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report(recorded[0]))


def test_one_trace_and_one_per_rank_have_the_same_figures(recorded):
    one, each = (report(directory) for directory in recorded)
    assert one["lost"] == each["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    assert each["traces"] == RANKS and each["failed"] == each["incomplete"] == 0
    together, apart = one["ranks"], each["ranks"]
    for ranks in (together, apart):
        [operator] = ranks["operators"]
        assert operator["name"] == OPERATOR and operator["calls"] == RANKS
        peak = operator["working_peak"]
        assert peak["ranks"] == RANKS and peak["mean_bytes"] == peak["sum_bytes"] // RANKS
        assert peak["min_bytes"] < peak["mean_bytes"] < peak["max_bytes"]
        assert peak["largest"]["rank"] == RANKS - 1
        assert operator["inputs"][0]["shape"] == [18 + 7 * (RANKS - 1), 23, 31 - 2 * (RANKS - 1)]
        assert sorted(rank["rank"] for rank in ranks["largest"]) == list(range(RANKS))
    for figure in ("min_bytes", "max_bytes", "sum_bytes"):
        of = [ranks["operators"][0]["working_peak"][figure] for ranks in (together, apart)]
        assert of[0] == pytest.approx(of[1], rel=1e-3), figure
        # Mappings count as far as snapshots saw them touched, which makes half of these bytes. Of
        # eight recordings, the rank with the smallest peak had 33.5 to 34.6 MB.
        of = [ranks["peak_live"][figure] for ranks in (together, apart)]
        bound = 0.02 if figure == "sum_bytes" else 0.05
        assert of[0] == pytest.approx(of[1], rel=bound), figure
    heap, mapped = zip(*(peaks_of_ranks(directory) for directory in recorded), strict=True)
    assert heap[0] == pytest.approx(heap[1], rel=0.01) and len(heap[0]) == RANKS
    assert mapped[0] == mapped[1]
    [node] = each["nodes"]
    assert node["traces"] == RANKS
    assert (
        apart["peak_resident"]["max_bytes"] <= node["resident_at_most_bytes"] < node["memory_bytes"]
    )


def test_ranks_of_unequal_blocks_make_a_law(recorded, tmp_path):
    """Three ranks are three shapes: both ways of recording them give the same law."""
    laws = []
    for directory in recorded:
        done = memtrace("fit", "--json", "-o", tmp_path / "model.json", directory)
        assert done.returncode == 0, done.stderr.decode()
        [law] = json.loads(done.stdout)["laws"]
        laws.append((law["operator"], sorted(law["trained_on"]), law["proof"]))
        model = package.Model.load(tmp_path / "model.json")
        laws[-1] += (model.predict(OPERATOR, (60, 50, 40))["peak_bytes"],)
    assert laws[0] == laws[1]


def test_a_report_shows_the_ranks(recorded):
    one, each = recorded
    text = memtrace("report", each).stdout.decode()
    assert "3 traces of 3 ranks on 1 host" in text and "rank 2 of job" in text
    assert "of its memory at most" in text and "times the mean" in text
    assert f"trace of the largest peak: memtrace report {each}/" in text
    assert "   3 ranks: most live " in memtrace("report", one).stdout.decode()
    assert "[rank 1]" in memtrace("report", "--details", one).stdout.decode()
    traces = package.load(each)
    assert isinstance(traces, package.Traces) and len(list(traces)) == len(traces) == RANKS
    assert traces.report() == report(each)


def test_of_64_ranks_nothing_is_lost(mpirun, tmp_path):
    binary = tmp_path / "rank"
    subprocess.run(["mpicc", "-O1", "-fno-builtin", "-o", binary, TARGETS / "rank.c"], check=True)
    mpirun(64, binary, before=(MEMTRACE, "-q", "-o", tmp_path / "trace", "--"))
    found = report(tmp_path / "trace")
    assert found["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    ranks = found["ranks"]["largest"]
    assert [rank["rank"] for rank in ranks] == list(reversed(range(64)))
    for rank in ranks:
        block = (rank["rank"] + 10) << 22
        assert block < rank["peak_live_bytes"] < block + (32 << 20)
