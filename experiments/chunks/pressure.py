"""Operators under a memory limit at what their laws predict: enough at the upper bound, too little
5 % under the need.

What counts against a control group is not the resident size. Pages of files (libraries) can be
reclaimed, and are charged to whoever read them first; page tables are charged, and in no resident
size. So the memory that an operator cannot do without is

    need = resident (law) - pages of files + page tables

The pages of files are those at the recorded peaks; page tables are those recorded, and 8 bytes more
for each page of 4096 more. The limit that must do is the law's `resident_upper_bytes` as it stands.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import duckdb
import memtrace

from experiments.chunks import small_laws
from experiments.control_group import group
from experiments.recording import KEPT, RESULTS, ROOT, written

FOLDER = KEPT / "chunks" / "pressure"
PAGE = RESULTS / "chunks-pressure.md"
#: operator -> a shape that needs 1.5 GB or more
OPERATORS = {
    "envelope": (427, 431, 443),
    "gaussian": (577, 571, 569),
    "semblance": (499, 509, 503),
    "instantaneous_phase": (433, 431, 439),
    "gradient_magnitude": (401, 397, 409),
    "gst3d": (191, 193, 187),
}
QUICK = {"envelope": (191, 193, 197), "gaussian": (211, 223, 227)}
LEAST_NEED = 1.5e9
REPEATS = 10
UNDER = 0.95
KILLED = -9


def main(arguments):
    operators = QUICK if arguments.quick else OPERATORS
    repeats = 2 if arguments.quick else REPEATS
    rows = [measured(name, shape, repeats) for name, shape in operators.items()]
    large = [row for row in rows if row["need_bytes"] >= LEAST_NEED]
    if not arguments.quick:
        PAGE.write_text(text(rows, large, repeats), encoding="utf-8")
    return all(row["passed"] == row["killed"] == repeats for row in rows) and (
        arguments.quick or len(large) == len(rows)
    )


def measured(name, shape, repeats):
    """What is predicted of an operator at a shape, and how its runs ended."""
    predicted = predictions(name, shape)
    runs = kept(name, shape, predicted)
    for _ in range(repeats):
        for limit in ("upper_bytes", "under_bytes"):
            if sum(run["limit"] == limit for run in runs) < repeats:
                runs.append({"limit": limit, **limited(name, shape, predicted[limit])})
                store(name, shape, predicted, runs[-1])
                print(f"{name} {written(shape)} {limit}: {runs[-1]['status']}", flush=True)
    upper = [run for run in runs if run["limit"] == "upper_bytes"]
    under = [run for run in runs if run["limit"] == "under_bytes"]
    return {
        "name": name,
        "shape": shape,
        **predicted,
        "passed": sum(run["status"] == 0 for run in upper),
        "killed": sum(run["status"] == KILLED for run in under),
        "peak_bytes": max(run["peak_bytes"] for run in upper),
        "kernel_bytes": max(run["kernel_bytes"] for run in upper),
        "resident_measured_bytes": max(run["resident_bytes"] for run in upper),
        "file_measured_bytes": statistics.median(run["file_bytes"] for run in upper),
    }


def predictions(name, shape):
    """Limits at a shape, from recordings of small ones."""
    traces = small_laws.traces(name)
    law = memtrace.fit([str(trace) for trace in traces]).predict(name, shape)
    files, tables, resident = zip(*(recorded(trace, name) for trace in traces), strict=True)
    largest = max(range(len(traces)), key=resident.__getitem__)
    pages = max(law["resident_bytes"] - resident[largest], 0) // 4096
    tables_bytes = tables[largest] + 8 * pages
    file_bytes = int(statistics.median(files))
    need = law["resident_bytes"] - file_bytes + tables_bytes
    return {
        "resident_bytes": law["resident_bytes"],
        "upper_bytes": law["resident_upper_bytes"],
        "file_bytes": file_bytes,
        "page_table_bytes": tables_bytes,
        "need_bytes": need,
        "under_bytes": int(need * UNDER),
    }


def recorded(trace, name):
    """Pages of files at an operator's resident peak, page tables, and the resident peak."""
    [(files, resident)] = duckdb.sql(
        f"SELECT max(resident_file_bytes), max(resident_peak_bytes) FROM '{trace}/spans.parquet' "
        f"WHERE operator LIKE '%:{name}'"
    ).fetchall()
    if files is None:
        raise RuntimeError(
            "this study needs memtrace's kernel side (it tells pages of files from others): see "
            "`memtrace doctor`"
        )
    processes = f"SELECT max(page_table_bytes) FROM '{trace}/processes.parquet'"
    [(tables,)] = duckdb.sql(processes).fetchall()
    return files, tables, resident


