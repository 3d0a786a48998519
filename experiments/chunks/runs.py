"""Runs of a part, each in a process of its own, and kept: a study that stopped goes on."""

import json
import os
import subprocess
import sys

from experiments.recording import KEPT, ROOT

#: A run that takes longer hangs: a killed worker's tasks are not tried for ever.
LONGEST_SECONDS = 300


def run(part, again=0, **asked):
    """What `experiments.chunks.once` tells of a computation; `again` tells repeats apart."""
    asked = {"chunk": None, "how": "shared", "memory_limit": "1.5GB", "workers": 2, **asked}
    file = KEPT / "chunks" / f"{part}.jsonl"
    key = json.dumps([asked, again], sort_keys=True)
    kept = read(file)
    if key not in kept:
        kept[key] = {"key": key, **computed(asked)}
        with file.open("a") as out:
            out.write(json.dumps(kept[key]) + "\n")
        print(line(kept[key]), file=sys.stderr)
    return kept[key]


def read(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        return {}
    runs = (json.loads(text) for text in file.read_text().splitlines())
    return {each["key"]: each for each in runs}


def computed(asked):
    paths = f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"
    command = [sys.executable, "-m", "experiments.chunks.once", json.dumps(asked)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**asked, "error": "took too long", "within": False, "busy": False, "seconds": None}
    if done.returncode:
        raise RuntimeError(f"{asked} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def line(told):
    shape, chunk = ("x".join(map(str, told.get(name) or ["?"])) for name in ("shape", "chunk"))
    state = "within" if told["within"] else told["error"] or "over budget"
    if told["seconds"] is None:
        return f"{told['operator']} {shape}: {state}"
    peak, budget = told["peak_bytes"] / 1e6, told["budget_bytes"] / 1e6
    return (
        f"{told['operator']} {shape} {told['how']} by {chunk}, {told['workers']} workers: "
        f"{told['seconds']:.2f} s, {peak:.0f} of {budget:.0f} MB, {state}"
    )
