"""A recording on the dashboard of a real cluster, in a real browser."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from browser import executable
from conftest import MEMTRACE, ROOT, TARGETS

pytest.importorskip("distributed", reason="distributed is not installed")

from distributed import Client, LocalCluster  # noqa: E402

sys.path.insert(0, str(TARGETS))
import memtrace as mt  # noqa: E402
from memtrace.dask import record  # noqa: E402
from memtrace.dask._dashboard import DOTS, Shown  # noqa: E402
from memtrace.dask._following import Following  # noqa: E402
from memtrace.dask._predict import Predictions  # noqa: E402
from tasks import doubled, kept  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("lean")]

#: The data that the browser has of one of the page's tables and plots.
DATA = """name => {
    const found = Bokeh.documents[0]?.get_model_by_name(name)
    return found ? Object.fromEntries(Object.entries(found.data).map(([k, v]) => [k, [...v]])) : {}
}"""
SHAPES = ((150, 160), (210, 130), (330, 340), (64, 511))


@pytest.fixture(scope="module")
def client():
    """A cluster whose dashboard is on."""
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    before = {name: os.environ.get(name) for name in ("PATH", "PYTHONPATH")}
    os.environ["PATH"] = f"{MEMTRACE.parent}:{before['PATH']}"
    paths = [ROOT / "python", TARGETS, before["PYTHONPATH"] or ""]
    os.environ["PYTHONPATH"] = ":".join(map(str, paths))
    settings = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GB"}
    with (
        LocalCluster(dashboard_address="127.0.0.1:0", silence_logs="ERROR", **settings) as cluster,
        Client(cluster) as client,
    ):
        yield client
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


class Tab:
    """The page in a browser, and what it has received."""

    def __init__(self, page, address):
        self.page, self.wrong = page, []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._said)
        # Where other tests have the processors.
        page.set_default_timeout(120_000)
        page.goto(address)

    def _said(self, message):
        if message.type == "error":
            self.wrong.append(message.text)

    def rows(self, name):
        data = self.page.evaluate(DATA, name)
        return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]

    def until(self, name, wanted):
        """Rows that are as wanted."""
        deadline = time.monotonic() + 120
        while not wanted(rows := self.rows(name)):
            assert time.monotonic() < deadline, str(rows)
            self.page.wait_for_timeout(100)
        return rows


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def tab(browser):
    """Opens addresses; fails if a page had errors."""
    opened = []

    def open_page(address):
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        opened.append(Tab(page, address))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.close()
        assert not each.wrong


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Laws of two operators: `doubled` as it is, `kept` as a third of it."""
    laws = []
    for name, bytes_of_cell in (("doubled", 16), ("kept", 8)):
        sizes = [bytes_of_cell * rows * columns for rows, columns in SHAPES]
        laws.append(mt.fit_table(SHAPES, sizes, dtype="<f8", operator=name))
    return laws[0].merge(laws[1])


def test_a_task_that_runs_is_there_with_predicted_and_measured_bytes(client, model, tab, tmp_path):
    end = tmp_path / "end"
    block = np.ones((700, 900))
    with record(client, tmp_path / "traces", model) as recording:
        address = recording.dashboard()
        assert address == client.dashboard_link.replace("/status", "/memtrace")
        page = tab(address)
        running = client.submit(kept, block, str(end), key="kept-<b>1</b>")
        [row] = page.until("in flight", lambda rows: rows and rows[0]["mark"])
        assert row["operator"] == "kept" and row["task"] == "kept-<b>1</b>"
        assert (row["predicted"], row["measured so far"]) == ("5.04 MB", "10.1 MB")
        assert row["of it"] in ("200%", "201%", "202%")  # with small blocks
        assert row["mark"] == "OVER" and row["worker"] in ("0", "1")
        # What is drawn: a key is text, whatever is in it.
        page.page.get_by_text("kept-<b>1</b>", exact=True).wait_for()
        workers = page.until("workers", lambda rows: len(rows) == 2)
        assert {row["budget_bytes"] for row in workers} == {
            worker["budget_bytes"] for worker in recording.workers()
        }
        assert all(0 < row["memory_bytes"] < row["budget_bytes"] for row in workers)
        assert not running.done()

        end.touch()
        client.gather([running, *client.map(doubled, [block, block + 1])])
        page.until("in flight", lambda rows: not rows)
        dots = page.until("tasks", lambda rows: len(rows) == 3)
        ended = {task["key"]: task for task in recording.tasks()}
        for dot in dots:
            task = ended[dot["key"]]
            assert dot["measured_bytes"] == task["measured_bytes"]
            assert dot["predicted_bytes"] == task["predicted_bytes"]
        # What is drawn comes in parts.
        found = page.until("operators", lambda rows: sum(row["tasks"] for row in rows) == 3)
        operators = {row["operator"]: row for row in found}
        assert (operators["doubled"]["tasks"], operators["doubled"]["over"]) == (2, 0)
        assert (operators["kept"]["tasks"], operators["kept"]["over"]) == (1, 1)
    # The page stays, and says that it is over; the bar of every page leads to it.
    page.page.get_by_text("recorded: ").wait_for()
    other = tab(client.dashboard_link)
    other.page.get_by_role("link", name="Memtrace").click()
    other.page.get_by_text("recorded: ").wait_for()


