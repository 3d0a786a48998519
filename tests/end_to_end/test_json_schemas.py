"""What commands print with `--json` is what docs/schemas describes."""

import json
import subprocess
import sys

import jsonschema
import pytest
from conftest import MEMTRACE, ROOT, memtrace

SCHEMAS = ROOT / "docs" / "schemas"


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return jsonschema.Draft202012Validator(schema)


VALIDATOR = validator("report")


@pytest.fixture(scope="module")
def reports(tmp_path_factory, python_program):
    """Reports of one program, recorded in several ways."""
    folder = tmp_path_factory.mktemp("reports")
    runs = {
        "plain": [],
        "gc": ["--gc", "observe"],
        "accesses": ["--accesses", "faults"],
        "clock": ["--accesses", "clock"],
        "aggregate": ["--aggregate"],
        "kernel": ["--kernel", "proc"],
    }
    found = {}
    for name, options in runs.items():
        done = memtrace("-o", folder / name, *options, "--", *python_program)
        assert done.returncode == 0, done.stderr.decode()
        found[name] = json.loads(memtrace("report", "--json", folder / name).stdout)
    return found


@pytest.fixture(scope="module")
def python_program(tmp_path_factory):
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(
        "import numpy as np, scipy.ndimage as nd\n"
        "for n in (100, 200):\n"
        "    nd.gaussian_filter(np.ones((n, 1000), 'f4'), 2)\n"
    )
    return [sys.executable, str(program)]


def test_reports_are_as_described(reports):
    for name, report in reports.items():
        errors = [
            f"{name}: {error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(report)
        ]
        assert not errors


def test_a_recording_ends_in_its_report(tmp_path):
    """Standard output has the report alone: what the command prints goes to standard error."""
    done = memtrace("--json", "-o", tmp_path / "t", "sh", "-c", "echo printed; exit 3")
    assert (done.returncode, done.stderr) == (3, b"printed\n")
    assert VALIDATOR.is_valid(json.loads(done.stdout))
    assert done.stdout == memtrace("report", "--json", tmp_path / "t").stdout


def test_the_schema_describes_each_key_and_no_other(reports):
    """A key that is renamed by hand, in a report or in the schema, is found."""
    report = reports["plain"]
    span = report["operators"][0]["spans"][0]
    for place, key in ((report, "peak"), (report["peak"], "live_bytes"), (span, "one_time_bytes")):
        value = place.pop(key)
        assert not VALIDATOR.is_valid(report), f"{key} is missing"
        place[key] = value
        place["renamed"] = value
        assert not VALIDATOR.is_valid(report), f"{key} under another name"
        del place["renamed"]
    assert VALIDATOR.is_valid(report)


def test_a_report_lists_call_stacks_when_they_are_wanted(tmp_path, python_program):
    assert memtrace("-q", "-o", tmp_path / "t", "--", *python_program).returncode == 0
    plain = memtrace("report", "--json", tmp_path / "t").stdout
    assert len(plain) < 150_000
    brief = json.loads(plain)
    full = json.loads(memtrace("report", "--json", "--stacks", tmp_path / "t").stdout)
    assert VALIDATOR.is_valid(full)
    assert all(site["place"] and "stack" not in site for site in brief["sites"])
    assert all(site["stack"] for site in full["sites"] if site["place"].startswith("program.py"))
    listed = [site["site"] for site in full["sites"]]
    assert [site["site"] for site in brief["sites"]] == listed[:100]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each command prints, by name; of some more than one."""
    folder = tmp_path_factory.mktemp("answers")
    trace, model, graph = folder / "trace", folder / "model.json", folder / "graph.json"
    program = """
import numpy as np

def scale(x):
    return x * np.float32(2)

for n in (300, 400, 500, 600, 900):
    for _ in range(2):
        scale(np.ones((n, 1000), np.float32))
