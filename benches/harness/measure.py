"""Running commands in turn, and what they cost."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Failed(Exception):
    """A command that failed."""


class Cost(NamedTuple):
    """Of one run. The section is the program's own work, which it measures itself."""

    cpu: float  # seconds, user and system, of the command and all it waited for
    wall: float
    section_cpu: float
    section_wall: float
    calls: int
    resident: int  # largest process, bytes
    disk: int  # bytes left in the output folder


def run(command, output, variables=None):
    """Runs a command; what it writes into the folder `output` is counted."""
    section = Path(f"{output}.section")
    environment = {**os.environ, **(variables or {}), "BENCH_SECTION": str(section)}
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        words = list(map(str, command))
        child = subprocess.Popen(
            words, cwd=output, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        # Not Popen.wait: only wait4(2) reports what the children of the child cost as well.
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise Failed(f"exit status {child.returncode}, {' '.join(last) or 'without a word'}")
    cpu, section_wall, calls = (
        map(int, section.read_text().split()) if section.exists() else (0,) * 3
    )
    disk = sum(file.stat().st_size for file in Path(output).rglob("*") if file.is_file())
    return Cost(
        usage.ru_utime + usage.ru_stime,
        wall,
        cpu / 1e9,
        section_wall / 1e9,
        calls,
        usage.ru_maxrss * 1024,
        disk,
    )


def in_turn(tools, rounds, what):
    """Costs of each tool, a list with one for each round; tools is {name: (command of folder, variables)}. Instead of
    the list a sentence, if a tool fails."""
    costs = {name: [] for name in tools}
    for number in range(rounds):
        for name, (command, variables) in tools.items():
            if isinstance(costs[name], str):
                continue
            progress(f"{what}: round {number + 1} of {rounds}, {name}")
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                output = Path(folder) / "output"
                output.mkdir()
                try:
                    costs[name].append(run(command(output), output, variables))
                except (Failed, OSError) as error:
                    costs[name] = str(error)
    progress("")
    return costs


def progress(text):
    """On a terminal, one line that is written over."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def paired(costs, base, figure):
    """Median over rounds of `figure(cost, cost of the base in that round)`; None without costs."""
    if isinstance(costs, str) or isinstance(base, str) or not costs:
        return None
    return median(figure(cost, bare) for cost, bare in zip(costs, base, strict=True))
