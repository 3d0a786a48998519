"""The targets of the design, and what was reached: one line each."""

from statistics import median
from typing import NamedTuple

from .groups import THREADS
from .measure import paired

TOOLS = ("memtrace", "heaptrack", "memray", "Fil", "Scalene")


class Line(NamedTuple):
    """A target (at most, if there is one) and the figure of each tool."""

    number: str
    what: str
    unit: str
    target: float | None
    figures: dict

    def verdict(self):
        reached = self.figures.get("memtrace")
        if reached is None:
            return "not measured"
        if self.target is None:
            return ""
        # As printed: a page that says 2.60 of 2.6 says that the target is met.
        reached = round(reached, digits(self.unit))
        if reached <= self.target:
            return "met"
        return f"missed by {text(reached - self.target, self.unit)} ({reached / self.target:.1f}×)"


def digits(unit):
    """Decimal places that mean something in a unit."""
    return {"×": 3, "ns": 1, "B": 2}.get(unit, 0)


def text(figure, unit):
    """A figure with its unit."""
    if figure is None:
        return "–"
    return f"{figure:.{digits(unit)}f}{'' if unit == '×' else ' '}{unit}"


def base_of(tool):
    """What a tool's cost is compared with."""
    return "bare in Python" if tool == "memray --native" else "bare"


def against_base(group, tool, figure):
    """Median over rounds of what `figure` makes of a cost and the bare one of the same round."""
    base = group.get(base_of(tool)) or group.get("bare")
    return paired(group.get(tool) or [], base, figure)


def target_ns(cost, bare):
    """CPU that each call costs the program more."""
    return (cost.section_cpu - bare.section_cpu) / bare.calls * 1e9


def total_ns(cost, bare):
    """The same of program and tool together, start and end included."""
    return (cost.cpu - bare.cpu) / bare.calls * 1e9


def target_ratio(cost, bare):
    return cost.section_cpu / bare.section_cpu


def total_ratio(cost, bare):
    return cost.cpu / bare.cpu


def disk(cost, bare):
    return cost.disk / bare.calls


def wall_added_ms(cost, bare):
    return (cost.wall - bare.wall) * 1e3


def figures(group, figure, names):
    """{tool: figure}, the group's names for tools being `names`."""
    return {tool: against_base(group, name, figure) for tool, name in names.items()}


CHURN = {"memtrace": "memtrace", "heaptrack": "heaptrack", "memray": "memray --native"}
ONLY_RECORDED = {**CHURN, "heaptrack": "heaptrack --raw"}
ALL = {tool: tool for tool in TOOLS}


