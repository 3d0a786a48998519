"""What people see in notebooks: summaries, frames with pages, `%memtrace`, and what comes of hostile names."""

import html
import json

import browser
import memtrace
import numpy as np
import pytest
from browser import Shown
from memtrace.dask._plan import Plan
from notebooks import checked, framed, page_of, recorded, run

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e' \"&amp;"
SHAPES = (100_003, 150_011, 300_007, 2_500_003)

CELL = f"""%%memtrace --html -o cell --operator __main__:double
import numpy as np

def double(x):
    return (x + 1) * 2

for n in {SHAPES} * 2:
    double(np.ones(n))
"""
GRAPH = {
    "version": 1,
    "sources": {"x": {"shape": [1_000_000], "dtype": "<f8"}},
    "steps": [{"name": "first", "operator": "double", "inputs": ["x"]}],
}
CELLS = {
    "load": "%load_ext memtrace",
    "cell": CELL,
    "trace": "trace = _\ntrace",
    "frame": "trace.show(height=300)",
    "table": "trace.spans",
    "model": "model = memtrace.fit(trace)\nmodel",
    "law": "model.laws()[0]",
    "prediction": 'model.predict("double", (10_000_000,))',
    "plan": 'plan = model.recommend("double", (100_000_000,), "1.5 GB", 2)\nplan',
    "pipeline": f'memtrace.plan(model, {GRAPH!r}, executor="sequential")',
    "plots": "%matplotlib inline\ntrace.plot(); model.plot(); plan.plot();",
    "line": "%memtrace --html -o line -- data = bytearray(20_000_000)",
    "statement": "%memtrace data = bytearray(30_000_000)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def outputs(folder):
    cells = dict(CELLS, load=f"import memtrace\n{CELLS['load']}")
    return dict(zip(cells, run(cells.values(), folder), strict=True))


def summary(outputs):
    """The one summary among the outputs of a cell."""
    pieces = [data["text/html"] for data in outputs if "text/html" in data]
    [piece] = [piece for piece in pieces if "<iframe" not in piece]
    return checked(piece).text


def frame(outputs):
    [piece] = [data["text/html"] for data in outputs if "<iframe" in data.get("text/html", "")]
    return framed(piece)


def test_a_notebook_shows_summaries(outputs):
    trace = summary(outputs["trace"])
    for words in ("exited 0", "peak", "live at", "double", "working peak", "cell.py:4"):
        assert words in trace
    assert "8 rows" in summary(outputs["table"])
    for name in ("model", "law"):
        shown = summary(outputs[name])
        assert "__main__:double <f8" in shown
        assert "8·n0" in shown
        assert "exact, verified at 2500003" in shown
        assert "n0 100003 – 2500003" in shown
    prediction = summary(outputs["prediction"])
    assert "80.0 MB" in prediction
    assert "at most" in prediction
    assert "n0 100003 – 2500003; this shape is outside" in prediction
    assert "of its budget" in summary(outputs["plan"])
    assert "sets the peak" in summary(outputs["pipeline"])
    assert [list(data) for data in outputs["plots"]] == [["text/plain", "image/png"]] * 3


def test_the_frame_has_the_page_and_nothing_else(outputs, folder):
    for name, trace in (("cell", "cell"), ("frame", "cell"), ("line", "line")):
        shown = frame(outputs[name])
        assert shown["srcdoc"] == page_of(trace, folder)
        assert shown["sandbox"] == "allow-scripts"
        assert "src" not in shown
    assert frame(outputs["frame"])["height"] == "300"
    assert "live at" in summary(outputs["line"])
    assert "live at" in summary(outputs["statement"])


def test_a_line_without_a_statement_says_what_to_write(folder):
    [_, *said] = run(
        [
            "%load_ext memtrace",
            'get_ipython().run_cell("%memtrace").error_in_exec.args[0]',
            'get_ipython().run_cell("%memtrace --html data = 1").error_in_exec.args[0]',
        ],
        folder,
    )
    empty, mixed = (outputs[-1]["text/plain"] for outputs in said)
    assert "takes a statement" in empty
    assert "takes `--` between its options and the statement" in mixed


#: What VS Code allows the renderer of notebooks, and its base address.
RENDERERS = {
    "JupyterLab": "",
    "VS Code": '<base href="https://file.vscode-resource.example/"><meta http-equiv='
    "\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline' "
    "'unsafe-eval'; style-src 'unsafe-inline'; img-src https: http: data:; font-src https:; "
    'connect-src https:; child-src https: data:;">',
}


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_frame_works_where_notebooks_show_it(outputs, tmp_path, renderer):
    [piece] = [data["text/html"] for data in outputs["frame"]]
    notebook = tmp_path / "notebook.html"
    head = f'<meta charset="utf-8">{RENDERERS[renderer]}'
    notebook.write_text(f"<!doctype html><head>{head}</head><body>{piece}</body>", encoding="utf-8")
    with browser.started() as started:
        shown = Shown(started, notebook, ready="iframe")
        inside = shown.page.frame_locator("iframe")
        inside.locator("html[data-ready]").wait_for()
        total = int(inside.locator("#total").get_attribute("data-total"))
        inside.get_by_role("tab", name="Lines").click()
        inside.locator("#panel-lines tbody tr").first.wait_for()
        assert total > 6_000_000
        shown.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A trace of many operators with names that would be elements, and as long as names may be."""
    source = (
        "import memtrace\nimport numpy as np\n"
        f"for operator in range(40):\n    name = str(operator) + {HOSTILE!r} * 20\n"
        f"    for n in {SHAPES} * 2:\n"
        "        x = np.ones((n, 1))\n"
        "        with memtrace.span(name, x) as span:\n            span.outputs(x + 1)\n"
    )
    return recorded(source, tmp_path_factory.mktemp("hostile"))


def test_hostile_names_are_text_and_cut(hostile):
    model = memtrace.fit(hostile)
    law = model.laws()[0]
    pieces = [
        each._repr_html_() for each in (hostile, hostile.operators, hostile.spans, model, law)
    ]
    shape = law.trained_on[0]["shape"]
    pieces.append(law.predict(shape)._repr_html_())
    pieces.append(model.recommend(law.key["operator"], shape, "1 GB", 2)._repr_html_())
    for piece in pieces[:-1]:
        text = checked(piece).text
        assert "</script><img src=x onerror=alert(1)>⟨U+202E⟩' \"&amp;" in text
        assert "\u202e" not in text
    checked(pieces[-1])
    assert "20 more laws" in checked(pieces[3]).text
    assert html.escape(HOSTILE.split("\u202e")[0]) in pieces[0]


def test_answers_are_still_dicts():
    model = memtrace.fit_table([(10, 20), (20, 30), (30, 50)], [1600, 4800, 12000], "<f8", "table")
    answer = model.predict("table", (40, 60))
    assert isinstance(answer, memtrace.Prediction)
    assert json.loads(json.dumps(answer)) == answer == dict(answer)
    assert model.laws()[0].predict((40, 60)) == answer
    assert np.prod(answer["shape"]) * 8 == answer["peak_bytes"]


def test_a_plan_for_dask_is_shown_and_drawn_too():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    plan = Plan(
        "f",
        ((5, 5), (7,)),
        {},
        "All of it fits.",
        3 * 10**8,
        10**8,
        7 * 10**8,
        None,
        2,
        4,
        1,
        "dask",
    )
    shown = checked(plan._repr_html_()).text
    for words in ("5×7", "4 of 1 thread", "300 MB of 700 MB", "100 MB", "All of it fits."):
        assert words in shown
    levels = [line.get_ydata()[0] for line in plan.plot().get_lines()]
    assert levels[-2:] == [3 * 10**8, 7 * 10**8]
    pyplot.close("all")
