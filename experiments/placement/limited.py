"""Programs in a control group with less memory than they need, with a plan and without."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from experiments.control_group import group
from experiments.placement.catalogue import command_of
from experiments.recording import MEMTRACE, memtrace

#: Idle threads of OpenBLAS spin: with them, pages that move cost both processors time.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
PAGE = 4096


@dataclass(frozen=True)
class Run:
    """CPU seconds of the program and of the kernel on its behalf, and pages of swap."""

    seconds: float
    output: bytes
    written: int
    back: int
    #: The group's, of a run without a plan.
    peak_bytes: int = 0


class Limited:
    """A program that was learned without a limit."""

    def __init__(self, file, folder, *arguments):
        self._folder = folder
        self.command = command_of(file, folder, *arguments)
        learned = ("-o", folder / "learned", "--", *self.command)
        memtrace("place", "learn", "--base", "swap,dram", *learned, environment=ENVIRONMENT)
        self.whole = self.bare(None)

    def share(self, of_peak):
        """Bytes: a share of the peak, in whole pages."""
        return int(self.whole.peak_bytes * of_peak) // PAGE * PAGE

    def plan(self, limit):
        """The plan for so many bytes, which `placed` follows from now on."""
        output = ("-o", self._folder / "plan.json", "--json")
        return json.loads(
            memtrace("place", "plan", self._folder / "learned", "--fast", limit, *output)
        )

    def bare(self, limit, forbids=False):
        """A run by itself, as `bare` has it."""
        return bare(self.command, limit, forbids)

    def planned(self, trace, command):
        """The command that runs this one with the plan, and records it."""
        run = [MEMTRACE, "place", "run", self._folder / "plan.json", "-f", "-o", trace, "--"]
        return [*map(str, run), *command]

    def placed(self, limit, forbids=False):
        """The same with the plan; one that gains nothing runs the program by itself."""
        trace = self._folder / "trace"
        shutil.rmtree(trace, ignore_errors=True)
        with group() as each:
            limit_group(each, limit, forbids)
            before = swapped()
            run = self.planned(trace, each.entered_by(self.command))
            how = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT}
            with subprocess.Popen(run, **how) as process:
                output = process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            pages = since(before)
        if process.returncode:
            return None
        seconds = used.ru_utime + used.ru_stime
        if trace.exists():
            # Without what the recorder took.
            meta = json.loads((trace / "meta.json").read_text())
            seconds = (meta["user_ns"] + meta["system_ns"]) / 1e9
        return Run(seconds, output, *pages)


def bare(command, limit, forbids=False):
    """A run of a command; None if the kernel killed it. `forbids`: the kernel may not swap."""
    with group() as each:
        limit_group(each, limit, forbids)
        before = swapped()
        line = each.entered_by([*map(str, command)])
        with subprocess.Popen(line, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
            output = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            return None
        seconds = used.ru_utime + used.ru_stime
        return Run(seconds, output, *since(before), each.peak_bytes())


def swapped():
    """Pages that the machine has written to swap and read from it. Since 6.13 Linux does not write
    those of zeroes, and counts them separately."""
    counts = dict(map(str.split, Path("/proc/vmstat").read_text().splitlines()))
    return [
        int(counts[f"pswp{way}"]) + int(counts.get(f"swp{way}_zero", 0)) for way in ("out", "in")
    ]


def since(before):
    """The same since `before`."""
    return [now - then for now, then in zip(swapped(), before, strict=True)]


def limit_group(each, limit, forbids):
    """Limits a group's memory, if there is a limit."""
    if limit and forbids:
        each.limit(limit)
    elif limit:
        each.limit_with_swap(limit)
