"""memtrace and its peers: installing them, their versions, and how each is made to record a program."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
FLOOR = ROOT / "target" / "release" / "examples" / "floor"
PROBE = ROOT / "target" / "preload" / "libmemtrace_probe.so"
PEERS = ROOT / "build" / "peers"
PYTHON = PEERS / "bin" / "python"
PACKAGES = ("memray", "filprofiler", "scalene", "numpy", "scipy")


def add(*packages):
    """Gets the newest release of each package; returns {name: why it is not there}."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--upgrade"]
    failures = {package: failure([*pip, package]) for package in packages}
    return {name: why for name, why in failures.items() if why}


def install():
    """Gets the newest release of each peer; returns {name: why it is not there}."""
    failures = add(*PACKAGES)
    if shutil.which("heaptrack") is None:
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        failures["heaptrack"] = failure([*sudo, "apt-get", "update", "-qq"]) or failure(
            [*sudo, "apt-get", "install", "-y", "-qq", "heaptrack"]
        )
    return {name: why for name, why in failures.items() if why}


def failure(command):
    """The last line of what a command complains about; None if it succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.strip() or "failed").splitlines()[-1] if done.returncode else None


def output_of(*command):
    """What a command prints; nothing if it is not there."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


@cache
def versions():
    """{name: version} of the tools that are there."""
    found = {"memtrace": output_of(MEMTRACE, "--version").removeprefix("memtrace ")}
    if shutil.which("heaptrack"):
        found["heaptrack"] = output_of("heaptrack", "--version").removeprefix("heaptrack ")
    listed = output_of(PYTHON, "-m", "pip", "--disable-pip-version-check", "list", "--format=json")
    packages = {package["name"]: package["version"] for package in json.loads(listed or "[]")}
    return found | {name: packages[name] for name in PACKAGES if name in packages}


# What follows gives (command for an output folder, variables), as measure.in_turn takes them.


def bare(program, **variables):
    return lambda _: program, variables


def memtrace(program, *options, **variables):
    return lambda output: [MEMTRACE, "-o", output / "trace", *options, "--", *program], variables


def floor(program):
    """The probe, and a reader that drops all events."""
    return lambda _: [FLOOR, PROBE, *program], {}


def heaptrack(program, *options, **variables):
    return lambda output: ["heaptrack", *options, "-o", output / "heaptrack", *program], variables


def memray(script, *options, **variables):
    command = [PYTHON, "-m", "memray", "run", "--quiet", *options]
    return lambda output: [*command, "-o", output / "memray.bin", *script], variables


def fil(script, **variables):
    command = [PYTHON, "-m", "filprofiler"]
    return lambda output: [
        *command,
        "-o",
        output / "fil",
        "--no-browser",
        "run",
        *script,
    ], variables


def scalene(script, **variables):
    command = [PYTHON, "-m", "scalene", "run"]
    return lambda output: [*command, "-o", output / "scalene.json", *script], variables
