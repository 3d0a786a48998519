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
    key = json.dumps([asked, again], sort_keys=True)
    return kept(part, key, lambda: computed(asked), line)


def kept(part, key, compute, line):
    """What a part recorded under a key, or records now and keeps; `line` says it in one."""
    file = KEPT / "chunks" / f"{part}.jsonl"
    known = read(file)
    if key not in known:
        known[key] = {"key": key, **compute()}
        with file.open("a") as out:
            out.write(json.dumps(known[key]) + "\n")
        print(line(known[key]), file=sys.stderr)
    return known[key]


def read(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        return {}
    runs = (json.loads(text) for text in file.read_text().splitlines())
    return {each["key"]: each for each in runs}


def computed(asked):
    try:
        return in_a_process(
            asked, "-m", "experiments.chunks.once", json.dumps(asked), timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {**asked, "error": "took too long", "within": False, "busy": False, "seconds": None}


def in_a_process(what, *arguments, timeout=None):
    """The JSON that Python prints last when it is started with these arguments."""
    paths = f"{ROOT}:{ROOT / 'examples'}:{ROOT / 'python'}"
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{what} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def line(reported):
    shape, chunk = ("x".join(map(str, reported.get(name) or ["?"])) for name in ("shape", "chunk"))
    state = "within" if reported["within"] else reported["error"] or "over budget"
    if reported["seconds"] is None:
        return f"{reported['operator']} {shape}: {state}"
    peak, budget = reported["peak_bytes"] / 1e6, reported["budget_bytes"] / 1e6
    return (
        f"{reported['operator']} {shape} {reported['how']} by {chunk}, {reported['workers']} workers: "
        f"{reported['seconds']:.2f} s, {peak:.0f} of {budget:.0f} MB, {state}"
    )
