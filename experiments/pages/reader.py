"""A reader who looks for a line: at what is to be seen, below the pointer, and further down."""

import re
import time
from typing import NamedTuple

SIZE = {"width": 1400, "height": 900}
HOVERS = 60  # on a screen, the largest elements first
SCREENS = 40
#: Text that is to be seen in the window now, and what the pointer's element says in a tooltip.
VISIBLE = """() => {
    const parts = [...document.querySelectorAll(':hover')].map(each =>
        each.getAttribute('title') ?? each.getAttribute('aria-label') ?? '');
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.data.trim()) continue;
        if (!node.parentElement.checkVisibility({ opacityProperty: true })) continue;
        range.selectNodeContents(node);
        const inWindow = [...range.getClientRects()].some(box => box.width > 0
            && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth);
        if (!inWindow) continue;
        if (range.getBoundingClientRect().height <= innerHeight) {
            parts.push(node.data);
            continue;
        }
        // A text of many screens: only its lines in the window.
        let from = 0;
        for (const line of node.data.split('\\n')) {
            range.setStart(node, from);
            range.setEnd(node, from + line.length);
            const box = range.getBoundingClientRect();
            if (box.bottom > 0 && box.top < innerHeight) parts.push(line);
            if (box.top > innerHeight) break;
            from += line.length + 1;
        }
    }
    return parts.join('\\n');
}"""
#: Middles of what may have a tooltip, the largest first.
PLACES = """() => [...document.querySelectorAll('svg g, svg rect, canvas, [title]')]
    .map(each => each.getBoundingClientRect())
    .filter(box => box.width > 2 && box.height > 2 && box.top >= 0 && box.bottom <= innerHeight)
    .sort((one, two) => two.width * two.height - one.width * one.height)
    .map(box => [box.left + box.width / 2, box.top + box.height / 2])"""
PAINT = """() => performance.getEntriesByType('paint')[0]?.startTime ?? null"""


class Read(NamedTuple):
    """What a reader saw."""

    paint: float  # seconds until something was drawn
    found: float | None  # seconds until the line was named; None: it is not on the page
    looks: int  # at a screen, or below the pointer


def pattern(program):
    """Its file and line together, or its text; without spaces, as pages cut texts up."""
    number, text = program.line
    name, text = (re.escape("".join(each.split())) for each in (program.source.name, text))
    return re.compile(rf"{name}:{number}(?!\d)|{name}\W{{1,9}}line{number}(?!\d)|{text}")


def read(browser, page, program):
    """Opens the page and looks for the program's line."""
    wanted = pattern(program)
    tab = browser.new_page(viewport=SIZE)
    try:
        begin = time.perf_counter()
        tab.goto(page.as_uri(), timeout=120_000)
        looks, found = _search(tab, wanted)
        seconds = time.perf_counter() - begin
        tab.wait_for_function(PAINT)
        return Read(tab.evaluate(PAINT) / 1000, seconds if found else None, looks)
    finally:
        tab.close()


def _search(tab, wanted):
    """How often the reader looked, and whether the line was found."""
    looks = 0
    for _ in range(SCREENS):
        looks += 1
        if _is_seen(tab, wanted):
            return looks, True
        for x, y in tab.evaluate(PLACES)[:HOVERS]:
            looks += 1
            tab.mouse.move(x, y)
            if _is_seen(tab, wanted):
                return looks, True
        before = tab.evaluate("scrollY")
        tab.evaluate("scrollBy(0, innerHeight)")
        if tab.evaluate("scrollY") == before:
            return looks, False
    return looks, False


def _is_seen(tab, wanted):
    return wanted.search("".join(tab.evaluate(VISIBLE).split())) is not None
