"""What every summary must hold, whatever the program: read as a person would read it.

`compare` holds a summary against the one in summaries/; `UPDATE_SUMMARIES=1` writes them anew.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

STORED = Path(__file__).with_name("summaries")

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


def outline(text, trace):
    """A summary without what differs from run to run or between machines: figures, paths, the limit
    of memory, what is an estimate, notes, and all places, operators and programs but the largest.
    """
    out = []
    seen_places, seen_operators, in_notes = 0, 0, False
    for line in text.splitlines():
        place = re.match(r"\s+\S+ \S+\s+\S+ %  .*?(?=  |$)", line)
        seen_places += bool(place)
        in_notes = line.startswith("  note:") or (in_notes and bool(line))
        # By chance, a figure is an estimate or not.
        by_chance = line.startswith(("  resident ", "  ~ "))
        if (place and seen_places > 1) or in_notes or by_chance:
            continue
        if place:
            # Where the text of the line begins, and is cut, depends on the other rows.
            line = place[0]
        line = re.sub(r"^memtrace: .*: exited", "memtrace: COMMAND: exited", line)
        line = re.sub(r"^  trace: .*", "trace: TRACE", line).replace(str(trace), "TRACE")
        line = re.sub(r"(\d+ processes; most live: [^,]*),.*", r"\1", line)
        line = SIZE.sub("#", line).replace("~#", "#")
        line = re.sub(r"(?<![\w.])\d[\d.,]* (s|ms|µs|min)(?!\w)", "# s", line)
        line = re.sub(r"(?<![\w.])\d[\d.]* %", "# %", line)
        line = " ".join(line.split())
        seen_operators += bool(re.match(r"# \d+ # s ", line) or line.endswith(" more operators"))
        if seen_operators < 2 or not line.startswith("# ") and not line.endswith(" more operators"):
            out.append(line)
    # The commands that go on are in one line or in several, by the length of the trace's name.
    return re.sub(r"\nmemtrace (?=\w)", "; memtrace ", "\n".join(out)) + "\n"


def compare(name, text, trace):
    """The summary of a program is the stored one, but for its figures."""
    stored, found = STORED / f"{name}.txt", outline(text, trace)
    if os.environ.get("UPDATE_SUMMARIES"):
        stored.write_text(found)
    assert found == stored.read_text(), f"{text}\nrun this test with UPDATE_SUMMARIES=1"
