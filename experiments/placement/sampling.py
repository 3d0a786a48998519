"""What `--accesses clock` costs, how much of it is told, and which block takes the time.

CPU time of the program, its children and memtrace; with and without samples in turns. The cost of
a program is the median of the ratios of its pairs. Beside it, without memtrace, what the kernel's
events cost where nothing reads them.
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from experiments.chunks.tables import spread, table
from experiments.placement import clock_events
from experiments.placement.catalogue import CATALOGUE
from experiments.recording import MEMTRACE, RESULTS, ROOT, memtrace

REPEATS = 9
MOST_COST = 0.02
LEAST_TOLD = 0.95
LARGE = 1 << 16
NOTHING = {"samples": 0, "place": None, "largest_block_bytes": 0}


def main(arguments):
    repeats = 3 if arguments.quick else REPEATS
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(program, Path(folder), repeats) for program in CATALOGUE]
    if not arguments.quick:
        (RESULTS / "placement-sampling.md").write_text(page(rows, repeats))
    costs = statistics.mean(row["cost"] for row in rows)
    told = all(row["known"] >= LEAST_TOLD for row in rows)
    return costs <= MOST_COST and told and all(row["right"] for row in rows)


def measured(program, folder, repeats):
    command = program.command(folder)
    trace = folder / "trace"
    ratios, alone = [], []
    for _ in range(repeats):
        without, with_samples = (cpu(command, trace, kind) for kind in ("off", "clock"))
        ratios.append(with_samples / without - 1)
        bare, watched = (clock_events.cpu(command, watched) for watched in (False, True))
        alone.append(watched / bare - 1)
    report = json.loads(memtrace("report", "--json", trace))
    clock = report["accesses"]["clock"]
    # Smaller blocks are no object of a placement.
    large = (site for site in clock["sites"] if site["largest_block_bytes"] >= LARGE)
    largest = next(large, NOTHING)
    row = {
        "program": program,
        "cost": statistics.median(ratios),
        "ratios": ratios,
        "alone": statistics.median(alone),
        "samples": clock["samples"],
        "lost": report["lost_samples"],
        "known": clock["known"] / clock["samples"],
        "large": clock["in_large_blocks"] / clock["samples"],
        "share": largest["samples"] / clock["samples"],
        "place": largest["place"] or "",
        "right": program.is_right(largest),
    }
    print(
        f"{program.file}: {row['cost']:+.1%} (events alone {row['alone']:+.1%}), "
        f"{row['known']:.1%} told, "
        f"{row['share']:.1%} at {row['place']} ({'right' if row['right'] else 'wrong'})",
        flush=True,
    )
    return row


def cpu(command, trace, accesses):
    """Seconds of the program and of memtrace together."""
    shutil.rmtree(trace, ignore_errors=True)
    line = [MEMTRACE, "-q", "-o", trace, "--accesses", accesses, "--", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    null = subprocess.DEVNULL
    with subprocess.Popen(list(map(str, line)), stdout=null, env=environment) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{line} failed with {process.returncode}")
    return used.ru_utime + used.ru_stime


def cells(row):
    shares = [f"{row[name]:.1%}" for name in ("known", "large")]
    return [
        row["program"].what,
        f"{row['cost']:+.1%}",
        spread(row["ratios"]),
        f"{row['alone']:+.1%}",
        f"{row['samples']:,}",
        row["lost"],
        *shares,
        f"`{row['place']}`",
        f"{row['share']:.1%}",
        row["program"].block,
        "yes" if row["right"] else "no",
    ]


def page(rows, repeats):
    text = f"""# Sampling by the clock

`scripts/experiments placement sampling` records seven programs with `--accesses clock` and without,
in turns, {repeats} times each. The cost is the median of the ratios of CPU time (program, children
and memtrace), with the least and the largest beside it. *Events alone* is the cost of the
kernel's events without memtrace, in a ring that nothing reads: no sampler costs less. Told are
the samples whose instruction is known. Of blocks from 64 KiB on, which alone can be placed, the
call stack with the most samples is given; the last column says whether it is that of the block that
was written down in [catalogue.py](../../experiments/placement/catalogue.py) before the programs
were sampled.

"""
    names = ["program", "cost", "least to largest", "events alone", "samples", "lost", "told"]
    names += ["on large blocks", "most samples", "their share", "block", "right"]
    text += table(names, [cells(row) for row in rows])
    mean, alone = (statistics.mean(row[name] for row in rows) for name in ("cost", "alone"))
    text += f"\n\nThe mean cost is {mean:+.1%}; that of the events alone {alone:+.1%}.\n"
    return text
