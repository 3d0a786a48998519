"""`memtrace plot`: a trace, a law or a plan as an SVG or in a page, with their names and figures."""

import json
from xml.etree import ElementTree

import browser
import memtrace as package
import pytest
from browser import Shown
from conftest import memtrace

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert(1)</script>&"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("plot") / "model.json"
    shapes = [(10, 20), (20, 30), (30, 50), (40, 50)]
    peaks = [1600, 4800, 12_000, 16_000]
    small = package.fit_table([(5,), (6,), (7,)], [50, 60, 70], "<f8", "small")
    package.fit_table(shapes, peaks, "<f8", HOSTILE).merge(small).save(path)
    return path


def texts(path, *options, folder):
    """The texts of a plot, by line, of which nothing runs."""
    svg = folder / "plot.svg"
    done = memtrace("plot", path, "-o", svg, *options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode() == f"memtrace: {svg} shows {path}\n"
    drawn = ElementTree.parse(svg).getroot()
    assert not list(drawn.iter(f"{SVG}script"))
    return [text.text.strip() for text in drawn.iter(f"{SVG}text")]


def test_a_trace_is_drawn_with_its_peak(record, python, tmp_path):
    run = record(
        python, "-c", "import time; kept = bytearray(50_000_000); time.sleep(0.2)", HOSTILE
    )
    shown = texts(run.path, folder=tmp_path)
    megabytes = run.report["peak"]["live_bytes"] / 1e6
    assert f"peak: {megabytes:.1f} MB" in shown
    assert {"live", "resident", "mapped", "seconds"} <= set(shown)
    [title] = [text for text in shown if text.startswith(python[:80])]
    assert len(title) == 90 and title.endswith("…")


def test_a_page_has_the_same_picture(model, tmp_path):
    shown = texts(model, folder=tmp_path)
    page = tmp_path / "plot.html"
    assert memtrace("plot", model, "-o", page).returncode == 0
    with browser.started() as started:
        opened = Shown(started, page, ready="svg")
        found = opened.page.locator("svg text").all_text_contents()
        assert [text.strip() for text in found] == shown
        assert HOSTILE in opened.page.title()
        opened.close()


def test_a_law_is_named_or_the_largest(model, tmp_path):
    shown = texts(model, folder=tmp_path)
    assert f"{HOSTILE} <f8: unverified" in shown
    assert "n0, at n1=50" in shown
    assert {"law", "at most", "measured", "measured at other lengths", "law there"} <= set(shown)
    assert "small <f8: unverified" in texts(model, "--operator", "small", folder=tmp_path)


def test_plans_are_drawn_against_their_budget(model, tmp_path):
    asked = ("--operator", HOSTILE, "--shape", "10000,50000", "--memory-limit", "1.5GB")
    done = memtrace("recommend", model, *asked, "--workers", "2", "--format", "json")
    assert done.returncode == 0, done.stderr.decode()
    (tmp_path / "plan.json").write_bytes(done.stdout)
    plan = json.loads(done.stdout)
    shown = texts(tmp_path / "plan.json", folder=tmp_path)
    assert "budget: 1.05 GB" in shown
    assert f"a worker's peak: {plan['predicted_worker_bytes'] / 1e6:.0f} MB" in shown

    step = {"bytes": {"per_element": 16.0}, "output": {"dtype": "<f8"}}
    graph = {
        "version": 1,
        "sources": {"x": {"shape": [3000, 5000], "dtype": "<f8"}},
        "steps": [{"name": "first", "operator": "blend", "inputs": ["x"], **step}],
    }
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    for options, label in (((), "peak: 360 MB"), (("--memory-limit", "1GB"), "budget: 700 MB")):
        done = memtrace("plan", model, tmp_path / "graph.json", "--json", *options)
        assert done.returncode == 0, done.stderr.decode()
        (tmp_path / "pipeline.json").write_bytes(done.stdout)
        assert label in texts(tmp_path / "pipeline.json", folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("{model}", "-o", "{folder}/law.png"), 2, "a plot is an SVG; name it"),
        (("{model}", "--operator", "absent"), 1, "no law for absent"),
        (("{model}", "--dtype", "f8"), 2, "--operator"),
        (("{folder}/absent",), 1, "cannot read"),
        (("{folder}/words.json",), 1, "is no trace, no model, and no plan"),
        (("{folder}/plan.json", "--operator", "small"), 2, "is no model, which has laws"),
        (("{folder}",), 1, "is not a trace"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(model, tmp_path, arguments, code, said):
    (tmp_path / "words.json").write_text('{"words": [1, 2]}')
    (tmp_path / "plan.json").write_text("{}")
    known = {"model": model, "folder": tmp_path}
    done = memtrace("plot", *(word.format(**known) for word in arguments), cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr.decode()
    assert not (tmp_path / "plot.svg").exists()
