"""Notebooks that tests run, and what stands in their outputs."""

import subprocess
from html.parser import HTMLParser

import memtrace
import pytest
from conftest import MEMTRACE, ROOT, environment

#: Elements and attributes that a summary is made of: nothing that runs, loads or leads elsewhere.
ELEMENTS = {"p", "b", "code", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
ELEMENTS |= {"details", "summary"}
ATTRIBUTES = {"style", "scope"}
MOST_BYTES = 50_000


def recorded(source, folder):
    """The trace of a piece of Python, in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(MEMTRACE.parent), prepend=":")
        return memtrace.record(source, output=folder / "trace")


def run(cells, folder):
    """The outputs of each cell of a notebook that is run in `folder`: lists of MIME bundles."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    sources = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook = nbformat.v4.new_notebook(cells=sources)
    variables = {
        "PATH": f"{MEMTRACE.parent}:{environment()['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "IPYTHONDIR": str(folder / "ipython"),
    }
    client = nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=environment(**variables))
    return [[each.data for each in cell.outputs if "data" in each] for cell in notebook.cells]


class Markup(HTMLParser):
    """Texts, elements and attributes of a piece of HTML."""

    def __init__(self, piece):
        super().__init__()
        self.elements, self.attributes, self.texts = [], [], []
        self.feed(piece)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def checked(piece):
    """A summary, which is small, and in which nothing runs and nothing is loaded."""
    assert len(piece.encode()) <= MOST_BYTES
    markup = Markup(piece)
    assert set(markup.elements) <= ELEMENTS
    assert {name for name, _ in markup.attributes} <= ATTRIBUTES
    assert not any("url(" in value for _, value in markup.attributes)
    return markup


def framed(piece):
    """The attributes of a frame, which is all there is."""
    markup = Markup(piece)
    assert markup.elements == ["iframe"]
    return dict(markup.attributes)


def page_of(trace, folder):
    """What `memtrace report --html` writes of a trace."""
    words = [MEMTRACE, "report", "--html", "-", trace]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout
