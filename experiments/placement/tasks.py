"""Tasks that share memory: how many complete, and how fast, with a plan for each and without.

Each task takes 64 MiB of weights in turn; together they have the memory of three. Without swap the
kernel kills those that do not fit. With swap all complete; with a plan for its share of the memory,
each moves what it needs last. Tasks that begin together end soon: where the kernel lets all but one
run from memory, those end, and the last has the memory to itself. So as many tasks at a time are
also run one after another.
"""

import json
import math
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from experiments.chunks.tables import table
from experiments.control_group import group
from experiments.placement.limited import ENVIRONMENT, PAGE, Limited, limit_group
from experiments.placement.swap_device import swap
from experiments.recording import RESULTS

REPEATS = 5
#: Sixteen tasks take minutes.
MANY, REPEATS_OF_MANY = 16, 2
BYTES = 215_000_000
ROUNDS, LAYERS = 20, 16
COUNTS = (1, 2, 3, 4, 6, MANY)
THROUGHPUT = 2.3
#: So many at a time, each of them so often one after another.
GOING_ON, OFTEN = (3, 4, 6), 3
#: Of a task's memory, for what a group is charged beside it.
OF_SHARE = 0.97


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    with swap(), tempfile.TemporaryDirectory() as folder:
        program = Limited("weights.c", Path(folder), ROUNDS, LAYERS)
        results = []
        for count in COUNTS:
            few = min(repeats, REPEATS_OF_MANY) if count == MANY else repeats
            results.append(compared(program, Path(folder), count, few))
            print(json.dumps(results[-1]), flush=True)
    if not arguments.quick:
        (RESULTS / "placement-tasks.md").write_text(page(results, repeats))
    return holds(results)


def compared(program, folder, count, repeats):
    share = int(BYTES / count * OF_SHARE) // PAGE * PAGE
    told = program.plan(share)
    runs = {"no swap": [], "swap": [], "planned": []}
    for _ in range(repeats):
        for kind, taken in runs.items():
            taken.append(together(program, folder, count, kind))
    going_on = {"swap": [], "planned": []}
    for _ in range(repeats if count in GOING_ON else 0):
        for kind, taken in going_on.items():
            taken.append(together(program, folder, count, kind, OFTEN))
    return {
        "tasks": count,
        "worth": told["worth"],
        "told": told["seconds"]["slow"] / told["seconds"]["planned"],
        "one": statistics.median(one(program, share) for _ in range(repeats))
        if told["worth"]
        else math.nan,
        "completed": {kind: min(done for done, _ in taken) for kind, taken in runs.items()},
        "seconds": {kind: [each for _, each in taken] for kind, taken in runs.items()},
        "going on": {kind: [each for _, each in taken] for kind, taken in going_on.items()},
    }


def one(program, share):
    """What the plan gains a task that has its share of the memory to itself, in CPU time."""
    by_itself, planned = program.bare(share), program.placed(share)
    return by_itself.seconds / planned.seconds if by_itself and planned else math.nan


def together(program, folder, count, kind, often=1):
    """How many of the tasks complete, so many at a time, and the seconds until all have ended."""

    def tasks(number):
        command = line
        if kind == "planned":
            command = program.planned(folder / f"trace-{number}", line)
        keywords = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT}
        return [subprocess.run(command, check=False, **keywords) for _ in range(often)]

    with group() as limited:
        limit_group(limited, BYTES, forbids=kind == "no swap")
        line = limited.entered_by(program.command)
        begin = time.monotonic()
        with ThreadPoolExecutor(count) as workers:
            ended = [task for done in workers.map(tasks, range(count)) for task in done]
        seconds = time.monotonic() - begin
    whole = [task for task in ended if not task.returncode]
    assert all(task.stdout == program.whole.output for task in whole)
    return len(whole), seconds if len(whole) == len(ended) else math.inf


def alone(results):
    """The most tasks that complete without swap."""
    return max(each["tasks"] for each in results if each["completed"]["no swap"] == each["tasks"])


def gain(result, which="seconds"):
    kernel, planned = (statistics.median(result[which][kind]) for kind in ("swap", "planned"))
    return kernel / planned


def holds(results):
    complete = [each for each in results if each["completed"]["planned"] == each["tasks"]]
    twice = max(each["tasks"] for each in complete) >= 2 * alone(results)
    return twice and all(gain(each) >= THROUGHPUT for each in results if each["tasks"] in (4, 6))


def cells(result):
    def taken(kind):
        if result["completed"][kind] < result["tasks"]:
            return f"{result['completed'][kind]} of {result['tasks']} complete"
        return throughput(result["tasks"], result["seconds"][kind])

    return [
        result["tasks"],
        taken("no swap"),
        taken("swap"),
        taken("planned"),
        f"{gain(result):.2f}",
        f"{result['told']:.2f}" if result["worth"] else "nothing to move",
        f"{result['one']:.2f}" if result["worth"] else "",
    ]


def throughput(tasks, seconds):
    """Tasks in a second: the median, and the least and the most."""
    least, most = (tasks / bound(seconds) for bound in (max, min))
    return f"{tasks / statistics.median(seconds):.2f} ({least:.2f} to {most:.2f})"


def going_on(result):
    kinds = [
        throughput(OFTEN * result["tasks"], result["going on"][kind])
        for kind in ("swap", "planned")
    ]
    return [result["tasks"], *kinds, f"{gain(result, 'going on'):.2f}"]


def page(results, repeats):
    names = ["tasks", "no swap", "the kernel swaps", "a plan for each", "gain"]
    names += ["told", "one alone"]
    often = ["at a time", "the kernel swaps", "a plan for each", "gain"]
    longer = [each for each in results if each["tasks"] in GOING_ON]
    return f"""# Tasks that share memory

`scripts/experiments placement tasks` runs tasks at one time in a control group of
{BYTES // 1_000_000} MB: each goes through {LAYERS * 4} MiB of weights in turn, {ROUNDS} times. The
table has the tasks that complete in a second of wall-clock time, medians of {repeats} runs (of
{MANY} tasks {REPEATS_OF_MANY}), with the least and the most; recorders are included where there is
a plan. A plan is made for an equal share of the memory, and each task follows it by itself
(`memtrace place run`). *Told* is the gain that `place plan` says beforehand for a task alone; *one
alone* is what is measured where one task has its share of the memory to itself, in CPU time.

{table(names, map(cells, results))}

Tasks that begin together end soon: where the kernel lets all but one run from memory, those end,
and the last has the memory to itself. That is chance. Here as many tasks run at a time, each
{OFTEN} times one after another:

{table(often, map(going_on, longer))}

Without swap {alone(results)} tasks complete together. Wanted: twice as many with plans, and
{THROUGHPUT} times the kernel's throughput with 4 and 6 tasks: {"yes" if holds(results) else "no"}.
"""
