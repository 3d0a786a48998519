"""Makes directories of traces, and measures what `report` and `fit` take to read them.

A few traces are recorded, and each stands in a directory as often as is needed, under other names
and with times and hosts of its own: readers cannot tell.
"""

import json
import os
import shutil
import sys

from experiments.recording import KEPT, MEMTRACE, RESULTS, memtrace
from experiments.scale.command import taken

#: Calls of twenty operators at fifty shapes, some with a temporary block.
PROGRAM = """
import sys
import memtrace
import numpy as np

calls, seed = map(int, sys.argv[1:])
for call in range(calls):
    operator = call % 20
    shape = (100 + (call // 20 + 7 * seed) % 50, 40 + operator)
    with memtrace.span(f"scale:operator_{operator}", shape, "<f4") as span:
        kept = np.empty(shape, np.float32)
        temporary = np.empty((2, *shape), np.float32)
        del temporary
        span.outputs(kept)
"""
SPANS, RECORDED = 10_000, 8
#: Traces in a directory.
COUNTS = (10, 100, 1000)
HOSTS = 16
#: A reader that wants more than this has failed.
MEMORY_BYTES = 8 << 30
#: Of the last row: seconds and bytes.
TARGETS = {"report": (30, 500e6), "fit": (30, 500e6)}


def main(arguments):
    counts = COUNTS[:2] if arguments.quick else COUNTS
    folder = KEPT / "scale"
    templates = recordings(folder)
    rows = []
    for count in counts:
        directory = folder / "traces"
        multiplied(templates, directory, count)
        rows += [measured(name, directory, count) for name in ("report", "fit")]
        shutil.rmtree(directory)
    shutil.rmtree(folder)
    if not arguments.quick:
        (RESULTS / "scale-traces.md").write_text(page(rows))
    return all(is_right(row) for row in rows if row["traces"] == max(COUNTS))


def recordings(folder):
    """The traces that the others are made of, in a fresh folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return [recorded(folder / f"template-{seed}", seed) for seed in range(RECORDED)]


def recorded(path, seed):
    program = (sys.executable, "-c", PROGRAM, SPANS, seed)
    memtrace("--quiet", "--auto-operators", "none", "-o", path, "--", *program)
    return path


def multiplied(templates, directory, count):
    """So many traces, as of a job array on several hosts one after the other."""
    for number in range(count):
        template = templates[number % len(templates)]
        trace = directory / f"{number % HOSTS}" / f"7_{number}"
        shutil.copytree(template, trace, copy_function=os.link)
        meta = json.loads((trace / "meta.json").read_text())
        meta["host"] = f"node{number % HOSTS}"
        meta["start_unix_ns"] += number // HOSTS * meta["duration_ns"]
        (trace / "meta.json").unlink()
        (trace / "meta.json").write_text(json.dumps(meta))


def measured(name, directory, count):
    model = ("-o", directory / "model.json") if name == "fit" else ()
    limit = ("prlimit", f"--as={MEMORY_BYTES}")
    row = {"what": name, "traces": count}
    row |= taken(*limit, MEMTRACE, name, directory, *model)
    print(row, flush=True)
    return row


def is_right(row):
    seconds, size = TARGETS[row["what"]]
    return row["has_ended"] and row["seconds"] <= seconds and row["bytes"] <= size


def page(rows):
    lines = [
        "# Directories of traces",
        "",
        f"`memtrace report` and `memtrace fit` on directories of traces of {SPANS:,} spans each",
        f"(20 operators, 50 shapes), made of {RECORDED} recordings. `scripts/experiments scale",
        "traces` measured this on a machine with two processors.",
        "",
        "| traces | spans | what | seconds | of a processor | memory |",
        "|---:|---:|---|---:|---:|---:|",
    ]
    for row in rows:
        memory = f"{row['bytes'] / 1e6:,.0f} MB" if row["has_ended"] else "more than 8 GB"
        figures = [f"{row['traces']:,}", f"{row['traces'] * SPANS:,}", f"`{row['what']}`"]
        figures += [f"{row['seconds']:.1f}", f"{row['processor']:.1f}", memory]
        lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"
