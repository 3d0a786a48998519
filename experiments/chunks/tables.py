"""Tables of Markdown pages on chunks."""


def table(names, rows):
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def holds(checks):
    """What must hold, what was measured, whether it holds."""
    rows = [(name, measured, "yes" if held else "no") for name, measured, held in checks]
    return table(("must hold", "measured", "holds"), rows)


def spread(errors):
    """The least and the largest of relative errors."""
    return f"{min(errors):+.1%} to {max(errors):+.1%}" if errors else "none ran"


def runs(ways):
    """name -> run as one row each."""
    rows = [(name, shape(run["chunk"]), *state(run)) for name, run in ways.items()]
    return table(("chunks by", "chunk", "predicted", "peak / budget", "outcome", "time"), rows)


def state(run):
    predicted = megabytes(run["predicted_bytes"]) if "predicted_bytes" in run else ""
    if run["seconds"] is None:
        return (predicted, "", run["error"], "")
    peaks = f"{megabytes(run['peak_bytes'])} / {megabytes(run['budget_bytes'])}"
    time = "" if run["error"] else f"{run['seconds']:.2f} s"
    return (predicted, peaks, outcome(run), time)


def outcome(run):
    said = [run["error"] or ""]
    said += [f"{run[name]} {name}" for name in ("killed", "paused") if run.get(name)]
    if run.get("spilled_bytes"):
        said.append(f"{megabytes(run['spilled_bytes'])} spilled")
    if not run["within"] and not any(said):
        said.append("over budget")
    if run["within"] and not run["busy"]:
        said.append("a worker idle")
    return ", ".join(filter(None, said)) or "within budget"


def megabytes(count):
    return f"{count / 1e6:.0f} MB"


def shape(lengths):
    return "×".join(map(str, lengths or ["?"]))
