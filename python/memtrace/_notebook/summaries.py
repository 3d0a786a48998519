"""Summaries of objects as HTML: what a notebook shows where one is the value of a cell."""

from .._planning import sizes
from . import laws
from .markup import code, facts, folded, heading, number, paragraph, share, table

#: Rows of tables.
LINES, OPERATORS, LAWS, RUNS, CHOICES, ROWS, NOTES = 10, 10, 20, 8, 8, 8, 3
#: Bytes of the rows of a model's table, whose cells have runs in them.
MODEL_BYTES = 30_000


def trace(trace):
    """The peak, where it was, its largest lines, and the operators."""
    report = trace._summary()
    peak, places = report["peak"], report["places"]
    status = "running" if report["exit"] is None else f"exited {report['exit']}"
    lines = [_place(each, peak["live_bytes"]) for each in places[:LINES]]
    return "".join(
        [
            heading("memtrace trace", trace.path, f"{status} after {report['seconds']:.3g} s"),
            facts(
                [
                    ("command", code(" ".join(report["command"]))),
                    ("peak", f"{sizes.text(peak['live_bytes'])} live at {peak['seconds']:.3g} s"),
                    ("most of it", code(places[0]["place"]) if places else None),
                    ("resident", _size(peak["resident_bytes"] or None)),
                    ("devices", _size(peak["device_driver_bytes"])),
                ]
            ),
            table("At the peak", ["bytes", "of it", "line"], lines),
            _operators(trace.operators),
            *map(paragraph, report["notes"][:NOTES]),
        ]
    )


def _place(place, peak):
    part = place["bytes"] / peak if peak else 0
    return share(sizes.text(place["bytes"]), part), number(f"{part:.0%}"), code(place["place"])


def _operators(operators):
    rows = (dict(zip(operators.columns, row)) for row in operators._first(OPERATORS + 1))
    sizes_of = ("working_peak_bytes", "input_bytes", "output_bytes")
    cells = [
        (code(row["operator"]), number(row["calls"]), *(number(_size(row[n])) for n in sizes_of))
        for row in rows
    ]
    title = "Operators" if len(cells) <= OPERATORS else f"The {OPERATORS} largest operators"
    head = ["operator", "calls", "working peak", "input", "output"]
    return table(title, head, cells[:OPERATORS])


def rows(rows):
    """The columns and the first rows of a table."""
    cells = [[code(value, 60) for value in row] for row in rows._first(ROWS)]
    count = f"{len(rows):,} row{'' if len(rows) == 1 else 's'}"
    title = "First rows" if len(cells) < len(rows) else "Rows"
    return heading("memtrace table", rows.name, count) + table(title, rows.columns, cells)


def model(model):
    """The laws: what each is about, its formula, what it rests on."""
    own = [law for law in laws.by_size(model) if not law.internal]
    internal = len(model.laws()) - len(own)
    rows = [_law(law) for law in own[:LAWS]]
    count = f"of {len(own)} law{'' if len(own) == 1 else 's'}"
    if internal:
        count += f", and {internal} of what libraries call inside of these"
    return "".join(
        [
            f"<p><b>memtrace model</b> {count}</p>",
            table("Laws", ["operator", "working peak", "proof", "runs"], rows, MODEL_BYTES),
            paragraph(f"{len(own) - LAWS} more laws: model.laws()") if len(own) > LAWS else "",
            *map(paragraph, model.notes[:NOTES]),
        ]
    )


def _law(law):
    run = laws.largest(law)
    if run is None:
        return code(laws.name_of(law.key)), "no recorded run", "", ""
    prediction = law.predict(run["shape"])
    ranges = ", ".join(f"{name} {low} – {high}" for name, low, high in laws.ranges(prediction))
    return (
        code(laws.name_of(law.key)),
        code(laws.formula(prediction), 300),
        laws.verified(prediction),
        folded(ranges, _points(law)),
    )


def _points(law):
    """What the runs needed, a line for each shape."""
    peaks = {}
    for run in law.trained_on:
        shape = laws.shape_of(run["shape"])
        peaks[shape] = max(peaks.get(shape, 0), run["working_peak_bytes"])
    lines = [f"{shape}: {sizes.text(peak)}" for shape, peak in peaks.items()]
    return lines[:RUNS] + ([f"and {len(lines) - RUNS} more"] if len(lines) > RUNS else [])


def law(law):
    """One law."""
    rows = [_law(law)]
    return table("memtrace law", ["operator", "working peak", "proof", "runs"], rows)


