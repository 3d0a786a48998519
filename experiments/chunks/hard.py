"""Arrays and limits that a rule of thumb gets wrong."""

from experiments.chunks import tables
from experiments.chunks.lean import tolerance
from experiments.chunks.runs import run
from experiments.chunks.ways import auto, even
from experiments.recording import RESULTS

PART = "hard"
#: name -> what is asked. Limits: 70 % of them is the budget; a warmed worker holds about 165 MB.
CASES = {
    "one long axis": {"operator": "gst3d", "shape": (6000, 40, 40), "memory_limit": "600MB"},
    "halo larger than an even share": {"operator": "gaussian", "shape": (40, 700, 700), "workers": 4, "memory_limit": "450MB"},
    "limit just above what a worker holds": {"operator": "gst3d", "shape": (100, 100, 100), "memory_limit": "320MB"},
    "one thin axis": {"operator": "semblance", "shape": (3, 1500, 1500), "memory_limit": "450MB"},
    "two operators, different halos": {"operator": "gaussian+semblance", "shape": (300, 300, 300), "memory_limit": "700MB"},
}  # fmt: skip
#: Less than a worker holds before its first task.
REFUSED = {"operator": "gst3d", "shape": (100, 100, 100), "memory_limit": "200MB"}
QUICK = ("one thin axis",)


def main(arguments):
    names = QUICK if arguments.quick else CASES
    ours = {name: run(PART, **CASES[name]) for name in names}
    others = {name: baselines(CASES[name]) for name in names}
    refused = run(PART, **REFUSED)
    holds = checks(ours, refused)
    if not arguments.quick:
        (RESULTS / "chunks-hard.md").write_text(text(ours, others, refused, holds))
    return all(held for _, _, held in holds)


def baselines(case):
    workers = case.get("workers", 2)
    ways = {"auto": auto, "even": even}
    return {
        name: run(PART, chunk=way(case["shape"], 0, workers), **case) for name, way in ways.items()
    }


def checks(ours, refused):
    off = {
        name: each["predicted_bytes"] / each["peak_bytes"] - 1
        for name, each in ours.items()
        if each["within"]
    }
    near = [0 <= off[name] <= tolerance(ours[name]) for name in off]
    return [
        (
            "ours: every worker within budget",
            f"{sum(each['within'] for each in ours.values())} of {len(ours)}",
            all(each["within"] for each in ours.values()),
        ),
        (
            "worker peak predicted within 8 % or 25 %, never under",
            f"{sum(near)} of {len(ours)}; {tables.spread(off.values())}",
            len(near) == len(ours) and all(near),
        ),
        (
            "a limit that nothing fits is refused before anything runs",
            refused["error"] or "ran",
            bool(refused.get("refused")),
        ),
    ]


def text(ours, others, refused, holds):
    parts = []
    for name, reported in ours.items():
        case = CASES[name]
        head = f"{case['operator']}, {tables.shape(case['shape'])}, {case.get('workers', 2)} workers of {case['memory_limit']}"
        parts += [
            f"## {name.capitalize()}: {head}",
            tables.runs({"ours": reported, **others[name]}),
            reported["why"],
        ]
    return TEXT.format(
        holds=tables.holds(holds), parts="\n\n".join(parts), refused=refused["error"]
    )


TEXT = """# Arrays and limits that a rule of thumb gets wrong

One thread per worker, SEG-Y, `map_overlap`, mean of the result, a fresh cluster for every run. auto: Dask's choice. even: a slab of
the first axis for each worker. Two operators: `memtrace.plan` of the pipeline, one grid for both.

{holds}

{parts}

## A limit that nothing fits

> {refused}

Again: `.venv/bin/python scripts/experiments chunks hard`; to measure anew, remove
`target/experiments/chunks/hard.jsonl` first.
"""
