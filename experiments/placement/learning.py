"""What `place learn` takes: its CPU time, with the program's and memtrace's own, over that of a run
of the program by itself. Both run in turns; the ratio is the median of those of the pairs.
"""

import resource
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.catalogue import command_of
from experiments.placement.limited import ENVIRONMENT
from experiments.placement.swap_device import swap
from experiments.recording import MEMTRACE, RESULTS

REPEATS = 5
MOST = 3
BASES = ("small-pages,huge-pages", "swap,dram")


@dataclass(frozen=True)
class Case:
    """A program, its rounds, and whether its run is long enough for the figure to hold."""

    file: str
    what: str
    rounds: int
    is_long: bool


CASES = [
    Case("weights.c", "cyclic weights, C", 900, is_long=True),
    Case("adam.py", "network with Adam, NumPy", 75, is_long=True),
    Case("panels.f90", "power method, Fortran", 450, is_long=True),
    Case("weights.c", "cyclic weights, C", 100, is_long=False),
    Case("adam.py", "network with Adam, NumPy", 12, is_long=False),
    Case("panels.f90", "power method, Fortran", 60, is_long=False),
]


def main(arguments):
    repeats = 1 if arguments.quick else REPEATS
    with tempfile.TemporaryDirectory() as folder, swap():
        results = [measured(case, Path(folder), repeats) for case in CASES]
    if not arguments.quick:
        (RESULTS / "placement-learning.md").write_text(page(results, repeats))
    return all(ratio <= MOST for each in results if each["is_long"] for ratio in each["ratios"])


def measured(case, folder, repeats):
    run = command_of(case.file, folder, case.rounds)
    plain, learned = [], {base: [] for base in BASES}
    for _ in range(repeats):
        plain.append(cpu(run))
        for base, all_of in learned.items():
            output = folder / "learned"
            all_of.append(
                cpu([MEMTRACE, "place", "learn", "--base", base, "-o", output, "--", *run])
            )
            shutil.rmtree(output)
    ratios = [
        statistics.median(each / alone for each, alone in zip(all_of, plain, strict=True))
        for all_of in learned.values()
    ]
    shown = ", ".join(f"{base} {ratio:.2f}" for base, ratio in zip(BASES, ratios, strict=True))
    seconds = statistics.median(plain)
    print(f"{case.what}, {seconds:.1f} s: {shown}", flush=True)
    return {"what": case.what, "is_long": case.is_long, "seconds": seconds, "ratios": ratios}


def cpu(command):
    """Seconds of CPU time of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [str(each) for each in command]
    subprocess.run(line, check=True, capture_output=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def page(results, repeats):
    text = f"""# What learning takes

`scripts/experiments placement learning` runs programs by themselves and under `memtrace place
learn`, in turns, {repeats} times each. The ratio is that of CPU times, memtrace's own included: the
median of the pairs. At most {MOST} are wanted of runs of five seconds and more: huge pages keep to
that, swap does not. `learn` runs the program twice, so that two are the least; shorter runs are
beside them to show what it takes whatever the program does.

"""
    names = ["program", "by itself", *(f"`--base {base}`" for base in BASES)]
    rows = [
        [each["what"], f"{each['seconds']:.1f} s", *(f"{ratio:.2f}" for ratio in each["ratios"])]
        for each in results
    ]
    return text + table(names, rows) + "\n"
