"""The Python of other releases of Debian: their packages, unpacked and recorded in a chroot."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from experiments.debian import in_root, unpacked, why_not
from experiments.pythons.program import OPTIONS, PROGRAM, cells, judged

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "release" / "memtrace"
PROBE = ROOT / "target" / "preload" / "libmemtrace_probe.so"
WORK = ROOT / "target" / "experiments" / "pythons"
RESULTS = ROOT / "docs" / "results" / "pythons-debian.md"
KINDS = (  # release and package; PyPy is no CPython, and 3.15 is not released: both are refused
    ("trixie", "python3"),
    ("sid", "python3"),
    ("bookworm", "python3-dbg"),
    ("trixie", "python3-dbg"),
    ("sid", "python3.15"),
    ("trixie", "pypy3"),
)

# Of these the tests of an interpreter are run as well, with what they import.
TESTED = ("trixie-python3", "sid-python3")
TOOLS = ("duckdb", "ipython", "numpy", "pytest")
TESTS = "tests/end_to_end/test_pythons.py"


def main(_arguments):
    if reason := why_not():
        print(f"pythons debian: skipped, {reason}")
        return True
    rows = [measured(*kind) for kind in KINDS]
    RESULTS.write_text(page(rows))
    return all(row["is_right"] for row in rows)


def measured(suite, package):
    """What the suite's own `python3` gives, or another package's command of its own name."""
    root = unpacked(WORK / f"{suite}-{package}", suite, [package, "libstdc++6"])
    inside = root / "opt"
    inside.mkdir(exist_ok=True)
    for file in (BUILT, PROBE):
        shutil.copy(file, inside)
    (inside / "program.py").write_text(PROGRAM)
    shutil.rmtree(inside / "trace", ignore_errors=True)
    recorded = in_root(
        *(root, "/opt/memtrace", *OPTIONS, "-o", "/opt/trace"),
        *("--", f"/usr/bin/{package}", "/opt/program.py"),
    )
    assert recorded.returncode == 0, recorded.stderr
    version = in_root(root, f"/usr/bin/{package}", "--version").stdout.split()[1]
    row = {
        "suite": suite,
        "package": package,
        "python": version,
        "tests": "",
        **judged(BUILT, inside / "trace", refused=[] if package == "pypy3" else None),
    }
    if root.name in TESTED:
        row["tests"], passed = tested(root, version)
        row["is_right"] &= passed
    return row


def tested(root, version):
    """What the tests of interpreters say there, and whether none failed and none was skipped."""
    site = root / "opt" / "site"
    if not site.exists():
        only = ["--only-binary", ":all:", "--python-version", ".".join(version.split(".")[:2])]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", site, *only]
        subprocess.run([*pip, *TOOLS], check=True)
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"/checkout/{TESTS}", "-k", "debian"]
    done = in_root(root, *command, PYTHONPATH="/opt/site", PYTHONDONTWRITEBYTECODE="1", HOME="/tmp")
    print(done.stdout[-4000:], done.stderr[-4000:])
    outcome = re.sub(r" in .*", "", done.stdout.strip().splitlines()[-1].strip("= "))
    return outcome, re.fullmatch(r"\d+ passed, \d+ deselected", outcome) is not None


def page(rows):
    lines = [
        "# Python of other releases of Debian",
        "",
        "`scripts/experiments pythons debian` unpacks a package of each release and records it in",
        "a chroot: 20 blocks of 1 MB that stay, and calls of an operator that need 4.5 and 9 MB.",
        f"The tests are those of `{TESTS}` there: frames, spans, `limit_memory` and",
        "`%%memtrace`.",
        "",
        "| release | package | version | first of `--leaks` | bytes | peaks | note | tests |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            "| " + " | ".join((row["suite"], row["package"], *cells(row), row["tests"])) + " |"
        )
    return "\n".join(lines) + "\n"
