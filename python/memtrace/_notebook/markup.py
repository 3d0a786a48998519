"""Pieces of HTML for notebooks: no script, no network, no colours but those of the notebook.

All that comes from a trace or a model goes through `text`, and is cut there: names may be long, and
anything may be in them.
"""

from html import escape
from itertools import accumulate

#: Characters of a text that are shown.
LONGEST = 160
#: Bytes of HTML that a table's rows may take; of more rows, the first are shown.
TABLE_BYTES = 10_000

_OF_ROW, _OF_COLUMN = ' scope="row"', ' scope="col"'


class Cell:
    """The HTML of a cell, and its style."""

    def __init__(self, inner, style=""):
        self._inner, self._style = inner, f"text-align:left;{style}"

    def written(self, tag, attributes=""):
        """The cell as an element."""
        return f'<{tag}{attributes} style="{self._style}">{self._inner}</{tag}>'


def printable(value):
    """Any value as text of one line; what cannot be printed is named: `⟨U+202E⟩`."""
    return "".join(map(_printable, "–" if value is None else str(value)))


def _printable(letter):
    if letter.isspace():
        return " "
    return letter if letter.isprintable() else f"⟨U+{ord(letter):04X}⟩"


def text(value, longest=LONGEST):
    """Any value as text in HTML, cut."""
    shown = printable(value)
    return escape(shown if len(shown) <= longest else f"{shown[: longest - 1]}…")


def number(value):
    """A cell with a number or a size."""
    return Cell(text(value), "white-space:nowrap")


def share(value, part):
    """A cell with a size, and a bar behind it that is a part of the cell's width."""
    width = f"{max(0.0, min(100.0, 100 * part)):.0f}%"
    bar = f"linear-gradient(to right,rgba(86,180,233,.35) {width},transparent {width})"
    return Cell(text(value), f"white-space:nowrap;background:{bar}")


def code(value, longest=LONGEST):
    """A cell with code or a name."""
    return Cell(f"<code>{text(value, longest)}</code>")


def heading(what, name, rest=""):
    """What is shown, its name, and a word on it."""
    rest = f" {text(rest, 400)}" if rest else ""
    return f"<p><b>{text(what)}</b> <code>{text(name, 300)}</code>{rest}</p>"


def facts(rows):
    """Names and what they are; those that are None are left out."""
    known = ((_cell(name), _cell(value)) for name, value in rows if value is not None)
    lines = (
        f"<tr>{name.written('th', _OF_ROW)}{value.written('td')}</tr>" for name, value in known
    )
    return f"<table>{''.join(lines)}</table>"


def table(title, head, rows, most=TABLE_BYTES):
    """A table with a title; what has no room is counted. Nothing without rows."""
    lines = [f"<tr>{''.join(_cell(each).written('td') for each in row)}</tr>" for row in rows]
    if not lines:
        return ""
    ends = accumulate(len(line.encode()) for line in lines)
    shown = max(1, sum(end <= most for end in ends))
    caption = Cell(f"<b>{text(title)}</b>").written("caption")
    names = "".join(_cell(name).written("th", _OF_COLUMN) for name in head)
    body = f"<thead><tr>{names}</tr></thead><tbody>{''.join(lines[:shown])}</tbody>"
    more = paragraph(f"and {len(lines) - shown} more") if shown < len(lines) else ""
    return f'<div style="overflow-x:auto"><table>{caption}{body}</table></div>{more}'


def paragraph(sentence, longest=300):
    """A sentence."""
    return f"<p>{text(sentence, longest)}</p>"


def folded(title, lines):
    """A cell that opens: a title, and lines below it."""
    inner = "<br>".join(map(text, lines))
    return Cell(f"<details><summary>{text(title)}</summary>{inner}</details>")


def _cell(value):
    return value if isinstance(value, Cell) else Cell(text(value))
