"""What a recording of a cluster does where something goes wrong, part by part: no cluster."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from types import SimpleNamespace

import pytest
from conftest import MEMTRACE, ROOT

pytest.importorskip("distributed", reason="distributed is not installed")

from memtrace.dask import _nanny, _record, _recorder, record  # noqa: E402


@contextlib.contextmanager
def talking():
    """A recorder that sends another process's spans for ever; its MEMTRACE_SOCKET."""
    name = f"memtrace-test-{os.getpid()}"
    over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()

        def talk():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(json.dumps({"recording": {"trace": "t"}}).encode() + b"\n")
                for number in itertools.count():
                    connection.sendall(b'{"span":{"pid":%d,"span":%d}}\n' % (number % 2, number))
                    if over.wait(0.02):
                        return

        thread = threading.Thread(target=talk)
        thread.start()
        yield name
        over.set()
        thread.join()


def test_a_stream_ends_while_others_go_on(monkeypatch):
    monkeypatch.setattr(_recorder, "LAST_SECONDS", 0.3)
    batches = []
    with talking() as name:
        stream = _recorder.Stream(name, batches.append, pid=1)
        ends = threading.Thread(target=stream.finish, args=(True,), daemon=True)
        ends.start()
        ends.join(20)
        assert not ends.is_alive()
    assert stream.batches == len(batches) > 0


def test_many_streams_send_less_often(monkeypatch):
    monkeypatch.setattr(_recorder, "LAST_SECONDS", 0.3)
    assert _recorder.pace(1) == _recorder.pace(8) == _recorder.BATCH_SECONDS
    assert _recorder.pace(64) == 2 and _recorder.pace(10_000) == _recorder.MOST_SECONDS
    batches = []
    with talking() as name:
        stream = _recorder.Stream(name, batches.append, pid=1, seconds=0.6)
        time.sleep(2)
        assert 1 <= len(batches) <= 3
        stream.finish(stop=True)


