"""The summary that a person reads: on one screen, for any program."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import summaries
from conftest import ROOT, TARGETS, environment, memtrace

WIDTHS = (80, 100, 120)

NUMPY = """\
import numpy as np

def smooth(a):
    padded = np.pad(a, 1)
    return np.tile(padded, 2)

a = np.ones(3_000_000)
b = smooth(a)
"""

PANDAS = """\
import pandas as pd

table = pd.DataFrame({"a": range(500_000), "b": 1.0})
total = table.groupby(table.a % 1000).b.sum()
wide = pd.concat([table] * 4)
"""

# One task for each worker, all of them held: which operator is the largest is the same in each run.
DASK = """\
from dask.distributed import Client, wait

def table(number):
    return bytearray(96_000_000)

if __name__ == "__main__":
    with Client(n_workers=4, threads_per_worker=1, dashboard_address=None) as client:
        workers = enumerate(client.nthreads())
        parts = [client.submit(table, number, workers=[name]) for number, name in workers]
        wait(parts)
"""

LEAK = """\
kept = []

def remember(count):
    for number in range(count):
        kept.append(bytearray(1_000_000))

remember(20)
"""


@pytest.fixture(params=["numpy", "pandas", "dask", "leak", "shell", "cpp", "rust"])
def program(request, tmp_path, python, target):
    """A program, and how the first row of its summary begins."""
    scripts = {"numpy": NUMPY, "pandas": PANDAS, "dask": DASK, "leak": LEAK}
    first = {
        "numpy": "run.py:5 smooth",
        "pandas": "run.py:5",
        "dask": "<dynamic-code>:4 table",
        "leak": "run.py:5 remember",
    }
    if request.param in scripts:
        script = tmp_path / "run.py"
        script.write_text(scripts[request.param])
        return request.param, (python, script), first[request.param]
    if request.param == "shell":
        held = target("held.c")
        return "shell", ("sh", "-c", f"{held} malloc 8; {held} malloc 24; :"), "come_and_go in held"
    source = {"cpp": "index.cpp", "rust": "words.rs"}[request.param]
    return request.param, (compiled(source, tmp_path),), f"{source}:"


def compiled(name, folder):
    """One of the programs in targets/places, optimised, with debug information."""
    source = TARGETS / "places" / name
    compilers = {
        ".cpp": ["g++", "-std=c++17", "-O2", "-g", "-pthread"],
        ".rs": ["rustc", "-O", "-g"],
        ".f90": ["gfortran", "-O2", "-g"],
    }
    command = compilers[source.suffix]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run([*command, "-o", folder / source.stem, source], check=True, cwd=folder)
    return folder / source.stem


def test_it_fits_a_screen(record, program):
    name, command, first = program
    # Not by inheritance: GNU readline, in this process, sets the variable for all children.
    # Samples of small blocks may change which of two places is the larger one.
    options = ("--stacks", "all") if name in ("cpp", "rust") else ()
    run = record(*command, options=options, env=environment(COLUMNS="100"))
    recorded = run.stderr.decode()
    shown = recorded[recorded.index("memtrace: ") :]
    for columns in WIDTHS:
        done = memtrace("report", run.path, env=environment(COLUMNS=str(columns)))
        text = done.stdout.decode()
        rows = summaries.check(text, columns)
        assert rows[0].label.startswith(first), text
        if columns == 100:
            assert text == shown, "the same for record and report"
        summaries.compare(f"{name}-{columns}", text, run.path)
    if name == "shell":
        assert "3 processes; most live: 2 × held up to 25.2 MB, sh " in text
    if name in ("numpy", "pandas", "leak"):
        source = Path(command[1]).read_text().splitlines()
        line = int(rows[0].label.split()[0].split(":")[1])
        assert source[line - 1].strip() in text, "the text of the line"


def test_it_fits_a_screen_where_much_went_wrong(record, target):
    """Kills, refusals and notes together, each with all that it may have."""
    run = record(target("held.c"), "malloc", "24")
    path = run.path / "meta.json"
    meta = json.loads(path.read_text())
    sites = [{"site": 1, "bytes": 5_000_000}] * 4
    held = {"operators": [{"name": "work", "bytes": 5_000_000}] * 4, "sites": sites}
    meta["out_of_memory"] = [{"pid": 7, "command": "sh", "limit_bytes": 50_000_000, **held}] * 3
    meta["refused"] = [{"pid": 7, "requested_bytes": 800_000_000, "live_bytes": 1, **held}] * 3
    meta["notes"] = [f"note {number} " + "says a lot " * 30 for number in range(6)]
    meta["peak"] |= {"gc_independent_bytes": 1, "gc_independent_upper_bytes": 2}
    meta["complete"] = False
    path.write_text(json.dumps(meta))
    for columns in WIDTHS:
        text = memtrace("report", run.path, env=environment(COLUMNS=str(columns))).stdout.decode()
        summaries.check(text, columns)
        for part in ("KILLED", "REFUSED", "note 0", "more notes", "memtrace report --details"):
            assert part in text, text


def test_imports_have_a_row_for_each_package(record, tmp_path, python):
    script = tmp_path / "run.py"
    script.write_text("import json\nimport numpy, decimal\n")
    run = record(python, script, options=("--stacks", "all"))
    labels = [row.label for row in summaries.places(memtrace("report", run.path).stdout.decode())]
    assert "import numpy" in labels
    assert not [label for label in labels if label.startswith("run.py")]


BLOCKS = """#include <stdlib.h>

