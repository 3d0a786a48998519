"""A recording as text and as a page: predicted against measured, workers against their budgets."""

import html
import os
import shutil
import sys
import threading
from pathlib import Path

from .._planning import sizes
from ._workers import fraction_of_worker

REFRESH_TEXT, REFRESH_PAGE = 1.0, 2.0  # seconds
LISTED = 15  # tasks in a terminal
NEAR = 0.9  # of its budget: a worker is marked from here on
#: Columns that are there if some task uses a GPU.
ON_DEVICES = ("on devices", "predicted there")
DEVICE_FIELDS = ("device_bytes", "predicted_device_bytes")


def workers_of(client, fractions):
    """The rows of `Recording.workers`.

    fractions: address of a worker -> the part of its limit that it may use, by its own settings;
        workers that are not in it are queried and added.
    """
    # The scheduler's own answer: what `client.scheduler_info` returns is at times replaced, by the
    # client's periodic one without workers, before it gets here.
    workers = client.sync(client.scheduler.identity)["workers"]
    new = [address for address in workers if address not in fractions]
    if new:
        fractions.update(client.run(fraction_of_worker, workers=new, on_error="ignore"))
    rows = []
    for address, worker in workers.items():
        limit = worker.get("memory_limit") or 0
        rows.append(
            {
                "address": address,
                "name": worker.get("name"),
                "host": worker.get("host"),
                "memory_bytes": (worker.get("metrics") or {}).get("memory", 0),
                "budget_bytes": int(limit * fractions.get(address, 0)) or None,
            }
        )
    return rows


# Text -------------------------------------------------------------------------------------------


def text(recording):
    """Three plain tables: operators, the tasks that stand out, workers."""
    tasks, workers = recording.tasks(), recording.workers()
    over = sum(task["over"] for task in tasks)
    state = "recording" if recording.running else "recorded"
    lines = [f"{state}: {len(tasks)} tasks on {len(workers)} workers, {over} over their prediction"]
    lines += [*map(_clean, losses(recording)), ""]
    there = ON_DEVICES if _use_devices(tasks) else ()
    head = ("operator", "tasks", "largest", "predicted", "over", *there)
    lines += _table(head, (row[: len(head)] for row in _by_operator(tasks)))
    shown = sorted(tasks, key=_stands_out, reverse=True)[:LISTED]
    head = ("task", "worker", "measured", "predicted", "measured/predicted", "", *there)
    rows = ((*_task_cells(task), *_device_cells(task))[: len(head)] for task in shown)
    lines += ["", *_table(head, rows)]
    if len(tasks) > len(shown):
        lines.append(f"… and {len(tasks) - len(shown)} more: Recording.tasks() or .html(path)")
    head = ("worker", "host", "memory", "budget", "of it", "")
    lines += ["", *_table(head, map(_worker_cells, workers))]
    return "\n".join(lines)


def _by_operator(tasks):
    groups = {}
    for task in tasks:
        groups.setdefault(task["operator"], []).append(task)
    for name, group in sorted(
        groups.items(), key=lambda item: -_largest(item[1], "measured_bytes")
    ):
        predicted = [task for task in group if task["predicted_bytes"] is not None]
        most = sizes.text(_largest(predicted, "predicted_bytes")) if predicted else "–"
        over = str(sum(task["over"] for task in group)) if predicted else "–"
        measured = sizes.text(_largest(group, "measured_bytes"))
        largest = {field: _largest(group, field) for field in DEVICE_FIELDS}
        yield name, str(len(group)), measured, most, over, *_device_cells(largest)


def _largest(tasks, field):
    return max((task[field] or 0 for task in tasks), default=0)


def _stands_out(task):
    return task["over"], max(task["measured_bytes"], task["device_bytes"] or 0)


def _use_devices(tasks):
    return any(task["device_bytes"] for task in tasks)


def _device_cells(task):
    return tuple(sizes.text(task[field]) if task[field] else "–" for field in DEVICE_FIELDS)


def _task_cells(task):
    predicted, measured = task["predicted_bytes"], task["measured_bytes"]
    ratio = f"{measured / predicted:.3f}" if predicted else "–"
    marks = [
        word for word, is_so in (("OVER", task["over"]), (task["error"], task["error"])) if is_so
    ]
    if task["seconds"] is None:
        marks.append("killed")
    size = sizes.text(predicted) if predicted is not None else "–"
    worker = str(task["worker"] or task["pid"])
    return task["key"], worker, sizes.text(measured), size, ratio, " ".join(marks)


