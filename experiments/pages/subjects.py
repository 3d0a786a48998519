"""The programs whose pages are compared, and the tools that write these pages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches"))

from harness import tools  # noqa: E402

HERE = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "examples"
WORK = ROOT / "target" / "experiments" / "pages"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: What says which line is wanted, in the programs of this study.
MARK = "most bytes at the peak"


class Program(NamedTuple):
    """A program, and the line that allocated most of what was live at its peak."""

    name: str
    what: str
    words: tuple
    source: Path
    mark: str
    is_python: bool = True

    @property
    def line(self):
        """Number and text of that line."""
        lines = self.source.read_text().splitlines()
        [number] = [n for n, line in enumerate(lines, 1) if self.mark in line]
        return number, lines[number - 1].partition("#")[0].partition("//")[0].strip()


def missing():
    """What this machine lacks, in words; nothing if all is there."""
    lacking = list(tools.add("memray", "scalene", "numpy", "scipy", "segyio"))
    lacking += [name for name in ("heaptrack", "g++") if shutil.which(name) is None]
    lacking += [] if browser() else ["chromium"]
    return ", ".join(lacking)


def browser():
    """The path of Chromium; None if it is not there."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def programs():
    """Three: arrays, objects of Python, C++."""
    WORK.mkdir(parents=True, exist_ok=True)
    grid = WORK / "grid"
    subprocess.run(["g++", "-O1", "-g", "-o", grid, HERE / "grid.cpp"], check=True)
    operator = (EXAMPLES / "run_operator.py", "--operator", "gst3d", "--shape", "100,100,100")
    gst3d = EXAMPLES / "operators" / "gst3d.py"
    return [
        Program("gst3d", "NumPy and SciPy on a volume of 100×100×100", operator, gst3d, "eigh("),
        Program(
            "records",
            "60,000 lines of JSON, grouped",
            (HERE / "records.py",),
            HERE / "records.py",
            MARK,
        ),
        Program("grid", "C++, fields of 18 MB smoothed", (grid,), HERE / "grid.cpp", MARK, False),
    ]


class Tool(NamedTuple):
    """How a tool records a program, and writes what it shows of that."""

    name: str
    what: str
    record: Callable  # program, folder -> words
    write: Callable  # folder -> words; what they print is the page if they write no file
    page: str  # its name in the folder
    takes: Callable  # program -> whether the tool is for it


def run_of(program):
    return [tools.PYTHON, *program.words] if program.is_python else program.words


def known_tools():
    """memtrace first."""
    peer = [tools.PYTHON, "-m"]
    return [
        Tool(
            "memtrace",
            "`report --html`",
            lambda program, at: [tools.MEMTRACE, "-q", "-o", at / "trace", "--", *run_of(program)],
            lambda at: [tools.MEMTRACE, "report", at / "trace", "--html", at / "page.html"],
            "page.html",
            lambda program: True,
        ),
        Tool(
            "memray",
            "`flamegraph --no-web`: else it loads scripts from a network",
            lambda program, at: [
                *peer,
                "memray",
                "run",
                "-q",
                "-o",
                at / "run.bin",
                *program.words,
            ],
            lambda at: [
                *peer,
                "memray",
                "flamegraph",
                "--no-web",
                "-f",
                "-o",
                at / "page.html",
                at / "run.bin",
            ],
            "page.html",
            lambda program: program.is_python,
        ),
        Tool(
            "Scalene",
            "`view --standalone`",
            lambda program, at: [*peer, "scalene", "run", "-o", at / "run.json", *program.words],
            lambda at: [*peer, "scalene", "view", "--standalone", at / "run.json"],
            "scalene-profile.html",
            lambda program: program.is_python,
        ),
        Tool(
            "heaptrack",
            "what `heaptrack_print` prints",
            lambda program, at: ["heaptrack", "-o", at / "run", *run_of(program)],
            lambda at: ["heaptrack_print", next(at.glob("run.*"))],
            "page.txt",
            lambda program: True,
        ),
    ]


def recorded(tool, program):
    """A new folder with the recording. RuntimeError: the tool failed."""
    at = WORK / f"{program.name}-{tool.name}"
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    words = [str(word) for word in tool.record(program, at)]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run(words, cwd=at, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr.decode()[-500:]}")
    return at


def written(tool, at):
    """The page, written anew."""
    page = at / tool.page
    page.unlink(missing_ok=True)
    words = [str(word) for word in tool.write(at)]
    with (at / "printed").open("wb") as printed:
        subprocess.run(words, cwd=at, stdout=printed, stderr=subprocess.DEVNULL, check=True)
    if not page.exists():
        (at / "printed").rename(page)
    return page
