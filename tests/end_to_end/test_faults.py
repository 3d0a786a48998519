"""System calls of probe, tracer and readers fail: the program stays as it is, and what is lost is said."""

import shutil
import sys

import pytest
from conftest import MEMTRACE, TARGETS
from faults import NUMBERS, Faults, Read, Recorded, RecordedPython, build, choose, is_of_the_runtime

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    if shutil.which("gcc") is None or not NUMBERS.exists():
        pytest.skip("gcc is not installed")
    return Faults(tmp_path_factory.mktemp("faults"))


def recording(*words):
    return [MEMTRACE, "-q", "-o", "{trace}", *words]


def outcomes(faults, command, judge, how, trace=None):
    """How many calls failed; none of them may have done harm."""
    chosen = list(choose(faults.sites(command, trace), how))
    runs = [
        each for each in faults.all(command, chosen, judge, trace) if not is_of_the_runtime(each[0])
    ]
    assert not [f"{run}: {'; '.join(wrong)}" for run, wrong in runs if wrong]
    return len(runs)


def test_calls_of_a_recording_fail(faults):
    program = build("faulted.c", faults.folder)
    assert outcomes(faults, recording("--", program), Recorded(), "some") >= 150


def test_calls_fail_without_the_kernel_side(faults):
    program = build("faulted.c", faults.folder)
    assert outcomes(faults, recording("--kernel", "proc", "--", program), Recorded(), "first") >= 60


def test_calls_fail_under_python(faults, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(MEMTRACE.parents[2] / "python"))
    command = recording("--", sys.executable, TARGETS / "faulted.py")
    assert outcomes(faults, command, RecordedPython(), "first") >= 60


@pytest.mark.parametrize("reader", [("report",), ("report", "--json"), ("flamegraph", "-o", "-")])
def test_calls_of_readers_fail(faults, reader):
    program = build("faulted.c", faults.folder)
    recorded = faults.run(recording("--", program))
    command = [MEMTRACE, *reader, "{trace}"]
    reference = faults.run(command, trace=recorded.trace)
    assert reference.code == 0, reference.stderr
    assert outcomes(faults, command, Read(reference), "some", recorded.trace) >= 15
