"""`memtrace diff`: what changed from one recording to another."""

import json
import random

import pytest
from browser import Shown, started
from conftest import memtrace

PROGRAM = """\
import sys


def load(n):
    return bytearray(n)


def smooth(n):
    first = bytearray(n)
    second = bytearray(n // 2)
    return first


def store(n):
    return len(bytes(n))


for name, size in zip(("load", "smooth", "store"), sys.argv[1:]):
    kept = globals()[name](int(size))
"""
NAMES = ("load", "smooth", "store")
LINES = {"load": 5, "smooth": 10, "store": 15}
LARGEST = LINES | {"smooth": 9}
SIZES = {"load": 6_000_000, "smooth": 4_000_000, "store": 5_000_000}
OPERATORS = [word for name in NAMES for word in ("--operator", f"__main__:{name}")]


@pytest.fixture
def run(record, python, tmp_path):
    """Records the program, with other sizes or another text."""

    def run(text=PROGRAM, file="program.py", more=(), **sizes):
        program = tmp_path / file
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        arguments = [str((SIZES | sizes)[name]) for name in NAMES]
        options = ("--stacks", "all", *OPERATORS)
        return record(python, program, *arguments, *more, options=options).path

    return run


def diff(before, after):
    done = memtrace("diff", before, after, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def change(figure):
    return (figure["after"] or 0) - (figure["before"] or 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_tenth_more_in_one_operator_is_the_first_row(run, name):
    more = SIZES[name] // 10
    before, after = run(), run(**{name: SIZES[name] + more})
    found = diff(before, after)
    first = found["operators"][0]
    assert first["operator"] == f"__main__:{name}"
    assert first["line"] == LINES[name] and first["file"].endswith("program.py")
    expected = more * 3 // 2 if name == "smooth" else more
    assert abs(change(first["working_peak_bytes"]) - expected) < 2000
    by_bytes = max(found["lines"]["changed"], key=lambda line: abs(change(line["requested_bytes"])))
    assert by_bytes["line"] == LARGEST[name]
    text = memtrace("diff", before, after).stdout.decode()
    table = text[text.index("operator and input") :].splitlines()
    assert f"__main__:{name}" in table[1] and f"program.py:{LINES[name]}" in table[1]


def test_one_program_differs_from_itself_by_nothing(record, target):
    program = target("heap.c")
    before, after = (record(program, options=("--stacks", "all")).path for _ in range(2))
    found = diff(before, after)
    assert found["operators"] == found["lines"]["changed"] == found["processes"] == []
    exact = [each for each in found["figures"] if not each["name"].startswith("resident")]
    assert len(exact) >= 5 and all(each["before"] == each["after"] for each in exact)
    assert found["lines"]["same"] > 0
    assert b"allocates more or less" in memtrace("diff", before, after).stdout


def test_changes_of_lines_add_up_to_that_of_the_peak(run):
    found = diff(run(), run(load=9_000_000, smooth=3_000_000))
    lines = [*found["lines"]["changed"], {"bytes_at_peak": found["lines"]["without_stack"]}]
    peak = next(each for each in found["figures"] if each["name"] == "live_bytes")
    assert found["lines"]["left_out"] == 0
    assert sum(change(line["bytes_at_peak"]) for line in lines) == change(peak)


def test_lines_that_moved_and_functions_with_other_names_are_matched(run):
    moved = PROGRAM.replace("def smooth(n):", "# One line,\n# and another.\ndef smooth(n):")
    moved = moved.replace("import sys\n", "import sys\nimport os\n").replace("store", "keep")
    found = diff(run(), run(moved, "elsewhere/program.py"))
    own = [
        line for line in found["lines"]["changed"] if (line["file"] or "").endswith("program.py")
    ]
    assert all(abs(change(line["requested_bytes"])) < 100_000 for line in own)
    assert not [line for line in own if None in line["requested_bytes"].values()]


def test_a_new_operator_and_one_that_is_gone(run):
    found = diff(run(), run(PROGRAM.replace('"store"', '"load"')))
    gone = next(each for each in found["operators"] if each["operator"] == "__main__:store")
    assert gone["working_peak_bytes"]["after"] is None
    text = memtrace("diff", *(found[side]["trace"] for side in ("before", "after"))).stdout
    assert b"gone" in text


def test_random_changes_are_first(run):
    draw = random.Random(7)
    before = run()
    for _ in range(4):
        name = draw.choice(NAMES)
        size = int(SIZES[name] * draw.choice([0.5, 0.9, 1.1, 2]))
        first = diff(before, run(**{name: size}))["operators"][0]
        assert first["operator"] == f"__main__:{name}" and first["line"] == LINES[name]
        assert (change(first["working_peak_bytes"]) > 0) == (size > SIZES[name])


def test_the_page_of_a_difference_needs_nothing_else(run, tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    before, after = run(), run(more=[evil], smooth=8_000_000)
    page = tmp_path / "diff.html"
    done = memtrace("diff", before, after, "--html", page)
    assert done.returncode == 0 and str(page) in done.stderr.decode()
    assert page.stat().st_size < 200_000
    assert "<img" not in page.read_text() and "&lt;img" in page.read_text()
    with started() as browser:
        shown = Shown(browser, page, ready="h1", bypass_csp=True)
        first = shown.page.locator("h2:has-text('Operators') + .wide tbody tr").first.inner_text()
        assert "__main__:smooth" in first and "program.py:10" in first
        wide = shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert wide
        shown.assert_accessible()
        shown.close()


def test_recordings_of_another_kind_are_noted(record, python):
    command = (python, "-c", "x = bytearray(1000000)")
    before, after = (record(*command, options=("--stacks", kind)).path for kind in ("all", "none"))
    assert any("stacks" in note for note in diff(before, after)["notes"])


def test_what_cannot_be_compared_is_one_sentence(run, tmp_path):
    trace = run()
    for other in (tmp_path / "nowhere", tmp_path / "program.py"):
        done = memtrace("diff", trace, other)
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert memtrace("diff", trace).returncode == 2
