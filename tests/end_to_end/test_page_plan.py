"""The plan view of a page: what workers held, beside what was predicted and against their budget."""

import json
import sys

import browser
import pytest
from browser import Shown, html
from conftest import memtrace

PROGRAM = """
import numpy as np

def task(n):
    block = np.ones((n, 1000))
    return float((block + 1).sum())

for n in (1000, 3000, 2000, 500):
    task(n)
"""
FITTED = """
import numpy as np

def task(block):
    return block + 1

for n in (500, 500, 900, 900, 1600, 1600):
    task(np.ones((n, 1000)))
"""
PLAN = {
    "chunk_shape": [1000, 1000],
    "tasks": 4,
    "predicted_worker_bytes": 300_000_000,
    "budget_bytes": 350_000_000,
    "memory_limit_bytes": 400_000_000,
    "pareto": [{"tasks": 8, "predicted_worker_bytes": 60_000_000}],
}


@pytest.fixture
def run(record, python):
    return record(python, "-c", PROGRAM, options=("--operator", "__main__:task"))


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


def test_what_a_worker_held_is_beside_what_was_predicted(run, plan, tmp_path, kernel_side):
    page = html(run.path, tmp_path / "page.html", "--plan", plan)
    with browser.started() as chromium:
        shown = Shown(chromium, page, bypass_csp=True)
        shown.select(view="plan")
        [row] = shown.page.query_selector_all("#panel-plan tr[data-held]")
        [task] = [each for each in run.report["operators"] if each["name"] == "__main__:task"]
        most = max(span["resident_peak_bytes"] for span in task["spans"])
        assert int(row.get_attribute("data-held")) == most
        text = row.text_content()
        assert f"{100 * most / 300_000_000:.1f} %" in text
        assert f"{100 * most / 350_000_000:.1f} %" in text
        status = shown.page.text_content("#panel-plan .status")
        assert "4 chunks of 1000×1000" in status and "300 MB of 350 MB" in status
        shown.assert_accessible()
        shown.close()
    data = json.loads(browser.text_of(page.read_text()))
    [worker] = data["plan"]["workers"]
    calls = sorted(task["spans"], key=lambda span: span["start_seconds"])
    held = [[at + 1, span["resident_peak_bytes"]] for at, span in enumerate(calls)]
    assert worker["held"] == held and len(held) == 4


def test_what_recommend_prints_is_a_plan(run, tmp_path):
    command = ("-q", "-o", tmp_path / "fitted", "--operator", "__main__:task", "--")
    assert memtrace(*command, sys.executable, "-c", FITTED).returncode == 0
    model = tmp_path / "model.json"
    assert memtrace("fit", tmp_path / "fitted", "-o", model).returncode == 0
    asked = (
        "--operator",
        "task",
        "--shape",
        "9000,1000",
        "--memory-limit",
        "1GB",
        "--workers",
        "1",
    )
    done = memtrace("recommend", model, *asked, "--format", "json")
    assert done.returncode == 0, done.stderr.decode()
    (tmp_path / "plan.json").write_bytes(done.stdout)
    page = html(run.path, tmp_path / "page.html", "--plan", tmp_path / "plan.json")
    shown = json.loads(browser.text_of(page.read_text()))["plan"]
    assert shown["predicted_worker_bytes"] == json.loads(done.stdout)["predicted_worker_bytes"]


def test_every_call_counts_however_many_the_report_lists(record, python, plan, tmp_path):
    program = "def task(n): return bytearray(n)\nfor n in range(1200): task(n)"
    run = record(python, "-c", program, options=("--operator", "__main__:task"))
    [task] = [each for each in run.report["operators"] if each["name"] == "__main__:task"]
    assert len(task["spans"]) < 1200
    page = html(run.path, tmp_path / "page.html", "--plan", plan)
    workers = json.loads(browser.text_of(page.read_text()))["plan"]["workers"]
    known = run.sql("select count(*) from {spans} where resident_peak_bytes is not null")
    assert [worker["calls"] for worker in workers] == ([1200] if known != [(0,)] else [])
    for worker in workers:
        calls = [call for call, _ in worker["held"]]
        assert calls == sorted(calls) and 1150 < calls[-1] <= 1200 and len(calls) <= 200


def test_a_plan_that_is_too_large_is_one_sentence(run, tmp_path):
    with (tmp_path / "plan.json").open("w") as file:
        file.write('{"chunk_shape": [' + "0," * (9 << 20) + "0]}")
    asked = ("--html", tmp_path / "page.html", "--plan", tmp_path / "plan.json")
    done = memtrace("report", run.path, *asked)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"is larger than a plan may be" in done.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"words": 1}', '{"tasks": -1}'])
def test_what_is_no_plan_is_one_sentence(run, tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    asked = ("--html", tmp_path / "page.html", "--plan", tmp_path / "plan.json")
    done = memtrace("report", run.path, *asked)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"is no plan of chunks" in done.stderr
    assert not (tmp_path / "page.html").exists()
