"""Tasks that share memory: how many complete, and how fast, with a plan for each and without.

Each task takes 64 MiB of weights in turn; together they have the memory of three. Without swap the
kernel kills those that do not fit. With swap all complete; with a plan for its share of the memory,
each moves what it needs last.
"""

import json
import math
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from experiments.chunks.tables import table
from experiments.control_group import group
from experiments.placement.limited import ENVIRONMENT, PAGE, Limited, limit_group
from experiments.placement.swap_device import swap
from experiments.recording import MEMTRACE, RESULTS

REPEATS = 5
BYTES = 215_000_000
ROUNDS, LAYERS = 20, 16
COUNTS = (1, 2, 3, 4, 6, 16)
THROUGHPUT = 2.3
#: Of a task's memory, for what a group is charged beside it.
OF_SHARE = 0.97


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    with swap(), tempfile.TemporaryDirectory() as folder:
        program = Limited("weights.c", Path(folder), ROUNDS, LAYERS)
        results = []
        for count in COUNTS:
            results.append(compared(program, Path(folder), count, repeats))
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
    return {
        "tasks": count,
        "worth": told["worth"],
        "told": told["seconds"]["slow"] / told["seconds"]["planned"],
        "one": statistics.median(one(program, share) for _ in range(repeats))
        if told["worth"]
        else math.nan,
        "completed": {kind: min(done for done, _ in taken) for kind, taken in runs.items()},
        "seconds": {
            kind: statistics.median(each for _, each in taken) for kind, taken in runs.items()
        },
    }


def one(program, share):
    """What the plan gains a task that has its share of the memory to itself, in CPU time."""
    by_itself, planned = program.bare(share), program.placed(share)
    return by_itself.seconds / planned.seconds if by_itself and planned else math.nan


def together(program, folder, count, kind):
    """How many of the tasks complete, and the seconds until all of them have ended."""
    with group() as each:
        limit_group(each, BYTES, forbids=kind == "no swap")
        line = each.entered_by(program.command)
        begin, tasks = time.monotonic(), []
        for number in range(count):
            planned = [MEMTRACE, "place", "run", "-q", folder / "plan.json", "-f"]
            planned += ["-o", folder / f"trace-{number}", "--"]
            command = [*map(str, planned), *line] if kind == "planned" else line
            tasks.append(
                subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT
                )
            )
        outputs = [task.communicate()[0] for task in tasks]
        seconds = time.monotonic() - begin
    whole = [not task.returncode for task in tasks]
    expected = program.whole.output
    assert all(output == expected for output, ok in zip(outputs, whole, strict=True) if ok)
    return sum(whole), seconds if all(whole) else math.inf


def alone(results):
    """The most tasks that complete without swap."""
    return max(each["tasks"] for each in results if each["completed"]["no swap"] == each["tasks"])


def gain(result):
    return result["seconds"]["swap"] / result["seconds"]["planned"]


def holds(results):
    complete = [each for each in results if each["completed"]["planned"] == each["tasks"]]
    twice = max(each["tasks"] for each in complete) >= 2 * alone(results)
    return twice and all(gain(each) >= THROUGHPUT for each in results if each["tasks"] in (4, 6))


def cells(result):
    def taken(kind):
        seconds, completed = result["seconds"][kind], result["completed"][kind]
        if math.isfinite(seconds):
            return f"{result['tasks'] / seconds:.2f}"
        return f"{completed} of {result['tasks']} complete"

    return [
        result["tasks"],
        taken("no swap"),
        taken("swap"),
        taken("planned"),
        f"{gain(result):.2f}",
        f"{result['told']:.2f}" if result["worth"] else "nothing to move",
        f"{result['one']:.2f}" if result["worth"] else "",
    ]


def page(results, repeats):
    names = ["tasks", "no swap", "the kernel swaps", "a plan for each", "gain"]
    names += ["told", "one alone"]
    return f"""# Tasks that share memory

`scripts/experiments placement tasks` runs tasks at one time in a control group of
{BYTES // 1_000_000} MB: each goes through {LAYERS * 4} MiB of weights in turn, {ROUNDS} times. The
table has the tasks that complete in a second of wall-clock time, medians of {repeats} runs,
recorders included where there is a plan. A plan is made for an equal share of the memory, and each
task follows it by itself (`memtrace place run`). *Told* is the gain that `place plan` says
beforehand for a task alone; *one alone* is what is measured where one task has its share of the
memory to itself, in CPU time.

{table(names, map(cells, results))}

Without swap {alone(results)} tasks complete together. Wanted: twice as many with plans, and
{THROUGHPUT} times the kernel's throughput with 4 and 6 tasks.
"""
