"""Recordings the studies are made of, kept so that an interrupted study goes on where it was."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from memtrace import load

from experiments.operators import OPERATORS, VARYING

ROOT = Path(__file__).resolve().parents[1]
MEMTRACE = ROOT / "target" / "release" / "memtrace"
#: Traces and intermediate figures; `rm -r` it to measure anew.
KEPT = ROOT / "target" / "experiments"
RESULTS = ROOT / "docs" / "results"


def memtrace(*arguments, **options):
    """Runs the command line; its output. Fails with what it said."""
    command = [str(each) for each in (MEMTRACE, *arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"}
    environment |= options.pop("environment", {})
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, **options
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def qualified(name):
    """How a trace and a model name an operator."""
    return f"experiments.operators.{OPERATORS.get(name) or VARYING[name]}:{name}"


def recorded(folder, name, dtype, shapes, **options):
    """The trace of one process that calls an operator at `shapes` (after a small warm-up call).

    A trace kept from before serves again if it is of the same command.
    """
    run = [sys.executable, "-m", "experiments.operators.run", name, dtype, *map(written, shapes)]
    if (folder / "meta.json").exists():
        with suppress(ValueError):  # a trace of an earlier format
            if load(folder).meta["command"] == run:
                return folder
        shutil.rmtree(folder)
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    memtrace("--quiet", "-o", unfinished, "--operator", qualified(name), "--", *run, **options)
    unfinished.rename(folder)
    return folder


def written(shape):
    """`53x61x97`; a shape that is text stays as it is (`53x61x97:sorted`)."""
    return shape if isinstance(shape, str) else "x".join(map(str, shape))


def spans(folder, name):
    """shape -> the recorded call of an operator at it, as `report --json` tells it."""
    report = json.loads(memtrace("report", "--json", "--all-spans", folder))
    if report["lost"]["events"]:
        raise RuntimeError(f"{folder} lost {report['lost']['events']} events: record it again")
    [operator] = [each for each in report["operators"] if each["name"] == qualified(name)]
    return {tuple(span["inputs"][0]["shape"]): span for span in operator["spans"]}
