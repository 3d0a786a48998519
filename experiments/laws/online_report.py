"""What the online-learning study writes."""

import numpy as np

from experiments.laws import online_policies, online_tasks, online_warnings
from experiments.operators import OPERATORS

ENOUGH = 1.2


def good(rows):
    """Repeats that end within 1.2 of the optimum without a task over the budget, of 100."""
    return 100 * np.mean((rows[:, 0] <= ENOUGH) & (rows[:, 2] == 0))


def ratio_at(ratios, part):
    """A quantile of ratios to the optimum; a choice that does not fit has none."""
    value = np.quantile(ratios, part, method="higher")
    return f"{value:.2f}" if np.isfinite(value) else "does not fit"


def percent(part):
    return f"{100 * part:.1f} %"


def table(heads, rows):
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines)


def report(targets, compared, ours, warnings, tasks, seeds, baseline_seeds):
    rows = [
        (what, target, measured, "yes" if holds else "**no**")
        for what, target, measured, holds in targets
    ]
    by_policy = []
    for policy in online_policies.POLICIES:
        all_rows = np.concatenate(
            [found for (each, _), found in compared.items() if each is policy]
        )
        ratio, regret, over, failed, waste = all_rows.T
        by_policy.append(
            (
                policy.name,
                f"{good(all_rows):.1f}",
                ratio_at(ratio, 0.5),
                ratio_at(ratio, 0.95),
                f"{np.mean(regret):.2f}",
                f"{np.mean(over):.2f}",
                f"{np.mean(failed):.2f}",
                f"{np.median(waste):.2f}",
            )
        )
    cases = []
    for (name, workers, budget), value in ours.items():
        found = compared[online_policies.Chooser, (name, workers, budget)]
        last = (
            ratio_at(found[:, 0], 0.5),
            ratio_at(found[:, 0], 0.95),
            int((found[:, 2] > 0).sum()),
        )
        cases.append((name, workers, f"{budget / 1e6:.1f} MB", f"{value:.0f}", *last))
    spans = []
    for label, own in warnings.items():
        share = online_warnings.share
        missed = sorted({name for name, _ in own["missed"]})
        figures = [percent(share(own[key])) for key in ("in_time", "before", "under", "alarms")]
        spans.append((label, len(own["in_time"]), *figures, ", ".join(missed)))
    return TEXT.format(
        targets=table(("what", "target", "measured", "holds"), rows),
        policies=table(
            (
                "policy",
                "good of 100",
                "final / optimum, median",
                "95 %",
                "regret per task",
                "tasks over budget",
                "failed attempts",
                "wasted / used",
            ),
            by_policy,
        ),
        cases=table(
            (
                "operator",
                "workers",
                "budget",
                "good of 100",
                "final / optimum, median",
                "95 %",
                "repeats over budget",
            ),
            cases,
        ),
        spans=table(
            (
                "spans",
                "cases that exceed",
                "warned before 80 %",
                "before the budget was passed",
                "where the law said it fits",
                "false alarms",
                "operators with a miss",
            ),
            spans,
        ),
        tasks=tasks,
        seeds=seeds,
        baseline_seeds=baseline_seeds,
        operators=len(OPERATORS),
        file=online_tasks.FILE.name,
        shape="×".join(map(str, online_tasks.SHAPE)),
        exceeded=", ".join(map(str, online_warnings.EXCEEDED)),
        within=", ".join(map(str, online_warnings.KEPT_WITHIN)),
    )


TEXT = """# Learning while running

`scripts/experiments laws online` writes this page. What is learned and how:
[learning.md](../learning.md).

{targets}

## Chunk choices

The tasks are recorded ones (`experiments/laws/{file}`, made by `python -m
experiments.laws.online_tasks`): six operators on the blocks of a {shape} float32 array, working
peaks as memtrace recorded them, seconds of processor time. A replayed task needs what one of its
recorded calls needed, drawn at random; it takes the mean of its calls times the noise of a call
drawn from all of the operator's. A job's time is the tasks of the busiest worker times the time
of a task. {tasks} tasks from nothing known, {seeds} seeded repeats per case ({baseline_seeds} of the
policies it is compared with); budgets of a task
are 1/8, 1/4 and 1/2 of what the whole array as one chunk needs. *Good*: the chunk held to be best
after {tasks} tasks takes at most 1.2 times the best fitting chunk's job time, and no task went
over the budget. *Regret*: job time at the chunk of a task over the optimum, less 1. *Wasted*: Σ
(allocated − needed)·time over Σ needed·time, all of a failed attempt counted.

{policies}

*Final*: "does not fit" where the chunk held to be best needs more than the budget. The offline law
knows the bytes of every chunk from five recorded runs before the first task, which do not count
here; the others know nothing. Witt and Sizey predict bytes only and have no notion of a chunk that is
not safe to try: how they are made to choose chunks, in their favour where the papers are silent, is
said in `experiments/laws/online_policies.py`. Q-learning tries at random until it has tried
everything.

### memtrace's chooser, case by case

{cases}

## Warnings while a span runs

{operators} operators, laws from four float32 runs of at most 59³; spans of two larger shapes
each, replayed event by event (blocks of 4 KiB and more). A span counts once for each budget:
{exceeded} of what it needs (it exceeds), {within} (it does not). The law is asked for the shape
that is announced. *Where the law said it fits*: only those spans whose law, before the first
event, said that the budget would do; there what was seen has to tell. *Before the budget was
passed*: the warning came while the span still held less than its budget.

{spans}

Most false alarms are those of a law that was made for another dtype and does not know it: where it takes
the first blocks, twice as large, for a sign that all will be, operators that compute in one dtype
whatever their input's are predicted too much. Most misses are of operators whose peak is their
last event (matrix products have one or two events in all, equalisation a regression without
steps): there is nothing to see before it.
"""
