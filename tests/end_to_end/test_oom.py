"""Killed for lack of memory: who, under which limit, and what it held, by operator and by call stack."""

import itertools
import os
import signal
from pathlib import Path

import pytest
from conftest import is_root

pytestmark = pytest.mark.serial

MIB = 1 << 20
NUMBERS = itertools.count()
# Moves itself, and what it becomes or starts, into the group, as a container runtime would.
ENTER = 'echo 0 > "$0/cgroup.procs" || exit 99; '


def control_group():
    """A memory control group to be made: its path, the name of its limit, and of what says whether it swaps."""
    name = f"memtrace-test-{os.getpid()}-{next(NUMBERS)}"
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (first / "memory.limit_in_bytes").exists():
        return first / name, "memory.limit_in_bytes", "memory.swappiness"
    control = second / "cgroup.subtree_control"
    if control.exists() and "memory" in control.read_text().split():
        return second / name, "memory.max", "memory.swap.max"
    return None


@pytest.fixture
def group():
    """Makes a memory control group with a limit, which swap does not extend."""
    if not is_root():
        pytest.skip("making a control group needs root")
    found = control_group()
    if found is None:
        pytest.skip("there is no memory control group to make another in")
    folder, limit, swap = found

    def limited(limit_bytes):
        try:
            folder.mkdir()
        except OSError as error:
            pytest.skip(f"{folder}: {error}")
        (folder / limit).write_text(str(limit_bytes))
        if (folder / swap).exists():
            (folder / swap).write_text("0")
        return folder

    yield limited
    if folder.exists():
        folder.rmdir()


def only_victim(run, limit):
    [victim] = run.report["out_of_memory"]
    assert victim["limit_bytes"] == limit
    return victim


SMALL = 24 * MIB
LARGE = 96 * MIB

# In large steps: a program that runs much code between small ones makes the kernel reclaim and read that code again and
# again, for many seconds, before it kills.
PROGRAM = """
import numpy as np

def grow(rows):
    return np.ones((rows, 1024, 128))

held = [np.ones((8, 1024, 128))]
while True:
    held.append(grow(32))
"""


def test_a_python_program(record, python, group, tmp_path):
    script = tmp_path / "grows.py"
    script.write_text(PROGRAM)
    run = record(
        *("sh", "-c", ENTER + 'exec "$@"', group(LARGE), python, script),
        options=("--operator", "__main__:grow"),
    )
    assert run.code == 128 + signal.SIGKILL, run.stderr
    victim = only_victim(run, LARGE)
    assert str(script) in victim["command"]
    assert LARGE // 2 < victim["live_bytes"] < LARGE + 32 * MIB
    [operator] = victim["operators"]
    assert operator["name"] == "__main__:grow"
    assert operator["bytes"] > LARGE // 2
    first, second = victim["sites"][:2]
    assert first["place"].startswith("grow grows.py:5")
    assert 0 <= operator["bytes"] - first["bytes"] < MIB
    assert second["place"].startswith("<module> grows.py:7")
    assert second["bytes"] == 8 * MIB
    lines = run.stderr.decode().splitlines()
    said = [line.strip() for line in lines[lines.index(next(filter(is_kill, lines))) :]]
    assert "(limit 101 MB)" in said[0]
    assert "in operator __main__:grow" in said[2]
    if run.report["recorded"]["kernel"] == "ebpf":
        events = run.sql(
            "SELECT DISTINCT event FROM {kernel_events} "
            f"WHERE pid = {victim['pid']} AND event IN ('oom_victim', 'signal', 'reclaim')"
        )
        assert {event for (event,) in events} == {"oom_victim", "signal", "reclaim"}
    assert "at grow grows.py:5" in said[3]


def is_kill(line):
    return "KILLED for lack of memory" in line


def test_a_c_program_that_is_killed_before_it_is_looked_at(record, target, group):
    """It lives for less time than passes between two looks."""
    run = record("sh", "-c", ENTER + 'exec "$@"', group(SMALL), target("grows.c"), "100")
    assert run.code == 128 + signal.SIGKILL
    victim = only_victim(run, SMALL)
    [operator] = victim["operators"]
    assert operator["name"] == "grow"
    large, small = victim["sites"]
    assert (large["place"], small["place"]) == ("large_part in grows", "small_part in grows")
    assert operator["bytes"] == large["bytes"]
    # Malloc has been seen to return before its memory is written to.
    assert large["bytes"] + small["bytes"] >= SMALL - 4 * MIB
    assert large["bytes"] - 4 * small["bytes"] in (0, -4 * MIB)
    assert any(is_kill(line) for line in run.stderr.decode().splitlines())


def test_a_child_that_is_killed(record, target, group):
    program = ENTER + '"$@" > /dev/null; test $? = 137 && exit 5'
    run = record("sh", "-c", program, group(SMALL), target("grows.c"), "100")
    assert run.code == 5
    victim = only_victim(run, SMALL)
    assert victim["pid"] != run.report["processes"][0]["pid"]
    assert str(target("grows.c")) in victim["command"]
    assert victim["operators"][0]["name"] == "grow"
    assert victim["sites"][0]["bytes"] > SMALL // 2


def test_a_child_without_a_probe_that_is_killed(kernel_side, record, static, group):
    """Who it was and what it had in memory is known from the kernel side alone."""
    program = static("grows.c")
    run = record("sh", "-c", ENTER + '"$@"; test $? = 137 && exit 5', group(SMALL), program, "100")
    assert run.code == 5
    victim = only_victim(run, SMALL)
    assert str(program) in victim["command"]
    assert SMALL - 8 * MIB < victim["resident_bytes"] < SMALL + MIB, "code is not charged"
    assert any(is_kill(line) for line in run.stderr.decode().splitlines())


def test_a_plain_kill_is_none_for_lack_of_memory(record, target, group):
    program = ENTER + '"$@"; test $? = 137 || exit 1; kill -9 $$'
    run = record("sh", "-c", program, group(SMALL), target("grows.c"), "4", "killed")
    assert run.code == 128 + signal.SIGKILL
    assert run.report["out_of_memory"] == []
    assert b"lack of memory" not in run.stderr
