"""Plots by matplotlib, on axes that the caller may give."""

import math

from .._planning import sizes
from . import laws
from .markup import printable

#: Lengths at which a law is drawn.
LENGTHS = 80
#: How far beyond the verified range it is drawn.
BEYOND = 1.25
LONGEST_TITLE = 70


def trace(trace, *, ax=None):
    """Live, resident and mapped bytes over time, with the peak."""
    ax = _axes(ax)
    timeline = trace._timeline()
    seconds = [time / 1e9 for time in timeline["times"]]
    heap, touched = _sums(timeline, "heap"), _sums(timeline, "touched")
    ax.plot(seconds, [sum(each) for each in zip(heap, touched)], label="live")
    for name in ("resident", "mapped", "device"):
        curve = _sums(timeline, name)
        if any(bytes_ > 0 for bytes_ in curve):
            ax.plot(seconds, curve, label=name, linewidth=1)
    peak = trace.meta["peak"]
    label = f"peak: {sizes.text(peak['live_bytes'])}"
    ax.plot([peak["peak_ns"] / 1e9], [peak["live_bytes"]], "o", label=label)
    ax.set_xlabel("seconds")
    return _finished(ax, " ".join(trace.meta["command"]))


def _sums(timeline, name):
    """A curve of all processes together; NaN where none has been sampled."""
    together = zip(*(curve[name] for curve in timeline["curves"]))
    known = ([bytes_ for bytes_ in values if bytes_ is not None] for values in together)
    return [sum(values) if values else math.nan for values in known]


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
    run = laws.largest(law)
    if run is None:
        raise ValueError("the law has no recorded runs to draw")
    ax = _axes(ax)
    largest = law.predict(run["shape"])
    ranges = list(laws.ranges(largest))
    at = next((at for at, (_, low, high) in enumerate(ranges) if low < high), 0)
    name, low, high = ranges[at]

    def moved(length):
        return [*run["shape"][:at], length, *run["shape"][at + 1 :]]

    lengths = _spread(max(1, low // 2), math.ceil(high * BEYOND))
    curve = [law.predict(moved(length)) for length in lengths]
    ax.plot(lengths, [each["peak_bytes"] for each in curve], label="law")
    ax.plot(lengths, [each["upper_bytes"] for each in curve], "--", label="at most")
    proven = largest["model"]["proof"] != "unverified"
    range_name = "verified range" if proven else "range of the runs (unverified)"
    ax.axvspan(low, high, alpha=0.12, color="gray", label=f"{range_name}: {low} – {high}")
    _draw_runs(ax, law, at, moved)
    others = [f"{ranges[i][0]}={n}" for i, n in enumerate(run["shape"]) if i != at]
    ax.set_xlabel(f"{name}, at {', '.join(others)}" if others else name)
    return _finished(ax, f"{laws.name_of(law.key)}: {largest['model']['proof']}")


def _draw_runs(ax, law, at, moved):
    runs = [(run["shape"], run["working_peak_bytes"]) for run in law.trained_on]
    on = [(shape[at], peak) for shape, peak in runs if shape == moved(shape[at])]
    off = [(shape, peak) for shape, peak in runs if shape != moved(shape[at])]
    ax.plot(*zip(*on), "o", color="black", label="measured")
    if off:
        lengths = [shape[at] for shape, _ in off]
        said = [law.predict(shape)["peak_bytes"] for shape, _ in off]
        label = "measured at other lengths"
        ax.plot(lengths, [peak for _, peak in off], "o", color="black", mfc="none", label=label)
        ax.plot(lengths, said, "x", color="black", label="law there")


def _spread(first, last):
    """Whole numbers from the first to the last, evenly spread."""
    step = max(1.0, (last - first) / (LENGTHS - 1))
    count = int((last - first) / step) + 1
    return sorted({round(first + step * at) for at in range(count)} | {last})


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
