"""Programs with less memory than they need: pages that go to swap as planned, and as the kernel
does it by itself.

Each program is learned once without a limit. Then it runs in a control group with a share of its
peak, without and with the plan, by turns. Times are CPU seconds of the program with what the kernel
does on its behalf, the recorder's left out.
"""

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from experiments.chunks.tables import table
from experiments.control_group import group
from experiments.placement.catalogue import PROGRAMS, built
from experiments.placement.swap_device import swap
from experiments.recording import MEMTRACE, RESULTS, memtrace

REPEATS = 5


@dataclass(frozen=True)
class Case:
    """A program, and what it is to gain at shares of its peak."""

    file: str
    what: str
    rounds: int
    wanted: dict


CASES = [
    Case("weights.c", "cyclic weights, C", 40, {0.9: 7, 0.75: 4, 0.5: 3}),
    Case("adam.py", "network with Adam, NumPy", 12, {0.8: 1.4, 0.7: 1.4, 0.6: 1.4}),
    Case("attention.py", "transformer step, NumPy", 5, {0.8: 1.3, 0.6: 1.3}),
    Case("panels.f90", "power method, Fortran", 15, {0.8: 1.3, 0.6: 1.3}),
]


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    results = []
    with swap():
        for case in CASES:
            results += measured(case, repeats)
            if not arguments.quick:
                (RESULTS / "placement-swap.md").write_text(page(results, repeats))
    return all(holds(each) for each in results)


def measured(case, repeats):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        command = program(case, folder)
        learned = ("-o", folder / "learned", "--", *command)
        memtrace("place", "learn", "--base", "swap,dram", *learned, environment=ENVIRONMENT)
        whole = bare(command, None)
        for share, wanted in case.wanted.items():
            limit = int(whole["peak"] * share) >> 12 << 12
            result = compared(folder, command, limit, whole, repeats)
            result |= {"what": case.what, "share": share, "wanted": wanted}
            print(line(result), flush=True)
            yield result


def program(case, folder):
    source = PROGRAMS / case.file
    if source.suffix == ".py":
        return [sys.executable, str(source), str(case.rounds)]
    return [str(built(source, folder)), str(case.rounds)]


def compared(folder, command, limit, whole, repeats):
    learned, plan = folder / "learned", folder / "plan.json"
    told = json.loads(memtrace("place", "plan", learned, "--fast", limit, "-o", plan, "--json"))
    times = {"kernel": [], "planned": [], "forbidden": [], "forbidden planned": []}
    order = [kind for kind in times for _ in range(repeats)]
    random.Random(limit).shuffle(order)
    for kind in order:
        forbids = kind.startswith("forbidden")
        if kind.endswith("planned"):
            run = placed(folder, command, limit, forbids)
        else:
            run = bare(command, limit, forbids)
        assert run is None or run["output"] == whole["output"], kind
        times[kind].append(run["seconds"] if run else math.inf)
    middle = {kind: statistics.median(taken) for kind, taken in times.items()}
    return {
        "limit": limit,
        "whole": whole["seconds"],
        "told": told["seconds"],
        "notes": told["notes"],
        "moves": len(told["moves"]),
        "gain": middle["kernel"] / middle["planned"],
        "kernel": middle["kernel"],
        "planned": middle["planned"],
        "completed": {kind: sum(map(math.isfinite, taken)) for kind, taken in times.items()},
    }


#: Idle threads of OpenBLAS spin: with them, pages that move cost both processors time.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def bare(command, limit, forbids=False):
    """CPU seconds, output and peak of the program itself; None if the kernel killed it."""
    with group() as each:
        limited(each, limit, forbids)
        line = each.entered_by(command)
        with subprocess.Popen(line, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
            output = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            return None
        return {
            "seconds": used.ru_utime + used.ru_stime,
            "output": output,
            "peak": each.peak_bytes(),
        }


def placed(folder, command, limit, forbids):
    """The same with the plan."""
    trace = folder / "trace"
    with group() as each:
        limited(each, limit, forbids)
        line = [MEMTRACE, "place", "run", folder / "plan.json", "-f", "-o", trace, "--"]
        done = subprocess.run(
            [*map(str, line), *each.entered_by(command)],
            capture_output=True,
            check=False,
            env=ENVIRONMENT,
        )
        if done.returncode:
            return None
    meta = json.loads((trace / "meta.json").read_text())
    seconds = (meta["user_ns"] + meta["system_ns"]) / 1e9
    return {"seconds": seconds, "output": done.stdout}


def limited(each, limit, forbids):
    if limit and forbids:
        each.limit(limit)
    elif limit:
        each.limit_with_swap(limit)


def holds(result):
    completed = result["completed"]
    return result["gain"] >= result["wanted"] and (
        completed["forbidden planned"] == completed["planned"]
    )


def line(result):
    told = result["told"]
    return (
        f"{result['what']} at {result['share']}: {result['gain']:.2f} times "
        f"({result['wanted']} wanted), kernel {result['kernel']:.2f} s (told {told['slow']:.2f}), "
        f"planned {result['planned']:.2f} s (told {told['planned']:.2f}), all in memory "
        f"{result['whole']:.2f} s; without swap {result['completed']}; {result['notes']}"
    )


def seconds(taken):
    return f"{taken:.2f}" if math.isfinite(taken) else "killed"


def cells(result, repeats):
    told, completed = result["told"], result["completed"]
    return [
        result["what"],
        f"{result['share']:g}",
        f"{result['whole']:.2f}",
        f"{seconds(result['kernel'])} ({told['slow']:.2f})",
        f"{seconds(result['planned'])} ({told['planned']:.2f})",
        "" if math.isnan(result["gain"]) else f"{result['gain']:.2f}",
        f"{result['wanted']:g}",
        *(f"{completed[kind]} of {repeats}" for kind in completed),
        "; ".join(result["notes"]),
    ]


def page(results, repeats):
    names = ["program", "share", "in memory, s", "kernel, s (told)", "planned, s (told)", "gain"]
    names += ["wanted", "completes", "with the plan", "no swap", "no swap, with the plan", "notes"]
    return f"""# Memory and swap

`scripts/experiments placement swapping` runs programs in a control group with a share of the memory
that they take at their peak: by themselves, where the kernel swaps out what was used longest ago,
and with a plan (`memtrace place learn --base swap,dram`, `place plan`, `place run`). Swap is
compressed memory (zram). Each figure is the median of {repeats} runs, in a random order; times are
CPU seconds of the program and of the kernel on its behalf, in parentheses what the plan says
beforehand. *Completes* counts runs that the kernel did not kill; *no swap* are runs in which it may
not swap anything by itself (swappiness 0). NumPy's library has one thread. All runs that completed
printed the same result. *Killed* stands where most runs were; the gain is then without limit.

{table(names, (cells(result, repeats) for result in results))}
"""
