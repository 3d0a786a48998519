"""The page of a recording with much of everything: processes, threads, calls inside calls, and names that
are meant to harm."""

import re

import pytest
from browser import DESKTOP, PHONE, Shown, recorded
from conftest import ROOT, environment, memtrace

EVIL = "</script><img src=x onerror=alert(1)>\u202e\u2066\x1b[31m\x07\u2028"
ACTING = set("\u202e\u2066\x1b\x07\u2028")
PROGRAM = f"""\
import subprocess, sys, threading
import memtrace

EVIL = {EVIL!r}
kept = []

def deep(level):
    with memtrace.span(f"{{EVIL}} {{level}} {{'x' * 200}}"):
        kept.append(bytearray(200_000))
        if level:
            deep(level - 1)

deep(25)
threads = [threading.Thread(target=deep, args=(2,), name=EVIL) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# All of them at once: each waits for its input to end.
code = "import sys; kept = bytearray({{}}); print(flush=True); sys.stdin.read()"
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
children = []
for size in [30_000_000, *[3_000_000] * 23]:
    command = [sys.executable, "-c", code.format(size), EVIL * 20]
    children.append(subprocess.Popen(command, **pipes))
    children[-1].stdout.readline()
for child in children:
    child.communicate()
"""
VIEWS = ("flame", "lines", "operators", "source", "resident", "blocks")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowded")
    variables = environment(PYTHONPATH=str(ROOT / "python"))
    return recorded(folder, PROGRAM, EVIL + "long" * 300, env=variables)


@pytest.fixture
def shown(run, chromium):
    opened = Shown(chromium, run.path.parent / "page.html")
    yield opened
    opened.close()


def test_the_headline_names_the_process_with_most(run, shown):
    report = run.report
    processes = {each["pid"]: each["peak_live_bytes"] for each in report["processes"]}
    largest = max(processes, key=processes.get)
    assert len(processes) == 25 and processes[largest] > 30_000_000
    # The page has a curve of eleven, and one of all others, which is above them.
    assert sum(sorted(processes.values())[:14]) > processes[largest]
    said = shown.page.text_content("#headline .peak")
    pid, share = re.search(r"pid (\S+) had ([\d.]+) %", said).groups()
    assert int(pid) == largest
    # It is still there at the peak of all.
    exact = 100 * processes[largest] / report["peak"]["live_bytes"]
    assert float(share) == pytest.approx(exact, abs=1)


def test_names_stay_names_wherever_they_come_from(run, shown):
    assert shown.total() == run.report["peak"]["live_bytes"]
    for view in VIEWS:
        shown.select(view=view)
        assert shown.page.locator("img").count() == 0
        assert not set(texts(shown)) & ACTING, view
    shown.select(view="operators")
    assert "<img src=x onerror=alert(1)>" in shown.page.text_content("#panel-operators")
    [operator] = [each for each in run.report["operators"] if " 25 " in each["name"]]
    assert operator["name"].startswith(EVIL)
    row = shown.page.locator("#panel-operators button", has_text=" 25 ")
    row.first.click()
    assert " 25 xxx" in shown.page.input_value("select[name=operator]")
    assert shown.total() == operator["spans"][0]["working_peak_bytes"]


def texts(shown):
    """All that can be read, the title too."""
    return shown.page.evaluate(
        "[document.title, document.body.innerText,"
        " ...[...document.querySelectorAll('option, [title]')].map(each => each.title + each.text)"
        "].join()"
    )


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_first_screen_has_the_largest_frame(run, chromium, size):
    opened = Shown(chromium, run.path.parent / "page.html", size)
    width, height = size
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    row = 24
    assert opened.page.locator(".icicle").bounding_box()["y"] + 2 * row <= height
    opened.close()


def test_the_page_of_a_difference_is_not_harmed(run, chromium, tmp_path):
    page = tmp_path / "diff.html"
    done = memtrace("diff", run.path, run.path, "--html", page)
    assert done.returncode == 0, done.stderr.decode()
    opened = Shown(chromium, page, ready="h1")
    assert opened.page.locator("img").count() == 0
    assert "⟨U+202E⟩" in texts(opened)
    assert not set(texts(opened)) & ACTING
    opened.close()
