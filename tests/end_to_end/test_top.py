"""The live view: what it shows of a running recording is so, and ends up as the report says."""

# ruff: noqa: F811 (arguments named as the fixtures)

import os
import re
import signal

import pytest
from conftest import ROOT
from test_oom import ENTER, MIB, group  # noqa: F401 (a fixture)
from viewing import lines, watched  # noqa: F401 (fixtures)

pytestmark = pytest.mark.serial


def in_flight(figures):
    return {span["operator"]: span for span in figures["spans"]}


def operators(figures):
    return {operator["name"]: operator for operator in figures["operators"]}


def keys(value):
    """Of all objects in it, but arrays and parameters, which have the trace's format."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield from each
            yield from (
                key
                for name, part in each.items()
                if name not in ("input", "params")
                for key in keys(part)
            )


def agrees_with_the_report(viewer, report):
    """The last figures are the report's, and all before are no larger and never fall."""
    last = viewer.all[-1]
    assert last["ended"]
    assert last["exit"] == report["exit"]
    for peak in ("live_bytes", "heap_bytes", "resident_bytes", "resident_sum_bytes"):
        assert last["peak"][peak] == report["peak"][peak], peak
    for total in ("allocations", "requested_bytes"):
        assert last["totals"][total] == report["totals"][total]
    assert (last["processes"], last["spans"]) == ([], [])
    assert {
        name: (operator["started"], operator["working_peak_bytes"])
        for name, operator in operators(last).items()
    } == {
        operator["name"]: (
            operator["calls"],
            max(span["working_peak_bytes"] for span in operator["spans"]),
        )
        for operator in report["operators"]
    }

    def rises(figure):
        course = [figure(figures) for figures in viewer.all]
        return course == sorted(course)

    assert rises(lambda figures: figures["peak"]["live_bytes"])
    assert rises(lambda figures: figures["peak"]["heap_bytes"])
    assert rises(lambda figures: figures["totals"]["allocations"])
    assert rises(lambda figures: figures["seconds"])
    for figures in viewer.all:
        assert figures["live_bytes"] <= figures["peak"]["live_bytes"]
        for operator in figures["operators"]:
            assert operator["finished"] + operator["running"] <= operator["started"]


def test_a_c_program_step_by_step(watched, lines):
    run = watched()
    run.tell("grow")
    view = lines(run.path)
    first = view.until(lambda figures: figures["heap_bytes"] >= 1_000_000)
    assert first["trace"] == str(run.path)
    assert first["recorder"] == run.recorder.pid
    assert first["command"].endswith("watched")
    [process] = first["processes"]
    assert process["ppid"] == run.recorder.pid
    assert process["heap_bytes"] == first["heap_bytes"]
    assert first["spans"] == []

    run.tell("begin")
    figures = view.until(lambda figures: any(s["working_bytes"] for s in figures["spans"]))
    span = in_flight(figures)["held"]
    assert span["pid"] == process["pid"]
    assert span["working_bytes"] == span["working_peak_bytes"] == 3_000_000
    assert (span["input"]["shape"], span["input_bytes"]) == ([100, 200], 160_000)
    assert operators(figures)["held"]["running"] == 1
    held = figures["live_bytes"]
    assert held >= first["live_bytes"] + 3_000_000

    run.tell("end")
    figures = view.until(lambda figures: not figures["spans"])
    held = operators(figures)["held"]
    assert (held["started"], held["finished"], held["running"]) == (1, 1, 0)
    assert held["working_peak_bytes"] == 3_000_000

    for _ in range(5):
        run.tell("grow")
    grown = view.until(lambda figures: figures["heap_bytes"] >= first["heap_bytes"] + 5_000_000)
    [site] = [site for site in grown["sites"] if site["place"] == "grow in watched"]
    assert site["live_bytes"] == 6_000_000
    assert site["grew_bytes"] in (5_000_000, 6_000_000)
    assert grown["sites"][0] == site

    done = run.end()
    assert done.code == 3
    while view.next():
        pass
    assert view.process.wait() == 0
    assert view.process.stderr.read() == b""
    agrees_with_the_report(view, done.report)
    text = (ROOT / "docs" / "reading.md").read_text().split("## `memtrace top")[1]
    assert set(keys(view.all)) <= set(re.findall(r"`(\w+)(?:\[\])?`", text))