"""
    recording = ("-q", "-o", trace, "--operator", "__main__:scale", "--", sys.executable)
    assert memtrace(*recording, "-c", program).returncode == 0
    placed = folder / "placed"
    learn = ("place", "learn", "-q", "-o", placed, "--", sys.executable, "-c", program)
    assert memtrace(*learn).returncode == 0
    step = {"name": "a", "operator": "scale", "inputs": ["x"]}
    budgets = folder / "memtrace.toml"
    budgets.write_text("[[budget]]\noperator = 'scale'\npeak = '1 MB'\n")
    source = {"shape": [700, 1000], "dtype": "<f4", "retained": "not_counted"}
    graph.write_text(json.dumps({"version": 1, "sources": {"x": source}, "steps": [step]}))
    asked = ("--operator", "scale", "--shape", "700,1000", "--json")
    commands = {
        "doctor": [("doctor", "--json")],
        "recover": [("recover", trace, "--json")],
        "several": [("report", folder, "--json")],
        "leaks": [("report", "--leaks", trace, "--json")],
        "histograms": [("report", "--histograms", trace, "--json")],
        "recompute": [("report", "--recompute", trace, "--json")],
        "check": [("check", trace, "--budget", budgets, "--format", "json")],
        "diff": [("diff", trace, placed / "fast", "--json")],
        "flamegraph": [("flamegraph", trace, "-o", folder / "peak.svg", "--json")],
        "fit": [("fit", trace, "-o", model, "--json")],
        "predict": [("predict", model, *asked)],
        "recommend": [
            ("recommend", model, *asked, "--memory-limit", "1GB"),
            ("recommend", model, *asked, "--memory-limit", "1GB", "--compare", "auto"),
            ("recommend", model, *asked, "--memory-limit", "1MB"),
            ("recommend", model, *asked, "--memory-limit", "1GB", "--axis", "0"),
        ],
        "plan": [
            ("plan", model, graph, "--json"),
            ("plan", model, graph, "--json", "--memory-limit", "1GB"),
            ("plan", model, graph, "--json", "--memory-limit", "1MB"),
            ("plan", model, graph, "--json", "--memory-limit", "1GB", "--executor", "sequential"),
            ("plan", model, graph, "--json", "--memory-limit", "1MB", "--executor", "sequential"),
        ],
        "place": [
            ("place", "plan", placed, "--fast", "1GB", "-o", folder / "place.json", "--json"),
            ("place", "estimate", folder / "place.json", "--move", "all=fast", "--json"),
        ],
        "compare": [
            (
                *("place", "compare", folder / "place.json", "--json"),
                *("--repeat", "1", "--", sys.executable, "-c", program),
            )
        ],
        "bound": [("bound", "numpy:outer", "--shape", "100", "--json", "--python", sys.executable)],
    }
    return {name: [json_of(*asked) for asked in each] for name, each in commands.items()}


def json_of(*arguments):
    done = memtrace(*arguments)
    assert done.returncode in (0, 3, 4), done.stderr.decode()
    return done.stdout


NAMES = (
    "doctor",
    "recover",
    "several",
    "leaks",
    "histograms",
    "recompute",
    "check",
    "diff",
    "flamegraph",
    "fit",
    "predict",
    "recommend",
    "plan",
    "place",
    "compare",
    "bound",
)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_as_described(answers, name):
    check = validator(name)
    for answer in map(json.loads, answers[name]):
        errors = [f"{error.json_path}: {error.message}" for error in check.iter_errors(answer)]
        assert not errors
        if isinstance(answer, dict):
            assert not check.is_valid({**answer, "renamed": 1}), "no other key"


def test_the_live_figures_are_as_described(tmp_path):
    program = "import time; print('up', flush=True); time.sleep(60)"
    command = [MEMTRACE, "-q", "-o", tmp_path / "t", "--", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"up\n"
        done = memtrace("top", tmp_path / "t", "--json", "--once")
        running.terminate()
    assert done.returncode == 0, done.stderr.decode()
    errors = [error.message for error in validator("top").iter_errors(json.loads(done.stdout))]
    assert not errors


def test_every_schema_is_checked_here(answers):
    named = {path.name.removesuffix(".schema.json") for path in SCHEMAS.iterdir()}
    assert named == {*answers, "report", "top"}