void many(void) {
    for (int i = 0; i < 30000; i++)
        *(void **)malloc(1000) = 0;
}
void few(void) {
    for (int i = 0; i < 10000; i++)
        *(void **)malloc(1000) = 0;
}
int main(void) {
    many();
    few();
    return 0;
}
"""


def test_estimates_are_marked_and_sampled_blocks_add_up(record, tmp_path):
    """30,000 blocks of 1,000 bytes in one function, 10,000 in another: none has 64 KiB."""
    program = tmp_path / "blocks"
    (tmp_path / "blocks.c").write_text(BLOCKS)
    subprocess.run(["gcc", "-g", "-O0", "-o", program, tmp_path / "blocks.c"], check=True)
    for options, sign in (((), "~"), (("--stacks", "all"), "")):
        text = memtrace("report", record(program, options=options).path).stdout.decode()
        rows = {row.label: row for row in summaries.check(text, 100)}
        assert {"blocks.c:5 many", "blocks.c:9 few"} <= set(rows), text
        assert ("~ an estimate" in text) == bool(sign), text
        assert sum(row.bytes for row in rows.values()) == pytest.approx(40e6, rel=0.01), text
        [line] = [line for line in text.splitlines() if "blocks.c:5 many" in line]
        assert line.strip().startswith("~") == bool(sign), text
        many = rows["blocks.c:5 many"].bytes
        assert many == pytest.approx(30e6, rel=0.5 if sign else 0.01), text


def test_a_line_that_was_changed_since_is_not_shown(record, tmp_path, python):
    script = tmp_path / "run.py"
    script.write_text("a = bytearray(9_000_000)\n")
    run = record(python, script)
    assert "a = bytearray" in memtrace("report", run.path).stdout.decode()
    script.write_text("b = bytearray(9_000_000)\n")
    text = memtrace("report", run.path).stdout.decode()
    assert "bytearray" not in text and "run.py:1" in text


def test_details_have_everything_else(record, target):
    run = record(target("held.c"), "malloc", "24")
    text = memtrace("report", "--details", run.path).stdout.decode()
    assert "events lost; call stacks:" in text and "peak resident bytes" in text
    assert (
        json.loads(memtrace("report", "--json", run.path).stdout)["peak"]["live_bytes"] >= 24 << 20
    )


def test_json_has_the_places_of_the_summary(record, tmp_path):
    run = record(compiled("waves.f90", tmp_path), options=("--stacks", "all"))
    rows = summaries.places(memtrace("report", run.path).stdout.decode())
    report = json.loads(memtrace("report", "--json", run.path).stdout)
    first = report["places"][0]
    assert first["place"] == rows[0].label
    assert Path(first["file"]).name == "waves.f90" and first["line"] > 0
    assert sum(place["bytes"] for place in report["places"]) <= report["peak"]["live_bytes"]


@pytest.mark.parametrize(
    "name", ["index.cpp", "heat.cpp", "sparse.cpp", "words.rs", "tree.rs", "waves.f90"]
)
def test_places_are_lines_of_the_program(record, tmp_path, name):
    """At least 90 % of the bytes at the peak: what was inlined from a library is not the user's."""
    run = record(compiled(name, tmp_path), options=("--stacks", "all"))
    text = memtrace("report", run.path).stdout.decode()
    rows = summaries.check(text, 100)
    own = sum(row.share for row in rows if row.label.startswith(f"{name}:"))
    assert own >= 90, text
    assert "…" not in "".join(row.label for row in rows)


def test_a_trace_is_read_without_its_sources(record, tmp_path, python):
    script = tmp_path / "run.py"
    script.write_text("a = bytearray(9_000_000)\n")
    run = record(python, script)
    script.unlink()
    text = memtrace("report", run.path, cwd=ROOT).stdout.decode()
    assert summaries.check(text, 100)[0].label == "run.py:1"