PROGRAM = """
import sys
import numpy as np

def work(volume):
    doubled = volume * 2
    again(doubled, 2)
    return doubled

def again(volume, power):
    squared = volume ** power
    print("ok", flush=True)
    sys.stdin.readline()
    return squared

for line in sys.stdin:
    work(np.ones((300, 200, 10), "f4"))
    print("ok", flush=True)
"""


def test_python_operators_in_flight(watched, lines, python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    names = ("__main__:work", "__main__:again")
    options = [word for name in names for word in ("--operator", name)]
    run = watched(python, script, options=options)
    view = lines(run.path)
    array = 300 * 200 * 10 * 4
    for call in range(2):
        run.tell("go")

        def is_in(figures, call=call):
            both = [in_flight(figures).get(name, {"call": None}) for name in names]
            return all(span["call"] == call for span in both) and both[1]["working_bytes"] >= array

        work, again = (in_flight(view.until(is_in))[name] for name in names)
        assert again["parent"] == work["span"]
        assert (work["call"], again["call"]) == (call, call)
        assert work["input"] == again["input"] | {
            key: work["input"][key] for key in ("name", "address")
        }
        assert again["params"]["power"] == 2
        assert (work["input"]["shape"], work["input"]["dtype"]) == ([300, 200, 10], "<f4")
        assert array <= again["working_bytes"] < array + MIB
        assert 2 * array <= work["working_bytes"] < 2 * array + MIB
        run.tell("")
    while operators(view.next())["__main__:work"]["finished"] < 2:
        pass
    done = run.end()
    while view.next():
        pass
    agrees_with_the_report(view, done.report)
    assert operators(view.all[-1])["__main__:work"]["finished"] == 2


def test_what_went_down_with_its_process_is_neither_finished_nor_running(watched, lines):
    run = watched()
    run.tell("begin")
    view = lines(run.path)
    figures = view.until(in_flight)
    os.kill(in_flight(figures)["held"]["pid"], signal.SIGKILL)
    done = run.end()
    while view.next():
        pass
    held = operators(view.all[-1])["held"]
    assert (held["started"], held["finished"], held["running"]) == (1, 0, 0)
    assert (view.all[-1]["exit"], view.all[-1]["signal"]) == (128 + 9, 9)
    agrees_with_the_report(view, done.report)


def test_limits(watched, lines, target, group):
    inside = group(512 * MIB)
    limits = ENTER + 'ulimit -v 4000000; exec "$1"'
    run = watched("sh", "-c", limits, inside, target("watched.c"))
    run.tell("grow")

    def by_kind(figures):
        return {limit["kind"]: limit for limit in figures["limits"]}

    found = by_kind(lines(run.path).until(lambda figures: len(by_kind(figures)) == 3))
    assert found["cgroup"]["limit_bytes"] == 512 * MIB
    assert found["cgroup"]["name"] == str(inside)
    assert MIB < found["cgroup"]["used_bytes"] < 512 * MIB
    assert found["address_space"]["limit_bytes"] == 4_000_000 * 1024
    assert 2 * MIB < found["address_space"]["used_bytes"] < 4_000_000 * 1024
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found["machine"]["limit_bytes"] == machine
    run.end()


def test_views_do_not_disturb_each_other_nor_the_recording(watched, lines):
    run = watched()
    first, second, asleep = lines(run.path), lines(run.path), lines(run.path)
    first.next(), second.next(), asleep.next()
    asleep.process.send_signal(signal.SIGSTOP)
    second.process.kill()
    for step in range(1, 6):
        run.tell("grow")
        first.until(lambda figures, step=step: figures["heap_bytes"] >= step * 1_000_000)
    third = lines(run.path)
    third.until(lambda figures: figures["heap_bytes"] >= 5_000_000)
    done = run.end()
    assert done.code == 3
    for view in (first, third):
        while view.next():
            pass
        agrees_with_the_report(view, done.report)
    assert done.report["lost"]["events"] == 0


def test_nothing_that_a_view_needs_is_left_in_the_trace(watched, lines):
    run = watched()
    lines(run.path).next()
    done = run.end()
    expected = {"allocations", "timeline", "kernel_events", "accesses", "placements", "meta.json"}
    others = set(os.listdir(done.path)) - expected
    assert all(name.endswith(".parquet") for name in others), others
