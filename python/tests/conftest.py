"""Runs small programs under the recorder's text, on every Python that is installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RECORDER = HERE.parent / "memtrace" / "_recorder"
PARTS = sorted(path for path in RECORDER.glob("*.py") if path.name != "__init__.py")
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

# What the tracer's text does before `site`, as far as Python code goes.
START = """
import sys
recorder = type(sys)("_memtrace_recorder")
sys.modules["_memtrace_recorder"] = recorder
exec(compile({text!r}, "<memtrace>", "exec"), recorder.__dict__)
recorder.install({config!r})
del recorder
"""


def _interpreter(version):
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which("python" + version)]
    candidates += sorted(root.glob(f"versions/{version}.*/bin/python3"))
    for candidate in filter(None, candidates):
        query = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return str(candidate)
    return None


INTERPRETERS = {version: _interpreter(version) for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def python(request):
    """Each installed interpreter in turn."""
    found = INTERPRETERS[request.param]
    if found is None:
        pytest.skip(f"no Python {request.param} on PATH or under pyenv")
    return found


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """The stand-in for the probe, compiled."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("probe") / "libfake_probe.so"
    source = HERE / "fake_probe.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


class Done:
    """What a program printed and recorded."""

    def __init__(self, process, events):
        self.stdout, self.stderr, self.code = process.stdout, process.stderr, process.returncode
        self.sizes = [event["size"] for event in events]
        self.order = [(event["what"], event["id"]) for event in events]
        ends = {event["id"]: event["json"] for event in events if event["what"] == "end"}
        begins = [event for event in events if event["what"] == "begin"]
        self.spans = [dict(e["json"], end=ends.get(e["id"]), id=e["id"]) for e in begins]

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture
def run(probe, tmp_path):
    """run(python, program, operators, automatic): runs the program as `__main__`.

    before: what runs before the recorder.
    """

    def run(python, program, operators=(), recorded=True, check=True, automatic=None, before=""):
        spans = tmp_path / f"spans-{len(list(tmp_path.iterdir()))}"
        text = "\n".join(part.read_text() for part in PARTS)
        config = {"operators": list(operators)}
        if automatic is not None:
            config["automatic"] = list(automatic)
        start = START.format(text=text, config=config) if recorded else ""
        environment = dict(os.environ, LD_PRELOAD=str(probe), MEMTRACE_TEST_SPANS=str(spans))
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE), str(tmp_path)])
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        script = tmp_path / "program.py"
        script.write_text(before + start + program)
        process = subprocess.run(
            [python, str(script)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check:
            assert (process.returncode, process.stderr) == (0, ""), process.stderr
        lines = spans.read_text().split("\n")[:-1] if spans.exists() else []
        return Done(process, [json.loads(line) for line in lines])

    return run


@pytest.fixture
def numpy_python():
    """The interpreter that runs the tests, if it has NumPy."""
    pytest.importorskip("numpy")
    return sys.executable


def pytest_collection_modifyitems(items):
    """These are the `unit` tests: see pytest.ini."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.unit)
