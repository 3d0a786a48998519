"""Tests of capturing in qemu's user mode: programs for Arm run in it, all else without it."""

import os
import subprocess
import sys

from experiments.arm.built import TARGET, WORK, compilers, system
from experiments.arm.emulated import emulated, why_not_beside
from experiments.recording import ROOT

#: Releases by the version of their Python.
PYTHONS = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie"}
#: A program that a timer interrupts gets further where there is more time between two signals.
COMPILER = "aarch64-linux-gnu-{} -DINTERRUPTED_EVERY=5000"
#: By file, in the language of pytest's -k: those that run no program of this machine, and take
#: nothing that qemu lacks: robust lists, by which the ends of threads are known, and mincore(2).
TESTS = {
    "unwinding": "test_every_kind_of_stack_in_c and not wide_vectors or no_block",
    "record_native": "not other_languages and not exit_status and not with_a_space",
}
#: The same of one that starts Python.
PYTHON_TESTS = ("record_python", "without_arrays")


def tested(arguments):
    """Runs the tests: what they compile is for Arm, and whatever is for Arm runs under qemu.
    The number of failed runs."""
    if reason := why_not_beside():
        sys.exit(f"scripts/arm: {reason}")
    failed = 0
    for name, chosen in TESTS.items():
        failed += run("trixie", name, chosen, arguments)
    for version, suite in PYTHONS.items():
        print(f"Python {version}", flush=True)
        failed += run(suite, *PYTHON_TESTS, arguments)
    return failed


def run(suite, name, chosen, arguments):
    """1 if tests of a file fail, with the libraries of a release."""
    root = system(suite)
    variables = {
        **os.environ,
        "PATH": f"{compilers(WORK / 'compilers', COMPILER)}:{os.environ['PATH']}",
        "QEMU_LD_PREFIX": str(root),
        "MEMTRACE_BUILT": f"target/arm/built/{TARGET}",
        "MEMTRACE_PYTHON": str(root / "usr/bin/python3"),
    }
    words = emulated(sys.executable, "-m", "pytest", "-q", *arguments)
    words += [f"tests/end_to_end/test_{name}.py", "-k", chosen]
    return int(subprocess.run(words, cwd=ROOT, env=variables, check=False).returncode != 0)
