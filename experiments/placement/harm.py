"""Programs with less memory than they need, whatever they do with it: a plan must not slow them
down.

The programs are twelve of the other studies: the first by name of those that there were. Each runs
at five shares of its peak, with a plan and by itself, by turns.
"""

import math
import random
import statistics
import tempfile
import time
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.limited import Limited
from experiments.placement.swap_device import swap
from experiments.recording import RESULTS

REPEATS = 5
SHARES = (0.95, 0.9, 0.8, 0.7, 0.6)
LEAST = 0.97
#: Rounds that take about a third of a second in memory.
ROUNDS = {
    "adam.py": 4,
    "attention.py": 1,
    "chase.c": 1,
    "dips.py": 1,
    "elements.c": 20,
    "grades.cpp": 1,
    "hash.c": 1,
    "joins.cpp": 1,
    "layers.f90": 1,
    "mlp.py": 20,
    "panels.f90": 10,
    "ranks.c": 1,
}
#: Programs that read memory in no order take minutes where a tenth of it is missing: after so many
#: seconds, a case begins no further pair. Short runs differ more from one to the next: they are
#: repeated more often, for so many seconds.
MOST_SECONDS, SHORT_SECONDS, MOST_REPEATS = 40, 15, 25


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    results = []
    with swap():
        for file in ROUNDS:
            results += measured(file, repeats)
            if not arguments.quick:
                (RESULTS / "placement-harm.md").write_text(page(results))
    return all(holds(each) for each in results)


def measured(file, repeats):
    with tempfile.TemporaryDirectory() as folder:
        program = Limited(file, Path(folder), ROUNDS[file])
        for share in SHARES:
            result = compared(program, program.share(share), repeats)
            result |= {"file": file, "share": share}
            print(line(result), flush=True)
            yield result


def compared(program, limit, repeats):
    told = program.plan(limit)
    began, pairs = time.monotonic(), []
    while not pairs or wants_more(len(pairs), repeats, time.monotonic() - began):
        runs = [program.bare, program.placed]
        turns = random.Random(limit + len(pairs)).sample((0, 1), 2)
        taken = [math.inf, math.inf]
        for turn in turns:
            run = runs[turn](limit)
            if run:
                assert run.output == program.whole.output
                taken[turn] = run.seconds
        pairs.append(taken)
    alone, planned = (statistics.median(each) for each in zip(*pairs, strict=True))
    return {
        "pairs": len(pairs),
        "alone": alone,
        "planned": planned,
        # Where the kernel kills it both times, a plan has made nothing worse.
        "ratio": 1 if alone == planned else alone / planned,
        "told": told,
    }


def wants_more(pairs, repeats, seconds):
    few = pairs < repeats and seconds < MOST_SECONDS
    return few or (repeats == REPEATS and pairs < MOST_REPEATS and seconds < SHORT_SECONDS)


def holds(result):
    return result["ratio"] >= LEAST


def line(result):
    return (
        f"{result['file']} at {result['share']}: {result['ratio']:.2f} "
        f"({result['alone']:.2f} s alone, {result['planned']:.2f} s planned), "
        f"{result['pairs']} pairs; "
        f"{len(result['told']['moves'])} moves; {result['told']['notes']}"
    )


def seconds(taken):
    return f"{taken:.2f}" if math.isfinite(taken) else "killed"


def cells(result):
    told = result["told"]
    return [
        result["file"],
        f"{result['share']:g}",
        seconds(result["alone"]),
        seconds(result["planned"]),
        f"{result['ratio']:.2f}",
        result["pairs"],
        "moves" if told["worth"] else "nothing",
        f"{told['seconds']['slow'] / told['seconds']['planned']:.2f}" if told["worth"] else "",
        "; ".join(told["notes"]),
    ]


def page(results):
    names = ["program", "share", "alone, s", "with a plan, s", "ratio", "pairs"]
    names += ["the plan does", "told", "notes"]
    least = min(result["ratio"] for result in results)
    wrong = sum(not holds(result) for result in results)
    moved = [result["ratio"] for result in results if result["told"]["worth"]]
    same = [result["ratio"] for result in results if not result["told"]["worth"]]
    return f"""# No harm

`scripts/experiments placement harm` runs twelve programs (of experiments/placement/programs the
first by name when the study was made) at five shares of the memory that they take at their peak,
with swap: by themselves, and with a plan (`memtrace place learn --base swap,dram`, `place plan`,
`place run`), by turns. Each figure is the median of {REPEATS} runs, fewer where they take longer
than {MOST_SECONDS} s together, and up to {MOST_REPEATS} where those take less than
{SHORT_SECONDS} s.
Times are CPU seconds of the program and of the kernel on its behalf. *Ratio* is the time alone by
the time with the plan: above 1 the plan gains. Wanted: {LEAST} at least. *Told* is the ratio that
the plan says beforehand. Most plans do nothing, and say why.

The least of {len(results)} ratios is {least:.2f}; {wrong} are below {LEAST}. Of the {len(moved)}
plans that move blocks the least ratio is {min(moved):.2f}. The other {len(same)} start the program
as it is: their median is {statistics.median(same):.2f}, and what is below comes from the spread of
short runs beside swap and from the start of memtrace.

{table(names, map(cells, results))}
"""
