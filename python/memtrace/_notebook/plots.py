"""Plots by matplotlib, on axes that the caller may give."""

import math

from .._planning import sizes
from . import laws
from .markup import printable

#: Characters of a title that are shown.
LONGEST_TITLE = 70


def trace(trace, *, ax=None):
    """Live, resident and mapped bytes over time, with the peak."""
    ax = _axes(ax)
    times, curves = trace._timeline()
    for curve in curves:
        known = [math.nan if bytes_ is None else bytes_ for bytes_ in curve["bytes"]]
        ax.plot([time / 1e9 for time in times], known, label=curve["name"])
    peak = trace.meta["peak"]
    label = f"peak: {sizes.text(peak['live_bytes'])}"
    ax.plot([peak["peak_ns"] / 1e9], [peak["live_bytes"]], "o", label=label)
    ax.set_xlabel("seconds")
    return _finished(ax, " ".join(trace.meta["command"]))


def model(model, *, ax=None):
    """The law of the largest recorded peak."""
    drawn = [law for law in laws.by_size(model) if law.trained_on]
    if not drawn:
        raise ValueError("the model has no law with recorded runs to draw")
    return law(drawn[0], ax=ax)


def law(law, *, ax=None):
    """Measured peaks, the law and its bound over the first variable that varied.

    The other variables are those of the largest run. Runs at other values of these are hollow, with
    a cross at what the law says of them.
    """
    ax = _axes(ax)
    curve = law._curve()
    lengths, bytes_, upper = zip(*curve["law"])
    ax.plot(lengths, bytes_, label="law")
    ax.plot(lengths, upper, "--", label="at most")
    low, high = curve["range"]
    what = "verified range" if curve["verified"] else "range of the runs (unverified)"
    ax.axvspan(low, high, alpha=0.12, color="gray", label=f"{what}: {low} – {high}")
    ax.plot(*zip(*curve["measured"]), "o", color="black", label="measured")
    if curve["elsewhere"]:
        lengths, measured, said = zip(*curve["elsewhere"])
        label = "measured at other lengths"
        ax.plot(lengths, measured, "o", color="black", mfc="none", label=label)
        ax.plot(lengths, said, "x", color="black", label="law there")
    others = ", ".join(f"{name}={length}" for name, length in curve["others"])
    label = f"{curve['variable']}, at {others}" if others else curve["variable"]
    ax.set_xlabel(label, parse_math=False)
    return _finished(ax, f"{laws.name_of(law.key)}: {curve['proof']}")


def plan(plan, *, ax=None):
    """What a worker holds against its budget: by choice of chunks, or by step of a pipeline."""
    ax = _axes(ax)
    if "operators" in plan:
        _draw_steps(ax, plan["operators"])
    else:
        _draw_choices(ax, plan)
    budget, used = plan["budget_bytes"], plan["predicted_worker_bytes"]
    ax.axhline(used, color="C0", linewidth=1, label=f"a worker's peak: {sizes.text(used)}")
    ax.axhline(budget, color="C3", linestyle="--", label=f"budget: {sizes.text(budget)}")
    return _finished(ax, f"{plan['tasks']} chunks of {laws.shape_of(plan['chunk_shape'])}")


def _draw_choices(ax, plan):
    chosen = plan["tasks"], plan["predicted_worker_bytes"]
    others = {(each["tasks"], each["predicted_worker_bytes"]) for each in plan.get("pareto", ())}
    ax.plot(*zip(*sorted({chosen, *others})), "o-", color="gray", label="choices")
    ax.plot(*([figure] for figure in chosen), "o", color="C0", markersize=9, label="chosen")
    ax.set_xscale("log")
    ax.set_xlabel("tasks")


def _draw_steps(ax, operators):
    places = range(len(operators))
    ax.bar(places, [each["task_bytes"] for each in operators], color="gray", label="a task")
    names = [each["step"] for each in operators]
    ax.set_xticks(places, names, rotation=30, ha="right", parse_math=False)


def forecast(forecast, *, ax=None):
    """Live bytes over time, or over steps where no law knows times; their peak and its bound."""
    ax = _axes(ax)
    live = [each["live_bytes"] for each in forecast["timeline"]]
    timed = forecast["seconds"] > 0
    times = [each["seconds"] for each in forecast["timeline"]] if timed else range(len(live))
    ax.step(times, live, where="post", label="live")
    peak, upper = forecast["peak_bytes"], forecast["upper_bytes"]
    ax.plot([times[live.index(max(live))]], [peak], "o", label=f"peak: {sizes.text(peak)}")
    ax.axhline(upper, color="C3", linestyle="--", label=f"at most: {sizes.text(upper)}")
    ax.set_xlabel("seconds" if timed else "steps")
    return _finished(ax, f"{forecast['set_by']['operator']} sets the peak")


def _axes(ax):
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    return pyplot.subplots()[1]


def _finished(ax, title):
    """Names the bytes and the curves. Names from a trace may have dollar signs in them: they are
    no formulas."""
    ax.yaxis.set_major_formatter(lambda bytes_, _: sizes.text(max(0, int(bytes_))))
    ax.set_ylim(bottom=0)
    title = printable(title)
    cut = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
    ax.set_title(cut, parse_math=False, fontsize="medium")
    ax.legend(fontsize="small")
    return ax
