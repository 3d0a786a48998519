"""One selection for all views of a page: a process, a thread, an operator, as tables say it."""

import json

import pytest
from browser import Shown, html, recorded

HEAP = "('malloc', 'calloc', 'realloc', 'aligned')"
MAPPINGS = "('map_anonymous', 'map_shared', 'map_committed', 'map_break')"
# What counts of a block whatever was touched of it.
COUNTS = f"(kind in {HEAP} or kind in {MAPPINGS} and bytes <= 1048576)"
INSIDE = (
    "with recursive inside(span) as (select span from {spans} where operator = '__main__:outer'"
    " union select s.span from {spans} s join inside i on s.parent = i.span) "
)
PROGRAM = """
import subprocess, sys, threading, time

def inner(length):
    return bytearray(length)

def outer(kept):
    kept.append(bytearray(7_000_000))
    kept.append(inner(5_000_000))
    return kept

def beside(kept):
    kept.append(bytearray(11_000_000))
    is_there.set()
    is_done.wait()

# All of it lives at the peak: the child until its input ends, the thread until it is told.
code = "import sys; kept = bytearray(23_000_000); print(flush=True); sys.stdin.read()"
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child = subprocess.Popen([sys.executable, "-c", code], **pipes)
child.stdout.readline()
is_there, is_done = threading.Event(), threading.Event()
kept = []
thread = threading.Thread(target=beside, args=(kept,))
thread.start()
is_there.wait()
time.sleep(0.2)
outer(kept)
last = inner(1_000_000)
time.sleep(0.2)
is_done.set()
thread.join()
child.communicate()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    operators = ("__main__:outer", "__main__:inner")
    return recorded(tmp_path_factory.mktemp("selection"), PROGRAM, operators=operators)


@pytest.fixture
def shown(chromium, run):
    opened = Shown(chromium, run.path.parent / "page.html")
    yield opened
    opened.close()


def at_the_peak(run, condition, kinds=COUNTS, before=""):
    """Live bytes at the peak of blocks, by a query that shares nothing with the page."""
    peak = json.loads((run.path / "meta.json").read_text())["peak"]["peak_ns"]
    [[bytes_]] = run.sql(
        f"{before}select coalesce(sum(bytes), 0)::bigint from {{allocations}} where {condition}"
        f" and {kinds} and alloc_ns <= {peak} and (free_ns is null or free_ns > {peak})"
    )
    return bytes_


def test_a_process_is_shown_by_itself(run, shown):
    whole = shown.total()
    sums = []
    for process, _ in run.sql("select process, pid from {processes}"):
        shown.page.select_option("select[name=process]", str(process))
        heap = at_the_peak(run, f"process = {process}", f"kind in {HEAP}")
        assert shown.legend()["heap"] == heap
        assert shown.legend()["all live"] == whole
        assert shown.total() == heap + shown.legend()["touched mappings"]
        assert shown.tree()[0]["value"] == shown.total()
        sums.append(shown.total())
    assert sum(sums) == whole and min(sums) > 20_000_000


def test_a_thread_is_shown_by_itself(run, shown):
    [[other]] = run.sql(
        "select thread from {allocations} where bytes between 11000000 and 11000100"
    )
    shown.page.select_option("select[name=thread]", str(other))
    assert shown.total() == at_the_peak(run, f"thread = {other}") >= 11_000_000
    assert shown.legend()["heap"] == at_the_peak(run, f"thread = {other}", f"kind in {HEAP}")
    shown.select(view="lines", thread=other, **{"from": 0, "to": run.report["seconds"]})
    [(file, line)] = [key for key in shown.lines() if isinstance(key, tuple) and key[0]][:1]
    assert file.endswith("program.py")
    assert shown.query(line) == shown.lines()[file, line]


def test_a_thread_selects_its_process(run, shown, kernel_side):
    [[thread, process]] = run.sql(
        "select thread, process from {allocations} where bytes between 11000000 and 11000100"
    )
    shown.select(view="resident", thread=thread)
    tables = shown.page.locator("#panel-resident .waterfall")
    assert tables.evaluate_all("all => all.map(table => table.dataset.process)") == [str(process)]
    shown.select(view="resident")
    assert tables.count() == 2


def test_a_process_without_a_row_shows_no_other(run, chromium, tmp_path):
    page = html(run.path, tmp_path / "page.html", "--plan", planned(tmp_path))
    opened = Shown(chromium, page)
    [[parent]] = run.sql("select distinct process from {spans}")
    [[child]] = run.sql(f"select process from {{processes}} where process != {parent}")
    for process in (parent, child):
        opened.select(view="plan", process=process)
        rows = opened.page.locator("#panel-plan tr[data-held]")
        assert rows.count() == (1 if process == parent and has_resident(run) else 0)
    opened.close()


def has_resident(run):
    return bool(run.sql("select 1 from {spans} where resident_peak_bytes is not null"))


def planned(folder):
    """A plan of chunks."""
    figures = ("tasks", "predicted_worker_bytes", "budget_bytes", "memory_limit_bytes")
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"chunk_shape": [100]} | dict.fromkeys(figures, 300_000_000)))
    return plan


def test_a_click_on_an_operator_selects_it_in_all_views(run, shown):
    shown.select(view="operators")
    shown.page.click("#panel-operators button:text-is('__main__:outer')")
    assert "operator=__main__%3Aouter" in shown.page.url
    inside = "span in (select span from inside)"
    live = at_the_peak(run, inside, f"kind in {HEAP}", INSIDE)
    assert shown.legend()["heap"] == live >= 12_000_000
    [outer] = [each for each in run.report["operators"] if each["name"] == "__main__:outer"]
    assert shown.total() == outer["spans"][0]["working_peak_bytes"]
    assert shown.page.input_value("select[name=operator]") == "__main__:outer"
    assert pressed(shown) == {"__main__:outer"}
    shown.page.select_option("select[name=operator]", "__main__:inner")
    assert pressed(shown) == {"__main__:inner"}
    shown.select(view="lines", operator="__main__:outer", measure="peak")
    assert shown.total() == at_the_peak(run, inside, before=INSIDE)
    own = {key: value for key, value in shown.lines().items() if key[0].endswith("program.py")}
    assert sum(own.values()) >= 12_000_000
    for (_, line), bytes_ in own.items():
        assert shown.query(line) == bytes_
    # The same of the most that was live at any time.
    shown.select(
        view="lines",
        operator="__main__:outer",
        measure="largest",
        **{"from": 0, "to": run.report["seconds"]},
    )
    for (file, line), bytes_ in shown.lines().items():
        assert not file.endswith("program.py") or shown.query(line) == bytes_


def pressed(shown):
    """The operators whose rows are selected in the table."""
    return set(shown.page.locator("#panel-operators [aria-pressed=true]").all_text_contents())


def test_a_link_opens_the_selection_and_the_keyboard_ends_it(run, chromium, shown):
    shown.select(process=0, operator="__main__:inner", **{"from": 0.1, "to": 0.4})
    total = shown.total()
    other = Shown(chromium, run.path.parent / "page.html")
    other.page.goto("about:blank")
    other.wrong.clear()
    other.page.goto(shown.page.url)
    other.page.wait_for_selector("html[data-ready]")
    assert other.total() == total
    page = other.page
    assert page.input_value("select[name=process]") == "0"
    page.focus(".filter .chip")
    page.keyboard.press("Enter")
    assert "from=" not in page.url and "operator=" in page.url
    page.focus("select[name=operator]")
    page.keyboard.press("Home")
    assert "operator=" not in page.url
    page.focus(".filter .quiet")
    page.keyboard.press("Enter")
    assert "process=" not in page.url
    assert other.total() == run.report["peak"]["live_bytes"]
    other.close()


def test_what_a_link_names_and_the_trace_has_not_selects_nothing(run, shown):
    shown.select(process=99, thread="none", operator="absent")
    assert shown.total() == run.report["peak"]["live_bytes"]
    assert shown.page.input_value("select[name=process]") == ""


def test_a_selection_keeps_no_reader_out(chromium, run):
    opened = Shown(chromium, run.path.parent / "page.html", bypass_csp=True)
    opened.select(operator="__main__:outer", **{"from": 0.1, "to": 0.4})
    opened.assert_accessible()
    opened.close()
