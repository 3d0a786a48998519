"""What a model predicts of recorded tasks, next to what was measured."""

#: Beyond this noise a task is over its prediction: a part of the upper bound, and bytes.
NOISE_PART, NOISE_BYTES = 0.005, 256 << 10


class Predictions:
    """Predicted against measured, task by task. A law is queried one time for the same call."""

    def __init__(self, model):
        self._model = model
        self._known = {}
        self._laws = set(model.operators()) if model is not None else set()

    def tasks(self, spans, ends=None):
        """The rows of `Recording.tasks`, in the order in which the tasks ended.

        ends: `first_ends` of a recording of which `spans` are a part; else they are all of it.
        """
        inside = {}  # (trace, span) of a task -> the spans of its computation that have a law
        by_id = {(span["trace"], span["span"]): span for span in spans}
        tasks = []
        for span in spans:
            task = _task_around(span, by_id)
            if task is span:
                tasks.append(span)
            if task is not None and span["operator"] in self._laws:
                inside.setdefault((task["trace"], task["span"]), []).append(span)
        tasks.sort(key=lambda span: (span["end_ns"] is None, span["start_unix_ns"] + _took(span)))
        ends = first_ends(spans) if ends is None else ends
        return [
            self._row(task, inside.get((task["trace"], task["span"]), []), ends) for task in tasks
        ]

    def _row(self, task, candidates, ends):
        row = {
            "key": task["key"],
            "operator": task["operator"],
            "host": task["host"],
            "worker": task["worker"],
            "address": task["address"],
            "pid": task["pid"],
            "seconds": None if task["end_ns"] is None else _took(task) / 1e9,
            "error": task["error"],
            "measured_bytes": task["working_peak_bytes"],
            "predicted_bytes": None,
            "upper_bytes": None,
            "device_bytes": task["device_peak_bytes"],
            "predicted_device_bytes": None,
            "law": None,
            "over": False,
        }
        own = [span for span in candidates if span is task] or candidates
        if not own:
            return row
        span = max(own, key=lambda span: span["working_peak_bytes"])
        predicted = self._predict(span)
        if predicted is not None:
            measured, on_device = span["working_peak_bytes"], span["device_peak_bytes"]
            device = predicted["device"]
            one_time = predicted["one_time_allocated_bytes"] if _is_first(span, ends) else 0
            upper = _upper(predicted) + one_time
            row.update(
                measured_bytes=measured,
                predicted_bytes=predicted["peak_bytes"] + one_time,
                upper_bytes=upper,
                device_bytes=on_device,
                law=span["operator"],
                over=_is_over(measured, upper),
            )
            if device is not None:
                row["predicted_device_bytes"] = device["peak_bytes"]
                row["over"] |= _is_over(on_device or 0, _upper(device))
        return row

    def _predict(self, span):
        if not span["inputs"]:
            return None
        array = span["inputs"][0]
        scalars = {
            name: value
            for name, value in span["params"].items()
            if name != "error" and isinstance(value, (int, float, str, bool))
        }
        call = (span["operator"], tuple(array["shape"]), array["dtype"], tuple(scalars.items()))
        if call not in self._known:
            try:
                self._known[call] = self._model.predict(
                    span["operator"], array["shape"], array["dtype"], any_version=True, **scalars
                )
            except (ValueError, TypeError):  # the law is of other parameters, or another dtype
                self._known[call] = None
        return self._known[call]


def _upper(predicted):
    return predicted.get("upper_bytes") or predicted["peak_bytes"]


def _is_over(measured, upper):
    return measured > upper + max(NOISE_PART * upper, NOISE_BYTES)


def first_ends(spans):
    """When the first call of each operator in each process ended."""
    ends = {}
    for span in spans:
        if span["end_ns"] is not None:
            process = _process(span)
            ends[process] = min(ends.get(process, span["end_ns"]), span["end_ns"])
    return ends


def _is_first(span, ends):
    """No call of its operator had ended in its process: what is allocated one time only may be its.

    Threads of a worker begin several such calls at once, and any of them may do it.
    """
    end = ends.get(_process(span))
    return end is None or span["start_ns"] < end


def _process(span):
    return span["trace"], span["pid"], span["operator"]


def _task_around(span, by_id):
    """The outermost task of Dask that a span is in, or is; None if it is in none."""
    found = None
    while span is not None:
        if span["key"] is not None:
            found = span
        span = by_id.get((span["trace"], span["parent"]))
    return found


def _took(span):
    return (span["end_ns"] or span["start_ns"]) - span["start_ns"]
