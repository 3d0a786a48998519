"""What a recording of a cluster does where something goes wrong, part by part: no cluster."""

import contextlib
import itertools
import json
import os
import socket
import threading

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")

from memtrace.dask import _recorder  # noqa: E402


@contextlib.contextmanager
def talking():
    """A recorder that tells of another process's spans for ever; its MEMTRACE_SOCKET."""
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