PROGRAM = """
import re, sys
from pathlib import Path
from experiments.operators import run
sys.argv[1:] = sys.argv[2:]
run.main()
status = Path("/proc/self/status").read_text()
print(*(re.search(rf"{name}:\\s+(\\d+)", status)[1] for name in ("VmHWM", "RssFile")))
"""


def limited(name, shape, limit_bytes):
    """One run of an operator in a fresh process under a limit."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}"}
    command = [sys.executable, "-c", PROGRAM, "-", name, "float32", written(shape)]
    with group() as limits:
        limits.limit(limit_bytes)
        start = time.perf_counter()
        done = subprocess.run(
            limits.entered_by(command),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, KILLED):
            raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-500:]}")
        resident, file = (int(each) * 1024 for each in (done.stdout or "0 0").split())
        return {
            "status": done.returncode,
            "seconds": time.perf_counter() - start,
            "peak_bytes": limits.peak_bytes(),
            "kernel_bytes": limits.kernel_bytes(),
            "resident_bytes": resident,
            "file_bytes": file,
        }


def results(name, shape):
    return FOLDER / f"{name}-{written(shape)}.jsonl"


def kept(name, shape, predicted):
    """Runs of an earlier call under the same limits."""
    file = results(name, shape)
    if not file.exists():
        return []
    rows = (json.loads(line) for line in file.read_text().splitlines())
    return [row for row in rows if row.pop("predicted") == predicted]


def store(name, shape, predicted, run):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with results(name, shape).open("a") as file:
        file.write(json.dumps({**run, "predicted": predicted}) + "\n")


def text(rows, large, repeats):
    passed = sum(row["passed"] for row in large)
    killed = sum(row["killed"] for row in large)
    total = repeats * len(large)
    lines = [
        "# Limits at what laws predict",
        "",
        "`scripts/experiments chunks pressure` writes this page.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
        f"| operators that need 1.5 GB or more, limit at the upper bound: runs that finish "
        f"| all of {total} | {passed} | {'yes' if passed == total else 'no'} |",
        f"| the same, limit 5 % under the need: runs that are killed "
        f"| all of {total} | {killed} | {'yes' if killed == total else 'no'} |",
        "",
        *ABOUT.splitlines(),
        "",
        HEAD,
        "|---" * 12 + "|",
        *map(line, rows),
        "",
    ]
    return "\n".join(lines)


ABOUT = f"""\
Each run is a fresh process in a memory control group of its own, without swap; laws are fitted on
one process each at {", ".join(map(written, small_laws.TRAINING))}, glibc's default settings.

*need* is the memory that cannot be reclaimed: the law's resident bytes, less the pages of files
that the recordings saw at the operator's peak (libraries: they can be read again, and are charged
to who read them first), and page tables, which are charged and are in no resident size (what was
recorded, and 8 bytes for each page of 4096 that the large run has more). *at most* is
`resident_upper_bytes` as `predict --json` tells it, without any addition. *charged* is the most
that the group was charged in the runs that finished, page cache included, *kernel* the part of the
kernel itself."""
HEAD = (
    "| operator | shape | law, resident | files | page tables | need | 5 % under | killed "
    "| at most | finished | VmHWM | charged (kernel) |"
)


def line(row):
    def megabytes(key):
        return f"{row[key] / 1e6:.1f}"

    cells = [row["name"], written(row["shape"])]
    cells += map(megabytes, ("resident_bytes", "file_bytes", "page_table_bytes", "need_bytes"))
    cells += [megabytes("under_bytes"), row["killed"], megabytes("upper_bytes"), row["passed"]]
    cells += [megabytes("resident_measured_bytes")]
    cells += [f"{megabytes('peak_bytes')} ({megabytes('kernel_bytes')})"]
    return "| " + " | ".join(map(str, cells)) + " |"