def lines(results):
    """Lines of the groups that were measured."""
    found = []

    def add(number, what, unit, target, group, figure, names=ALL):
        if group in results:
            line = Line(number, what, unit, target, figures(results[group], figure, names))
            found.append(line)

    no_stacks = {"memtrace": "memtrace, no stacks"}
    add("1", "target CPU per event, no stacks", "ns", 5, "churn-nofp-1", target_ns, no_stacks)
    over = over_floor(results.get("churn-nofp-1", {}))
    if over:
        found.append(Line("1", "the same over the floor's", "×", 1.25, over))
    per_event = "target CPU per event, native stacks"
    add("2", f"{per_event}, frame pointers", "ns", 12, "churn-fp-1", target_ns, CHURN)
    add("3", f"{per_event}, no frame pointers", "ns", 25, "churn-nofp-1", target_ns, CHURN)
    add("2", f"{per_event}, frame pointers, 24 stacks", "ns", 12, "few-fp", target_ns, CHURN)
    add("3", f"{per_event}, no frame pointers, 24 stacks", "ns", 25, "few-nofp", target_ns, CHURN)
    total = "total CPU per event, Parquet on disk"
    add("4", f"{total}, frame pointers", "ns", 45, "churn-fp-1", total_ns, CHURN)
    add("4", f"{total}, no frame pointers", "ns", 45, "churn-nofp-1", total_ns, CHURN)
    add("4", f"{total}, no stacks", "ns", 45, "churn-nofp-1", total_ns, no_stacks)
    for frames, words in (("fp", "frame pointers"), ("nofp", "no frame pointers")):
        flat = flatness(results, frames)
        if flat:
            what = f"1 → 2 → 8 threads, {words}: largest / one thread's target CPU per event"
            found.append(Line("5", what, "×", 1.1, flat))
            what = f"8 threads / one, {words}, over the same of the bare program"
            found.append(Line("5", what, "×", 2, growth(results, frames)))
    for group, words in (("churn-nofp-1", "random"), ("fifo", "first in, first out")):
        add("6", f"bytes per event on disk, {words}", "B", 2.6, group, disk, CHURN)
    add("6", "bytes per event on disk, random, no stacks", "B", 2, "churn-nofp-1", disk, no_stacks)
    for number, group, most, what in (
        ("7", "objects", 1.02, "Python objects"),
        ("7", "objects-malloc", 1.35, "Python objects, PYTHONMALLOC=malloc"),
        ("8", "gst3d", 1.01, "GST3D on NumPy and SciPy"),
    ):
        add(number, f"target CPU, {what}", "×", most, group, target_ratio)
        sampled = {"memtrace": "memtrace, sampled stacks"}
        add(number, f"target CPU, {what}, sampled stacks", "×", most, group, target_ratio, sampled)
        add(number, f"total CPU, {what}", "×", None, group, total_ratio)
    started = "time added to the start of Python"
    add("9", started, "ms", 25, "start", wall_added_ms)
    proc = {"memtrace": "memtrace --kernel proc"}
    add("9", f"{started}, without the kernel side", "ms", 25, "start", wall_added_ms, proc)
    return found + reader_lines(results.get("reader", {}))


def recorded(groups):
    """{tool: its target CPU per event in each group; None where it is not known in all}."""
    found = {}
    for tool, name in ONLY_RECORDED.items():
        each = [against_base(group, name, target_ns) for group in groups]
        found[tool] = None if None in each or each[0] <= 0 else each
    return found


def flatness(results, frames):
    """{tool: largest target CPU per event at any number of threads, over that of one}."""
    groups = [results.get(f"churn-{frames}-{threads}") for threads in THREADS]
    if None in groups:
        return {}
    return {tool: each and max(each) / each[0] for tool, each in recorded(groups).items()}


def over_floor(group):
    """{"memtrace": its target CPU per event without stacks, over that of the floor}."""
    each = [against_base(group, tool, target_ns) for tool in ("memtrace, no stacks", "floor")]
    return {} if None in each or each[1] <= 0 else {"memtrace": each[0] / each[1]}


def growth(results, frames):
    """{tool: how many times more an event costs with eight threads than with one, over what the bare program's own
    calls do}."""
    one, eight = (results[f"churn-{frames}-{threads}"] for threads in (1, 8))
    bare = [
        median(cost.section_cpu / cost.calls for cost in group["bare"]) for group in (one, eight)
    ]
    own = bare[1] / bare[0]
    found = recorded((one, eight))
    return {tool: each and each[1] / each[0] / own for tool, each in found.items()}


def reader_lines(reader):
    """Reports of the recorded run: the quickest of each peer's."""
    if not reader:
        return []

    def middle(names, figure):
        """The least of those that were measured."""
        costs = [reader.get(name) for name in names]
        each = [median(map(figure, cost)) for cost in costs if isinstance(cost, list)]
        return min(each, default=None)

    def milliseconds(*names):
        return middle(names, lambda cost: cost.wall * 1e3)

    def megabytes(*names):
        return middle(names, lambda cost: cost.resident / 1e6)

    names = {"memtrace": ("memtrace",), "heaptrack": ("heaptrack",)}
    names["memray"] = ("memray stats", "memray summary")
    again = ("memtrace --recompute",)
    return [
        Line("10", "report", "ms", 100, {tool: milliseconds(*n) for tool, n in names.items()}),
        Line("10", "report --recompute", "ms", 1000, {"memtrace": milliseconds(*again)}),
        Line("10", "its resident size", "MB", 200, {"memtrace": megabytes(*again)}),
    ]
