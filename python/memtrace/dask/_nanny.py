"""What the cluster's processes do for a recording: plugins, and functions run in nannies."""

import asyncio
import os
import platform
import threading

try:
    from dask.system import CPU_COUNT
    from distributed.core import Status
    from distributed.diagnostics.plugin import NannyPlugin, WorkerPlugin
except ImportError as error:
    message = f"recording a cluster needs distributed: pip install 'dask[distributed]' ({error})"
    raise ImportError(message) from error

from .._running import command
from ._recorder import (
    BATCH_SECONDS,
    SOCKET,
    VARIABLES,
    Figures,
    Recorder,
    Stream,
    is_recorded,
)

#: A worker has this many seconds to start again; Dask's 30 are too few on a busy host.
START_SECONDS = 120
#: So many workers of a process start at a time, and others compute or wait: a start is a second of
#: a processor, and where all of many share a few processors none of them would be in time.
STARTS = 2 * CPU_COUNT

#: A nanny in one of these states starts no worker: nothing would ever close it.
LEAVING = (Status.closing_gracefully, Status.closing, Status.closed, Status.failed)

#: Of this process, by the name of the recording: nannies of one process (those of a LocalCluster,
#: of `dask worker --nworkers`) start their workers with one environment, and share a recorder.
_shared = {}
_lock = threading.RLock()


class _Shared:
    """The recorder of a process of nannies, and the nannies that use it."""

    def __init__(self, plugin, nanny):
        place = os.path.join(plugin.directory, f"host={platform.node()}", f"nanny={os.getpid()}")
        self.recorder = None
        self.nannies = {nanny.address: nanny}
        self._joined = {}  # address of a nanny -> the task that starts its worker again
        self._starts = None  # a semaphore, which belongs to the loop of the nannies
        self._before = {}  # address of a nanny -> the variables that it had
        if is_recorded():  # the workers are too: `memtrace -- dask worker ...`
            self.environment = {}
            self._sockets = os.environ[SOCKET]
        else:
            environment = {**os.environ, **nanny.pre_spawn_env}
            self.recorder = Recorder(command.command(), place, environment, plugin.options)
            self.environment = self.recorder.environment
            self._sockets = self.environment[SOCKET]
        self._figures = None  # until a dashboard shows them
        try:
            send = lambda batch: self._send(plugin.name, batch)  # noqa: E731
            self.stream = Stream(self._sockets, send, seconds=plugin.seconds)
        except BaseException:  # nothing else would ever close the recorder
            if self.recorder is not None:
                self.recorder.close()
            raise
        self.ending, self.closed = False, None

    def _send(self, topic, batch):
        """Called by the thread of the stream: sends through any nanny that is not closed."""
        nanny, *_ = self.nannies.values()  # in one step: another thread may remove one
        nanny.loop.add_callback(nanny.log_event, topic, batch)

    async def join(self, nanny):
        """Starts a nanny's worker again, one time: a second request waits for the first."""
        if self._starts is None:
            self._starts = asyncio.Semaphore(STARTS)
        task = self._joined.get(nanny.address)
        if task is None:
            task = self._joined[nanny.address] = asyncio.ensure_future(self._connect(nanny))
        await asyncio.shield(task)

    async def _connect(self, nanny):
        async with self._starts:
            # While it waited for its turn, the nanny or the recording may have ended.
            left = self._joined.get(nanny.address) is not asyncio.current_task()
            if not (self.ending or left or nanny.status in LEAVING):
                await self._connect_now(nanny)

    async def _connect_now(self, nanny):
        self._before[nanny.address] = {name: nanny.pre_spawn_env.get(name) for name in VARIABLES}
        nanny.pre_spawn_env.update(self.environment)
        if nanny.process is None or not self.environment:
            return
        try:
            await asyncio.wait_for(asyncio.shield(_start_again(nanny)), START_SECONDS)
        except Exception as error:
            late = isinstance(error, asyncio.TimeoutError)
            problem = f"not in {START_SECONDS} s" if late else error
            if nanny.status not in LEAVING:
                message = f"the worker of {nanny.address} did not start again: {problem}"
                raise RuntimeError(message) from error
        finally:
            self._forget(but=nanny)

    def leave(self, nanny):
        """Gives a nanny its variables back. Another one may come under its address."""
        self._joined.pop(nanny.address, None)
        for name, value in self._before.pop(nanny.address, {}).items():
            if value is None:
                nanny.pre_spawn_env.pop(name, None)
            else:
                nanny.pre_spawn_env[name] = value
        self._forget(but=nanny)

    def _forget(self, but):
        """Not while the worker of another nanny starts: that has set the variables, and spawns it a
        moment later in a thread; it would not be recorded."""
        processes = [nanny.process for nanny in [*self.nannies.values()] if nanny is not but]
        if not any(process and process.status is Status.starting for process in processes):
            _forget(self.environment)

    def in_flight(self):
        """What runs under the recorder. None if the recording has ended."""
        with _lock:
            if self.closed is not None:
                return None
            if self._figures is None:
                self._figures = Figures(self._sockets)
            return {"recording": self.stream.recording, **self._figures.newest()}

    def close(self):
        """Ends the recording, one time. Returns what the client needs to know of it."""
        self.ending = True
        with _lock:
            if self.closed is None:
                if self._figures is not None:
                    self._figures.close()
                problem = self.recorder.close() if self.recorder else ""
                self.stream.finish(stop=self.recorder is None)
                self.closed = _end(self.stream, problem)
            return self.closed


