"""Recording a cluster from its client: spans while its workers compute, and their traces."""

import contextlib
import itertools
import json
import os
import shutil
import threading
import time
import uuid
import warnings
import zlib
from pathlib import Path

import dask

from .._running.load import model_of
from . import _view
from ._dashboard import Dashboard
from ._following import Following, Running, described
from ._predict import Predictions
from ._recorder import pace

#: Spans come within a moment; a congested scheduler may take longer.
PATIENCE = 60  # seconds
PIECE = 8 << 20  # bytes of a trace fetched at a time


def record(client, directory, model=None, options=()):
    """Records every task of a cluster: `with record(client, "traces") as recording: ...`.

    Starts a memtrace recorder next to every nanny, and the workers again under it. The data in
    their memory is lost by that: begin before you `persist`. memtrace must be installed where the
    nannies run. Workers without a nanny are not started again; those started as `memtrace -- dask
    worker --no-nanny ...` stream from the recorder they have. Workers that join later are recorded
    too.

    The beginning of `with` raises RuntimeError if a host cannot record, with the reason, or if the
    client is asynchronous.

    Args:
        client: Of the cluster.
        directory: Where each nanny's host writes its trace, as `host=H/nanny=PID/`: all of them
            are one dataset, see `docs/cluster.md`. On hosts that share no file system with this
            one, `Recording.collect` fetches them.
        model: A `memtrace.Model`, or its file; predicts each task. Calls of the Python functions
            that it has laws of (`module:function`) are recorded inside of tasks. A law predicts
            for all versions of Python and libraries, also others than it was fitted on.
        options: More for `memtrace record`, e.g. `["--operator", "scipy.ndimage:gaussian_filter"]`.

    Returns:
        The recording, a context manager.
    """
    return Recording(client, directory, model, options)


