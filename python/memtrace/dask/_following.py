"""Tasks of a recording as they run and end, without a look at those of before."""

from ._predict import first_ends


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
