"""Millions of spans in one trace: what they cost the program, the recorder, the disk and readers.

The program is run with and without memtrace, in turn, and measures its own loop.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from experiments.recording import KEPT, MEMTRACE, RESULTS, ROOT
from experiments.scale.command import taken

PROGRAMS = Path(__file__).parent / "programs"
SPANS, PROCESSES = 10_000_000, 8
#: Calls and pairs of runs of the loops whose cost is measured.
CALLS, PAIRS = 200_000, 5
TARGETS = {
    "recorder": 150e6,
    "bytes of a span": 20,
    "microseconds of a call": 10,
    "report": (1, 200e6),
    "fit": (20, 500e6),
}


def main(arguments):
    spans, calls = (200_000, 20_000) if arguments.quick else (SPANS, CALLS)
    folder = KEPT / "spans"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    costs = {name: cost(name, *loop, calls, folder) for name, loop in loops(folder).items()}
    trace = folder / "trace"
    recorder = recorded(compiled(folder), spans, trace)
    size = (trace / "spans.parquet").stat().st_size / spans
    read = {what: reading(what, trace) for what in ("report", "fit")}
    shutil.rmtree(folder)
    if not arguments.quick:
        (RESULTS / "scale-spans.md").write_text(page(spans, costs, recorder, size, read))
    return all(is_right(costs, recorder, size, read))


def compiled(folder):
    """The program in C."""
    program = folder / "spans"
    source = PROGRAMS / "spans.c"
    options = ("-O2", "-fno-builtin", f"-I{ROOT / 'include'}")
    subprocess.run(["gcc", *options, "-o", program, source], check=True)
    return program


def loops(folder):
    """Name of a loop -> options of memtrace, and the command before the number of calls."""
    calls = (sys.executable, PROGRAMS / "calls.py")
    watched = [word for n in range(20) for word in ("--operator", f"__main__:operator_{n}")]
    return {
        "a span of C": ((), (compiled(folder), 1)),
        "`memtrace.span` of Python": ((), (*calls, "span")),
        "a call of a watched function of Python": (watched, (*calls, "operator")),
    }


def cost(name, options, command, calls, folder):
    """Microseconds of the program's CPU that recording adds to each call: median of the pairs."""
    trace = folder / "cost"
    memtrace = (MEMTRACE, "-q", "--auto-operators", "none", *options, "-o", trace, "--")
    added = []
    for pair in range(PAIRS):
        order = (False, True) if pair % 2 else (True, False)
        taken = {
            is_recorded: ran((*(memtrace if is_recorded else ()), *command, calls))
            for is_recorded in order
        }
        shutil.rmtree(trace)
        added.append((taken[True] - taken[False]) / calls * 1e6)
    row = {"added": statistics.median(added), "least": min(added), "most": max(added)}
    print(name, row, flush=True)
    return row


def ran(command):
    """The seconds that a program says its loop took."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)), env=environment, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def recorded(program, spans, trace):
    """What the recording took; nothing is lost."""
    row = watched("recorder", "-q", "-o", trace, "--", program, PROCESSES, spans)
    report = json.loads(subprocess.check_output([MEMTRACE, "report", "--json", trace]))
    if any(report["lost"].values()):
        raise RuntimeError(f"lost: {report['lost']}")
    return row


def reading(what, trace):
    return watched(
        what, what, trace, *(("-o", trace.parent / "model.json") if what == "fit" else ())
    )


def watched(what, *words):
    """What a command of memtrace takes."""
    row = taken(MEMTRACE, *words)
    if not row["has_ended"]:
        raise RuntimeError(f"{what} failed")
    print(what, row, flush=True)
    return row


def is_right(costs, recorder, size, read):
    yield recorder["bytes"] <= TARGETS["recorder"]
    yield size <= TARGETS["bytes of a span"]
    yield from (row["added"] <= TARGETS["microseconds of a call"] for row in costs.values())
    for what, row in read.items():
        seconds, most = TARGETS[what]
        yield row["seconds"] <= seconds and row["bytes"] <= most


def page(spans, costs, recorder, size, read):
    lines = [
        "# Millions of spans in one trace",
        "",
        "`scripts/experiments scale spans` measured this on a machine with two processors.",
        "",
        f"What recording adds to the CPU time of a loop's call, of {CALLS:,}; {PAIRS} pairs of",
        "runs, one with and one without memtrace.",
        "",
        "| call | added | smallest to largest | wanted |",
        "|---|---:|---:|---:|",
    ]
    for name, row in costs.items():
        spread = f"{row['least']:.1f} to {row['most']:.1f}"
        lines.append(f"| {name} | {row['added']:.1f} µs | {spread} | ≤ 10 |")
    lines += [
        "",
        f"A C program of {PROCESSES} processes with {spans:,} spans of 20 operators at 50 shapes:",
        "",
        "| what | seconds | memory | wanted |",
        "|---|---:|---:|---:|",
        f"| recording | {recorder['seconds']:.0f} | {recorder['bytes'] / 1e6:.0f} MB | ≤ 150 MB |",
    ]
    for what, row in read.items():
        seconds, most = TARGETS[what]
        wanted = f"≤ {seconds} s, {most / 1e6:.0f} MB"
        lines.append(
            f"| `{what}` | {row['seconds']:.1f} | {row['bytes'] / 1e6:.0f} MB | {wanted} |"
        )
    lines += ["", f"On disk a span takes {size:.1f} bytes (wanted: 20)."]
    return "\n".join(lines) + "\n"
