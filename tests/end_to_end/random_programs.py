"""Runs tests/targets/random_program.c under memtrace and compares the trace with the program's own oracle.

A mismatch is one sentence: which process image, what, what the oracle says and what the trace says.
"""

import json
import os
import subprocess
from bisect import bisect_left
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import duckdb

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / os.environ.get("MEMTRACE_BUILT", "target") / "release" / "memtrace"
PAGE = 4096
MARKER = 1234567  # bytes of the block that is the first and the last of an image's own
STEPS = 300
HEAP = ("malloc", "calloc", "realloc", "aligned")
KINDS = (
    *HEAP,
    "map_anonymous",
    "map_shared",
    "map_file",
    "map_file_private",
    "map_reserved",
    "map_committed",
)
COMPILER = ("gcc", "-O1", "-fno-builtin", "-pthread")


class Row(NamedTuple):
    """A row of `allocations`."""

    process: int
    thread: int
    kind: str
    address: int
    bytes: int
    alloc_ns: int
    free_ns: int | None


class Outcome(NamedTuple):
    """A program that was run and compared."""

    seed: int
    images: list  # the oracles
    events: int
    mismatches: list

    def __str__(self):
        again = f"seed {self.seed} (again: scripts/random-programs --seed {self.seed})"
        return "\n    ".join([again, *self.mismatches])


def check_all(program, seeds, jobs, plan=None):
    """Outcomes of many programs, as they come; with a plan of placement."""
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(check_and_forget, repeat(program), seeds, repeat(plan), chunksize=4)


def check_and_forget(program, seed, plan):
    with TemporaryDirectory(prefix="random-program-") as folder:
        return check(program, folder, seed, plan)


def check(program, folder, seed, plan=None):
    """Records the program with this seed; trace and oracle stay in `folder`."""
    trace, oracle = Path(folder) / "trace", Path(folder) / "oracle"
    begin = [MEMTRACE] if plan is None else [MEMTRACE, "place", "run", plan]
    command = [*begin, "--quiet", "--addresses", "-o", trace, "--", program, seed, STEPS, oracle]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(seed, [], 0, [f"exit status {done.returncode}: {done.stderr.strip()}"])
    images = [json.loads(line) for line in oracle.read_text().splitlines()]
    events, mismatches = compare_trace(trace, images)
    return Outcome(seed, images, events, mismatches)


def compare_trace(trace, images):
    """Number of events in the trace, and in what it differs from the oracles."""
    report = json.loads(subprocess.check_output([str(MEMTRACE), "report", "--json", str(trace)]))
    connection = duckdb.connect(config={"threads": 1})
    processes = fetch(connection, f"select * from '{trace}/processes.parquet' order by process")
    query = f"select {', '.join(Row._fields)} from '{trace}/allocations/*.parquet'"
    rows = defaultdict(list)
    for row in map(Row._make, connection.sql(f"{query} order by alloc_ns").fetchall()):
        rows[row.process].append(row)
    [[events]] = connection.sql(f"select sum(events) from '{trace}/threads.parquet'").fetchall()
    pairs, mismatches = pair(images, processes)
    mismatches += compare_report(report, processes)
    for image, process in pairs:
        name = f"process {process['process']} ({image['origin']}, seed {image['seed']})"
        found = compare(image, process, rows[process["process"]])
        mismatches += [f"{name}: {mismatch}" for mismatch in found]
    return int(events), mismatches


def fetch(connection, query):
    """Rows as dictionaries."""
    result = connection.sql(query)
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def pair(images, processes):
    """Oracles and rows of the same image: by pid, and in order where exec gave a pid several images."""
    oracles, rows = defaultdict(list), defaultdict(list)
    for image in images:
        oracles[image["pid"]].append(image)
    for process in processes:
        rows[process["pid"]].append(process)
    pairs, unmatched = [], []
    for pid in oracles.keys() | rows.keys():
        if len(oracles[pid]) == len(rows[pid]):
            pairs += zip(oracles[pid], rows[pid], strict=True)
        else:
            unmatched.append(f"pid {pid}: {len(oracles[pid])} images, {len(rows[pid])} rows")
    return pairs, unmatched


def differences(expected, actual):
    """Sentences on the keys whose values differ."""
    for key in expected:
        if expected[key] != actual[key]:
            yield f"{key}: expected {expected[key]}, recorded {actual[key]}"


def compare_report(report, processes):
    """The report against the table of processes; nothing may be lost."""
    nothing = {"events": 0, "late_events": 0, "unseen_releases": 0}
    yield from differences(nothing, report["lost"])
    sums = {key: sum(row[key] for row in processes) for key in ("allocations", "requested_bytes")}
    yield from differences(sums, report["totals"])
    peaks = [row["peak_heap_bytes"] for row in processes]
    if not max(peaks, default=0) <= report["peak"]["heap_bytes"] <= sum(peaks):
        yield f"peak.heap_bytes: {report['peak']['heap_bytes']} with peaks {peaks}"


