"""The page of a recording in the scheduler's dashboard, drawn by bokeh."""

import html

from bokeh.layouts import column, row
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    DataTable,
    Div,
    FactorRange,
    HoverTool,
    Slope,
    TableColumn,
)
from bokeh.plotting import figure
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from distributed.dashboard.core import BokehApplication
from distributed.dashboard.scheduler import template_variables

from .._planning import sizes
from ._view import NEAR

NAME = "memtrace"
EVERY = 1000  # milliseconds
CALM, WARNING = "#0072B2", "#D55E00"  # of Okabe and Ito: also told apart without red and green
SIZES = """
const units = ["B", "kB", "MB", "GB", "TB"];
let unit = 0;
while (tick >= 1000 && unit < 4) { tick /= 1000; unit += 1; }
return `${Number(tick.toPrecision(3))} ${units[unit]}`;
"""
DOT = ("key", "operator", "worker", "measured_bytes", "predicted_bytes", "measured", "predicted")
RUNNING = ("operator", "task", "worker", "for", "measured so far", "predicted", "of it", "mark")
OPERATOR = ("operator", "tasks", "largest", "predicted", "over")
WORKER = ("worker", "memory_bytes", "budget_bytes", "text", "color")


def add(scheduler, shown):
    """Adds the page to the HTTP server of a scheduler, and its name to the bar of all pages.

    shown: gives what the page shows (`_dashboard.Shown`).
    """
    server = scheduler.http_application
    prefixes = [each.prefix for each in server.applications if hasattr(each, "prefix")]
    variables = template_variables(scheduler)
    if NAME not in variables["pages"]:
        variables["pages"].append(NAME)

    def document(scheduler, extra, doc):
        page = Page(shown)
        page.update()
        doc.add_periodic_callback(page.update, EVERY)
        doc.add_root(page.root)
        doc.title = "Dask: memtrace"
        doc.template = env.get_template("simple.html")
        doc.template_variables.update(extra)
        doc.theme = BOKEH_THEME

    prefix = prefixes[0] if prefixes else ""
    application = BokehApplication({f"/{NAME}": document}, scheduler, prefix, variables)
    server.add_application(application)
    application.initialize(scheduler.loop)
    application.start()


class Page:
    """The page in one browser."""

    def __init__(self, shown):
        self._shown = shown
        self._drawn = None  # what was drawn: the recording, and how much had come of it
        self._head = Div(name="head", sizing_mode="stretch_width")
        self._dots, scatter = _scatter()
        self._workers, self._names, bars = _bars()
        self._running, running = _table("in flight", RUNNING)
        self._operators, operators = _table("operators", OPERATOR)
        self.root = column(
            self._head,
            row(scatter, bars, sizing_mode="stretch_width"),
            Div(text="<h3>in flight</h3>"),
            running,
            Div(text="<h3>operators: tasks that have ended</h3>"),
            operators,
            sizing_mode="stretch_width",
        )

    def update(self):
        """Draws what has come since; nothing if that is nothing."""
        shown = self._shown()
        if self._drawn == (shown, shown.news):
            return
        self._drawn = shown, shown.news
        self._head.text = _head(shown)
        self._dots.data = _columns(DOT, map(_dot, _with_prediction(shown.dots)))
        workers = [_worker(worker) for worker in shown.workers]
        self._names.factors = [worker[0] for worker in reversed(workers)]
        self._workers.data = _columns(WORKER, workers)
        _fill(self._running, RUNNING, map(_running, shown.in_flight))
        largest = sorted(shown.operators.values(), key=lambda each: -each["measured_bytes"])
        _fill(self._operators, OPERATOR, map(_operator, largest))


# Models -----------------------------------------------------------------------------------------


