"""What continuous integration reads of `memtrace check`: as its own tools write it, whatever the names."""

import json

import jsonschema
import npm
import pytest
from conftest import ROOT, environment, memtrace, succeeded

# What actions of GitHub write their commands with.
ACTIONS = "@actions/core@1.11.1"
WRITTEN = """
const { issueCommand } = require(process.argv[1]);
for (const { properties, message } of JSON.parse(process.argv[2])) issueCommand("error", properties, message);
"""
# As github-action-benchmark describes the files of customSmallerIsBetter.
BENCHMARK = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string", "minLength": 1},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "additionalProperties": False,
    },
}
# A file and an operator whose names would end a property, a command or a line.
FILE = "10 %, a::b.py"
OPERATOR = "100 %: a, b::c\r\n::error::d"
PROGRAM = f"""\
import memtrace

with memtrace.span({OPERATOR!r}):
    kept = bytearray(9_000_000)
with memtrace.span("plain"):
    kept = bytearray(9_000_000)
"""


@pytest.fixture
def folder(tmp_path, python):
    """Two budgets that are exceeded and one that is not, of a program with names to be wary of."""
    (tmp_path / FILE).write_text(PROGRAM)
    (tmp_path / "memtrace.toml").write_text(
        "[[budget]]\noperator = '*'\npeak = '5 MB'\n\n[[budget]]\noperator = 'plain'\npeak = '1 GB'\n"
    )
    how = {"cwd": tmp_path, "env": environment(PYTHONPATH=str(ROOT / "python"))}
    done = memtrace("-q", "-o", "trace", "--stacks", "all", "--", python, FILE, **how)
    assert done.returncode == 0, done.stderr.decode()
    return tmp_path


def check(folder, form):
    done = memtrace("check", "trace", "--format", form, cwd=folder)
    assert done.returncode == 4, done.stderr.decode()
    return done.stdout.decode()


def test_github_has_the_commands_that_its_own_library_writes(folder, tmp_path):
    node = npm.node()
    library = npm.unpacked(ACTIONS, tmp_path) / "lib" / "command.js"
    outcomes = json.loads(check(folder, "json"))["outcomes"]
    exceeded = [outcome for outcome in outcomes if outcome["exceeded"]]
    sentences = check(folder, "text").splitlines()[: len(exceeded)]
    lines = {OPERATOR: 4, "plain": 6}
    expected = [
        {
            "properties": {"title": "memory budget", "file": FILE, "line": line},
            "message": next(text for text in sentences if text.endswith(f"{FILE}:{line}")),
        }
        for line in (lines[outcome["of"]] for outcome in exceeded)
    ]
    assert len(expected) == 2
    written = succeeded(node, "-e", WRITTEN, str(library), json.dumps(expected))
    assert check(folder, "github") == written


def test_github_action_benchmark_reads_what_was_measured(folder):
    measured = json.loads(check(folder, "benchmark"))
    jsonschema.validate(measured, BENCHMARK)
    assert {each["unit"] for each in measured} == {"bytes"}
    # It tells entries apart by their names; the figure that two budgets limit is one.
    names = [each["name"] for each in measured]
    outcomes = json.loads(check(folder, "json"))["outcomes"]
    assert len(names) == len(set(names)) == len(outcomes) - 1 == 2
    values = {f"{each['of']}: peak": each["measured"] for each in outcomes}
    assert {each["name"]: each["value"] for each in measured} == values
