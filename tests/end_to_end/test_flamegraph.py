"""`memtrace flamegraph`: widths add up, names are shown, and escaped."""

import html
import re
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import memtrace

TITLE = re.compile(r"(.*) \(([\d,]+) (?:bytes|blocks), [\d.]+%\)", re.DOTALL)


def draw(run, path, *options):
    """Widths of the frames of an SVG by name; several frames of one name are added up."""
    done = memtrace("flamegraph", run.path, "-o", path, *options)
    assert done.returncode == 0, done.stderr.decode()
    svg = path.read_text()
    ElementTree.fromstring(svg)
    frames = {}
    for title in re.findall(r"<title>(.*?)</title>", svg, re.DOTALL):
        name, width = TITLE.fullmatch(html.unescape(title)).groups()
        frames[name] = frames.get(name, 0) + int(width.replace(",", ""))
    return frames


def y_of(svg, name):
    """How far down a frame is."""
    title = svg.index(f"<title>{html.escape(name, quote=False)} (")
    return int(re.search(r'<rect[^>]* y="(\d+)"', svg[title:]).group(1))


@pytest.fixture
def arrays(record, python, tmp_path):
    script = tmp_path / "arrays.py"
    script.write_text(
        "def inner(n):\n"
        "    return bytearray(n)\n"
        "def outer(n):\n"
        "    block = inner(n)\n"
        "    return inner(n // 2)\n"
        "kept = outer(6_000_000)\n"
        "kept = outer(8_000_000)\n"
    )
    options = ("--stacks", "all", "--operator", "__main__:outer")
    return record(python, script, options=options), script


def test_the_peak(arrays, tmp_path):
    run, _ = arrays
    frames = draw(run, tmp_path / "peak.svg")
    total = run.report["peak"]["live_bytes"]
    assert frames["all"] == total
    sites = sum(site["live_bytes_at_peak"] for site in run.report["sites"])
    assert frames.get("(no stack)", 0) == total - sites
    assert frames["inner (arrays.py:2)"] == 3_000_001 + 8_000_001 + 4_000_001
    assert frames["arrays.py:7"] >= 12_000_002
    assert not any(re.search(r"\((python3|libpython|libc)", name) for name in frames)
    svg = (tmp_path / "peak.svg").read_text()
    # From the top, and at most two screens high.
    assert y_of(svg, "all") < y_of(svg, "arrays.py:7") < y_of(svg, "inner (arrays.py:2)")
    assert int(re.search(r'<svg[^>]* height="(\d+)"', svg).group(1)) <= 1800
    assert "arrays.py" in svg and f"{total:,} bytes" in svg and "live bytes at their peak" in svg


@pytest.mark.parametrize(
    ("stacks", "rest"), [("auto", "(not sampled)"), ("all", "(no stack)"), ("none", "(no stack)")]
)
@pytest.mark.parametrize("at", ["peak", "exit", "temporary"])
def test_what_has_no_stack_is_the_rest(record, target, tmp_path, stacks, rest, at):
    run = record(target("churn.c"), "mixed", options=("--stacks", stacks))
    frames = draw(run, tmp_path / "flame.svg", "--at", at)
    widths = {
        "peak": f"select {run.report['peak']['live_bytes']}",
        "exit": "select sum(bytes)::ubigint from {allocations} where free_ns is null",
        "temporary": "select count(*) from {allocations} where free_ns - alloc_ns <= 10000",
    }
    [[everything]] = run.sql(widths[at])
    named = frames["all"] - frames.get(rest, 0)
    assert frames["all"] == max(everything, named)
    assert {"auto": True, "all": named > 0, "none": named == 0}[stacks]
    other = {"(not sampled)", "(no stack)"} - {rest}
    assert not other & frames.keys()


def test_rows_that_are_not_there_are_missed_only_where_they_count(record, target, tmp_path):
    def code(run, *at):
        return memtrace("flamegraph", run.path, "-o", tmp_path / "a.svg", "--at", *at).returncode

    for option in (("--aggregate",), ("--min-size", "2kB")):
        run = record(target("churn.c"), "mixed", options=option)
        assert [code(run, at) for at in ("peak", "exit", "temporary")] == [0, 1, 1]
    rotated = record(
        target("stress.c"), "threads", 2, 1_000_000, options=("--max-trace-size", "2MB")
    )
    assert rotated.report["rows"]["rotated"] > 0
    assert [code(rotated, at) for at in ("peak", "exit", "temporary")] == [0, 0, 1]


def test_a_span(arrays, tmp_path):
    run, _ = arrays
    for name in ("__main__:outer", "outer"):
        frames = draw(run, tmp_path / "span.svg", "--at", "span", name)
        [[peak]] = run.sql("select max(working_peak_bytes) from {spans}")
        assert frames["all"] == peak
        assert frames["inner (arrays.py:2)"] == 8_000_001 + 4_000_001


def test_what_is_left_at_exit(record, target, tmp_path):
    run = record(target("churn.c"), "grow", options=("--stacks", "all"))
    frames = draw(run, tmp_path / "exit.svg", "--at", "exit")
    [[bytes_left]] = run.sql("select sum(bytes) from {allocations} where free_ns is null")
    assert frames["all"] == bytes_left > 0


def test_temporary_blocks_are_counted(record, target, tmp_path):
    run = record(target("churn.c"), "zero", options=("--stacks", "all"))
    frames = draw(run, tmp_path / "temporary.svg", "--at", "temporary")
    [[blocks]] = run.sql("select count(*) from {allocations} where free_ns - alloc_ns <= 10000")
    assert frames["all"] == blocks > 0


def test_hostile_names_stay_names(record, python, tmp_path):
    name = "<script>alert(1);</script>&\"'"
    program = (
        f"code = 'def f(): return bytearray(9_000_000)'\n"
        f"exec(compile(code, {name!r}, 'exec'))\n"
        f"f.__code__ = f.__code__.replace(co_name={name!r}, **({{'co_qualname': {name!r}}}"
        " if hasattr(f.__code__, 'co_qualname') else {}))\n"
        "kept = f()\n"
    )
    run = record(python, "-c", program)
    frames = draw(run, tmp_path / "hostile.svg")
    [width] = [width for frame, width in frames.items() if frame.endswith(name.replace(";", ","))]
    assert width == 9_000_001
    assert "<script>alert" not in (tmp_path / "hostile.svg").read_text()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--at", "noon"), 2),
        (("--at", "span"), 2),
        (("--at", "span", "nobody"), 1),
        (("--by", "resident"), 1),
        (("--by", "colour"), 2),
    ],
)
def test_what_makes_no_sense_is_refused(record, tmp_path, options, code):
    done = memtrace("flamegraph", record("true").path, "-o", tmp_path / "no.svg", *options)
    assert done.returncode == code
    assert not (tmp_path / "no.svg").exists()


def test_a_file_that_cannot_be_written_is_one_sentence(record, target, tmp_path):
    run = record(target("churn.c"), "grow")
    done = memtrace("flamegraph", run.path, "-o", tmp_path / "nowhere" / "no.svg")
    assert done.returncode == 1
    assert done.stderr.startswith(b"memtrace: cannot write") and done.stderr.count(b"\n") == 1
