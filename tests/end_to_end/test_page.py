"""`report --html` in a real browser: its figures, what can be done with it, and what must not get out."""

import json
import sys

import pytest
from browser import DESKTOP, PHONE, Shown, html
from conftest import TARGETS, Recording, memtrace

HEAP = "kind in ('malloc', 'calloc', 'realloc', 'aligned')"
VIEWS = ("flame", "lines", "operators", "source", "resident", "blocks")
OPERATORS = ("--operator", "__main__:smooth")
OKABE_ITO_TINTS = {"light": (251, 227, 176), "dark": (101, 73, 10)}  # of the user's own code


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A recording of tests/targets/paged.py, and its page; with all call stacks, so that no line is an
    estimate."""
    folder = tmp_path_factory.mktemp("paged")
    command = (sys.executable, TARGETS / "paged.py")
    done = memtrace("-o", folder / "trace", "--stacks", "all", *OPERATORS, "--", *command)
    assert done.returncode == 0, done.stderr.decode()
    recording = Recording(folder / "trace", 0, done.stdout, done.stderr)
    written = memtrace("report", recording.path, "--html", folder / "page.html")
    assert written.returncode == 0, written.stderr.decode()
    return recording


@pytest.fixture(scope="module")
def page(run):
    return run.path.parent / "page.html"


@pytest.fixture
def shown(chromium, page):
    opened = Shown(chromium, page)
    yield opened
    opened.close()


def test_the_totals_are_those_of_the_report(run, shown):
    report = run.report
    assert shown.total() == report["peak"]["live_bytes"]
    assert shown.tree()[0]["value"] == report["peak"]["live_bytes"]
    shown.select(view="lines")
    lines = shown.lines()
    assert sum(lines.values()) == report["peak"]["live_bytes"]
    for place in report["places"]:
        key = (place["file"], place["line"]) if place["file"] else place["place"]
        assert lines[key] == place["bytes"], place
    shown.select(measure="end")
    leaks = json.loads(memtrace("report", "--leaks", "--json", run.path).stdout)
    assert shown.total() == leaks["live_bytes"]
    shown.select(measure="temporary")
    [[blocks]] = run.sql(
        f"select count(*) from {{allocations}} where {HEAP} and free_ns - alloc_ns <= 10000"
    )
    assert shown.total() == blocks
    if report["untouched"] and report["untouched"]["bytes"]:
        shown.select(measure="untouched")
        assert shown.total() == report["untouched"]["bytes"]
    shown.select(measure="span:__main__:smooth")
    [operator] = [each for each in report["operators"] if each["name"] == "__main__:smooth"]
    assert shown.total() == max(span["working_peak_bytes"] for span in operator["spans"])


def test_a_brushed_time_is_what_the_tables_say(run, shown):
    times = run.sql("select min(start_ns), max(end_ns) from {spans}")[0]
    shown.select(view="lines", measure="largest", **{"from": times[0] / 1e9, "to": times[1] / 1e9})
    lines = shown.lines()
    assert sum(lines.values()) == shown.total()
    assert "at the largest moment of the selected time" in shown.page.text_content(".status")
    own = {key: bytes for key, bytes in lines.items() if key[0] == str(TARGETS / "paged.py")}
    assert len(own) >= 3
    for (_, line), shown_bytes in own.items():
        assert shown.query(line) == shown_bytes, line
    # The sum over all blocks, whatever their call stack, by a query that shares nothing with the page.
    heap = heap_at(run, moment(shown))
    touched = timeline_touched(run, moment(shown))
    assert abs(shown.total() - heap - touched) <= 1 << 20


def moment(shown):
    """The time that is shown, from the query of any line."""
    shown.page.click("#panel-lines tbody tr[data-line] .quiet >> nth=0")
    sql = shown.page.input_value("dialog textarea")
    shown.page.keyboard.press("Escape")
    return int(sql.split("alloc_ns <= ")[1].split()[0])


def heap_at(run, time):
    return run.sql(
        f"select sum(bytes)::bigint from {{allocations}} where {HEAP}"
        f" and alloc_ns <= {time} and (free_ns is null or free_ns > {time})"
    )[0][0]


def timeline_touched(run, time):
    return run.sql(
        f"select live_bytes - heap_bytes from {{timeline}} where time_ns <= {time}"
        " order by time_ns desc limit 1"
    )[0][0]


@pytest.mark.parametrize("measure", ["peak", "end", "span:__main__:smooth", "growth"])
def test_every_line_is_the_query_that_it_copies(run, shown, measure):
    times = run.sql("select min(start_ns), max(end_ns) from {spans}")[0]
    range_ = {"from": 0, "to": times[1] / 1e9} if measure == "growth" else {}
    shown.select(view="lines", measure=measure, **range_)
    own = {
        key: value for key, value in shown.lines().items() if key[0] == str(TARGETS / "paged.py")
    }
    assert own
    for (_, line), shown_bytes in own.items():
        assert shown.query(line) == shown_bytes, (measure, line)


def test_what_was_added_counts_by_call_stack(chromium, record, python, tmp_path):
    """A line that one call stack holds less of, and another more."""
    program = tmp_path / "shrinks.py"
    program.write_text(
        "import time\n"
        "def make(length):\n"
        "    return bytearray(length)\n"
        "first = make(5_000_000)\n"
        "time.sleep(0.3)\n"
        "second = make(9_000_000)\n"
        "del first\n"
        "time.sleep(0.2)\n"
    )
    run = record(python, program)
    [[first, second]] = run.sql(
        "select min(alloc_ns), max(alloc_ns) from {allocations} where bytes > 4_900_000"
    )
    opened = Shown(chromium, html(run.path, tmp_path / "page.html"))
    begin, end = (first + 1e8) / 1e9, (second + 1e8) / 1e9
    opened.select(view="lines", measure="growth", **{"from": begin, "to": end})
    shown = opened.lines()[(str(program), 3)]
    assert 9_000_000 <= shown < 9_100_000
    assert opened.query(3) == shown
    opened.close()


def test_a_drag_on_the_timeline_selects_time(shown):
    box = shown.page.locator(".u-over").bounding_box()
    y = box["y"] + box["height"] / 2
    shown.page.mouse.move(box["x"] + box["width"] * 0.3, y)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
    shown.page.mouse.up()
    assert "measure=largest" in shown.page.url
    before = shown.total()
    shown.page.focus(".brush")
    shown.page.keyboard.press("Escape")
    assert "from=" not in shown.page.url
    assert shown.total() >= before


def test_search_finds_names_and_source_text(shown):
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("np.pad")
    shown.page.wait_for_selector("[data-found]")
    found = int(shown.page.get_attribute("[data-found]", "data-found"))
    wanted = [row for row in shown.tree() if row["place"].startswith("paged.py:19")]
    assert found == sum(row["value"] for row in wanted) > 0
    shown.select(view="lines", query="np.zeros")
    assert [key[1] for key in shown.lines()] == [9]


def test_folding_leaves_code_of_the_users_own(run, shown):
    rows = shown.tree()
    assert not any("importlib" in row["place"] for row in rows)
    shown.select(unfolded=1)
    unfolded = shown.tree()
    assert unfolded[0]["value"] == rows[0]["value"]

    # What numpy.ones itself calls is part of one frame of the folded tree.
    def is_inside_numpy(row):
        return row["place"].startswith("numeric.py")

    assert not any(map(is_inside_numpy, rows))
    assert any(map(is_inside_numpy, unfolded))
    shown.select(inverted=1)
    inverted = shown.tree()
    assert inverted[0]["value"] == rows[0]["value"]
    assert sum(row["value"] for row in inverted if row["level"] == 2) == rows[0]["value"]


def test_everything_is_there_by_the_keyboard(shown):
    page = shown.page
    first = shown.tree()[1]
    page.focus(".treegrid tr[tabindex='0']")
    page.keyboard.press("ArrowDown")
    assert focused(page) == first["name"]
    page.keyboard.press("Enter")
    assert "zoom=" in page.url
    assert shown.tree()[0] == {**first, "level": 1}
    assert focused(page) == first["name"]
    page.keyboard.press("Escape")
    assert "zoom=" not in page.url
    assert page.evaluate("document.activeElement.matches('.treegrid tr')")
    page.focus(".icicle")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert first["name"] in page.text_content("#announcer")
    page.keyboard.press("Enter")
    assert "zoom=" in page.url
    page.focus(".brush")
    page.keyboard.press("ArrowRight")
    before = page.get_attribute(".brush", "aria-valuetext")
    page.keyboard.press("Shift+ArrowRight")
    assert before != page.get_attribute(".brush", "aria-valuetext")
    page.focus("#tab-flame")
    tabs = page.eval_on_selector_all("[role=tab]", "tabs => tabs.map(tab => tab.id.slice(4))")
    assert set(VIEWS) - {"resident"} <= set(tabs)
    for tab in tabs[1:]:
        page.keyboard.press("ArrowRight")
        assert page.locator(f"#panel-{tab}").is_visible()
    page.focus("#tab-operators")
    page.keyboard.press("Enter")
    page.focus(".operators .link")
    operator = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert "measure=span" in page.url
    assert page.evaluate("document.activeElement.textContent") == operator
    page.keyboard.press("Enter")
    assert "measure=" not in page.url


def focused(page):
    """The name in the row that has the focus."""
    return page.evaluate("document.activeElement.querySelector('.name').textContent")


def test_a_link_opens_what_was_selected(chromium, shown, page):
    shown.select(view="source", measure="span:__main__:smooth")
    link = shown.page.url
    shown.page.goto("about:blank")
    shown.wrong.clear()
    shown.page.goto(link)
    shown.page.wait_for_selector("#panel-source tr.hot")
    assert shown.page.locator("#panel-source").is_visible()


def test_source_lines_have_what_was_allocated_below_them(run, shown):
    shown.select(view="source")
    below = dict(
        shown.page.eval_on_selector_all(
            "#panel-source tr.hot",
            "rows => rows.map(row => [Number(row.dataset.line), Number(row.dataset.below)])",
        )
    )
    places = {place["line"]: place["bytes"] for place in run.report["places"] if place["file"]}
    assert below[19] >= places[19]
    assert max(below.values()) <= run.report["peak"]["live_bytes"]
    assert "padded = np.pad(volume, 1)" in shown.page.text_content("#panel-source")


def test_the_waterfall_goes_from_live_to_resident(run, shown, kernel_side):
    shown.select(view="resident")
    [process] = [each for each in run.report["processes"] if each["resident_at_peak"]]
    parts = process["resident_at_peak"]
    rows = shown.page.eval_on_selector_all(
        "#panel-resident tbody tr",
        "rows => rows.map(row => [row.dataset.part, Number(row.dataset.bytes)])",
    )
    assert rows[0] == ["live", parts["live_bytes"]]
    assert rows[1] == ["never touched", -parts["untouched_bytes"]]
    assert rows[2] == ["touched", parts["live_bytes"] - parts["untouched_bytes"]]
    added = dict(rows[3:-1])
    assert added["files: code, libraries, mapped files"] == parts["file_bytes"]
    assert added["other: allocators, more stacks"] == parts["unexplained_bytes"]
    assert rows[-1] == ["resident", process["peak_resident_bytes"]]
    assert rows[2][1] + sum(added.values()) == process["peak_resident_bytes"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anyone_out(chromium, page, scheme):
    opened = Shown(chromium, page, color_scheme=scheme, bypass_csp=True)
    for view in VIEWS:
        opened.select(view=view)
        opened.assert_accessible()
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_first_screen_has_the_headline_and_the_largest_frame(
    chromium, page, tmp_path, size, scheme
):
    opened = Shown(chromium, page, size, color_scheme=scheme)
    width, height = size
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.screenshot(path=tmp_path / "screen.png")
    box = opened.page.locator("#headline .peak").bounding_box()
    assert box["y"] + box["height"] <= height / 3
    top = opened.page.locator(".icicle").bounding_box()["y"]
    largest = [row for row in opened.tree() if row["level"] == 2][0]
    ratio = opened.page.evaluate("window.devicePixelRatio")
    # The row below the root, where the largest frame begins.
    row = 24
    assert top + 2 * row <= height
    pixel = opened.page.evaluate(
        "([x, y]) => [...document.querySelector('.icicle').getContext('2d')"
        ".getImageData(x, y, 1, 1).data].slice(0, 3)",
        [round(5 * ratio), round((row + 3) * ratio)],
    )
    assert largest["value"] > 0
    assert tuple(pixel) == OKABE_ITO_TINTS[scheme]
    opened.close()


HOSTILE = "</script><img src=x onerror=alert(1)>\u202egnp.\u2066\x1b[31m\x07"


def test_hostile_names_stay_names(chromium, record, python, tmp_path):
    program = tmp_path / "hostile.py"
    program.write_text(
        f"name = {HOSTILE!r}\n"
        "code = 'def f(): return bytearray(9_000_000)'\n"
        "exec(compile(code, '/home/me/evil' + name, 'exec'))\n"
        "f.__code__ = f.__code__.replace(co_name=name, **({'co_qualname': name}"
        " if hasattr(f.__code__, 'co_qualname') else {}))\n"
        "kept = f()\n",
        encoding="utf-8",
    )
    run = record(python, program, HOSTILE)
    opened = Shown(chromium, html(run.path, tmp_path / "page.html"))
    for view in VIEWS:
        opened.select(view=view)
        assert opened.page.locator("img").count() == 0
        text = opened.page.evaluate("document.body.innerText")
        assert not set(text) & set("\u202e\u2066\x1b\x07")
    opened.select(view="lines")
    assert "<img src=x onerror=alert(1)>" in opened.page.text_content("#panel-lines")
    opened.select(view="flame")
    assert any("<img src=x onerror=alert(1)>" in row["name"] for row in opened.tree())
    assert "⟨U+202E⟩" in opened.page.text_content("#headline")
    opened.close()


def test_calls_that_are_left_out_are_counted(chromium, record, python, tmp_path):
    program = tmp_path / "calls.py"
    program.write_text(
        "def call():\n    return bytearray(100_000)\n\n\nfor _ in range(1200):\n    call()\n"
    )
    run = record(python, program, options=("--operator", "__main__:call"))
    opened = Shown(chromium, html(run.path, tmp_path / "page.html"))
    assert opened.page.text_content(".lanes-box .faint") == "200 more calls are not drawn"
    opened.select(view="operators")
    assert "Left out: 200 smaller calls." in opened.page.text_content("#panel-operators caption")
    opened.close()


def test_many_call_stacks_are_joined_and_nothing_is_lost(chromium, record, python, tmp_path):
    program = tmp_path / "many.py"
    functions = "\n".join(f"def f{n}(): return bytearray(70_000)" for n in range(7000))
    calls = ", ".join(f"f{n}()" for n in range(7000))
    program.write_text(f"{functions}\nkept = [{calls}]\n")
    run = record(python, program)
    path = html(run.path, tmp_path / "page.html")
    assert path.stat().st_size < 2_000_000
    opened = Shown(chromium, path)
    assert opened.total() == run.report["peak"]["live_bytes"]
    opened.select(view="lines")
    assert "smaller call stacks" in opened.page.text_content("#panel-lines")
    opened.close()


def test_without_rows_the_page_says_so(chromium, record, python, tmp_path):
    run = record(python, TARGETS / "paged.py", options=("--aggregate",))
    opened = Shown(chromium, html(run.path, tmp_path / "page.html"))
    assert opened.total() == run.report["peak"]["live_bytes"]
    opened.select(**{"from": 0.1, "to": 0.4})
    assert "no row for every block" in opened.page.text_content(".status")
    opened.close()


def test_a_program_that_allocates_nothing_has_a_page(chromium, record, tmp_path):
    run = record("true")
    opened = Shown(chromium, html(run.path, tmp_path / "page.html"))
    assert opened.total() == run.report["peak"]["live_bytes"]
    opened.close()