def test_the_next_recording_begins_anew(client, model, tab, tmp_path):
    pages = []
    for number in range(2):
        with record(client, tmp_path / str(number), model) as recording:
            pages.append(recording.dashboard())
            if number == 0:
                page = tab(pages[0])
            client.gather(client.map(doubled, [np.ones((700, 900 + number))]))
            expected = 16 * 700 * (900 + number)
            page.until(
                "tasks",
                lambda rows, expected=expected: (
                    [row["predicted_bytes"] for row in rows] == [expected]
                ),
            )
    assert pages[0] == pages[1]


def test_what_is_sent_in_steps_is_what_the_recording_says(client, model, tmp_path):
    """Each task one time, with spans inside of it that arrived before."""
    with record(client, tmp_path / "traces", model) as recording:
        client.gather(client.map(doubled, [np.ones((70, 90 + n)) for n in range(20)]))
    spans = recording._arrived(0)
    for part in (1, 3, len(spans)):
        here = []
        following = Following(Predictions(model), lambda since, here=here: here[since:], list)
        rows = []
        for first in range(0, len(spans), part):
            here += spans[first : first + part]
            rows += following.step()[1]
        assert sorted(rows, key=str) == sorted(recording.tasks(), key=str)
        assert len(rows) == 20


def test_the_page_keeps_the_newest_tasks_and_counts_all():
    shown = Shown()
    task = {"operator": "f", "measured_bytes": 1, "predicted_bytes": None, "over": False}
    for first in range(0, 3 * DOTS, 500):
        ended = [{**task, "key": n, "measured_bytes": n} for n in range(first, first + 500)]
        shown.take({"ended": ended, "running": True, "in_flight": [], "workers": [], "losses": []})
    assert shown.ended == shown.operators["f"]["tasks"] == 3 * DOTS
    assert [shown.dots[0]["key"], len(shown.dots)] == [2 * DOTS, DOTS]
    assert shown.operators["f"]["measured_bytes"] == 3 * DOTS - 1


WITHOUT = """
import sys
sys.modules["bokeh"] = None
from distributed import Client, LocalCluster
from memtrace.dask import record

if __name__ == "__main__":
    with LocalCluster(n_workers=1, dashboard_address="127.0.0.1:0") as cluster, Client(cluster) as client:
        with record(client, sys.argv[1]) as recording:
            try:
                recording.dashboard()
            except RuntimeError as error:
                print(error)
            client.submit(sum, [1, 2, 3]).result()
        print([task["operator"] for task in recording.tasks()])
"""


def test_without_bokeh_a_recording_goes_on(python, tmp_path):
    script = tmp_path / "without.py"
    script.write_text(WITHOUT)
    paths = f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"
    path = f"{MEMTRACE.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [python, script, tmp_path / "traces"],
        env={**os.environ, "PYTHONPATH": paths, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    said, tasks = done.stdout.splitlines()
    assert said.startswith(
        "the page needs bokeh and memtrace where the scheduler runs: pip install"
    )
    assert tasks == "['sum']"
