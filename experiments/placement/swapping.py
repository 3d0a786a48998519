"""Programs with less memory than they need: pages that go to swap as planned, and as the kernel
does it by itself.

Each program is learned once without a limit. Then it runs in a control group with a share of its
peak, without and with the plan, by turns. Times are CPU seconds of the program with what the kernel
does on its behalf, the recorder's left out.
"""

import math
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.limited import PAGE, Limited
from experiments.placement.swap_device import swap
from experiments.recording import RESULTS

REPEATS = 5
PAGES_ERROR = 0.02
MEAN_TIME_ERROR = 0.044


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
    Case("attention.py", "transformer step, NumPy", 5, {0.8: 1.3, 0.7: 1.3, 0.6: 1.3}),
    Case("panels.f90", "power method, Fortran", 15, {0.8: 1.3, 0.7: 1.3, 0.6: 1.3}),
    Case("convolutions.py", "convolutions, NumPy", 4, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
    Case("sweeps.cpp", "symmetric sweeps, C++", 15, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
    # First run after plans told how much of a block is written; blocks used in part count as
    # uncertain since.
    Case("factors.cpp", "factors of a matrix, C++", 6, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
    Case("windows.py", "series, NumPy", 10, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
    # Written after the planner's last change and before their first run: an order that suits the
    # kernel (last used, first used again), and one that does not.
    Case("adjoint.f90", "gradient of waves, Fortran", 12, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
    Case("clusters.py", "k-means, NumPy", 8, {0.8: 0.97, 0.7: 0.97, 0.6: 0.97}),
]


def main(arguments):
    repeats = 2 if arguments.quick else REPEATS
    results = []
    with swap():
        for case in CASES:
            results += measured(case, repeats)
            if not arguments.quick:
                (RESULTS / "placement-swap.md").write_text(page(results, repeats))
    return all(holds(each) for each in results) and is_told(results)


def measured(case, repeats):
    with tempfile.TemporaryDirectory() as folder:
        program = Limited(case.file, Path(folder), case.rounds)
        for share, wanted in case.wanted.items():
            result = compared(program, program.share(share), repeats)
            result |= {"what": case.what, "share": share, "wanted": wanted}
            print(line(result), flush=True)
            yield result


def compared(program, limit, repeats):
    told = program.plan(limit)
    runs = {kind: [] for kind in ("kernel", "planned", "forbidden", "forbidden planned")}
    order = [kind for kind in runs for _ in range(repeats)]
    random.Random(limit).shuffle(order)
    for kind in order:
        run = program.placed if kind.endswith("planned") else program.bare
        runs[kind].append(run(limit, kind.startswith("forbidden")))
    outputs = {run.output for some in runs.values() for run in some if run}
    assert outputs <= {program.whole.output}, outputs
    seconds = {kind: middle([run and run.seconds for run in some]) for kind, some in runs.items()}
    return {
        "whole": program.whole.seconds,
        "told": told,
        "gain": seconds["kernel"] / seconds["planned"],
        "seconds": seconds,
        "pages": {
            kind: [middle([run and run.written for run in runs[kind]])]
            + [middle([run and run.back for run in runs[kind]])]
            for kind in ("kernel", "planned")
        },
        "completed": {kind: sum(run is not None for run in some) for kind, some in runs.items()},
    }


def middle(numbers):
    """The median, where a run that was killed counts as infinite."""
    return statistics.median([math.inf if number is None else number for number in numbers])


def holds(result):
    completed = result["completed"]
    return result["gain"] >= result["wanted"] and (
        completed["forbidden planned"] == completed["planned"]
    )


def is_told(results):
    """Whether pages and times are as they were told."""
    pages = [
        abs(told / took - 1)
        for each in results
        for kind in each["pages"]
        if is_followed(each, kind)
        for told, took in zip(told_pages(each, kind), each["pages"][kind], strict=True)
        if math.isfinite(took) and took
    ]
    errors = [abs(error) for error in calibrated(results).values()]
    return max(pages) <= PAGES_ERROR and statistics.mean(errors) <= MEAN_TIME_ERROR


def is_followed(result, kind):
    """Whether these runs make the moves that are told: a plan that gains nothing has none."""
    return kind == "kernel" or result["told"]["worth"]


def told_pages(result, kind):
    moved = result["told"]["traffic"][kind]
    return [moved["written_bytes"] // PAGE, moved["back_bytes"] // PAGE]


def calibrated(results):
    """Errors of the times that are told, once each program's limit in the middle sets the costs:
    {(program, share, kind): error}."""
    errors = {}
    for what in {each["what"] for each in results}:
        of_program = [each for each in results if each["what"] == what]
        reference = of_program[len(of_program) // 2]
        for kind, name in (("kernel", "slow"), ("planned", "planned")):

            def moving(each, kind=kind, name=name):
                seconds, fast = each["told"]["seconds"], each["whole"]
                return seconds[name] - seconds["fast"], each["seconds"][kind] - fast

            told, took = moving(reference)
            for each in of_program:
                if each is reference or not all(map(math.isfinite, (took, moving(each)[1]))):
                    continue
                if not (is_followed(each, kind) and is_followed(reference, kind)):
                    continue
                estimate = each["whole"] + moving(each)[0] * took / told
                errors[what, each["share"], kind] = estimate / each["seconds"][kind] - 1
    return errors


def line(result):
    told = result["told"]["seconds"]
    return (
        f"{result['what']} at {result['share']}: {result['gain']:.2f} times "
        f"({result['wanted']} wanted), kernel {result['seconds']['kernel']:.2f} s "
        f"(told {told['slow']:.2f}), planned {result['seconds']['planned']:.2f} s "
        f"(told {told['planned']:.2f}), all in memory {result['whole']:.2f} s; "
        f"{result['completed']}; pages {result['pages']} (told {told_pages(result, 'kernel')}, "
        f"{told_pages(result, 'planned')}); {result['told']['notes']}"
    )


def seconds(taken):
    return f"{taken:.2f}" if math.isfinite(taken) else "killed"


def gains(result, repeats):
    told, completed = result["told"]["seconds"], result["completed"]
    return [
        result["what"],
        f"{result['share']:g}",
        f"{result['whole']:.2f}",
        f"{seconds(result['seconds']['kernel'])} ({told['slow']:.2f})",
        f"{seconds(result['seconds']['planned'])} ({told['planned']:.2f})",
        "" if math.isnan(result["gain"]) else f"{result['gain']:.2f}",
        f"{result['wanted']:g}",
        *(f"{completed[kind]} of {repeats}" for kind in completed),
        "; ".join(result["told"]["notes"]),
    ]


def estimates(result, errors):
    cells = [result["what"], f"{result['share']:g}"]
    for kind in ("kernel", "planned"):
        if not is_followed(result, kind):
            cells += ["", "", ""]
            continue
        for told, took in zip(told_pages(result, kind), result["pages"][kind], strict=True):
            error = f" ({told / took - 1:+.1%})" if math.isfinite(took) and took else ""
            cells.append(f"{told:,}{error}")
        error = errors.get((result["what"], result["share"], kind))
        cells.append("" if error is None else f"{error:+.1%}")
    return cells


def page(results, repeats):
    names = ["program", "share", "in memory, s", "kernel, s (told)", "planned, s (told)", "gain"]
    names += ["wanted", "completes", "with the plan", "no swap", "no swap, with the plan", "notes"]
    told = ["program", "share", "kernel: pages out", "pages back", "time"]
    told += ["plan: pages out", "pages back", "time"]
    errors = calibrated(results)
    mean = statistics.mean(map(abs, errors.values())) if errors else math.nan
    return f"""# Memory and swap

`scripts/experiments placement swapping` runs programs in a control group with a share of the memory
that they take at their peak: by themselves, where the kernel swaps out what was used longest ago,
and with a plan (`memtrace place learn --base swap,dram`, `place plan`, `place run`). Swap is
compressed memory (zram). Each figure is the median of {repeats} runs, in a random order; times are
CPU seconds of the program and of the kernel on its behalf, in parentheses what the plan says
beforehand. *Completes* counts runs that the kernel did not kill; *no swap* are runs in which it may
not swap anything by itself (swappiness 0). NumPy's library has one thread. All runs that completed
printed the same result. *Killed* stands where most runs were; the gain is then without limit.

{table(names, (gains(result, repeats) for result in results))}

## What is told beforehand

Pages that `place plan` says would be written to swap and read back, with what it is off by
(estimate / measured − 1; wanted: {PAGES_ERROR:.0%}). Of the times, the limit in the middle of each
program's sets what a page costs; the table has the error of the time at the others. What the kernel
killed is left out, and what has no moves planned. Pages of zeroes count, too, which Linux does not
write since 6.13 but notes. The last two programs were
written after what the planner was then and before their first run. What k-means lost where the
kernel may not swap has been looked at since ([0015](../design/0015-placement.md)). The mean of
{len(errors)} errors is {mean:.1%} (wanted: {MEAN_TIME_ERROR:.1%}).

{table(told, (estimates(result, errors) for result in results))}
"""
