"""What must hold of the traces that a guest has recorded."""

import json
from collections import Counter
from typing import NamedTuple

import duckdb

from experiments.kernels.recorded import LIMIT, MIB
from experiments.recording import memtrace

#: What `mapped` does: kind, MiB, and whether it was released.
MAPPINGS = [
    ("map_anonymous", 1, True),
    ("map_anonymous", 1, True),
    ("map_anonymous", 1, True),
    ("map_anonymous", 2, False),
    ("map_anonymous", 2, False),
    ("map_anonymous", 2, False),
    ("map_anonymous", 2, True),
    ("map_anonymous", 3, False),
    ("map_anonymous", 6, True),
    ("map_break", 2, True),
    ("map_break", 3, False),
    ("map_shared", 3, True),
]
RAW = [("map_anonymous", 4, True), ("map_anonymous", 8, False), ("map_anonymous", 16, True)]
#: Of 24 MiB by malloc a third was touched, of 16 MiB a half, of 8 MiB in huge pages of 2 MiB a
#: quarter. Where huge pages are larger, a single page of those.
UNTOUCHED = [(8, 6), (16, 8), (24, 16)]
UNTOUCHED_IN_LARGER = [(8, 8), (16, 8), (24, 16)]


class Row(NamedTuple):
    """A check in a guest."""

    what: str
    holds: bool
    #: What was found.
    found: str


class Trace:
    """A trace that came back, and what its program printed."""

    def __init__(self, files, name):
        self.path, self.name = files / name, name

    def text(self, kind):
        path = self.path.with_name(f"{self.name}.{kind}")
        return path.read_text(errors="replace").strip() if path.exists() else ""

    @property
    def report(self):
        return json.loads(memtrace("report", "--json", "--stacks", self.path))

    def sql(self, query):
        for table in ("allocations", "kernel_events"):
            query = query.replace(f"{{{table}}}", f"'{self.path}/{table}/*.parquet'")
        return duckdb.sql(query).fetchall()

    def mappings(self):
        return self.sql(
            "SELECT kind, bytes / 1048576, free_ns IS NOT NULL FROM {allocations} "
            "WHERE bytes >= 1048576 AND kind LIKE 'map%' AND kind != 'map_file' ORDER BY ALL"
        )

    def peak(self):
        """The resident peak of the largest process, with the probe's memory."""
        processes = self.report["processes"]
        return max(each["peak_resident_bytes"] + each["probe_bytes"] for each in processes)

    def lost(self):
        return sum(self.report["lost"].values())


def judged(files, ways, seeds):
    """A row for each check of everything."""
    yield doctor(files, "doctor", "the kernel side, as root", works=True)
    yield exact(files, "resident peak, programs with a probe", [f"held-{way}" for way in ways])
    yield exact(files, "resident peak, random programs", [f"steps-{seed}" for seed in seeds])
    for check in CHECKS:
        yield attempted(files, check)


def attempted(files, check):
    """A check of a trace that may not be there."""
    try:
        return check(files)
    except (RuntimeError, ValueError, IndexError, KeyError, OSError, duckdb.Error) as error:
        return Row(check.__doc__, False, f"{error}".splitlines()[-1] if f"{error}" else repr(error))


def page_bytes(files):
    """Of a page of the guest."""
    return 1024 * int((files / "page").read_text())


def doctor(files, name, what, works):
    checks = {each["name"]: each for each in json.loads((files / name).read_text())}
    check = checks["kernel side"]
    return Row(what, check["works"] == works, check["words"])


def exact(files, what, names):
    """The peak next to what the program read of itself."""
    wrong, lost = [], 0
    for name in names:
        trace = Trace(files, name)
        try:
            pages = (trace.peak() - int(trace.text("out"))) / page_bytes(files)
            lost += trace.lost()
        except (RuntimeError, ValueError) as error:
            wrong.append(f"{name}: {trace.text('err') or error}")
        else:
            wrong += [f"{name}: {pages:+.0f} pages"] if pages else []
    found = f"{len(names) - len(wrong)} of {len(names)} to the page"
    return Row(what, not wrong and not lost, "; ".join([found, *wrong]))


def brief(files):
    """a peak of 64 MiB that is gone at once"""
    peak = Trace(files, "brief").peak()
    return Row(brief.__doc__, peak >= 64 * MIB, f"{peak:,} bytes")


def touched(files):
    """faults: what a program touched that was killed at once"""
    trace = Trace(files, "touched")
    peak = trace.report["peak"]
    live = peak["live_bytes"] - peak["heap_bytes"]
    holds = live == 24 * MIB and trace.text("status") == "137"
    return Row(touched.__doc__, holds, f"{live / MIB:g} of 24 MiB, status {trace.text('status')}")


