"""Selected times at random, and what the tables say of them: lines to the byte, by a query of its own."""

import random

import browser
import pytest
from browser import Shown, recorded
from test_page import moment

PROGRAM = """\
import random, time
import numpy as np

def large(kept):
    kept.append(np.empty(1_000_003, "u1"))

def middle(kept):
    kept.append(np.empty(700_001, "u1"))

def small(kept):
    kept.append(np.empty(90_007, "u1"))

draw, kept = random.Random(5), []
for _ in range(120):
    draw.choice((large, middle, small))(kept)
    if draw.random() < 0.45:
        kept.pop(draw.randrange(len(kept)))
    time.sleep(0.004)
"""
LINES = {5, 8, 11}
GRID = 160  # times that a page knows, and those of peaks
# The innermost frame of the program in each call stack, and what of it is live at a time. Mappings up to
# 1 MiB count from their call on.
LIVE = """
with recursive up(site, frame) as (
    select site, frame from {sites}
    union all
    select up.site, f.parent from up join {frames} f on f.frame = up.frame
    where f.file is distinct from '%(file)s' and f.parent is not null
), own as (
    select up.site, f.line from up join {frames} f on f.frame = up.frame where f.file = '%(file)s'
)
select line, sum(bytes)::bigint from {allocations} join own using (site)
where (kind in ('malloc', 'calloc', 'realloc', 'aligned') or kind like 'map%%' and bytes <= 1048576)
and alloc_ns <= %(time)d and (free_ns is null or free_ns > %(time)d) group by line
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("brush"), PROGRAM)


def test_ten_selected_times_are_what_the_tables_say(run):
    folder = run.path.parent
    file = str(folder / "program.py")
    [[begin, end]] = run.sql(
        "select min(alloc_ns), max(alloc_ns) from {allocations} where bytes = 90007"
    )
    step = run.report["seconds"] / GRID
    draw = random.Random(3)
    with browser.started() as started:
        shown = Shown(started, folder / "page.html")
        for _ in range(10):
            first = draw.uniform(begin, (begin + end) / 2) / 1e9
            last = draw.uniform(first + 0.1, end / 1e9)
            shown.select(view="lines", measure="largest", **{"from": first, "to": last})
            time = moment(shown)
            assert first - step <= time / 1e9 <= last + step
            own = own_lines(shown, file)
            tables = dict(run.sql(LIVE % {"file": file, "time": time}))
            # An import is a line of its own.
            assert own == {line: bytes_ for line, bytes_ in tables.items() if line > 2}
            assert set(own) >= LINES
        shown.close()


def own_lines(shown, file):
    lines = shown.lines().items()
    return {key[1]: bytes_ for key, bytes_ in lines if isinstance(key, tuple) and key[0] == file}
