"""The page of a trace in a frame."""

import os
import subprocess
from html import escape

from .._running.command import command


class Page:
    """A page of `memtrace report --html`, which notebooks show in a frame.

    The frame has an origin of its own: its script reaches neither the notebook nor a network.
    """

    def __init__(self, document, height):
        self._document, self._height = document, int(height)

    def _repr_html_(self):
        size = f'width="100%" height="{self._height}" style="border:0"'
        document = escape(self._document)
        return f'<iframe sandbox="allow-scripts" {size} srcdoc="{document}"></iframe>'

    def __repr__(self):
        return f"<memtrace page of {len(self._document):,} characters>"


def of_trace(trace, height):
    """The page of a trace. ValueError: a table is damaged."""
    words = [command(), "report", "--html", "-", "--", os.fspath(trace.path)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        message = said[-1] if said else f"it ended with status {done.returncode}"
        raise ValueError(f"memtrace report could not write the page: {message}")
    return Page(done.stdout.decode(), height)
