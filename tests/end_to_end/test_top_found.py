"""Which recording the live view watches, and what it says where it cannot."""

# ruff: noqa: F811 (arguments named as the fixtures)

import contextlib
import json
import os
import re
import socket
import subprocess
import time

import pytest
from conftest import MEMTRACE, memtrace
from viewing import lines, watched  # noqa: F401 (fixtures)

pytestmark = pytest.mark.serial


def test_process_ids_lead_to_the_recording(watched, lines, tmp_path):
    """Of the recorder and of the recorded; a path too long for a socket's address is no hindrance."""
    run = watched(path=tmp_path / ("long" * 30) / "t")
    run.tell("grow")
    first = lines(run.path).until(lambda figures: figures["processes"])
    for pid in (run.recorder.pid, first["processes"][0]["pid"]):
        done = memtrace("top", pid, "--json", "--once")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["trace"] == str(run.path)


def test_what_was_attached_to_is_found(kernel_side, lines, target, tmp_path):
    pipe = subprocess.PIPE
    path = tmp_path / "t"
    with subprocess.Popen([target("watched.c")], stdin=pipe, stdout=pipe) as program:
        command = [MEMTRACE, "attach", str(program.pid), "-o", path]
        with subprocess.Popen(command, stderr=pipe) as recorder:
            while not (path / "meta.json").exists():
                time.sleep(0.01)
            view = lines(program.pid)
            figures = view.until(lambda figures: figures["processes"])
            assert figures["processes"][0]["pid"] == program.pid
            program.stdin.close()
            recorder.wait()
        while view.next():
            pass
    assert view.all[-1]["ended"]


def only_sentence(done):
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("memtrace: ")
    assert done.stdout == b""
    return line.removeprefix("memtrace: ")


def test_what_is_no_running_recording_is_said(record, target, tmp_path):
    run = record(target("heap.c"))
    done = memtrace("top", run.path, "--json")
    assert (done.returncode, only_sentence(done)) == (
        1,
        f"the recording has ended: memtrace report {run.path}",
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    for which, words in {
        tmp_path / "nowhere": "nowhere",
        target("heap.c"): "heap",
        tmp_path: "is recorded on this machine",
        empty: "is not a trace",
        os.getpid(): "is not being recorded",
        2**32 - 1: "there is no process 4294967295",
    }.items():
        done = memtrace("top", which, "--json")
        assert done.returncode == 1
        assert words in only_sentence(done)
    for wrong in ("0", "0.05", "-1", "nan", "x", "1e9"):
        assert memtrace("top", run.path, "--json", f"--every={wrong}").returncode == 2


def test_a_pipe_gets_no_drawing(watched):
    run = watched()
    done = memtrace("top", run.path)
    assert done.returncode == 2
    assert "--json" in only_sentence(done)


def test_a_recorder_that_is_killed(watched, lines):
    run = watched()
    view = lines(run.path)
    view.next()
    run.recorder.kill()
    while view.next():
        pass
    assert view.process.wait() == 1
    assert b"memtrace recover" in view.process.stderr.read()
    assert not view.all[-1]["ended"]
    done = memtrace("top", run.path, "--json")
    assert done.returncode == 1
    assert f"memtrace recover {run.path}" in only_sentence(done)
    run.recorder.stdin.close()
    run.recorder.stdout.read()  # until the program has ended


def test_a_recorder_that_talks_nonsense(tmp_path):
    for nonsense in (b"\x00\xff\n", b"{}\n", b'{"figures": 3}\n', b"x" * (17 << 20)):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / ".socket"))
            listener.listen()
            command = [MEMTRACE, "top", tmp_path, "--json"]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdout=pipe, stderr=pipe) as view:
                guest, _ = listener.accept()
                with guest, contextlib.suppress(OSError):
                    assert guest.recv(100).startswith(b"mtwatch1")
                    guest.sendall(nonsense)
                done = subprocess.CompletedProcess(
                    command, view.wait(), view.stdout.read(), view.stderr.read()
                )
        (tmp_path / ".socket").unlink()
        assert done.returncode == 1
        assert "cannot be understood" in only_sentence(done)


def test_the_recording_of_another_user_is_private(watched, as_nobody):
    _, nobody = as_nobody
    run = watched()
    run.tell("grow")
    for which in (run.path, str(run.recorder.pid)):
        done = nobody("top", which, "--json")
        assert done.returncode == 1, done
        assert re.search(
            "watch it as (that user|the user who records it), or as root", only_sentence(done)
        )


def test_a_silent_client_does_not_block_the_listener(watched, lines):
    run = watched()
    lines(run.path).next()
    with contextlib.ExitStack() as guests:
        for greeting in (b"", b"mtwatch1", b"\xff" * 40, b"mtwatch1" + b"\xff" * 32):
            guest = guests.enter_context(socket.socket(socket.AF_UNIX))
            guest.connect(str(run.path / ".socket"))
            guest.sendall(greeting)
        lines(run.path).next()
    assert run.end().code == 3
