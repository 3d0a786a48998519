"""What every summary must hold, whatever the program: read as a person would read it."""

import re
from typing import NamedTuple

UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
SIZE = re.compile(r"(?<![\w.])(-?\d[\d.]*) (B|kB|MB|GB)\b")


class Row(NamedTuple):
    """A row of the table of places."""

    bytes: float
    share: float
    label: str


def size(text):
    number, unit = SIZE.search(text).groups()
    return float(number) * UNITS[unit]


def places(text):
    """Rows of the table of places."""
    lines = text.splitlines()
    [head] = [at for at, line in enumerate(lines) if line.endswith("allocated at")]
    rows = []
    for line in lines[head + 1 :]:
        found = re.match(r"\s+(\S+ \S+)\s+(\S+) %  (.*)", line)
        if not found:
            break
        bytes_, share, rest = found.groups()
        rows.append(Row(size(bytes_), float(share), rest.split("  ")[0].strip()))
    return rows


def check(text, columns):
    """Fits the screen; nothing negative; labels differ; shares add up to the stated peak."""
    lines = text.splitlines()
    assert len(lines) <= 25, text
    assert max(map(len, lines)) <= min(columns, 100), text
    assert all(float(number) >= 0 for number, _ in SIZE.findall(text)), text
    rows = places(text)
    labels = [row.label for row in rows]
    assert len(set(labels)) == len(labels), text
    [peak] = [line for line in lines if line.startswith("  peak ")]
    # Each is printed with three digits.
    assert abs(sum(row.bytes for row in rows) - size(peak)) <= 0.006 * size(peak), text
    assert abs(sum(row.share for row in rows) - 100) <= 0.05 * len(rows) + 0.01, text
    headings = [line for line in lines if line.endswith(("allocated at", "largest input"))]
    words = [word for line in headings for word in re.split(r"\s{2,}", line.strip())]
    assert len(set(words)) == len(words), "two columns of one heading"
    return rows
