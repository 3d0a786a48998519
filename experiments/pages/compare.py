"""Pages of memory of three programs: size, time to write, to draw and to find a line on them."""

import os
import platform
import statistics
import time
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from . import reader, subjects
from .subjects import ROOT

RESULTS = ROOT / "docs" / "results" / "pages-compared.md"
TIMES = 5
#: Why memtrace's page may be behind, by field; without a reason it may not be.
REASONS = {
    "size": "what heaptrack prints is plain text, without a picture or source lines",
    "write": "heaptrack prints plain text, without source lines",
    "paint": "a browser draws plain text, or an empty frame, before any figure is there",
    "found": "",
}


class Measured(NamedTuple):
    """A page: medians."""

    size: int
    write: float
    paint: float
    found: float | None  # None: the line is not on it
    looks: int


#: What is compared: name, field, and how a figure is written.
ROWS = (
    ("size", "size", lambda measured: f"{measured.size / 1e3:,.0f} kB"),
    ("written in", "write", lambda measured: f"{measured.write:.2f} s"),
    ("first paint", "paint", lambda measured: f"{1000 * measured.paint:.0f} ms"),
    ("line found in", "found", lambda measured: found_in(measured)),
)


def main(arguments):
    """Everything; with `--quick` each once, and no page of results."""
    times = 1 if arguments.quick else TIMES
    missing = subjects.missing()
    if missing:
        print(f"pages compare: skipped, it needs {missing}")
        return True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=subjects.browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        found = {
            program: measured_pages(browser, program, times) for program in subjects.programs()
        }
        version = browser.version
        browser.close()
    if not arguments.quick:
        RESULTS.write_text(page(found, version))
    return all(REASONS[field] for by_tool in found.values() for field in behind(by_tool))


def measured_pages(browser, program, times):
    """Tool -> what was measured of its page of a program."""
    found = {}
    for tool in subjects.known_tools():
        if tool.takes(program):
            found[tool.name] = measured(browser, tool, program, times)
            print(program.name, tool.name, found[tool.name], flush=True)
    return found


def measured(browser, tool, program, times):
    at = subjects.recorded(tool, program)
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        written = subjects.written(tool, at)
        seconds.append(time.perf_counter() - begin)
    reads = [reader.read(browser, written, program) for _ in range(times)]
    times_found = [read.found for read in reads]
    return Measured(
        size=written.stat().st_size,
        write=statistics.median(seconds),
        paint=statistics.median(read.paint for read in reads),
        found=None if None in times_found else statistics.median(times_found),
        looks=round(statistics.median(read.looks for read in reads)),
    )


def behind(by_tool):
    """Fields in which another page is better than memtrace's."""
    own = by_tool["memtrace"]

    def rank(measured, field):
        value = getattr(measured, field)
        return float("inf") if value is None else value

    return [
        field
        for _, field, _ in ROWS
        if any(rank(other, field) < rank(own, field) for other in by_tool.values())
    ]


def found_in(measured):
    looks = "1 look" if measured.looks == 1 else f"{measured.looks} looks"
    return f"not found, {looks}" if measured.found is None else f"{measured.found:.2f} s, {looks}"


# The page of results ----------------------------------------------------------------------------


def page(found, browser):
    versions = subjects.tools.versions()
    tools = [tool for tool in subjects.known_tools() if tool.name.lower() in versions]
    named = ", ".join(f"{tool.name} {versions[tool.name.lower()]} ({tool.what})" for tool in tools)
    sections = "\n".join(section(program, by_tool) for program, by_tool in found.items())
    return f"""\
# Pages beside those of other profilers

`scripts/experiments pages compare` records three programs with each tool, has the tool write what
it shows of the recording, and opens that in Chromium {browser} without a window, at 1400×900.
Medians of {TIMES}, on {os.cpu_count()} processors ({platform.machine()}, load
{os.getloadavg()[1]:.0f} meanwhile): compare figures within a table only.

{named}. heaptrack's own window is no page; what it prints has the same figures. memray and Scalene
record Python only.

*Line found in* is what a scripted reader takes, from opening the page on, until it sees the line
that allocated most of what was live at the peak: its file and number, or its text. It looks at the
window, then points at each of the {reader.HOVERS} largest elements that may say more, then scrolls
on, {reader.SCREENS} windows at most. It knows which line it looks for. That favours pages that list
every line, as Scalene's does, over those that say which one it is.

{sections}"""


def section(program, by_tool):
    number, text = program.line
    head = f"| | {' | '.join(by_tool)} |\n|---|{'---|' * len(by_tool)}\n"
    rows = "".join(
        f"| {name} | {' | '.join(written(measured) for measured in by_tool.values())} |\n"
        for name, _, written in ROWS
    )
    lines = [f"- {name}: {REASONS[field]}" for name, field, _ in ROWS if field in behind(by_tool)]
    said = "Behind in:\n\n" + "\n".join(lines) if lines else "memtrace's page is ahead in each row."
    return f"""\
## {program.name}

{program.what}; the line is `{program.source.name}:{number}`, `{text}`.

{head}{rows}
{said}
"""