def _worker_cells(worker):
    budget, memory = worker["budget_bytes"], worker["memory_bytes"]
    part = memory / budget if budget else 0
    mark = "NEAR ITS BUDGET" if part >= NEAR else ""
    of_it = f"{part:.0%}" if budget else "–"
    name, host = str(worker["name"]), str(worker["host"])
    return name, host, sizes.text(memory), sizes.text(budget) if budget else "none", of_it, mark


def _table(head, rows):
    rows = [tuple(_clean(cell) for cell in row) for row in (head, *rows)]
    widths = [min(max(map(len, column)), 60) for column in zip(*rows)]
    for row in rows:
        cells = (cell[:60].ljust(width) for cell, width in zip(row, widths))
        yield "  ".join(cells).rstrip()


def _clean(cell):
    """Without control characters of terminals: keys and names are the program's."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(cell))


def losses(recording):
    """A sentence for each known loss of the recording."""
    missing = recording.missing if not recording.running else 0
    if missing:
        yield f"{missing} spans of the traces did not come"
    for trace in recording.cut_off:
        yield f"cut off, spans may be missing: {trace}"


# The page ---------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --dot: #2a6fb0; --over: #c62828; --line: #8888; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; margin: 1em 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25em .6em; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; } td.key { overflow-wrap: anywhere; }
th button { font: inherit; font-weight: bold; border: 0; padding: 0; }
th button { background: none; cursor: pointer; }
tr.over { color: var(--over); font-weight: bold; }
svg { width: 100%; max-width: 40em; height: auto; }
circle { fill: var(--dot); fill-opacity: .6; } circle.over { fill: var(--over); }
line { stroke: var(--line); } text { fill: currentColor; font-size: 12px; }
"""

SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th button").forEach((button, column) => {
    let up = true;
    button.addEventListener("click", () => {
      const value = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const order = (a, b) => { const x = value(a), y = value(b);
        return isNaN(x) || isNaN(y) ? String(x).localeCompare(y) : x - y; };
      const rows = [...table.tBodies[0].rows].sort(order);
      table.tBodies[0].append(...(up ? rows : rows.reverse()));
      up = !up;
    });
  });
}
"""


def page(recording):
    """The page: one file without anything from elsewhere."""
    tasks, workers = recording.tasks(), recording.workers()
    over = sum(task["over"] for task in tasks)
    reload = (
        f'<meta http-equiv="refresh" content="{REFRESH_PAGE:.0f}">' if recording.running else ""
    )
    state = "recording" if recording.running else "recorded"
    on_devices = _use_devices(tasks)
    head = (
        ("task", 0),
        ("worker", 0),
        ("measured", 1),
        ("predicted", 1),
        ("ratio", 1),
        ("s", 1),
        ("", 0),
        *((name, 1) for name in ON_DEVICES if on_devices),
    )
    lost = "".join(f"<p>{html.escape(each)}</p>" for each in losses(recording))
    columns = (("worker", 0), ("host", 0), ("memory", 1), ("budget", 1), ("of it", 1), ("", 0))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{reload}'
        f"<title>memtrace: {len(tasks)} tasks</title><style>{STYLE}</style></head><body>"
        f"<h1>Predicted against measured</h1>"
        f"<p>{state}: {len(tasks)} tasks on {len(workers)} workers, {over} over their "
        f"prediction.</p>{lost}{_scatter(tasks)}"
        f"<h2>Workers</h2>{_html_table(columns, map(_worker_html, workers))}"
        f"<h2>Tasks</h2>{_html_table(head, (_task_html(task, on_devices) for task in tasks))}"
        f"<script>{SCRIPT}</script></body></html>"
    )


def _html_table(head, rows):
    cells = "".join(
        f'<th class="{"n" if is_number else ""}"><button>{html.escape(name)}</button></th>'
        for name, is_number in head
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _task_html(task, on_devices):
    key, worker, measured, predicted, ratio, mark = map(html.escape, _task_cells(task))
    numbers = task["measured_bytes"], task["predicted_bytes"] or -1, ratio.replace("–", "-1")
    seconds = -1 if task["seconds"] is None else task["seconds"]
    shown = f"{seconds:.3f}" if seconds >= 0 else "–"
    return (
        f'<tr class="{"over" if task["over"] else ""}"><td class="key">{key}</td><td>{worker}</td>'
        f"{_number(numbers[0], measured)}{_number(numbers[1], predicted)}"
        f"{_number(numbers[2], ratio)}{_number(seconds, shown)}<td>{mark}</td>"
        f"{_device_html(task) if on_devices else ''}</tr>"
    )


def _device_html(task):
    values = (-1 if task[field] is None else task[field] for field in DEVICE_FIELDS)
    return "".join(map(_number, values, _device_cells(task)))


def _worker_html(worker):
    name, host, memory, budget, part, mark = map(html.escape, _worker_cells(worker))
    share = worker["memory_bytes"] / worker["budget_bytes"] if worker["budget_bytes"] else 0
    return (
        f'<tr class="{"over" if mark else ""}"><td>{name}</td><td>{host}</td>'
        f"{_number(worker['memory_bytes'], memory)}{_number(worker['budget_bytes'] or 0, budget)}"
        f"{_number(share, part)}<td>{mark}</td></tr>"
    )


def _number(value, shown):
    return f'<td class="n" data-v="{value}">{shown}</td>'


def _scatter(tasks):
    """Each task a dot: predicted bytes across, measured bytes up; the line is where both agree."""
    dots = [task for task in tasks if task["predicted_bytes"] is not None]
    if not dots:
        return (
            "<p>No task has a prediction: give <code>record</code> a model of these operators.</p>"
        )
    side, edge = 400, 60
    most = 1.05 * max(max(task["measured_bytes"], task["predicted_bytes"]) for task in dots) or 1

    def at(task):
        x = edge + side * task["predicted_bytes"] / most
        y = edge / 2 + side * (1 - task["measured_bytes"] / most)
        return f'cx="{x:.1f}" cy="{y:.1f}"'

    bottom = edge / 2 + side
    ticks = [(part, sizes.text(round(most * part))) for part in (0.25, 0.5, 0.75, 1)]
    marks = "".join(
        f'<text x="{edge + side * part:.0f}" y="{bottom + 18:.0f}" text-anchor="middle">'
        f'{size}</text><text x="{edge - 6}" y="{bottom - side * part + 4:.0f}" '
        f'text-anchor="end">{size}</text>'
        for part, size in ticks
    )
    circles = "".join(
        f'<circle r="4" {at(task)} class="{"over" if task["over"] else ""}">'
        f"<title>{html.escape(' · '.join(_task_cells(task)[:4]))}</title></circle>"
        for task in dots
    )
    return (
        f'<svg viewBox="0 0 {side + 2 * edge} {side + edge + 20}" role="img" '
        f'aria-label="measured against predicted bytes of {len(dots)} tasks">'
        f'<line x1="{edge}" y1="{bottom}" x2="{edge + side}" y2="{edge / 2}"/>'
        f'<line x1="{edge}" y1="{bottom}" x2="{edge + side}" y2="{bottom}"/>'
        f'<line x1="{edge}" y1="{bottom}" x2="{edge}" y2="{edge / 2}"/>{marks}'
        f'<text x="{edge + side / 2}" y="{bottom + 36}" text-anchor="middle">predicted</text>'
        f'<text x="{edge}" y="{edge / 2 - 10}">measured</text>{circles}</svg>'
    )


# Live -------------------------------------------------------------------------------------------


class Live:
    """Draws a recording anew while it runs, each view in a thread of its own."""

    def __init__(self, recording):
        self._recording = recording
        self._over = threading.Event()
        self._threads = []

    def show(self):
        if self._recording.running and sys.stdout.isatty():
            self._repeat(self._draw, REFRESH_TEXT)
        else:
            print(text(self._recording))

    def html(self, path):
        path = Path(path)
        self._write(path)
        if self._recording.running:
            self._repeat(lambda: self._write(path), REFRESH_PAGE)

    def send(self, dashboard):
        dashboard.send()
        if self._recording.running:
            self._repeat(dashboard.send, REFRESH_TEXT)

    def close(self):
        """The recording has ended: every view is drawn for the last time."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _repeat(self, draw, seconds):
        def run():
            while not self._over.wait(seconds):
                draw()
            draw()

        self._threads.append(threading.Thread(target=run, name="memtrace view", daemon=True))
        self._threads[-1].start()

    def _draw(self):
        height = shutil.get_terminal_size().lines - 1
        lines = text(self._recording).splitlines()
        last = not self._recording.running
        print("\x1b[H\x1b[J" + "\n".join(lines if last else lines[:height]), flush=True)

    def _write(self, path):
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(page(self._recording), encoding="utf-8")
        os.replace(unfinished, path)
