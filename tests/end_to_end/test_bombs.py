"""No file of a stranger takes more than 500 MB or 10 s of processor time (5 s were met beside other
work), and none ends a command by a signal: a trace, a model or a graph is read, or refused in one
sentence."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import bombs
import pytest
from conftest import MEMTRACE, ROOT, environment, memtrace

MOST_KB = 500_000
MOST_SECONDS = 10
PROGRAM = """
import numpy as np

def scale(x):
    return x * np.float32(2)

for n in (300, 400, 500, 600, 900):
    for _ in range(2):
        scale(np.ones((n, 1000), np.float32))
"""
LOADED = """
import sys
import memtrace

try:
    trace = memtrace.load(sys.argv[1])
    trace.report()
    len(trace.spans)
except Exception as error:
    sys.exit(f"memtrace: {error}")
"""
MANY_CALLS = "two million calls that differ"  # as they do in a recording: no bomb
READING = [
    ("report",),
    ("report", "--json"),
    ("report", "--leaks"),
    ("report", "--recompute"),
    ("report", "--details"),
    ("report", "--html", "-"),
    ("flamegraph", "-o", "-"),
    ("flamegraph", "-o", "-", "--at", "exit"),
    ("fit", "-o", "-"),
]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A trace of ten calls, and the model of them."""
    root = tmp_path_factory.mktemp("honest")
    trace, model = root / "trace", root / "model.json"
    options = ("-q", "-o", trace, "--operator", "__main__:scale")
    assert memtrace(*options, "--", sys.executable, "-c", PROGRAM).returncode == 0
    assert memtrace("fit", trace, "-o", model).returncode == 0
    return trace, model.read_text()


@pytest.fixture(scope="module")
def made(honest, tmp_path_factory):
    return bombs.make(honest[0], tmp_path_factory.mktemp("bombs"))


@pytest.fixture(scope="module")
def survives(target):
    """Runs a command: what is wrong with how it went, if anything."""
    launcher = target("launched.c")
    return lambda *words, **options: wrong_with(launcher, *words, **options)


def wrong_with(launcher, *words, ends_with=(0, 1, 2, 3)):
    words = [str(word) for word in words]
    ended, out = os.pipe()
    done = subprocess.run(
        [launcher, str(out), str(MOST_SECONDS + 1), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(PYTHONPATH=str(ROOT / "python")),
        pass_fds=[out],
        check=True,
    )
    os.close(out)
    with open(ended) as ended:
        status, seconds, peak = json.load(ended)
    said = done.stderr.decode(errors="replace")
    wrong = []
    if status not in ends_with:
        wrong.append(f"status {status}")
    if status == 1 and "--recompute" not in words and not ends_in_a_sentence(said):
        wrong.append("no sentence")
    if "panicked" in said or peak > MOST_KB or seconds > MOST_SECONDS:
        wrong.append(f"{peak} kB, {seconds:.1f} s")
    return f"{' '.join(words[1:3])}: {', '.join(wrong)}: {said[-300:]}" if wrong else None


def ends_in_a_sentence(said):
    """Before it a command may say what it has done."""
    last = said.splitlines()[-1:]
    return bool(last) and last[0].startswith("memtrace: ") and len(last[0]) < 2000


@pytest.mark.parametrize("bomb", [name for name in bombs.TRACES if name != MANY_CALLS])
def test_a_trace_is_read_or_refused(survives, made, bomb):
    trace = made[bomb]
    commands = [(MEMTRACE, command[0], *command[1:], trace) for command in READING]
    commands.append((sys.executable, "-c", LOADED, trace))
    with ThreadPoolExecutor(2) as pool:
        wrong = [each for each in pool.map(lambda words: survives(*words), commands) if each]
    assert not wrong, "\n".join(wrong)


def test_a_bomb_that_is_cut_short_is_recovered_or_refused(survives, made, tmp_path):
    for bomb in ("spans repeats a row", "frames repeats a row", "an operator of 100 MB"):
        trace = shutil.copytree(made[bomb], tmp_path / bomb)
        whole = json.loads((trace / "meta.json").read_text())
        (trace / "meta.json").write_text(json.dumps(whole | {"complete": False}))
        assert survives(MEMTRACE, "recover", trace) is None


def test_models_are_read_or_refused(survives, honest, tmp_path):
    model = tmp_path / "model.json"
    shape = ("--operator", "scale", "--shape", "700,1000")
    for name, text in bombs.models(honest[1]).items():
        model.write_text(text)
        for command in (
            ("predict", model, *shape),
            ("recommend", model, *shape, "--memory-limit", "1GB"),
            ("merge", model, model, "-o", tmp_path / "merged.json"),
        ):
            assert survives(MEMTRACE, *command) is None, name


def test_graphs_and_shapes_are_planned_or_refused(survives, honest, tmp_path):
    model, graph = tmp_path / "model.json", tmp_path / "graph.json"
    model.write_text(honest[1])
    for name, text in bombs.graphs("scale").items():
        graph.write_text(text)
        for limit in ((), ("--memory-limit", "1GB")):
            assert survives(MEMTRACE, "plan", model, graph, *limit) is None, name
    for shape in ("1000000000000000000,1000", "18446744073709551615,18446744073709551615"):
        for command in ("predict", "recommend"):
            limit = ("--memory-limit", "1GB") if command == "recommend" else ()
            words = (command, model, "--operator", "scale", "--shape", shape, *limit)
            assert survives(MEMTRACE, *words) is None, shape


def test_there_are_fifty():
    assert len(bombs.TRACES) + len(bombs.graphs("scale")) >= 50


def test_two_million_spans_are_reported(survives, made):
    trace = made[MANY_CALLS]
    done = memtrace("report", trace)
    assert done.returncode == 0 and b" 2,000,000 " in done.stdout, done.stdout
    for options in ((), ("--json",), ("--details",)):
        assert survives(MEMTRACE, "report", *options, trace, ends_with=(0,)) is None