def test_the_recorder_ends_if_its_stream_fails(tmp_path, monkeypatch):
    started = []

    class Recorder(_recorder.Recorder):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            started.append(self._process)

    def fails(*_, **__):
        raise OSError("the recorder says nothing")

    monkeypatch.setenv("PATH", f"{MEMTRACE.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(_nanny, "Recorder", Recorder)
    monkeypatch.setattr(_nanny, "Stream", fails)
    plugin = _nanny.RecordNanny("name", str(tmp_path))
    nanny = SimpleNamespace(address="a", pre_spawn_env={})
    with pytest.raises(OSError, match="says nothing"):
        plugin._shared_with(nanny)
    [process] = started
    assert process.returncode == 0 and not _nanny._shared


class Cluster:
    """A client of two workers with settings of their own."""

    asynchronous = False

    @property
    def scheduler(self):
        return self

    def sync(self, function, *arguments):
        return function(*arguments)

    def __init__(self):
        self.registered, self.topics = [], []

    def subscribe_topic(self, topic, handler):
        self.topics.append(topic)

    def unsubscribe_topic(self, topic):
        self.topics.remove(topic)

    def register_plugin(self, plugin, name):
        self.registered.append(type(plugin).__name__)

    def unregister_worker_plugin(self, name, nanny=None):
        self.registered.remove("RecordNanny" if nanny else "RecordWorker")

    def run_on_scheduler(self, function, *arguments):
        pass

    def identity(self):
        return {"workers": {name: {"memory_limit": 1000} for name in "ab"}}

    def run(self, function, *arguments, workers=None, **_):
        if workers is not None:
            return {name: {"a": 0.5, "b": 0.25}[name] for name in workers}
        return {}


def test_an_asynchronous_client_is_refused(tmp_path):
    client = Cluster()
    client.asynchronous = True
    with pytest.raises(RuntimeError, match="asynchronous"), record(client, tmp_path):
        pass
    assert not client.topics


def test_plugins_go_though_the_end_is_interrupted(tmp_path, monkeypatch):
    client = Cluster()
    recording = record(client, tmp_path).__enter__()
    assert len(client.registered) == 2 and client.topics

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "_await_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording.close()
    assert not client.registered and not client.topics and not recording.running


def test_budgets_are_those_of_the_workers(tmp_path):
    with record(Cluster(), tmp_path) as recording:
        assert [worker["budget_bytes"] for worker in recording.workers()] == [500, 250]


def batch(trace, stream, number, *lines):
    data = zlib.compress(b"\n".join(json.dumps(line).encode() for line in lines))
    recording = {"trace": trace, "host": "h", "start_unix_ns": 0}
    return 0, {"recording": recording, "stream": stream, "batch": number, "data": data}


def span(number):
    fields = {"span": number, "pid": 1, "start_ns": 0, "end_ns": 1, "parent": None, "params": {}}
    measured = {"working_peak_bytes": 1, "inputs": []}
    return {"span": {"operator": "f", **fields, **measured}}


def test_traces_without_an_end_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(_record, "PATIENCE", 0.1)
    with record(Cluster(), tmp_path) as recording:
        recording._receive(batch("whole", "1", 0, span(0), {"ended": {"spans": 1}}))
        recording._receive(batch("short", "2", 0, span(0), {"ended": {"spans": 3}}))
        recording._receive(batch("cut off", "3", 0, span(0)))
        # Two workers under one recorder, which goes on.
        recording._receive(batch("of theirs", "4", 0, span(0)))
        recording._receive(batch("of theirs", "5", 1, span(2)))
        recording._receive(batch("of theirs", "5", 0, span(1)))
        end = {"trace": "of theirs", "host": "h", "batches": {"4": 1, "5": 2}, "problem": ""}
        recording.traces["of theirs"] = end
        assert recording.cut_off == []
    assert recording.missing == 2 and recording.cut_off == ["cut off"]
    assert "2 spans of the traces did not come" in str(recording)
    assert "cut off, spans may be missing: cut off" in str(recording)
    assert len([each for each in recording.spans if each["trace"] == "of theirs"]) == 3
    end["batches"]["5"] = 3
    assert recording.cut_off == ["cut off", "of theirs"]


def test_a_nanny_whose_worker_starts_again_is_waited_for(tmp_path):
    asked = []

    class Restarting(Cluster):
        def run(self, function, *arguments, **options):
            if function is not _nanny.finish:
                return super().run(function, *arguments, **options)
            asked.append(function)
            end = {"trace": "late", "host": "h", "batches": {"1": 1}, "problem": ""}
            return {"a": end} if len(asked) > 1 else {}

    with record(Restarting(), tmp_path) as recording:
        recording._receive(batch("late", "1", 0, span(0)))
    assert len(asked) == 2 and recording.cut_off == []


def test_a_worker_does_not_import_arrays_for_its_plugin():
    program = "import sys, memtrace.dask._nanny; sys.exit('dask.array' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_variables_stay_while_another_worker_starts(monkeypatch):
    monkeypatch.setenv(_recorder.TOKEN, "token")
    shared = _nanny._Shared.__new__(_nanny._Shared)
    shared.environment = {_recorder.TOKEN: "token"}
    process = SimpleNamespace(status=_nanny.Status.starting)
    starting, other = SimpleNamespace(process=process), SimpleNamespace(process=None)
    shared.nannies = {"a": starting, "b": other}
    shared._forget(but=other)
    assert os.environ[_recorder.TOKEN] == "token"
    shared._forget(but=starting)
    assert _recorder.TOKEN not in os.environ
    monkeypatch.setenv(_recorder.TOKEN, "token")
    process.status = _nanny.Status.running
    shared._forget(but=other)
    assert _recorder.TOKEN not in os.environ


@pytest.mark.parametrize("end", ["leaves", "closes"])
def test_a_start_that_waits_for_its_turn_ends_with_its_recording(monkeypatch, end):
    """Its nanny keeps the variables that it had, and its worker what is in memory."""
    nannies = [
        SimpleNamespace(
            address=name, process=SimpleNamespace(status=None), pre_spawn_env={}, status=None
        )
        for name in "ab"
    ]
    monkeypatch.setattr(_nanny, "STARTS", 1)
    shared = _nanny._Shared.__new__(_nanny._Shared)
    shared.environment = {_recorder.TOKEN: "token"}
    shared.nannies = {nanny.address: nanny for nanny in nannies}
    shared._joined, shared._before, shared._starts, shared.ending = {}, {}, None, False
    started = []

    async def start_again(nanny):
        started.append(nanny.address)
        await asyncio.sleep(0.2)

    async def run():
        joining = [asyncio.ensure_future(shared.join(nanny)) for nanny in nannies]
        await asyncio.sleep(0.1)
        if end == "leaves":
            shared.leave(nannies[1])
        else:
            shared.ending = True
        await asyncio.gather(*joining)

    monkeypatch.setattr(_nanny, "_start_again", start_again)
    monkeypatch.setattr(_nanny, "_forget", lambda _: None)
    asyncio.run(run())
    assert started == ["a"] and nannies[1].pre_spawn_env == {}
