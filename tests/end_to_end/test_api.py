"""Traces in Python: tables that other libraries take over, and queries of them."""

import json
import re
import shutil
import subprocess
import sys

import duckdb
import memtrace
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest
from conftest import MEMTRACE, ROOT, environment

PROGRAM = """
import numpy as np

def double(x):
    return x * 2

for n in (100_000, 200_000):
    for _ in range(2):
        double(np.ones(n))
held = [bytearray(1000) for _ in range(3000)]
"""

TABLES = (
    "allocations",
    "spans",
    "sites",
    "frames",
    "processes",
    "threads",
    "modules",
    "timeline",
    "kernel_events",
    "accesses",
    "placements",
    "folded",
    "devices",
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("api") / "trace"
    command = [MEMTRACE, "-q", "-o", path, "--operator", "__main__:double"]
    subprocess.run([*command, "--", sys.executable, "-c", PROGRAM], check=True)
    return memtrace.load(path)


@pytest.fixture
def copy(trace, tmp_path):
    """The trace's directory, to be spoilt."""
    return shutil.copytree(trace.path, tmp_path / "trace")


def files(trace, table):
    parts = trace.path / table
    return f"{parts}/*.parquet" if parts.is_dir() else f"{parts}.parquet"


@pytest.mark.parametrize("name", TABLES)
def test_every_library_reads_what_the_files_hold(trace, name):
    table = rows_of = getattr(trace, name)  # noqa: F841 (SQL names it)
    written = duckdb.sql(f"select * from '{files(trace, name)}'").to_arrow_table()
    assert table.columns == written.column_names
    assert len(table) == written.num_rows
    arrow = pyarrow.table(table)
    rows = arrow.to_pylist()
    assert rows == written.to_pylist()
    assert polars.DataFrame(table).height == len(rows)
    assert pandas.DataFrame.from_arrow(table).shape == arrow.shape
    assert duckdb.sql("select count(*) from rows_of").fetchall() == [(len(rows),)]


def test_types_are_those_of_the_format(trace):
    schema = pyarrow.schema(trace.allocations)
    assert schema == pyarrow.table(trace.allocations).schema
    assert str(schema.field("bytes").type) == "uint64"
    assert not schema.field("bytes").nullable
    assert schema.field("free_ns").nullable
    assert polars.DataFrame(trace.allocations).schema["kind"] in (
        polars.Categorical,
        polars.Enum,
        polars.String,
    )


def test_a_table_can_be_read_again_and_in_pieces(trace):
    blocks = trace.allocations
    reader = pyarrow.RecordBatchReader.from_stream(blocks)
    first = reader.read_next_batch()
    assert 0 < first.num_rows <= 131_072
    assert first.num_rows + sum(batch.num_rows for batch in reader) == len(blocks)
    assert pyarrow.table(blocks).num_rows == len(blocks)


def test_buffers_are_handed_over_and_not_copied(trace):
    """Arrow memory that memtrace decoded outlives the table and the trace it came from."""
    before = pyarrow.total_allocated_bytes()
    arrow = pyarrow.table(memtrace.load(trace.path).allocations)
    assert arrow.nbytes > 100_000
    assert pyarrow.total_allocated_bytes() - before < 1000, (
        "pyarrow has no memory of its own for it"
    )
    assert pyarrow.compute.sum(arrow["bytes"]).as_py() > 2 * 1_600_000


STREAMED = """
import sys
import memtrace, pyarrow

def kilobytes(what):
    [line] = [line for line in open("/proc/self/status") if line.startswith(what)]
    return int(line.split()[1])

blocks = memtrace.load(sys.argv[1]).allocations
before = kilobytes("VmRSS")
rows = sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(blocks))
print(rows, kilobytes("VmHWM") - before)
"""


def test_a_table_that_is_streamed_is_not_in_memory(tmp_path, target):
    path = tmp_path / "trace"
    command = [MEMTRACE, "-q", "-o", path, "--kernel", "proc", "--", target("pairs.c"), "1000000"]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, path],
        env=environment(PYTHONPATH=str(ROOT / "python")),
        stdout=subprocess.PIPE,
        check=True,
    )
    rows, grown = (int(number) for number in done.stdout.split())
    assert rows >= 1_000_000
    assert grown * 1024 < rows * 60 / 2, "60 bytes are a row's columns in memory"


def test_operators_are_summed_up_by_their_largest_steady_call(trace):
    [row] = pyarrow.table(trace.operators).to_pylist()
    assert (row["operator"], row["calls"]) == ("__main__:double", 4)
    assert json.loads(row["inputs"])[0]["shape"] == [200_000]
    assert row["input_bytes"] == row["output_bytes"] == 1_600_000
    assert 1_600_000 <= row["working_peak_bytes"] < 1_600_000 + 16_384
    spans = pyarrow.table(trace.spans).to_pylist()
    assert row["total_ns"] == sum(span["end_ns"] - span["start_ns"] for span in spans)


FIRST_CALLS = """
import numpy as np

KEPT = []

def steady(n):
    return np.ones(n)

def warmed(n):
    if not KEPT:
        KEPT.append(np.ones(10 * n))
    return np.ones(n // 2)

for _ in range(3):
    warmed(100_000), steady(100_000)
"""