def compare(image, process, rows):
    """One process image."""
    marker = next((row for row in rows if row.kind == "malloc" and row.bytes == MARKER), None)
    if marker is None:
        yield "the marker was not recorded"
        return
    before = [row for row in rows if row.alloc_ns < marker.alloc_ns]
    own = [row for row in rows if row.alloc_ns >= marker.alloc_ns]
    kept = [row for row in before if row.free_ns is None or row.free_ns >= marker.alloc_ns]
    if any(row.free_ns is not None for row in kept):
        yield "a block from before the marker was released after it"
    baseline = sum(row.bytes for row in kept)

    calls = Counter(kind for kind, *_ in {identity(row) for row in own})
    requested = Counter()
    for row in own:
        requested[row.kind] += row.bytes
    yield from (f"calls of {text}" for text in differences(image["calls"], calls))
    yield from (f"bytes of {text}" for text in differences(image["requested"], requested))
    yield from compare_live(image, own)

    every = {identity(row) for row in rows}
    expected = {
        "origin": image["origin"],
        "allocations": len(every),
        "requested_bytes": sum(row.bytes for row in rows),
        "inherited_releases": image["inherited_releases"],
        "unseen_releases": 0,
        "lost_events": 0,
    }
    if "peak_heap" in image:
        expected["peak_heap_bytes"] = baseline + image["peak_heap"]
        expected["peak_mapped_bytes"] = image["peak_mapped"]
    yield from differences(expected, process)
    yield from compare_lives(rows, in_order="peak_heap" in image)


def identity(row):
    """The call that made a row: a mapping that was cut has a row for each of its pieces."""
    return row.kind, row.thread, row.alloc_ns, row.address if row.kind in HEAP else None


def compare_live(image, own):
    """Blocks and pages that were there when the image ended."""
    live = [row for row in own if row.free_ns is None]
    expected = Counter(tuple(block) for block in image["blocks"] if block)
    blocks = Counter((row.address, row.bytes, row.kind) for row in live if row.kind in HEAP)
    yield from difference("blocks live at the end", expected, blocks)
    expected = Counter(tuple(page) for page in image["pages"] if page)
    pages = Counter(page for row in live if row.kind not in HEAP for page in pages_of(row))
    yield from difference("pages mapped at the end", expected, pages)


def pages_of(row):
    for done in range(0, row.bytes, PAGE):
        yield row.address + done, min(PAGE, row.bytes - done), row.kind


def difference(what, expected, actual):
    missing, extra = expected - actual, actual - expected
    if missing or extra:
        yield f"{what}: missing {sorted(missing)[:3]}, not expected {sorted(extra)[:3]}"


def compare_lives(rows, in_order):
    """A block may not end before it begins, nor lie where another one lies at the time. Where threads run
    freely the latter need not be so: the row of a block that realloc moved, or of a mapping, ends when the
    call has returned, and another thread may have been given its place before that."""
    for row in rows:
        if row.free_ns is not None and row.free_ns < row.alloc_ns:
            yield f"released before it was acquired: {row}"
    if in_order:
        yield from overlaps(row for row in rows if row.kind in HEAP)
        yield from overlaps(row for row in rows if row.kind not in HEAP)


def overlaps(rows):
    """Goes through acquires and releases by time, releases first; `there` is sorted by address."""
    moments, there = [], []
    for row in rows:
        if row.free_ns is None:
            moments.append((row.alloc_ns, 1, row))
        elif row.alloc_ns < row.free_ns:
            moments += [(row.alloc_ns, 1, row), (row.free_ns, 0, row)]
    for _, acquired, row in sorted(moments, key=lambda moment: moment[:2]):
        at = bisect_left(there, row.address, key=lambda other: other.address)
        if not acquired:
            while there[at] is not row:
                at += 1
            del there[at]
            continue
        for other in there[max(at - 1, 0) : at + 1]:
            if row.address < end(other) and other.address < end(row):
                yield f"at one place at one time: {other} and {row}"
        there.insert(at, row)


def end(row):
    """First address behind a block; one of 0 bytes has an address of its own all the same."""
    length = row.bytes if row.kind in HEAP else -(-row.bytes // PAGE) * PAGE
    return row.address + max(length, 1)


def plan_of(trace, program):
    """A plan for the large blocks of a recorded program: every other one goes to the fast tier."""
    query = f"""
        select bytes from '{trace}/allocations/*.parquet'
        where process = 0 and bytes >= 65536 and kind in ('malloc', 'calloc', 'aligned')
        order by alloc_ns"""
    sizes = [size for (size,) in duckdb.sql(query).fetchall()]
    of_object = {"site": None, "place": None, "ordinal": 0, "blocks": 1, "time_share": 0}
    gain = {"gain_seconds": 0, "gain_error_seconds": 0, "moved_bytes": 0}
    tiers = ("slow", "fast")
    return {
        "plan_version": 4,
        "program": {"path": str(Path(program).resolve()), "before": 0, "command": ""},
        "tiers": {"slow": "small-pages", "fast": "node:0"},
        "fast_bytes": 4 << 20,
        "used_bytes": 2 << 20,
        "seconds": {"slow": 1, "fast": 1, "planned": 1, "uncertainty": 0},
        "traffic": None,
        "worth": True,
        "notes": [],
        "objects": [
            {**of_object, **gain, "bytes": size, "tier": tiers[at % 2]}
            for at, size in enumerate(sizes)
        ],
        "blocks": [[at, 1] for at in range(len(sizes))],
        "moves": [],
        "alternatives": [],
    }
