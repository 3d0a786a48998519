"""What is in the page of `report --html` and what must stay out of it, without a browser."""

import json
import shutil

import pytest
from browser import html, text_of
from conftest import TARGETS, memtrace


@pytest.fixture
def run(record, python):
    """A recording of tests/targets/paged.py."""
    return record(python, TARGETS / "paged.py", cwd=TARGETS)


def test_only_files_of_the_program_get_into_the_page(record, python, tmp_path):
    """A trace can name any file of the machine."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("a line of another file\n")
    (folder / ".hidden").write_text("a line of a hidden file\n")
    (folder / "main.py").write_text(
        "kept = []\n"
        "for name in ('../outside.txt', '/etc/passwd', '.hidden'):\n"
        "    exec(compile('kept.append(bytearray(9_000_000))', name, 'exec'))\n"
        "kept.append(bytearray(8_000_000))  # a line of its own\n"
    )
    recorded = record(python, "main.py", cwd=folder)
    text = text_of(html(recorded.path, tmp_path / "page.html").read_text())
    assert "outside.txt" in text and "/etc/passwd" in text
    assert "a line of its own" in text
    assert "root:" not in text
    assert "another file" not in text and "a hidden file" not in text
    changed = edited(recorded.path, tmp_path / "elsewhere", host="another")
    text = text_of(html(changed, tmp_path / "elsewhere.html").read_text())
    assert "a line of its own" not in text


def edited(trace, path, **values):
    """A copy of a trace with other values in meta.json."""
    shutil.copytree(trace, path)
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps(meta | values))
    return path


def test_long_texts_are_cut(run, tmp_path):
    long = "A" * (2 << 20)
    values = {
        "host": long,
        "memtrace": long,
        "command": [long],
        "notes": [long] * 3,
        "limit": {"kind": "cgroup", "name": long, "bytes": 1 << 40},
    }
    meta = json.loads((run.path / "meta.json").read_text())
    values["limit"] = (meta["limit"] or {}) | values["limit"]
    trace = edited(run.path, tmp_path / "trace", **values)
    before = text_of(html(run.path, tmp_path / "before.html").read_text())
    after = text_of(html(trace, tmp_path / "after.html").read_text())
    assert "AAAA" in after
    assert len(after) < len(before) + 20_000


def test_an_operator_that_sleeps_beside_the_peak_is_not_named(record, python, tmp_path):
    program = tmp_path / "idle.py"
    program.write_text(
        "import threading\n"
        "holds, is_idle, done = (threading.Event() for _ in range(3))\n"
        "def idle():\n"
        "    is_idle.set()\n"
        "    done.wait()\n"
        "def work():\n"
        "    kept = bytearray(50_000_000)\n"
        "    holds.set()\n"
        "    is_idle.wait()\n"
        "    more = bytearray(10_000_000)\n"
        "busy, asleep = (threading.Thread(target=each) for each in (work, idle))\n"
        "busy.start()\n"
        "holds.wait()\n"
        "asleep.start()\n"
        "busy.join()\n"
        "done.set()\n"
        "asleep.join()\n"
    )
    options = ("--operator", "__main__:work", "--operator", "__main__:idle")
    run = record(python, program, options=options)
    page = json.loads(text_of(html(run.path, tmp_path / "page.html").read_text()))["page"]
    assert page["headline"]["operator"] == "__main__:work"


def test_the_page_names_what_it_contains(run, tmp_path):
    page = html(run.path, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Copyright (c) 2022 Leon Sorokin" in page


def test_source_text_can_be_left_out(run, tmp_path):
    with_source = html(run.path, tmp_path / "with.html").read_text()
    without = html(run.path, tmp_path / "without.html", "--no-source").read_text()
    assert len(without) < len(with_source)
    assert "np.pad" in text_of(with_source) and "np.pad" not in text_of(without)


def test_the_page_can_go_to_standard_output(run, tmp_path):
    done = memtrace("report", run.path, "--html", "-")
    assert done.stdout == html(run.path, tmp_path / "page.html").read_bytes()


@pytest.mark.parametrize(
    "options",
    [("--html", "x", "--json"), ("--html",), ("--no-source",), ("--html", "x", "--leaks")],
)
def test_what_makes_no_sense_is_refused(run, options):
    assert memtrace("report", run.path, *options).returncode == 2


def test_a_file_that_cannot_be_written_is_one_sentence(run, tmp_path):
    done = memtrace("report", run.path, "--html", tmp_path / "nowhere" / "page.html")
    assert done.returncode == 1
    assert done.stderr.startswith(b"memtrace: cannot write") and done.stderr.count(b"\n") == 1
