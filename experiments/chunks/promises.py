"""Promises on chunks: twelve jobs under three limits, in the chunks that memtrace chooses."""

import json
import statistics

from dask.utils import parse_bytes

from experiments.chunks import tables
from experiments.chunks.promises_jobs import JOBS, LIMITS, LOOKED_AT
from experiments.chunks.runs import in_a_process, kept
from experiments.recording import RESULTS

PART = "promises"
PAGE = RESULTS / "chunks-promises.md"
QUICK = ("join", "series", "signal")
#: Dask lets a worker use this part of its limit before it spills.
USABLE = 0.7
MOST_OVER, MOST_CPU = 1.25, 1.15
LONGEST_SECONDS = 900
#: A part of the budget, and a ratio of times.
NEARLY, AS_FAST = 0.95, 1.1
#: What the first run of this study found before anything was mended: cases whose memory held.
FIRST = {"looked at": "12 of 18", "untouched": "18 of 18"}


def main(arguments):
    names, limits = (QUICK, LIMITS[:1]) if arguments.quick else (JOBS, LIMITS)
    cases = [case for name in names for case in measured(name, limits)]
    holds = checks(cases)
    if not arguments.quick:
        PAGE.write_text(text(cases, holds), encoding="utf-8")
    return all(held for *_, held in holds)


def measured(name, limits):
    """A job under its limits: ours, and its CPU time against the best by hand that fits."""
    about = {"job": name, "way": JOBS[name].way, "cpu_ratio": None, "time_ratio": None}
    cases = [{**about, **each} for each in run(what="cases", job=name, limits=limits)["cases"]]
    every = run(what="hand", job=name)["runs"]
    peaks = {str(run["chunk"]): run["peak_bytes"] for run in every}
    compared = [(case, best) for case in filter(within, cases) if (best := fastest(every, case))]
    pairs = {}  # limits of which both chunkings are the same are compared once
    for case, best in compared:
        pair = {"ours": case["chunk"], "by_hand": best, "held_bytes": case["held_bytes"]}
        pairs.setdefault(str((case["chunk"], best)), {**pair, "limit": case["limit"]})
    taken = run(what="pairs", job=name, pairs=[*pairs.values()])["pairs"] if pairs else []
    rounds = dict(zip(pairs, taken, strict=True))
    for case, best in compared:
        own = rounds[str((case["chunk"], best))]
        case["by_hand"], case["by_hand_bytes"] = best, peaks[str(best)]
        case["cpu_ratio"], case["time_ratio"] = ratio(own, "cpu_seconds"), ratio(own, "seconds")
    return cases


def ratio(rounds, what):
    """Ours ÷ by hand, the median of the rounds."""
    return statistics.median(ours / by_hand for ours, by_hand in (each[what] for each in rounds))


def fastest(every, case):
    """Chunks by hand of the least CPU time, of those whose workers fit the case's budget."""
    fitting = [run for run in every if not troubled(run) and run["peak_bytes"] <= budget(case)]
    best = min(fitting, key=lambda run: run["cpu_seconds"], default=None)
    return best and best["chunk"]


def run(**asked):
    """What `promises_run` tells, kept."""
    words = ("-m", "experiments.chunks.promises_run", json.dumps(asked))
    return kept(
        PART,
        json.dumps(asked, sort_keys=True),
        lambda: in_a_process(asked, *words, timeout=LONGEST_SECONDS),
        line,
    )


def line(reported):
    return f"{reported['job']}: {reported['what']}"


def budget(ours):
    return parse_bytes(ours["limit"]) * USABLE


def troubled(reported):
    return bool(
        reported.get("refused")
        or reported["error"]
        or reported["killed"]
        or reported["spilled_bytes"]
    )


def within(ours):
    return not troubled(ours) and ours["peak_bytes"] <= budget(ours)


def over(ours):
    """Predicted ÷ measured; None where nothing was measured."""
    return None if troubled(ours) else ours["predicted_bytes"] / ours["peak_bytes"]


def near(ours):
    return over(ours) is not None and 1 <= over(ours) <= MOST_OVER


def cheap(ours):
    return ours["cpu_ratio"] is not None and ours["cpu_ratio"] <= MOST_CPU


def held(ours):
    return within(ours) and near(ours)


def checks(cases):
    """(what, target, measured, whether it holds)."""
    ran = [case for case in cases if not case.get("refused")]
    errors = [over(case) for case in cases if over(case) is not None]
    ratios = [case["cpu_ratio"] for case in cases if case["cpu_ratio"] is not None]
    killed = sum(case["killed"] > 0 or case["error"] is not None for case in ran)
    spilled = sum(case["spilled_bytes"] > 0 for case in ran)
    rows = [
        ("refused", "0", len(cases) - len(ran), len(ran) == len(cases)),
        ("killed", "0", killed, not killed),
        ("spilled", "0", spilled, not spilled),
    ]
    for what, good in (
        ("VmHWM of every worker ≤ budget", within),
        (f"predicted ÷ VmHWM 1.0 to {MOST_OVER}", near),
        (f"CPU ≤ {MOST_CPU} × the best by hand", cheap),
    ):
        count = sum(map(good, cases))
        rows.append((what, f"{len(cases)} of {len(cases)}", count, count == len(cases)))
    rows[4] = (*rows[4][:2], f"{rows[4][2]}; {spread(errors)}", rows[4][3])
    rows[5] = (
        *rows[5][:2],
        f"{rows[5][2]} of {len(ratios)} compared; {spread(ratios)}",
        rows[5][3],
    )
    return rows