def _scatter():
    dots = ColumnDataSource(_columns(DOT, []), name="tasks")
    plot = figure(
        title="tasks: measured against predicted",
        x_axis_label="predicted",
        y_axis_label="measured",
        height=320,
        sizing_mode="stretch_width",
        tools="pan,wheel_zoom,box_zoom,reset",
    )
    plot.scatter("predicted_bytes", "measured_bytes", source=dots, size=7, alpha=0.6, color=CALM)
    plot.x_range.start = plot.y_range.start = 0
    agreed = Slope(gradient=1, y_intercept=0, line_color="gray", line_dash="dashed")
    plot.add_layout(agreed)
    plot.xaxis.formatter = plot.yaxis.formatter = CustomJSTickFormatter(code=SIZES)
    fields = ("key", "operator", "worker", "measured", "predicted")
    plot.add_tools(HoverTool(tooltips=[(name, f"@{name}") for name in fields]))
    return dots, plot


def _bars():
    workers = ColumnDataSource(_columns(WORKER, []), name="workers")
    names = FactorRange()
    plot = figure(
        title="workers: memory, and the budget as a line",
        y_range=names,
        height=320,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
    )
    plot.hbar(y="worker", right="memory_bytes", height=0.6, color="color", source=workers)
    plot.scatter(
        "budget_bytes",
        "worker",
        source=workers,
        marker="dash",
        angle=1.5708,
        size=26,
        color="black",
    )
    plot.x_range.start = 0
    plot.xaxis.formatter = CustomJSTickFormatter(code=SIZES)
    plot.add_tools(HoverTool(tooltips=[("worker", "@worker"), ("memory", "@text")]))
    return workers, names, plot


def _table(name, fields):
    source = ColumnDataSource(_columns(fields, []), name=name)
    columns = [TableColumn(field=field, title=field.replace("mark", "")) for field in fields]
    return source, DataTable(
        source=source, columns=columns, index_position=None, height=220, sizing_mode="stretch_width"
    )


def _fill(source, fields, rows):
    """Replaces the rows of a table, which bokeh draws anew only if their number changes."""
    source.data = _columns(fields, [])
    source.data = _columns(fields, rows)


# What they show ---------------------------------------------------------------------------------


def _columns(fields, rows):
    """The data of a source."""
    rows = list(rows)
    return {field: [each[place] for each in rows] for place, field in enumerate(fields)}


def _head(shown):
    state = "recording" if shown.running else "recorded"
    sentences = [
        f"{state}: {shown.ended} tasks have ended, {shown.over} over their prediction; "
        f"{len(shown.in_flight)} in flight on {len(shown.workers)} workers",
        *shown.losses,
    ]
    return "".join(f"<p>{html.escape(each)}</p>" for each in sentences)


def _with_prediction(tasks):
    return [task for task in tasks if task["predicted_bytes"] is not None]


def _dot(task):
    measured, predicted = task["measured_bytes"], task["predicted_bytes"]
    worker = _place(task)
    words = _size(measured), _size(predicted)
    return task["key"], task["operator"], worker, measured, predicted, *words


def _running(task):
    measured, predicted = task["measured_bytes"], task["predicted_bytes"]
    part = f"{measured / predicted:.0%}" if predicted else "–"
    mark = "OVER" if task["over"] else ""
    seconds = f"{task['seconds']:.1f} s"
    sizes_ = _size(measured), _size(predicted)
    return task["operator"], task["key"], _place(task), seconds, *sizes_, part, mark


def _operator(each):
    over = each["over"] if each["predicted_bytes"] is not None else "–"
    largest, predicted = _size(each["measured_bytes"]), _size(each["predicted_bytes"])
    return each["operator"], each["tasks"], largest, predicted, over


def _worker(worker):
    memory, budget = worker["memory_bytes"], worker["budget_bytes"]
    near = budget and memory >= NEAR * budget
    text = f"{_size(memory)} of {_size(budget)}" if budget else f"{_size(memory)}, no limit"
    name = f"{worker['name']} on {worker['host']}"
    return name, memory, budget or float("nan"), text, WARNING if near else CALM


def _place(task):
    return str(task["worker"] or task["pid"])


def _size(size):
    return "–" if size is None else sizes.text(size)
