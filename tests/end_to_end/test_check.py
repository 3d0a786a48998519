"""`memtrace check`: budgets of operators, recordings and laws."""

import json
import random
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import memtrace
from test_diff import LINES, NAMES, OPERATORS, PROGRAM, SIZES
from test_json_schemas import validator

LIMITS = {name: int(size * (1.5 if name == "smooth" else 1) * 1.02) for name, size in SIZES.items()}
BUDGETS = "".join(f"[[budget]]\noperator = '{name}'\npeak = {LIMITS[name]}\n\n" for name in NAMES)


@pytest.fixture
def project(tmp_path):
    """A folder with the program and its budgets."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "memtrace.toml").write_text(BUDGETS)
    return folder


@pytest.fixture
def run(record, python, project):
    def run(**sizes):
        arguments = [str((SIZES | sizes)[name]) for name in NAMES]
        return record(python, "program.py", *arguments, options=OPERATORS, cwd=project).path

    return run


def check(trace, project, *options, **how):
    return memtrace("check", trace, *options, cwd=project, **how)


def test_twenty_random_changes_are_judged(run, project):
    draw = random.Random(11)
    for _ in range(20):
        name, factor = draw.choice(NAMES), draw.choice([0.7, 0.95, 1.0, 1.01, 1.04, 1.1, 1.5])
        done = check(run(**{name: int(SIZES[name] * factor)}), project)
        lines = done.stdout.decode().splitlines()
        if factor > 1.02:
            assert done.returncode == 4 and len(lines) == 2
            assert lines[0].startswith(f"__main__:{name}")
            assert f"program.py:{LINES[name]} {name}" in lines[0]
        else:
            assert done.returncode == 0 and len(lines) == 1, lines


@pytest.fixture
def exceeded(run):
    """A trace with one operator above its budget."""
    return run(smooth=6_000_000)


def test_github_annotates_the_line(exceeded, project, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    how = {"env": {"GITHUB_STEP_SUMMARY": str(summary), "PATH": "/usr/bin:/bin"}}
    done = check(exceeded, project, "--format", "github", **how)
    assert done.returncode == 4
    (line,) = done.stdout.decode().splitlines()
    begin = f"::error title=memory budget,file=program.py,line={LINES['smooth']}::__main__:smooth"
    assert line.startswith(begin) and "%25" in line
    rows = summary.read_text().splitlines()
    assert rows[0] == "before"
    marks = [row[2] for row in rows if row.startswith(("| ✅", "| ❌"))]
    assert sorted(marks) == sorted("✅✅❌")


def test_gitlab_reads_the_report(exceeded, project):
    done = check(exceeded, project, "--format", "gitlab")
    (violation,) = json.loads(done.stdout)
    assert violation["location"] == {"path": "program.py", "lines": {"begin": LINES["smooth"]}}
    assert set(violation) == {"description", "check_name", "fingerprint", "severity", "location"}
    assert violation["severity"] in ("info", "minor", "major", "critical", "blocker")


def test_junit_has_a_case_for_each_budget(exceeded, project):
    done = check(exceeded, project, "--format", "junit")
    suite = ElementTree.fromstring(done.stdout)
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "3", "1")
    (failed,) = [case for case in suite if case.find("failure") is not None]
    assert "__main__:smooth" in failed.get("name")
    assert "program.py:10" in failed.find("failure").text


def test_benchmark_has_what_was_measured(exceeded, project):
    done = check(exceeded, project, "--format", "benchmark")
    measured = json.loads(done.stdout)
    assert all({"name", "unit", "value"} <= set(each) for each in measured)
    values = {each["name"]: each["value"] for each in measured}
    assert 9_000_000 <= values["__main__:smooth: peak"] < 9_050_000


def test_json_is_as_described(exceeded, project):
    answer = json.loads(check(exceeded, project, "--format", "json").stdout)
    assert validator("check").is_valid(answer)
    assert [each["exceeded"] for each in answer["outcomes"]] == [False, True, False]


def test_a_budget_of_nothing_fails(exceeded, project):
    (project / "memtrace.toml").write_text("[[budget]]\noperator = 'smoth'\npeak = '1 GB'\n")
    done = check(exceeded, project)
    assert done.returncode == 4
    assert b'operator "smoth"' in done.stdout and b"__main__:smooth" in done.stdout


def test_budgets_of_whole_recordings_are_of_their_command(exceeded, project):
    (project / "memtrace.toml").write_text(
        "[[budget]]\ncommand = '*program.py*'\npeak = '1 MB'\n"
        "[[budget]]\ncommand = '*another.py*'\npeak = 1\n"
        "[[budget]]\npeak = '1 GB'\nresident = '1 GB'\n"
    )
    done = check(exceeded, project)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 4 and len(lines) == 2
    assert "program.py" in lines[0] and "budget of 1.00 MB" in lines[0]
    assert lines[1].endswith("2 of 3 figures within their budgets")


def test_budgets_may_stand_in_pyproject_and_beside_defaults(exceeded, project):
    (project / "memtrace.toml").unlink()
    text = "".join(
        f"[[tool.memtrace.budget]]\noperator = '{name}'\npeak = '1 GB'\n" for name in NAMES
    )
    (project / "pyproject.toml").write_text(text + "[tool.memtrace.check]\nformat = 'json'\n")
    done = check(exceeded, project)
    assert done.returncode == 0 and len(json.loads(done.stdout)["outcomes"]) == 3
    assert check(exceeded, project, "--budget", "pyproject.toml").returncode == 0


def test_a_law_has_budgets_too(record, python, project):
    program = (
        "import numpy as np\n"
        "def scale(x):\n"
        "    return x * np.float32(2)\n"
        "for n in (300, 400, 500, 600, 900):\n"
        "    for _ in range(2):\n"
        "        scale(np.ones((n, 1000), np.float32))\n"
    )
    trace = record(python, "-c", program, options=("--operator", "__main__:scale")).path
    model = project / "model.json"
    assert memtrace("fit", trace, "-o", model).returncode == 0

    def judged(budget):
        (project / "memtrace.toml").write_text("[[budget]]\noperator = 'scale'\n" + budget)
        return check(model, project)

    assert judged("bytes-per-element = 4.01").returncode == 0
    done = judged("bytes-per-element = 3.99")
    assert done.returncode == 4 and b"4.00 exceeds the budget of 3.99" in done.stdout
    assert judged("shape = [2000, 1000]\npeak = '9 MB'").returncode == 0
    assert judged("shape = [2000, 1000]\npeak = '7 MB'").returncode == 4
    assert judged("shape = [2000]\npeak = '7 MB'").returncode == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", b"[[budget]]"),
        ("[[budget]]\noperator = 'load'\n", b"number 1: it has no limit"),
        ("[[budget]]\npeak = '1 parsec'\n", b"is not a unit of size"),
        ("[[budget]\n", b"line 1"),
        ("budget = 3\n", b"there is no budget"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(exceeded, project, text, says):
    (project / "memtrace.toml").write_text(text)
    done = check(exceeded, project)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count(b"\n") == 1


def test_without_any_budget_it_says_what_to_write(exceeded, tmp_path):
    (tmp_path / "empty").mkdir()
    done = check(exceeded, tmp_path / "empty")
    assert done.returncode == 2 and b"[[budget]]" in done.stderr