def test_operators_come_by_the_peak_that_their_rows_have(tmp_path):
    command = [MEMTRACE, "-q", "-o", tmp_path / "trace", "--operator", "__main__:warmed"]
    command += ["--operator", "__main__:steady", "--", sys.executable, "-c", FIRST_CALLS]
    subprocess.run(command, check=True)
    table = memtrace.load(tmp_path / "trace").operators
    frame = pandas.DataFrame.from_arrow(table)
    assert list(frame["operator"]) == ["__main__:steady", "__main__:warmed"]
    assert list(frame["one_time_bytes"]) == [0, 8_000_000]
    assert list(frame.columns[:3]) == ["operator", "calls", "working_peak_bytes"]


def test_limits_are_sizes_and_a_halo_is_one_number_or_several():
    shapes = [(50, 40, 30), (40, 30, 50), (70, 60, 50)]
    sizes = [12 * shape[0] * shape[1] * shape[2] for shape in shapes]
    model = memtrace.fit_table(shapes, sizes, operator="smooth")
    asked = {"shape": (400, 400, 400), "workers": 2}
    plan = model.recommend("smooth", memory_limit="900 MB", halo=2, **asked)
    assert plan == model.recommend("smooth", memory_limit=900_000_000, halo=[2, 2, 2], **asked)
    assert plan["memory_limit_bytes"] == 900_000_000 and plan["seconds_spread"] > 0
    with pytest.raises(ValueError, match="'much' is not a size"):
        model.recommend("smooth", memory_limit="much", **asked)
    with pytest.raises(ValueError, match="has no unit"):
        model.recommend("smooth", memory_limit="1.5", **asked)
    longest = model.longest("smooth", (1, 64, 64), 0, "2 GB")
    assert longest == model.longest("smooth", (1, 64, 64), 0, 2_000_000_000)


def test_during_says_what_a_stretch_of_time_needed(trace):
    spans = pyarrow.table(trace.spans).to_pylist()
    needed = trace.during(spans[3]["start_ns"], spans[3]["end_ns"])
    assert 1_600_000 <= needed["peak_bytes"] < 1_600_000 + 16_384
    assert needed["sites"][0]["place"].startswith("double")
    assert needed["sites"][0]["bytes"] == 1_600_000
    assert needed["operators"] == [], "the span that began then is what asks"
    whole = trace.during(0, most=1)
    assert whole["peak_bytes"] >= trace.report()["peak"]["heap_bytes"]
    assert [each["operator"] for each in whole["operators"]] == ["__main__:double"]
    assert trace.during(spans[3]["end_ns"], spans[3]["start_ns"])["peak_bytes"] == 0


def test_a_trace_without_rows_says_so(tmp_path):
    path = tmp_path / "trace"
    command = [MEMTRACE, "-q", "--aggregate", "-o", path, "--", "true"]
    subprocess.run(command, check=True)
    with pytest.raises(ValueError, match="--aggregate"):
        memtrace.load(path).during(0)


def test_columns_are_found_by_name_and_a_missing_one_is_an_error(copy):
    sites = copy / "sites.parquet"
    rows = duckdb.sql(f"select * from '{sites}'").to_arrow_table()

    def write(query, rows=rows):
        sites.unlink()
        duckdb.sql(f"copy ({query}) to '{sites}' (format parquet, compression zstd)")
        return memtrace.load(copy).sites

    table = write("select 1 as added, * from rows")
    assert pyarrow.table(table).column_names == table.columns
    assert pyarrow.table(table)["site"].to_pylist() == rows["site"].to_pylist()
    table = write("select * exclude (untouched_bytes) from rows")
    with pytest.raises(Exception, match="column `untouched_bytes` of table `sites` is missing"):
        pyarrow.table(table)


def test_a_trace_of_an_earlier_format_is_refused_in_one_sentence(copy):
    meta = copy / "meta.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"schema_version": 1}))
    with pytest.raises(ValueError, match="record") as refused:
        memtrace.load(copy)
    assert "\n" not in str(refused.value)


def test_a_damaged_file_is_an_error_of_the_library_that_reads(copy, capfd):
    part = copy / "allocations" / "part-00000.parquet"
    whole = part.read_bytes()
    table = memtrace.load(copy).allocations
    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        len(table)
    with pytest.raises(Exception, match="damaged"):
        pyarrow.table(table)
    for place in range(4, len(whole) - 8, max(1, len(whole) // 50)):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            pyarrow.table(table).validate(full=True)
        except (OSError, ValueError) as error:
            assert str(error)
    assert "panicked" not in capfd.readouterr().err


def test_a_table_that_is_missing_is_said_before_anything_is_read(copy):
    (copy / "spans.parquet").unlink()
    with pytest.raises(ValueError, match="lost its table `spans`"):
        pyarrow.table(memtrace.load(copy).spans)


def test_fitting_takes_traces_and_directories(trace, tmp_path):
    with pytest.raises(ValueError, match="shapes"):
        memtrace.fit(trace)
    with pytest.raises(ValueError, match="absent"):
        memtrace.fit([trace, tmp_path / "absent"])
    with pytest.raises(TypeError):
        memtrace.fit([1])


def test_the_documented_test_passes(tmp_path):
    text = (ROOT / "docs" / "api.md").read_text()
    [block] = re.findall(r"^```python\n(import pytest\n.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_documented.py").write_text(block)
    path = f"{MEMTRACE.parent}:{environment()['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "memtrace.pytest_plugin"],
        env=environment(PYTHONPATH=str(ROOT / "python"), PATH=path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
