"""Writes pages of `memtrace report --html`, and opens them in a real browser that may not use a network."""

import base64
import shutil
import sys
import zlib
from contextlib import contextmanager

import duckdb
import pytest
from conftest import Recording, memtrace

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = (1400, 900), (390, 844)


def html(trace, path, *options):
    """Writes the page of a trace."""
    done = memtrace("report", trace, "--html", path, *options)
    assert done.returncode == 0, done.stderr.decode()
    return path


def recorded(folder, program, *arguments, operators=(), **how):
    """A recording of a program with all call stacks, so that no line is an estimate; its page is beside
    it."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    options = [word for name in operators for word in ("--operator", name)]
    command = (sys.executable, folder / "program.py", *arguments)
    done = memtrace("-o", folder / "trace", "--stacks", "all", *options, "--", *command, **how)
    assert done.returncode == 0, done.stderr.decode()
    html(folder / "trace", folder / "page.html")
    return Recording(folder / "trace", 0, done.stdout, done.stderr)


def text_of(page):
    """The data in the text of a page, as JSON."""
    data = page.split('<script id="data" type="text/plain">')[1].split("</script>")[0]
    return zlib.decompress(base64.b64decode(data)).decode()


def executable():
    """The browser's path; skips where there is none."""
    found = [path for path in map(shutil.which, NAMES) if path]
    if not found:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    return found[0]


@contextmanager
def started():
    """A browser without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        # As root, as in a container, Chromium starts without its sandbox only.
        browser = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Shown:
    """A page that is open, and what went wrong in it."""

    def __init__(self, browser, path, size=DESKTOP, ready="html[data-ready]", **how):
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=True, **how
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.wrong = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("dialog", self._opened)
        self.page.on("request", self._requested)
        self.url = path.as_uri()
        self.page.goto(self.url)
        self.page.wait_for_selector(ready)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def _opened(self, dialog):
        self.wrong.append(f"a dialog says {dialog.message}")
        dialog.dismiss()

    def _requested(self, request):
        if request.url.split("#")[0] != self.url:
            self.wrong.append(f"it requests {request.url}")

    def select(self, **parts):
        """Opens a link to a selection."""
        fragment = "&".join(f"{name}={value}" for name, value in parts.items())
        self.page.evaluate("fragment => { location.hash = fragment }", fragment)
        self.page.wait_for_timeout(50)

    def total(self):
        """The sum that is shown, to the byte."""
        return int(self.page.get_attribute("#total", "data-total"))

    def lines(self):
        """Bytes by file and line in the table of lines; under their names what has no line."""
        rows = self.page.eval_on_selector_all(
            "#panel-lines tbody tr",
            "rows => rows.map(row => [row.dataset.file ?? '', Number(row.dataset.line ?? 0),"
            " row.querySelector('.name').textContent, Number(row.dataset.value)])",
        )
        return {(file, line) if file else name: value for file, line, name, value in rows}

    def query(self, line):
        """What the query says that a line of the table of lines copies."""
        self.page.click(f"#panel-lines tr[data-line='{line}'] .quiet")
        sql = self.page.input_value("dialog textarea")
        self.page.keyboard.press("Escape")
        return duckdb.sql(sql).fetchall()[0][0]

    def legend(self):
        """Bytes at the peak of what the timeline draws."""
        entries = self.page.eval_on_selector_all(
            "#timeline .legend .entry",
            "entries => entries.map(entry => [entry.dataset.name, entry.dataset.bytes])",
        )
        return {name: None if bytes is None else int(bytes) for name, bytes in entries}

    def tree(self):
        """Texts, levels and bytes of the rows beside the flame graph."""
        return self.page.eval_on_selector_all(
            ".treegrid tbody tr",
            "rows => rows.map(row => ({name: row.querySelector('.name')?.textContent ?? '',"
            " place: row.querySelector('.place')?.textContent ?? '',"
            " level: Number(row.ariaLevel), value: Number(row.dataset.value)}))",
        )

    def assert_accessible(self):
        """What axe-core says; the page's own policy would keep that out (`bypass_csp`)."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        found = axe.run(self.page)
        assert found.violations_count == 0, found.generate_report()

    def close(self):
        """Fails if anything went wrong."""
        self.context.close()
        assert not self.wrong
