"""Tasks of a recording as they run and end, without a look at those of before."""

from ._predict import first_ends


class Running:
    """What runs on a cluster, as the recorders of its nannies and workers have it."""

    def __init__(self, client, name):
        """name: of the plugins (`_nanny`)."""
        self._client, self._name = client, name
        self._alone = {}  # address of a worker -> whether it has no nanny

    def spans(self, workers):
        """Spans that run, as if they ended now. workers: their addresses."""
        from . import _nanny

        name, run = self._name, self._client.run
        answers = run(_nanny.in_flight, name, nanny=True, on_error="ignore")
        # Workers for which a nanny answers are asked one time.
        asked = [at for at in workers if self._alone.get(at, True)]
        if asked:
            function = _nanny.in_flight_of_worker
            own = run(function, name, workers=asked, on_error="ignore")
            self._alone.update((at, own.get(at) is not None) for at in asked)
            answers = {**answers, **own}
        return [span for each in answers.values() if each is not None for span in _spans_in(each)]


def _spans_in(answer):
    now_ns = round(answer["seconds"] * 1e9)
    for span in answer["spans"]:
        start_ns = now_ns - round(span["seconds"] * 1e9)
        inputs = [span["input"]] if span["input"] else []
        row = {**span, "start_ns": start_ns, "end_ns": now_ns, "inputs": inputs}
        yield described(answer["recording"], row)


def described(recording, span):
    """A span with what it is in `Recording.spans`."""
    task = span["params"].get("task")
    task = task if isinstance(task, dict) else {}  # an argument of this name
    return {
        "trace": recording["trace"],
        "host": recording["host"],
        **span,
        "start_unix_ns": recording["start_unix_ns"] + span["start_ns"],
        "key": task.get("key"),
        "worker": task.get("worker"),
        "address": task.get("address"),
        "error": span["params"].get("error"),
    }


class Following:
    """What has happened since the last step: a task that has ended is read one time."""

    def __init__(self, predictions, arrived, open_spans):
        """arrived: gives the spans from a number on, in the order in which they arrived.
        open_spans: gives those that run, as if they ended now."""
        self._predictions = predictions
        self._arrived, self._open_spans = arrived, open_spans
        self._number = 0
        self._waiting = {}  # (trace, span) -> a span that has ended inside of one that has not
        self._ends = {}

    def step(self):
        """Rows as in `Recording.tasks`: of tasks that run, and of those that have ended since."""
        running = _by_id(self._open_spans())
        new = self._arrived(self._number)
        self._number += len(new)
        self._waiting.update(_by_id(new))
        for process, end in first_ends(new).items():
            self._ends[process] = min(end, self._ends.get(process, end))
        return self._rows_of_running(running), self._rows_of_ended()

    def _rows_of_ended(self):
        tops = {at: _top(span, self._waiting) for at, span in self._waiting.items()}
        whole = {at for at, top in tops.items() if top["parent"] is None}
        spans = [span for at, span in self._waiting.items() if at in whole]
        self._waiting = {at: span for at, span in self._waiting.items() if at not in whole}
        return self._predictions.tasks(spans, self._ends)

    def _rows_of_running(self, running):
        running = {at: span for at, span in running.items() if at not in self._waiting}
        known = {**self._waiting, **running}
        tops = {at: _identity(_top(span, known)) for at, span in known.items()}
        spans = [span for at, span in known.items() if tops[at] in running]
        return self._predictions.tasks(spans, self._ends)


def _by_id(spans):
    return {_identity(span): span for span in spans}


def _identity(span):
    return span["trace"], span["span"]


def _top(span, known):
    """The outermost span around one, as far as they are known."""
    while (around := known.get((span["trace"], span["parent"]))) is not None:
        span = around
    return span
