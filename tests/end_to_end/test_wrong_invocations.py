"""Sixty and more wrong command lines: one sentence on stderr that says what to do, and the right exit status.

0 success, 1 failure, 2 a request that makes no sense, 3 nothing fits; a recording that could not be made
has the status of env(1): 125, or 126 and 127 for a command that could not be started.
"""

import json
import os
import shutil
import sys

import pytest
from conftest import environment, memtrace

PROGRAM = """
import numpy as np

def scale(x):
    return x * np.float32(2)

for n in (300, 400, 500, 600, 900):
    for _ in range(2):
        scale(np.ones((n, 1000), np.float32))
"""
OPERATOR = ("--operator", "scale")
SHAPE = ("--shape", "700,1000")
SWEEP = ("sweep", "--operator", "m:f", "--shapes", "10,10..20,20", "--model", "{new}")
FITS = ("recommend", "{model}", *OPERATOR, *SHAPE)
SLOW = ("--fast-memory", "1GB", "--slow-memory", "1GB")

RECORDING = [
    ((), 2, "name the command to record"),
    (("--",), 2, "name the command to record"),
    (("record",), 2, "name the command to record"),
    (("--no-such-option", "true"), 2, "there is no option --no-such-option"),
    (("--quite", "true"), 2, "did you mean --quiet?"),
    (("repot", "{trace}"), 2, "did you mean memtrace report?"),
    (("flamegrpah", "{trace}"), 2, "did you mean memtrace flamegraph?"),
    (("-q", "report", "{trace}"), 2, "write it before its options"),
    (("-o", "{new}", "--", "no-such-program"), 127, "check its name and PATH"),
    (("-o", "{new}", "--", "repot"), 127, "check its name and PATH"),
    (("-o", "{new}", "{file}"), 126, "name the program that runs it"),
    (("-o", "{new}", "{folder}"), 126, "is a directory"),
    (("-o", "{trace}", "true"), 125, "replace the trace with --force"),
    (("-o", "{full}", "true"), 125, "choose another directory with -o"),
    (("-f", "-o", "{full}", "true"), 125, "--force leaves it alone"),
    (("-o", "-", "true"), 2, "a trace is a directory"),
    (("-o", "/proc/nowhere/trace", "true"), 125, "cannot create"),
    (("-o", "{new}%x", "true"), 2, "%x is no placeholder: %h is the host, %j the job, %r the rank"),
    (("-o", "{new}%", "true"), 2, "%% a percent sign"),
    (("-o", "{new}.%j", "true"), 2, "this runs in no job"),
    (("-o", "{new}.%r", "true"), 2, "start memtrace itself by mpirun or srun"),
    (("-o", "{file}", "true"), 125, "cannot create"),
    (("--operator", "scale", "true"), 2, "write MODULE:FUNCTION"),
    (("--auto-operators", "a-b", "true"), 2, "write names of Python modules"),
    (("--span", "x", "true"), 2, "name --shape"),
    (("--span", "x", "--shape", "1,0", "true"), 2, "write 200,200,200"),
    (("--span", "x", "--shape", "1", "--dtype", "z9", "true"), 2, "write it as NumPy does"),
    (("--min-size", "1.5", "true"), 2, "write 1.5GB, or a whole number of bytes"),
    (("--min-size", "3XB", "true"), 2, "use kB, MB, GB or TB"),
    (("--min-size=-1GB", "true"), 2, "write 1500MB or 1.5GB"),
    (("--max-trace-size", "10kB", "true"), 2, "at least"),
    (("--aggregate", "--min-size", "1MB", "true"), 2, "leave one out"),
    (("--stacks", "some", "true"), 2, "auto, all, none"),
    (("--memory-limit", "1GB", "true"), 2, "name --model"),
    (("--model", "{missing}", "true"), 2, "cannot read the model"),
    (("attach", "notapid"), 2, "write one from 0 on"),
    (("attach", "999999999"), 125, "there is no process 999999999"),
    (("attach", "1", "--seconds", "x"), 2, "is not a number of seconds"),
]