def prediction(answer):
    """Bytes, at most, what the bound rests on, and the lengths of the runs."""
    model = answer["model"]
    because = answer["unverified_because"]
    ranges = ", ".join(f"{name} {low} – {high}" for name, low, high in laws.ranges(answer))
    device = answer["device"] or {}
    beyond = "; this shape is outside" if answer["extrapolated"] else ""
    resident = _at_most(answer["resident_bytes"], answer["resident_upper_bytes"])
    name, shape = laws.name_of(model["key"]), laws.shape_of(answer["shape"])
    return "".join(
        [
            heading("memtrace prediction", name, f"at {shape}"),
            facts(
                [
                    ("working peak", sizes.text(answer["peak_bytes"])),
                    ("at most", sizes.text(answer["upper_bytes"])),
                    ("confidence", answer["confidence"] + (f": {because}" if because else "")),
                    ("with input", sizes.text(answer["total_bytes"])),
                    ("output", sizes.text(answer["output_bytes"])),
                    ("one-time per process", _size(answer["one_time_bytes"] or None)),
                    ("resident", resident),
                    ("on devices", _at_most(device.get("peak_bytes"), device.get("upper_bytes"))),
                    ("formula", code(laws.formula(answer), 300)),
                    ("set at", model["set_at"] and code(model["set_at"])),
                    ("law", laws.verified(answer)),
                    ("lengths of its runs", ranges + beyond),
                ]
            ),
            *map(paragraph, model["notes"][:NOTES]),
        ]
    )


def plan(plan):
    """Chunks, and the bytes of a worker against its budget."""
    used, budget = plan["predicted_worker_bytes"], plan["budget_bytes"]
    of_budget = share(f"{sizes.text(used)} of {sizes.text(budget)}", used / budget if budget else 0)
    threads = plan["threads_per_worker"]
    plural = "" if threads == 1 else "s"
    return "".join(
        [
            heading("memtrace plan", laws.shape_of(plan["chunk_shape"]), "per chunk at most"),
            facts(
                [
                    ("tasks", plan["tasks"]),
                    ("workers", f"{plan['workers']} of {threads} thread{plural}"),
                    ("a worker's peak, of its budget", of_budget),
                    ("a task", _size(plan.get("predicted_task_bytes"))),
                    ("seconds", _seconds(plan["predicted_seconds"])),
                    ("confidence", plan.get("confidence")),
                ]
            ),
            paragraph(plan["why"], 1000),
            _choices(plan.get("pareto", ()), budget),
            _steps(plan.get("operators", ())),
        ]
    )


def _choices(choices, budget):
    rows = [
        (
            code(laws.shape_of(each["chunk_shape"])),
            number(each["tasks"]),
            share(
                sizes.text(each["predicted_worker_bytes"]),
                each["predicted_worker_bytes"] / budget if budget else 0,
            ),
            number(_seconds(each["predicted_seconds"])),
        )
        for each in choices[:CHOICES]
    ]
    head = ["chunk", "tasks", "a worker's peak", "seconds"]
    return table("Choices, the fastest first", head, rows)


def _steps(operators):
    rows = [
        (
            code(each["operator"]),
            code(laws.shape_of(each["block_shape"])),
            number(sizes.text(each["task_bytes"])),
        )
        for each in operators
    ]
    return table("Steps", ["operator", "block", "a task"], rows)


def forecast(forecast):
    """The peak of a graph that runs as it is, and what sets it."""
    set_by = forecast["set_by"]
    running = set_by["working_bytes"] + set_by["others_bytes"]
    rows = [
        (
            code(each["operator"]),
            number(each["steps"]),
            number(sizes.text(each["working_bytes"])),
            number(sizes.text(each["live_bytes"])),
        )
        for each in forecast["operators"]
    ]
    return "".join(
        [
            heading("memtrace forecast", set_by["operator"], "sets the peak"),
            facts(
                [
                    ("peak", sizes.text(forecast["peak_bytes"])),
                    ("at most", sizes.text(forecast["upper_bytes"])),
                    ("confidence", forecast["confidence"]),
                    ("what runs then", sizes.text(running)),
                    ("what is retained", sizes.text(set_by["retained_bytes"])),
                    ("seconds", _seconds(forecast["seconds"])),
                ]
            ),
            table("Operators", ["operator", "steps", "working peak", "live meanwhile"], rows),
        ]
    )


def _size(bytes_):
    return None if bytes_ is None else sizes.text(bytes_)


def _at_most(bytes_, upper):
    return None if bytes_ is None else f"{sizes.text(bytes_)}, at most {sizes.text(upper)}"


def _seconds(seconds):
    return None if seconds is None else f"{seconds:.3g}"
