"""The first contact with the command line: help, slips, defaults, colours, standard output."""

import json
import os
import pty
import subprocess

import pytest
from conftest import MEMTRACE, ROOT, environment, memtrace


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_fits_a_screen_and_help_all_has_the_rest(flag):
    brief = memtrace(flag).stdout.decode()
    lines = brief.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 100
    for heading in ("Examples:", "Record:", "Look at a trace:", "Predict and plan:", "Set up:"):
        assert heading in lines
    every = memtrace("--help-all").stdout.decode()
    assert "--accesses" in every and "--accesses" not in brief
    for shown in ("--output", "--operator", "--quiet", "--help-all"):
        assert shown in brief and shown in every


def test_the_examples_of_the_help_are_commands(tmp_path):
    lines = memtrace("--help").stdout.decode().splitlines()
    first = lines.index("Examples:") + 1
    examples = [line.split("  ")[1].split() for line in lines[first : first + 2]]
    assert [words[0] for words in examples] == ["memtrace", "memtrace"]
    (tmp_path / "program.py").write_text("x = bytearray(10_000_000)")
    recording, drawing = (words[1:] for words in examples)
    assert memtrace("-o", "TRACE", *recording, cwd=tmp_path).returncode == 0
    assert memtrace(*drawing, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("first", [(), ("record",)])
def test_the_first_word_that_is_no_option_begins_the_command(tmp_path, first):
    words = ("sh", "-c", 'echo "$0 $1"', "-q", "--help")
    done = memtrace(*first, "-q", "-o", tmp_path / "t", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"-q --help\n", b"")
    command = json.loads((tmp_path / "t" / "meta.json").read_text())["command"]
    assert tuple(command) == words


def test_a_program_is_run_whatever_it_is_called_like(tmp_path):
    """`repot` is close to `report`, and `top` is a subcommand."""
    for name in ("repot", "top"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho this is {name}\n")
        program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    found = environment(PATH=path)
    done = memtrace("-q", "-o", tmp_path / "t1", "repot", env=found)
    assert (done.returncode, done.stdout) == (0, b"this is repot\n")
    done = memtrace("-q", "-o", tmp_path / "t2", "--", "top", env=found)
    assert (done.returncode, done.stdout) == (0, b"this is top\n")


def test_force_replaces_a_trace(record, tmp_path):
    first = record("true")
    done = memtrace("-f", "-q", "-o", first.path, "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert first.report["exit"] == 7
    assert not [name for name in os.listdir(tmp_path) if "replaced" in name]


def test_force_keeps_a_trace_when_nothing_is_recorded(record, tmp_path):
    first = record("sh", "-c", "exit 3")
    assert memtrace("-f", "-o", first.path, "no-such-program").returncode == 127
    assert first.report["exit"] == 3
    assert not [name for name in os.listdir(tmp_path) if "replaced" in name]


def test_a_flame_graph_on_standard_output(record, python, tmp_path):
    run = record(python, "-c", "x = bytearray(10_000_000)")
    done = memtrace("flamegraph", run.path, "-o", "-")
    assert done.returncode == 0 and done.stderr == b""
    memtrace("flamegraph", run.path, "-o", tmp_path / "peak.svg")
    assert done.stdout == (tmp_path / "peak.svg").read_bytes()


@pytest.mark.parametrize("name", ["memtrace.toml", "pyproject.toml"])
def test_defaults_are_read_from_the_nearest_file(tmp_path, name):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    table = "" if name == "memtrace.toml" else "tool.memtrace."
    root = "" if name == "memtrace.toml" else "[tool.memtrace]\n"
    (tmp_path / name).write_text(f"{root}quiet = true\n[{table}record]\naggregate = true\n")
    done = memtrace("-o", "t", "true", cwd=inner)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((inner / "t" / "meta.json").read_text())["rows"]["aggregate"]
    done = memtrace("--quiet=false", "--aggregate=false", "-o", "u", "true", cwd=inner)
    assert b"peak" in done.stderr
    assert not json.loads((inner / "u" / "meta.json").read_text())["rows"]["aggregate"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[record]\naggregat = true", 'has no option "aggregat"'),
        ("[rekord]\nquiet = true", "[rekord] is no subcommand"),
        ("[record]\naggregate = 3", "aggregate is true or false"),
        ("[record]\nmin-size = '1.5'", "write 1.5GB"),
        ("[record", "line 1"),
    ],
)
def test_what_a_file_must_not_say_is_refused_in_one_sentence(tmp_path, text, why):
    (tmp_path / "memtrace.toml").write_text(text)
    done = memtrace("true", cwd=tmp_path)
    said = done.stderr.decode()
    assert done.returncode == 2, said
    assert said.count("\n") == 1 and "memtrace.toml" in said and why in said


@pytest.mark.parametrize("wanted", [["--help"], ["--version"], ["report", "--help-all"]])
@pytest.mark.parametrize("text", ["[record", "unknown = 1"])
def test_help_is_there_although_a_file_is_wrong(tmp_path, text, wanted):
    (tmp_path / "memtrace.toml").write_text(text)
    assert memtrace(*wanted, cwd=tmp_path).returncode == 0


def test_a_project_that_does_not_mention_memtrace_is_left_alone(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[broken")
    assert memtrace("-q", "true", cwd=tmp_path).returncode == 0


def on_a_terminal(*arguments, **variables):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    known = {**os.environ, "TERM": "xterm", **variables}
    known = {name: value for name, value in known.items() if value}
    command = [str(word) for word in (MEMTRACE, *arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=known) as running:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    return running.returncode, said.decode()


@pytest.mark.parametrize("arguments", [("--help",), ("report", ROOT / "docs")])
def test_colours_are_for_terminals_that_want_them(arguments):
    _, said = on_a_terminal(*arguments, NO_COLOR="")
    assert "\x1b[" in said
    _, said = on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b[" not in said
    done = memtrace(*arguments)
    assert b"\x1b[" not in done.stdout + done.stderr
