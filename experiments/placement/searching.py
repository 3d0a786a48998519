"""The searches for placements, called as a study calls them: instances in, choices out."""

import functools
import json
import subprocess

from experiments.recording import ROOT

PROGRAM = ROOT / "target" / "release" / "examples" / "placement_search"


@functools.cache
def program():
    """The program that searches, built."""
    command = ["cargo", "build", "--quiet", "--release", "-p", "memtrace-analysis"]
    subprocess.run([*command, "--example", PROGRAM.name], cwd=ROOT, check=True)
    return PROGRAM


def answers(arguments, instances=()):
    """What it prints, as values."""
    lines = "\n".join(map(json.dumps, instances))
    command = [str(each) for each in (program(), *arguments)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def choices(how, seed, instances, *weights):
    """Of each instance: whether each object is fast, the gain, and the seconds it took."""
    return answers((how, seed, *weights), instances)


def gain(instance, fast):
    """What a choice gains."""
    items = zip(instance["items"], fast, strict=True)
    return sum(item["gain"] for item, chosen in items if chosen)