class RecordNanny(NannyPlugin):
    """Starts a recorder next to a nanny, and its worker again in an environment that connects it.

    The worker's environment must be there before it is spawned (the dynamic linker reads it), so
    the nanny's process has the variables for that moment, like its `pre-spawn-environ`.
    """

    restart = False  # done in `setup`, so that the message of a failure reaches the client

    def __init__(self, name, directory, options=(), seconds=BATCH_SECONDS):
        self.name, self.directory, self.options = name, directory, tuple(options)
        self.seconds = seconds

    async def setup(self, nanny):
        if nanny.status in LEAVING:
            return
        try:
            shared = await _in_thread(self._shared_with, nanny)
        except OSError as error:  # one of the network's would make the client try again
            raise RuntimeError(f"{platform.node()} cannot record: {error}") from error
        if shared is None:
            return
        try:
            await shared.join(nanny)
        finally:
            if nanny.status in LEAVING:
                await self.teardown(nanny)

    def _shared_with(self, nanny):
        """None if the nanny began to close meanwhile."""
        with _lock:
            shared = _shared.get(self.name)
            if shared is None:
                shared = _shared[self.name] = _Shared(self, nanny)
            shared.nannies[nanny.address] = nanny
        if nanny.status in LEAVING:  # its teardown may have found nothing to leave
            self._remove(nanny)
            return None
        return shared

    async def teardown(self, nanny):
        shared = _shared.get(self.name)
        if shared is not None and shared.nannies.get(nanny.address) is nanny:
            shared.leave(nanny)  # not in the thread: the nanny reads its variables in this one
            await _in_thread(self._remove, nanny)

    def _remove(self, nanny):
        """The last nanny of the process closes the recorder; until then, it sends the spans."""
        with _lock:
            shared = _shared.get(self.name)
            if shared is None or shared.nannies.get(nanny.address) is not nanny:
                return
            if len(shared.nannies) == 1:
                _forget(shared.environment)
                shared.close()
                del _shared[self.name]
            else:
                del shared.nannies[nanny.address]


class RecordWorker(WorkerPlugin):
    """Streams from the recorder of a worker that has no nanny and was started under memtrace."""

    def __init__(self, name, seconds=BATCH_SECONDS):
        self.name, self.seconds = name, seconds
        self._stream = self._figures = None

    def setup(self, worker):
        if worker.nanny is None and is_recorded():
            send = lambda batch: worker.loop.add_callback(worker.log_event, self.name, batch)  # noqa: E731
            self._stream = Stream(os.environ[SOCKET], send, os.getpid(), self.seconds)

    def in_flight(self):
        """What runs in this process. None if it has no stream of its own."""
        if self._stream is None:
            return None
        if self._figures is None:
            self._figures = Figures(os.environ[SOCKET])
        newest = self._figures.newest()
        own = [span for span in newest["spans"] if span["pid"] == os.getpid()]
        return {"recording": self._stream.recording, **newest, "spans": own}

    def finish(self):
        if self._stream is None:
            return None
        if self._figures is not None:
            self._figures.close()
        stream, self._stream = self._stream, None
        stream.finish(stop=True)
        return _end(stream, problem="")

    def teardown(self, worker):
        self.finish()


def _end(stream, problem):
    """What the client needs to know of a stream that has ended."""
    recording = stream.recording
    batches = {stream.name: stream.batches}
    return {
        "trace": recording["trace"],
        "host": recording["host"],
        "batches": batches,
        "problem": problem,
    }


def place(dask_worker):
    """Runs in a nanny or a worker: the process that sends its spans. None if its nanny's does, or
    none does."""
    is_worker = hasattr(dask_worker, "nanny")
    if is_worker and (dask_worker.nanny or not is_recorded()):
        return None
    return platform.node(), os.getpid()


def may_be_recorded(dask_worker):
    """Runs in a worker: whether its nanny records it, or a recorder that it was started under."""
    return dask_worker.nanny is not None or is_recorded()


async def finish(name, dask_worker):
    """Runs in a nanny: ends its recording. None if it has none."""
    shared = _shared.get(name)
    return None if shared is None else await _in_thread(shared.close)


async def finish_worker(name, dask_worker):
    """Runs in a worker: ends its stream. None if it has none."""
    plugin = dask_worker.plugins.get(name)
    return None if plugin is None else await _in_thread(plugin.finish)


async def in_flight(name, dask_worker):
    """Runs in a nanny: what runs now. None if it has no recording, or another nanny answers."""
    shared = _shared.get(name)
    if shared is None or next(iter(shared.nannies.values())) is not dask_worker:
        return None
    return await _in_thread(shared.in_flight)


async def in_flight_of_worker(name, dask_worker):
    """Runs in a worker: what runs now. None if its nanny answers."""
    plugin = dask_worker.plugins.get(name)
    return None if plugin is None else await _in_thread(plugin.in_flight)


async def _start_again(nanny):
    """Like `Nanny.restart`, but a nanny that closes meanwhile is left without a worker."""
    await nanny.kill(reason="memtrace-record")
    if nanny.status not in LEAVING:
        await nanny.instantiate()


def _forget(environment):
    """Removes the variables from this process's own environment, where the nanny put them."""
    for name, value in environment.items():
        if os.environ.get(name) == value:
            parts = value.split(":") if name == "LD_PRELOAD" else []
            before = ":".join(part for part in parts if "libmemtrace_" not in part)
            os.environ.pop(name)
            if before:
                os.environ[name] = before


def _in_thread(function, *arguments):
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)
