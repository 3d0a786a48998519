"""The native half of the package, where it has been built."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("memtrace._native", reason="the native module is not built (maturin develop)")

import memtrace


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"schema_version": 999, "laws": []}', '{"schema_version": 2, "laws": []}'],
)
def test_a_file_that_is_no_model_is_one_clear_error(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="model"):
        memtrace.Model.load(path)


def test_a_model_without_the_law_says_so(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"schema_version": 3, "laws": []}')
    model = memtrace.Model.load(path)
    assert model.operators() == []
    with pytest.raises(ValueError, match="no law for gst3d"):
        model.predict("gst3d", (10, 10, 10))
    with pytest.raises(TypeError, match="window"):
        model.predict("gst3d", (10, 10, 10), window=[])


def test_a_directory_that_is_no_trace_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        memtrace.Trace(tmp_path / "absent")


def test_the_type_hints_name_what_there_is():
    from memtrace import _native

    stub = Path(memtrace.__file__).with_name("_native.pyi")
    hinted = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ClassDef):
            hinted[node.name] = {each.name for each in node.body}
        elif isinstance(node, ast.FunctionDef):
            hinted[node.name] = set()
    assert set(hinted) == {name for name in dir(_native) if not name.startswith("_")}
    for name, members in hinted.items():
        own = vars(getattr(_native, name)) if members else {}
        public = {each for each in own if not each.startswith("_")}
        assert public == {each for each in members if not each.startswith("_")}, name
        assert members <= set(dir(getattr(_native, name)))
        assert all(own[each].__doc__ for each in public), name


MYPY = """
[mypy]
follow_imports = silent
[mypy-memtrace.*]
ignore_errors = True
"""


def test_the_type_hints_are_those_of_the_built_module(tmp_path):
    """Every class, method, property and parameter, its kind and its default, in both directions."""
    pytest.importorskip("mypy")
    config = tmp_path / "mypy.ini"
    config.write_text(MYPY)
    command = ["mypy.stubtest", "memtrace._native", "--ignore-disjoint-bases", "--concise"]
    package = str(Path(memtrace.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", *command, "--mypy-config-file", str(config)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": package, "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