def spread(numbers):
    return f"{min(numbers):.2f} to {max(numbers):.2f}" if numbers else "none ran"


def halves(cases):
    """Cases whose memory held: of the jobs looked at while chunks were mended, and the others."""
    rows = []
    for half, first in FIRST.items():
        own = [case for case in cases if (case["job"] in LOOKED_AT) == (half == "looked at")]
        jobs = ", ".join(dict.fromkeys(case["job"] for case in own))
        rows.append((half, jobs, first, f"{sum(map(held, own))} of {len(own)}"))
    return tables.table(("jobs", "", "first", "last"), rows)


def rows(cases):
    for case in cases:
        name = f"{case['job']} ({tables.shape(JOBS[case['job']].shape)} {JOBS[case['job']].dtype})"
        begin = (name, case["way"], case["limit"])
        if case.get("refused"):
            yield (*begin, "refused", *[""] * 8)
            continue
        yield (
            *begin,
            tables.shape(case.get("chunk")),
            tables.megabytes(case["predicted_bytes"]) if "predicted_bytes" in case else "",
            tables.megabytes(case["peak_bytes"]),
            tables.megabytes(budget(case)),
            tables.shape(case["by_hand"]) if "by_hand" in case else "",
            tables.megabytes(case["by_hand_bytes"]) if "by_hand_bytes" in case else "",
            *(
                "" if case[each] is None else f"{case[each]:.2f}"
                for each in ("cpu_ratio", "time_ratio")
            ),
        )


def dearer(cases):
    """What stands in the way where a chunking by hand takes less CPU time."""
    own = [case for case in cases if case["cpu_ratio"] is not None and not cheap(case)]
    as_fast = [case for case in own if case["time_ratio"] <= AS_FAST]
    slower = [case for case in own if case not in as_fast]
    full = [case for case in slower if case["by_hand_bytes"] > NEARLY * budget(case)]
    return (
        f"Of the {len(own)} cases that take more CPU time, {len(full)} are compared with chunks whose"
        f" workers hold more than {NEARLY:.0%} of the budget: a prediction that is not to be under has"
        f" them above it. {len(as_fast)} take as long as those by hand, within {AS_FAST - 1:.0%}: one"
        " chunk for one worker, where memtrace has chunks for both."
    )


def text(cases, holds):
    judged = [(*row, "yes" if well else "no") for *row, well in holds]
    columns = ("job", "way", "limit", "chunk", "predicted", "VmHWM", "budget", "by hand", "its VmHWM", "CPU ÷ by hand", "time ÷ by hand")  # fmt: skip
    return TEXT.format(
        holds=tables.table(("what", "target", "measured", "holds"), judged),
        halves=halves(cases),
        cases=tables.table(columns, rows(cases)),
        dearer=dearer(cases),
    )


TEXT = """# Promises on chunks

`scripts/experiments chunks promises` writes this page.

{holds}

Twelve jobs of one to four axes under three memory limits, on two workers of one thread with
nannies and Dask's own settings; the budget is 70 % of the limit. Arrays lie in zarr stores.
Four jobs go each way: `recommend` with `rechunk` and `da.map_overlap` as
[dask.md](../dask.md) shows it, `memtrace.dask.map_overlap`, and `memtrace.plan` of a pipeline. Laws
come from one process that calls the operators at four shapes of 1/600 to 1/50 of the cells.

{halves}

The table counts cases whose memory held: no worker was killed or spilled, every VmHWM was within
the budget, and the prediction was 1.0 to 1.25 times the largest VmHWM. The jobs that were looked at
served to mend chunks; the others ran at the beginning and the end only, but for `lapse`: a mend
had it refused at 400MB, so that it served to mend that. At the beginning
`recommend` counted nothing of what `rechunk` makes workers hold: `traces` spilled 189 MB at 400MB,
and all six predictions of `traces` and `join` were too low.

{cases}

{dearer}

By hand: the first axis into 2, 4, 8 and 32 parts; the second (without one, the first) into 3 and 16;
cubes of 1, 4 and 16 MB; Dask's own choice; where some of these are the same, the first axis into 6,
12, 24 and 64 (`experiments/chunks/promises_jobs.py` has the jobs and the rules). They run on a cluster without a limit. The best is the one of least CPU time of those
whose workers stay within the budget; ours and it then take turns, five times, and the median of
the ratios counts. CPU time is that of workers and scheduler; time is from submission to result.
Blank: none by hand fits, ours left the budget, or the two were not compared.

To measure anew, remove `target/experiments/chunks/promises.jsonl` first.
"""
