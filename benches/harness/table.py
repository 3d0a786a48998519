"""Results as Markdown."""

from statistics import median

from .lines import TOOLS, base_of, disk, lines, target_ns, text, total_ns
from .measure import paired

HOW = """\
Every tool ran on the same program, in turn, round after round; figures are medians over {rounds}
rounds of the difference to (or ratio with) the bare program's run in the same round. CPU is user +
system. *Target* is what the program's own work cost it (clocks read by the program, start and end
apart); *total* is all processes together, the tool's own included, from start to end (wait4(2)). An
event is one call of malloc or free. What it takes on this machine by itself is in brackets below:
compare tools, and not pages of different days.

- memtrace records every block with time, thread and, except where it says *no stacks*, its stack
  (`--stacks all`). *Sampled stacks* is what it does by default: a stack for each block of 64 KiB and
  more, and for a sample of the others.
- *floor* is the probe without stacks and a reader that drops all events
  (tracer/examples/floor.rs): the least that a recording through rings can cost.
- heaptrack 1.x writes stacks of every call, but neither time nor thread; `heaptrack_interpret` and
  zstd are in total. With several threads its interpreter was killed for lack of memory (17 GB and
  more), so those rows have `heaptrack --raw`, which leaves it out; row 5 compares such runs.
- memray starts only Python: for churn the same code ran as a library in Python, compared with bare
  in Python; `--native` in the churn rows, its cheaper default (Python stacks only) in the others.
  It writes no time per event, and what it has to resolve it resolves in its reports, which are not
  in total.
- Fil records every block with its Python stack and keeps only the peak; its report is made at exit,
  in total.
- Scalene samples (each MiB allocated); it is here for the cost, not for the same result.
"""


def document(results, machine, versions, missing, scale):
    """The whole page."""
    parts = [
        "# Benchmarks",
        "",
        "Written by `scripts/bench`; the targets are those of the design.",
        "",
    ]
    versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts += table(["machine", ""], [*machine.items(), ("versions", versions)])
    parts += ["", HOW.format(rounds=scale.rounds), "## Targets", ""]
    parts += target_table(lines(results))
    parts += unmeasured(results, missing)
    for name, group in results.items():
        parts += ["", f"## {name}", "", *detail(group)]
    return "\n".join(parts) + "\n"


def target_table(found):
    heads = ["row", "what", "target", *TOOLS, "verdict"]
    rows = []
    for line in found:
        figures = [text(line.figures.get(tool), line.unit) for tool in TOOLS]
        rows.append([line.number, line.what, target_text(line), *figures, line.verdict()])
    return table(heads, rows)


def target_text(line):
    unit = line.unit if line.unit == "×" else f" {line.unit}"
    return "" if line.target is None else f"≤ {line.target:g}{unit}"


def unmeasured(results, missing):
    """A sentence for each tool that is not there or did not run."""
    said = [f"- {name} is not there: {why}" for name, why in missing.items()]
    for group, costs in results.items():
        said += [f"- {group}, {tool}: {why}" for tool, why in costs.items() if isinstance(why, str)]
    return ["", "Not measured:", "", *said] if said else []


def detail(group):
    """What each tool cost in a group; per event too, where the program counts them."""
    counted = any(
        cost.calls for costs in group.values() if isinstance(costs, list) for cost in costs
    )
    heads = ["tool", "target CPU", "total CPU", "wall", "on disk", "largest process"]
    if counted:
        heads += ["target / event", "total / event", "disk / event"]
    rows = []
    for tool, costs in group.items():
        if isinstance(costs, str) or not costs:
            continue
        base = group.get(base_of(tool), group.get("bare"))
        row = [tool]
        for field in ("section_cpu", "cpu", "wall"):
            row.append(with_ratio(costs, base, field))
        row.append(f"{median(cost.disk for cost in costs) / 1e6:.2f} MB")
        row.append(f"{median(cost.resident for cost in costs) / 1e6:.0f} MB")
        if counted and tool.startswith("bare"):
            itself = median(cost.section_cpu / cost.calls for cost in costs) * 1e9
            row += [f"({text(itself, 'ns')} itself)", "", ""]
        elif counted:
            columns = ((target_ns, "ns"), (total_ns, "ns"), (disk, "B"))
            row += [text(paired(costs, base, figure), unit) for figure, unit in columns]
        rows.append(row)
    return table(heads, rows)


def with_ratio(costs, base, field):
    """Median seconds of a field, and the median ratio with the bare runs."""

    def of(cost):
        return getattr(cost, field)

    seconds = median(map(of, costs))
    if not seconds:
        return ""
    ratio = paired(costs, base, lambda cost, bare: of(cost) / of(bare)) if base else None
    return f"{seconds:.3f} s" + (f" ({ratio:.3f}×)" if ratio and base is not costs else "")


def table(heads, rows):
    """Lines of a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [
        "| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines
    ]
