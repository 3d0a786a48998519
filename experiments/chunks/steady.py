"""Ten sweeps of one operator while the machine does other things: do they give one chunk shape?"""

import json
import sys
import time

import memtrace

from experiments.load import load
from experiments.recording import KEPT, RESULTS, ROOT
from experiments.recording import memtrace as command

#: Other processes that compute, and others that copy memory, during each sweep.
LOADS = ((0, 0), (1, 0), (2, 0), (4, 0), (8, 0), (0, 1), (0, 2), (2, 2), (0, 0), (6, 1))
OPERATORS = ("gst3d", "gaussian")
RANGE = "40,40,40..130,130,130"
SHAPE = (200, 200, 200)
#: What chunks are made for: limit of each worker, workers, halo.
REQUESTS = (("1.5GB", 2, 2), ("1.5GB", 4, 0), ("900MB", 1, 2))


def swept(operator, number):
    """The model of a sweep under the load of that number; one that is there is used."""
    place = KEPT / "chunks" / "steady" / f"{operator}-{number}"
    model = place / "model.json"
    if not model.exists():
        place.mkdir(parents=True, exist_ok=True)
        run = (sys.executable, ROOT / "examples" / "run_operator.py", "--operator", operator)
        named = ("--operator", f"operators.{operator}:{operator}", "--shapes", RANGE)
        with load(*LOADS[number]):
            started = time.perf_counter()
            command(
                "sweep", *named, "-o", place / "traces", "--model", place / "new.json",
                "--", *run, "--shape", "{shape}", "--repeat", "3",
            )  # fmt: skip
            (place / "seconds").write_text(f"{time.perf_counter() - started:.1f}")
        (place / "new.json").rename(model)
    return model


def chunks(model, operator):
    """Chunk shapes for the requests, and seconds of one call at the whole shape."""
    laws = memtrace.Model.load(model)
    found = []
    for limit, workers, halo in REQUESTS:
        try:
            plan = laws.recommend(operator, SHAPE, limit, workers, halo=halo)
            found.append("×".join(map(str, plan["chunk_shape"])))
        except MemoryError:
            found.append("refused")
    [law] = json.loads(model.read_text())["laws"]
    return found, laws.predict(operator, SHAPE)["seconds"], law["seconds"]["recorded_spread"]


def main(arguments):
    numbers = range(3 if arguments.quick else len(LOADS))
    rows, one = [], True
    for operator in OPERATORS:
        shapes = []
        for number in numbers:
            found, seconds, spread = chunks(swept(operator, number), operator)
            shapes.append(found)
            computing, copying = LOADS[number]
            cells = (operator, computing, copying, f"{seconds:.2f}", f"{spread:.0%}", *found)
            rows.append("| " + " | ".join(map(str, cells)) + " |")
        one &= all(len(set(column)) == 1 for column in zip(*shapes, strict=True))
    requests = "; ".join(
        f"({letter}) {workers} worker{'s' * (workers > 1)} of {limit}, halo {halo}"
        for letter, (limit, workers, halo) in zip("abc", REQUESTS, strict=True)
    )
    verdict = "Each gave one chunk shape." if one else "They did not give one chunk shape each."
    text = TEXT.format(
        rows="\n".join(rows), requests=requests, verdict=verdict, sweeps=len(numbers)
    )
    print(text)
    if not arguments.quick:
        (RESULTS / "chunks-steady.md").write_text(text)
    return one


TEXT = """# Chunks do not follow noise in times

`scripts/experiments chunks steady` measures it: {sweeps} sweeps of each operator (40³ to 130³),
while other processes compute or copy memory on the same machine. From each model, `recommend`
chooses chunks of a 200×200×200 volume for

{requests}.

Seconds are those that the law predicts of one call on the whole volume; the spread is that of the
recorded times. {verdict}

| operator | computing | copying | seconds | spread | (a) | (b) | (c) |
|---|---:|---:|---:|---:|---|---|---|
{rows}
"""