LOOKING = [
    (("report",), 2, "name <TRACE>"),
    (("report", "{missing}"), 1, "cannot read"),
    (("report", "{folder}"), 1, "is not a trace"),
    (("report", "{file}"), 1, "is not a trace"),
    (("report", "{trace}", "{trace}"), 2, "one argument too many"),
    (("report", "--all-spans", "{trace}"), 2, "name --json"),
    (("flamegraph",), 2, "name <TRACE>"),
    (("flamegraph", "{traces}", "-o", "{new}"), 1, "is not a trace, but has traces in it (1)"),
    (("flamegraph", "{trace}", "-o", "{new}", "--at", "noon"), 2, "write --at peak"),
    (("flamegraph", "{trace}", "-o", "{new}", "--at", "span", "nothing"), 1, "it has those of"),
    (("flamegraph", "{trace}", "-o", "{new}.png"), 2, "an SVG; name it"),
    (("flamegraph", "{trace}", "-o", "{missing}/x.svg"), 1, "cannot write"),
    (("flamegraph", "{trace}", "-o", "{new}", "--by", "weight"), 2, "live, resident"),
    (("top", "{trace}"), 2, "add --json"),
    (("top", "--json", "999999999"), 1, "there is no process"),
    (("top", "--json", "--every", "0", "{trace}"), 2, "write a number of seconds from"),
    (("recover", "{missing}"), 1, "cannot read"),
    (("doctor", "please"), 2, "one argument too many"),
    (("completions", "dos"), 2, "bash, elvish, fish"),
    (("help", "repot"), 2, "there is no subcommand repot"),
]