def untouched(files):
    """faults: what of blocks was never touched"""
    rows = Trace(files, "untouched").sql(
        "SELECT value / 1048576, bytes / 1048576 FROM {kernel_events} "
        "WHERE event = 'untouched' ORDER BY ALL"
    )
    rows = [(whole, round(part, 1)) for whole, part in rows]
    told = ", ".join(f"{part:g} of {whole:g} MiB" for whole, part in rows)
    expected = UNTOUCHED if page_bytes(files) == 4096 else UNTOUCHED_IN_LARGER
    return Row(untouched.__doc__, rows == expected, told)


def mapped(files):
    """a statically linked program: its mappings, its exit status"""
    trace = Trace(files, "mapped")
    exits = [each["exit"] for each in trace.report["processes"] if "static" in each["command"]]
    holds = trace.mappings() == MAPPINGS and trace.text("status") == "5" and 5 in exits
    found = f"{same(trace.mappings(), MAPPINGS)}, exit {trace.text('status')}"
    return Row(mapped.__doc__, holds, found)


def raw(files):
    """a program without a C library: its mappings, live bytes"""
    trace = Trace(files, "raw")
    live = trace.report["peak"]["live_bytes"]
    holds = trace.mappings() == RAW and live == 20 * MIB and trace.text("status") == "7"
    return Row(raw.__doc__, holds, f"{same(trace.mappings(), RAW)}, {live / MIB:g} of 20 MiB live")


def attached(files):
    """attach: mappings, exit status"""
    trace = Trace(files, "attached")
    ended = trace.report["exit"]
    return Row(
        attached.__doc__,
        trace.mappings() == MAPPINGS and ended == 5,
        f"{same(trace.mappings(), MAPPINGS)}, exit {ended}",
    )


def function(files):
    """attach: calls of a function"""
    trace = Trace(files, "attached")
    first = int(trace.text("out").split()[0], 16)
    rows = trace.sql("SELECT address, bytes, value FROM {kernel_events} WHERE event = 'function'")
    return Row(function.__doc__, rows == [(first, MIB, 0)], f"{len(rows)} of 1")


def killed(files):
    """killed for lack of memory, with a probe: who, where"""
    trace = Trace(files, "grows")
    [victim] = trace.report["out_of_memory"]
    operator, events = victim["operators"][0]["name"], pressure(trace, victim)
    limit = victim["limit_bytes"]
    holds = (operator, limit, trace.text("status")) == ("grow", LIMIT, "137")
    holds = holds and events == ["oom_victim", "reclaim", "signal"]
    found = f"in {operator}, limit {limit / MIB:g} MiB, {', '.join(events)}"
    return Row(killed.__doc__, holds, found)


def killed_static(files):
    """killed for lack of memory, without a probe: who, how large"""
    trace = Trace(files, "grows-static")
    [victim] = trace.report["out_of_memory"]
    resident = victim["resident_bytes"]
    holds = "grows-static" in victim["command"] and LIMIT - 8 * MIB < resident < LIMIT + MIB
    return Row(killed_static.__doc__, holds, f"{resident / MIB:.1f} of {LIMIT / MIB:g} MiB")


def pressure(trace, victim):
    rows = trace.sql(
        "SELECT DISTINCT event FROM {kernel_events} "
        f"WHERE pid = {victim['pid']} AND event IN ('oom_victim', 'signal', 'reclaim') ORDER BY ALL"
    )
    return [event for (event,) in rows]


def few(files):
    """a user with CAP_BPF and CAP_PERFMON alone"""
    trace = Trace(files, "few")
    row = exact(files, few.__doc__, ["few"])
    return row._replace(holds=row.holds and trace.text("user") == "1000")


def locked(files):
    """the same user, who may lock 64 KiB (`ulimit -l`): all, or `doctor` says why not"""
    row = doctor(files, "doctor-locked", locked.__doc__, works=True)
    if row.holds:
        return row._replace(found="all")
    return row._replace(holds="ulimit -l" in row.found, found="`doctor` says why not")


def untyped(files):
    """without the kernel's types: `doctor` says so, /proc is read"""
    row = doctor(files, "doctor-untyped", untyped.__doc__, works=False)
    kernel = Trace(files, "untyped").report["recorded"]["kernel"]
    return row._replace(holds=row.holds and kernel == "proc" and "BTF" in row.found)


def same(found, expected):
    """How many mappings are as expected."""
    missing = Counter(expected) - Counter(found)
    return f"{len(expected) - missing.total()} of {len(expected)} mappings"


CHECKS = (
    *(brief, touched, untouched, mapped, raw, attached, function, killed, killed_static),
    *(few, locked, untyped),
)