class Recording:
    """The tasks of a cluster, as they end. Made by `record`; a context manager.

    At the end of `with` the recorders are closed and the traces complete, and every span has
    arrived here. Workers are not started again, because their data would be lost: the library that
    records stays loaded in them and does nothing any more.

    Attributes:
        directory: Where the traces are, on their hosts.
        traces: Directory of a trace -> dict with `host`, `batches` (by stream) and `problem`, as
            soon as it is closed.
        running: Whether the recording is running.
    """

    def __init__(self, client, directory, model=None, options=()):
        model = None if model is None else model_of(model)
        self.directory = Path(os.path.abspath(directory))
        self.traces = {}
        self.running = False
        self._client, self._options = client, [*options, *_operators_of(model)]
        self._name = f"memtrace-{uuid.uuid4().hex[:12]}"
        self._predictions = Predictions(model)
        self._lines = {}  # (trace, span) -> its JSON
        self._recordings = {}  # trace -> the first line of its stream
        self._batches = {}  # stream -> how many were taken in
        self._early = {}  # (stream, batch) -> those that came before their turn
        self._totals = {}  # trace -> spans it has, reported at its end
        self._workers = []
        self._fractions = {}  # address of a worker -> part of its limit that it may use
        self._running = Running(client, self._name)
        self._registered = []
        self._changed = threading.Condition()
        self._settings = contextlib.ExitStack()  # Dask's, while the recording runs
        self._views = _view.Live(self)
        self._dashboard = None

    def __enter__(self):
        from . import _nanny

        client = self._client
        if client.asynchronous:
            raise RuntimeError(
                "record waits for the cluster, which an asynchronous client does not: give it a "
                "Client without asynchronous=True, outside of the event loop"
            )
        client.subscribe_topic(self._name, self._receive)
        self.running = True
        # A cluster object closes a nanny whose worker was gone this long ago and is not there then,
        # which may be while it starts again: under a recorder, on a busy host, that takes longer.
        patient = {"distributed.deploy.lost-worker-timeout": "1 hour"}
        self._settings.enter_context(dask.config.set(patient))
        try:
            seconds = pace(self._count_streams())
            self._register(_nanny.RecordWorker(self._name, seconds), nanny=None)
            plugin = _nanny.RecordNanny(self._name, str(self.directory), self._options, seconds)
            self._register(plugin, nanny=True)
            self._warn_of_unrecorded()
        except BaseException:
            self.close()
            raise
        return self

    def _warn_of_unrecorded(self):
        from . import _nanny

        recorded = self._client.run(_nanny.may_be_recorded, on_error="ignore")
        others = sorted(address for address, may_be in recorded.items() if may_be is False)
        if others:
            message = (
                f"{len(others)} of {len(recorded)} workers have no nanny and are not recorded "
                f"({', '.join(others[:3])}): start them with a nanny, or under memtrace, "
                "`memtrace -- dask worker --no-nanny ...`"
            )
            warnings.warn(message, stacklevel=3)

    def _count_streams(self):
        """Of the processes that are there now; each sends the spans of its workers."""
        from . import _nanny

        run = self._client.run
        of_nannies = run(_nanny.place, nanny=True, on_error="ignore")
        of_workers = run(_nanny.place, on_error="ignore")
        return len({*of_nannies.values(), *of_workers.values()} - {None})

    def _register(self, plugin, nanny):
        """Again if a worker or a nanny left the cluster meanwhile, which fails for all of them."""
        self._registered.append(nanny)
        deadline = None
        while True:
            try:
                return self._client.register_plugin(plugin, name=self._name)
            except OSError:  # distributed's CommClosedError is one
                deadline = deadline or time.monotonic() + PATIENCE
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _unregister(self, nanny):
        # If one left meanwhile, the others do it without being waited for: their trace is closed.
        with contextlib.suppress(OSError):
            self._client.unregister_worker_plugin(self._name, nanny=nanny)

    def __exit__(self, *error):
        self.close()

    def close(self):
        """Closes the recorders and waits for the last spans. The end of `with` does it."""
        if not self.running:
            return
        client, name = self._client, self._name
        # Whatever fails or is interrupted: no worker stays recorded, no topic subscribed.
        with contextlib.ExitStack() as last:
            last.callback(self._settings.close)
            last.callback(client.run_on_scheduler, _forget_events, name)
            last.callback(client.unsubscribe_topic, name)
            for nanny in self._registered:
                last.callback(self._unregister, nanny)
            last.callback(self._stop_views)
            self._finish()

    def _stop_views(self):
        self.running = False
        self._views.close()

    def _finish(self):
        self.workers()  # the last snapshot
        self._request_ends()
        # A nanny whose worker is just being started again is not among the scheduler's.
        deadline = time.monotonic() + PATIENCE
        while not all(map(self._has_end, [*self._recordings])) and time.monotonic() < deadline:
            time.sleep(0.2)
            self._request_ends()
        self._await_all()

    def _request_ends(self):
        from . import _nanny

        client = self._client
        of_nannies = client.run(_nanny.finish, self._name, nanny=True, on_error="ignore")
        of_workers = client.run(_nanny.finish_worker, self._name, on_error="ignore")
        for end in filter(None, [*of_nannies.values(), *of_workers.values()]):
            self.traces.setdefault(end["trace"], end)["batches"].update(end["batches"])

    def _has_end(self, trace):
        return trace in self.traces or trace in self._totals

    # What has arrived -------------------------------------------------------------------------

    def _receive(self, event):
        """A batch of spans. Several may be on their way at a time: they are taken in in order."""
        _, message = event
        recording, stream = message["recording"], message["stream"]
        trace = recording["trace"]
        with self._changed:
            self._recordings[trace] = recording
            self._early[stream, message["batch"]] = message["data"]
            due = self._batches.setdefault(stream, 0)
            while (stream, due) in self._early:
                self._unpack(trace, self._early.pop((stream, due)))
                due += 1
            self._batches[stream] = due
            self._changed.notify_all()

    def _unpack(self, trace, data):
        for line in zlib.decompress(data).split(b"\n"):
            if line.startswith(b'{"ended":'):
                self._totals[trace] = json.loads(line)["ended"]["spans"]
            else:
                # Only the span's number is kept of it; the line is read again when it is requested.
                span = json.loads(line)["span"]
                self._lines[trace, span["span"]] = line

    def _await_all(self):
        def all_here():
            return all(map(self._has_all, self.traces.values()))

        with self._changed:
            self._changed.wait_for(all_here, PATIENCE)

    @property
    def missing(self):
        """The number of spans that the traces have and that did not arrive here.

        Known at the end, for the traces whose recorder reported its number of spans; the others
        are in `cut_off`.
        """
        arrived = {}
        for trace, _ in self._lines:
            arrived[trace] = arrived.get(trace, 0) + 1
        return sum(total - arrived.get(trace, 0) for trace, total in self._totals.items())

    @property
    def cut_off(self):
        """Traces (directories, sorted) of which an unknown number of spans did not arrive.

        Their host, their recorder or the scheduler was cut off. Known at the end. A host that was
        cut off before it sent anything is not among them.
        """
        traces = set() if self.running else {*self._recordings, *self.traces}
        return sorted(trace for trace in traces - set(self._totals) if not self._is_complete(trace))

    def _is_complete(self, trace):
        """Whether all batches of a stream that has ended arrived.

        A recorder that workers were started under goes on, and never reports its number of spans.
        """
        end = self.traces.get(trace)
        return end is not None and not end["problem"] and self._has_all(end)

    def _has_all(self, end):
        return all(self._batches.get(name, 0) >= count for name, count in end["batches"].items())

    @property
    def spans(self):
        """All spans so far, in the order in which they began, as dicts.

        The keys are the columns of `spans.parquet` (bytes; nanoseconds since the trace began) and
        `trace` (its directory), `host`, `pid`, `tid`, `start_unix_ns` and, of Dask's tasks,
        `key`, `worker` (name) and `address`. `end_ns` is None if the worker died in it.
        """
        return sorted(self._arrived(0), key=lambda span: span["start_unix_ns"])

    def _arrived(self, number):
        """Spans in the order in which they arrived, without the first ones."""
        with self._changed:
            lines = list(itertools.islice(self._lines.items(), number, None))
        return [
            described(self._recordings[trace], json.loads(line)["span"])
            for (trace, _), line in lines
        ]

    def _open_spans(self):
        """Spans that run, as if they ended now."""
        if not self.running:
            return []
        running = self._running.spans(worker["address"] for worker in self._workers)
        return [span for span in running if (span["trace"], span["span"]) not in self._lines]

    def tasks(self):
        """Every task of Dask so far, in the order in which they ended, as dicts.

        Their keys: `key`, `operator`, `host`, `worker`, `pid`, `seconds` (None if it never ended),
        `error`; `measured_bytes`, its working peak; `predicted_bytes`, `upper_bytes` and `law`, the
        operator whose law predicts it: the task's own, or the largest inside it (then
        `measured_bytes` is that one's). These are None without a model or a law. `device_bytes`,
        its working peak on GPUs (None: its process had no memory of one), and
        `predicted_device_bytes`. `over`: more was measured than the upper bound, on the host or on
        GPUs, by 0.5 % and 256 KiB at least. The prediction of a first call in a process has the
        law's one-time bytes in it.
        """
        return self._predictions.tasks(self.spans)

    def workers(self):
        """The cluster's workers, as the scheduler knows them, as dicts.

        Their keys: `address`, `name`, `host`, `memory_bytes` now and `budget_bytes` (None without a
        limit).
        """
        if self.running:
            self._workers = _view.workers_of(self._client, self._fractions)
        return self._workers

    # Showing it -------------------------------------------------------------------------------

    def __str__(self):
        return _view.text(self)

    def show(self):
        """Prints a table. On a terminal it is drawn anew every second until the recording ends."""
        self._views.show()

    def html(self, path):
        """Writes a page: predicted against measured, and every task in a table that can be sorted.

        While the recording runs, the file is written anew every two seconds and reloads itself.

        Args:
            path: The file to write.
        """
        self._views.html(path)

    def dashboard(self):
        """Adds a page to the scheduler's dashboard: what runs, predicted and measured, and workers.

        It shows tasks in flight, each with its prediction and what was measured so far, those that
        have ended, operators, and workers against their budgets, and is drawn anew every second
        until the recording ends. bokeh and memtrace must be installed where the scheduler runs.

        Returns:
            Address of the page.

        Raises:
            RuntimeError: The scheduler has no bokeh or no memtrace.
        """
        if self._dashboard is None:
            following = Following(self._predictions, self._arrived, self._open_spans)
            self._dashboard = Dashboard(self._client, self, following)
            self._views.send(self._dashboard)
        return self._dashboard.address

    # The traces -------------------------------------------------------------------------------

    def collect(self, to):
        """Copies all traces into the directory `to` of this host, laid out as `directory` is.

        Those that are not in this host's file system are fetched through the nannies that made
        them.

        Args:
            to: The directory, which is made if it is not there.

        Raises:
            RuntimeError: The recording is running, or a trace cannot be fetched; then the others
                have been copied.
        """
        if self.running:
            raise RuntimeError("traces can be collected when the recording has ended")
        lost = []
        for trace in self.traces:
            if self.directory not in Path(trace).parents:
                continue  # of a memtrace that workers were started under, which goes on
            place = Path(to, Path(trace).relative_to(self.directory))
            if place.exists():
                continue
            unfinished = place.with_name(place.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            if self._is_here(trace):
                shutil.copytree(trace, unfinished)
            elif not self._fetch(trace, unfinished):
                lost.append(trace)
                continue
            unfinished.rename(place)
        if lost:
            raise RuntimeError(f"no nanny is left that could send {', '.join(lost)}")

    def _is_here(self, trace):
        """Whether this host has the very trace, not another one under its name."""
        try:
            meta = json.loads(Path(trace, "meta.json").read_text())
        except (OSError, ValueError):
            return False
        return meta["start_unix_ns"] == self._recordings[trace]["start_unix_ns"]

    def _fetch(self, trace, place):
        start = self._recordings[trace]["start_unix_ns"]
        have = self._client.run(_files_of, trace, start, nanny=True, on_error="ignore")
        address, files = next(((a, files) for a, files in have.items() if files), (None, []))
        for name, size in files:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with path.open("wb") as file:
                for offset in range(0, size, PIECE):
                    got = self._client.run(
                        _piece_of, trace, name, offset, nanny=True, workers=[address]
                    )
                    file.write(got[address])
        return address is not None


def _operators_of(model):
    """Options that make the Python functions a model has laws of spans."""
    names = model.operators() if model is not None else ()
    return [option for name in names if ":" in name for option in ("--operator", name)]


def _files_of(trace, start_unix_ns):
    """Runs in a nanny: names and sizes of a trace's files; None if it is not on this host."""
    try:
        if json.loads(Path(trace, "meta.json").read_text())["start_unix_ns"] != start_unix_ns:
            return None
    except (OSError, ValueError):
        return None
    files = [path for path in Path(trace).rglob("*") if path.is_file()]
    return [(str(path.relative_to(trace)), path.stat().st_size) for path in files]


def _piece_of(trace, name, offset):
    """Runs in a nanny: bytes of a file."""
    with Path(trace, name).open("rb") as file:
        file.seek(offset)
        return file.read(PIECE)


def _forget_events(topic, dask_scheduler):
    """Runs in the scheduler, which would never drop a topic's last events."""
    broker = getattr(dask_scheduler, "_broker", None)
    if broker is not None:
        broker.truncate(topic)
    else:
        getattr(dask_scheduler, "events", {}).pop(topic, None)
