"""Pythons that their own build makes in other ways: without pymalloc, and without the GIL."""

import os
import shutil
import subprocess
from pathlib import Path

from experiments.native.sources import debian, placed
from experiments.pythons.program import OPTIONS, PROGRAM, cells, judged

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
WORK = ROOT / "target" / "experiments" / "pythons"
RESULTS = ROOT / "docs" / "results" / "pythons-built.md"
SUITE, PACKAGE = "trixie", "python3.13"
WAYS = {  # options, and the working peaks of an interpreter that is refused
    "--without-pymalloc": None,
    "--enable-shared --without-pymalloc": None,
    "--disable-gil": [0, 0],
}


def main(_arguments):
    if shutil.which("apt-get") is None:
        print("pythons built: skipped, it needs apt-get for Debian's sources")
        return True
    rows = [measured(way) for way in WAYS]
    RESULTS.write_text(page(rows))
    return all(row["is_right"] for row in rows)


def measured(way):
    """What a build in this way gives."""
    tree = built(way)
    python = tree / "python"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tree)}
    (tree / "program.py").write_text(PROGRAM)
    shutil.rmtree(tree / "trace", ignore_errors=True)
    command = [MEMTRACE, *OPTIONS, "-o", tree / "trace", "--", python, tree / "program.py"]
    subprocess.run(command, env=environment, check=True)
    version = subprocess.run(
        [python, "--version"], env=environment, capture_output=True, text=True, check=True
    )
    return {
        "way": way,
        "python": version.stdout.split()[1],
        **judged(MEMTRACE, tree / "trace", refused=WAYS[way]),
    }


def built(way):
    """A folder with the interpreter; a build that succeeded is used again."""
    tree = WORK / "built" / way.replace("-", "").replace(" ", "-")
    if not (tree / "complete").exists():
        shutil.rmtree(tree, ignore_errors=True)
        placed(tree, lambda scratch: debian(PACKAGE, None, scratch, SUITE))
        build = f"./configure -q {way} && make -s -j2"
        with (tree / "log").open("wb") as log:
            subprocess.run(build, shell=True, cwd=tree, stdout=log, stderr=log, check=True)
        (tree / "complete").touch()
    return tree


def page(rows):
    lines = [
        "# Pythons built in other ways",
        "",
        "`scripts/experiments pythons built` builds CPython from Debian's sources, with options of",
        "its `configure`, and records it: 20 blocks of 1 MB that stay, and calls of an operator",
        "that need 4.5 and 9 MB.",
        "",
        "| build | version | first of `--leaks` | bytes | working peaks | note |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append("| " + " | ".join((f"`{row['way']}`", *cells(row))) + " |")
    return "\n".join(lines) + "\n"
