"""A recording on the scheduler's dashboard: what is new is sent there, where a page shows it."""

import contextlib
from collections import deque
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from ._view import losses

#: The page has one dot for each of the newest tasks.
DOTS = 2000
FIELDS = ("key", "operator", "worker", "pid", "seconds", "measured_bytes", "predicted_bytes")
FIELDS += ("device_bytes", "over", "error")


class Dashboard:
    """Sends what a recording has learnt to the page."""

    def __init__(self, client, recording, following):
        """following: the tasks that run, and those that have ended (`Following`).

        RuntimeError: the scheduler can show no page, with the reason.
        """
        self._client, self._recording, self._following = client, recording, following
        self._unsent = []  # tasks that have ended
        try:
            client.run_on_scheduler(_open)
        except ImportError as error:
            raise RuntimeError(
                "the page needs bokeh and memtrace where the scheduler runs: "
                f"pip install bokeh memtrace ({error})"
            ) from error
        self.address = urljoin(client.dashboard_link, "memtrace")

    def send(self):
        """Everything new since the last time; later if the scheduler does not answer."""
        recording = self._recording
        with contextlib.suppress(OSError):  # distributed's CommClosedError is one
            running, ended = self._following.step()
            self._unsent += [_sent(row) for row in ended]
            news = {
                "running": recording.running,
                "ended": self._unsent,
                "in_flight": [_sent(row) for row in running],
                "workers": recording.workers(),
                "losses": [*losses(recording)],
            }
            self._client.run_on_scheduler(_take, news)
            self._unsent = []


def _sent(row):
    return {field: row[field] for field in FIELDS}


# In the scheduler -------------------------------------------------------------------------------


class Shown:
    """What the page shows: every browser that has it open draws this."""

    def __init__(self):
        self.news = 0  # how often some came
        self.running = True
        self.ended = self.over = 0
        self.dots = deque(maxlen=DOTS)
        self.operators = {}  # name -> its row
        self.in_flight, self.workers, self.losses = [], [], []

    def take(self, news):
        """Adds what is new."""
        self.news += 1
        for task in news["ended"]:
            self._add(task)
        for field in ("running", "in_flight", "workers", "losses"):
            setattr(self, field, news[field])

    def _add(self, task):
        self.ended += 1
        self.over += task["over"]
        self.dots.append(task)
        none = {"operator": task["operator"], "tasks": 0, "measured_bytes": 0, "over": 0}
        row = self.operators.setdefault(task["operator"], {**none, "predicted_bytes": None})
        row["tasks"] += 1
        row["over"] += task["over"]
        row["measured_bytes"] = max(row["measured_bytes"], task["measured_bytes"])
        if task["predicted_bytes"] is not None:
            row["predicted_bytes"] = max(row["predicted_bytes"] or 0, task["predicted_bytes"])


#: What the page of a scheduler shows: one recording, the latest.
_shown = WeakKeyDictionary()


def _open(dask_scheduler):
    """Makes the page empty, and the first time adds it. ImportError: there is no bokeh."""
    from . import _panel

    if dask_scheduler not in _shown:
        _panel.add(dask_scheduler, lambda: _shown[dask_scheduler])
    _shown[dask_scheduler] = Shown()


def _take(news, dask_scheduler):
    if dask_scheduler not in _shown:  # it was started anew
        _open(dask_scheduler)
    _shown[dask_scheduler].take(news)