PREDICTING = [
    (("fit",), 2, "name <TRACE>"),
    (("fit", "{trace}", "-o"), 2, "--output <MODEL.json>"),
    (("fit", "{missing}", "-o", "{new}"), 1, "cannot read"),
    (("fit", "{trace}", "-o", "{missing}/model.json"), 1, "cannot write the model"),
    (("fit", "{trace}", "-o", "-", "--json"), 2, "leave one out"),
    (("merge", "{model}", "-o", "{new}"), 2, "<MODEL.json>"),
    (("merge", "{model}", "{missing}", "-o", "{new}"), 1, "cannot read the model"),
    (("predict", "{model}", *SHAPE), 2, "name --operator <NAME>"),
    (("predict", "{missing}", *OPERATOR, *SHAPE), 1, "cannot read the model"),
    (("predict", "{file}", *OPERATOR, *SHAPE), 1, "is not a usable memtrace model"),
    (("predict", "{trace}", *OPERATOR, *SHAPE), 1, "fit and sweep make models"),
    (("predict", "{folder}", *OPERATOR, *SHAPE), 1, "is not a usable memtrace model"),
    (("predict", "{model}", "--operator", "nothing", *SHAPE), 1, "scale"),
    (("predict", "{model}", *OPERATOR, "--shape", "7"), 2, "takes 2 dimensions"),
    (("predict", "{model}", *OPERATOR, *SHAPE, "--param", "x"), 2, "write NAME=VALUE"),
    (FITS, 2, "--memory-limit 1.5GB"),
    ((*FITS, "--memory-limit", "1.5"), 2, "write 1.5GB"),
    ((*FITS, "--memory-limit", "2"), 2, "less than a page of 4096 B"),
    ((*FITS, "--memory-limit", "1MB"), 3, "raise the memory limit"),
    ((*FITS, "--memory-limit", "1GB", "--halo", "a"), 2, "write 2,2,2"),
    ((*FITS, "--memory-limit", "1GB", "--workers", "many"), 2, "or auto"),
    ((*FITS, "--memory-limit", "1GB", "--axis", "0", "--halo", "1"), 2, "leave one out"),
    ((*FITS, "--memory-limit", "1GB", "--slow-memory", "1GB"), 2, "name --machine"),
    ((*FITS, *SLOW, "--machine", "{model}"), 1, "memtrace place calibrate"),
    (
        ("place", "plan", "{new}", "--fast", "1kB"),
        2,
        "of 4096 B; write 1500MB or 1.5GB (memtrace place plan --help)",
    ),
    (("place", "-x"), 2, "(memtrace place --help)"),
    ((*FITS, *SLOW, "--machine", "{missing}"), 1, "memtrace place calibrate"),
    (("plan", "{model}"), 2, "name <GRAPH>"),
    (("plan", "{model}", "{missing}"), 1, "cannot read the graph"),
    (("plan", "{model}", "{file}"), 1, "cannot use"),
    (("bound",), 2, "MODULE:FUNCTION"),
    (("bound", "json:loads"), 2, "name --shape"),
    (("bound", "--source", "{missing}", "--shape", "1"), 1, "cannot read"),
    (
        ("bound", "json:loads", "--shape", "1", "--python", "{missing}"),
        1,
        "name another with --python",
    ),
    (("bound", "no_such_module:f", "--shape", "1"), 2, "cannot describe no_such_module:f"),
    ((*SWEEP, "true"), 2, "write {shape} or {0} {1}"),
    (SWEEP, 2, "name <COMMAND>"),
    ((*SWEEP, "--runs", "1", "true", "{shape}"), 2, "a law needs at least"),
    (("sweep", "--operator", "m:f", "--shapes", "10,10", "true"), 2, "write two shapes"),
    ((*SWEEP[:-1], "{missing}/model.json", "true", "{shape}"), 2, "there is no directory"),
    ((*SWEEP[:-1], "{folder}", "true", "{shape}"), 2, "is a directory"),
    ((*SWEEP[:-1], "-", "true", "{shape}"), 2, "write the model to a file"),
    ((*SWEEP, "-o", "{file}", "true", "{shape}"), 1, "cannot make the directory"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A trace, a model, a directory that is no trace, and what is not there."""
    root = tmp_path_factory.mktemp("wrong")
    trace, model = root / "trace", root / "model.json"
    (root / "file").write_text("[1, 2")
    (root / "folder").mkdir()
    (root / "full").mkdir()
    (root / "full" / "meta.json").write_text("{}")
    (root / "full" / "mine.txt").write_text("dear diary")
    options = ("-q", "-o", trace, "--operator", "__main__:scale")
    assert memtrace(*options, "--", sys.executable, "-c", PROGRAM).returncode == 0
    assert memtrace("fit", trace, "-o", model).returncode == 0
    names = ("trace", "file", "folder", "full", "missing")
    return {name: str(root / name) for name in names} | {"model": str(model), "traces": str(root)}


@pytest.mark.parametrize(
    ("arguments", "status", "advice"),
    RECORDING + LOOKING + PREDICTING,
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, tuple) else "",
)
def test_a_wrong_invocation_is_answered_in_one_sentence(
    places, tmp_path, arguments, status, advice
):
    known = {**places, "new": str(tmp_path / "new")}
    filled = list(arguments)
    for name, path in known.items():
        filled = [word.replace(f"{{{name}}}", path) for word in filled]
    done = memtrace(*filled, cwd=tmp_path, stdin=-3)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert done.stdout == b""
    assert said.startswith("memtrace: ") and said.count("\n") == 1, said
    assert advice in said
    assert said.count("os error") <= 1 and "panicked" not in said
    assert not os.listdir(tmp_path), "a request that was refused leaves nothing"


def test_what_another_user_may_not_execute(as_nobody):
    folder, run = as_nobody
    program, closed = folder / "program", folder / "closed"
    shutil.copy("/bin/true", program)
    program.chmod(0o700)
    closed.mkdir(0o700)
    for name in (program, closed / "program"):
        done = run("-o", folder / "t", "--", name)
        assert done.returncode == 126 and b"python" not in done.stderr
        assert b"this user" in done.stderr and b"permissions" in done.stderr


def test_a_sweep_finds_out_first_that_its_model_cannot_be_written(as_nobody):
    folder, run = as_nobody
    (folder / "closed").mkdir(0o755)
    done = run(*SWEEP[:-1], "closed/model.json", "-o", "runs", "true", "{shape}")
    assert done.returncode == 1 and b"takes no new file" in done.stderr
    assert not (folder / "runs").exists()


def test_what_path_has_that_is_not_executable(tmp_path):
    (tmp_path / "script").write_text("")
    done = memtrace("-o", tmp_path / "t", "--", "script", env=environment(PATH=str(tmp_path)))
    assert done.returncode == 126
    assert b"check its name, PATH and permissions" in done.stderr


@pytest.mark.parametrize("words", [("--operator",), ("report", "--json", "--every")])
def test_arguments_that_are_no_text_are_refused_in_one_sentence(words):
    done = memtrace(*words, os.fsdecode(b"\xff"), "true")
    said = done.stderr.decode()
    assert done.returncode == 2, said
    assert said.startswith("memtrace: ") and said.count("\n") == 1, said


def test_a_directory_that_is_no_trace_stays(places):
    full = json.dumps(sorted(os.listdir(places["full"])))
    memtrace("-f", "-o", places["full"], "true")
    assert json.dumps(sorted(os.listdir(places["full"]))) == full
