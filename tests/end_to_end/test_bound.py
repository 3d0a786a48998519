"""`memtrace bound`: what a function needs that was never run."""

import json

from conftest import memtrace

MODULE = """
import numpy as np
print("imported")
def rough(volume, power=2):
    steps = np.diff(volume, axis=-1)
    return np.sqrt((steps ** power).mean(axis=-1))
def fails():
    raise RuntimeError("was run")
"""


def bound(python, folder, *arguments):
    (folder / "filters.py").write_text(MODULE)
    return memtrace("bound", "--python", python, *arguments, cwd=folder)


def test_a_function_is_bounded_without_being_run(python, tmp_path):
    done = bound(python, tmp_path, "filters:rough", "--shape", "651,951,462", "--json")
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert answer["output_shape"] == [651, 951]
    assert answer["confidence"] == "unverified"
    assert answer["model"]["kind"] == "generic"
    # Two arrays of 651×951×461 float32 at least, and no ten of them.
    array = 651 * 951 * 461 * 4
    assert 2 * array <= answer["upper_bytes"] <= 10 * array
    shown = bound(python, tmp_path, "filters:rough", "--shape", "651,951,462")
    assert b"from its source only" in shown.stdout and b"filters.py:" in shown.stdout


def test_a_description_can_be_kept(python, tmp_path):
    kept = tmp_path / "rough.json"
    assert bound(python, tmp_path, "filters:rough", "--describe", kept).returncode == 0
    assert json.loads(kept.read_text())["entry"] == "filters:rough"
    one = memtrace("bound", "--source", kept, "--shape", "30,40,50", "--json")
    two = bound(python, tmp_path, "filters:rough", "--shape", "30,40,50", "--json")
    assert one.stdout == two.stdout != b""


def test_what_cannot_be_bounded_is_said_in_a_sentence(python, tmp_path):
    missing = bound(python, tmp_path, "filters:nothing", "--shape", "3,4")
    assert missing.returncode == 2 and b"cannot describe filters:nothing" in missing.stderr
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    done = memtrace("bound", "--source", broken, "--shape", "3,4")
    assert done.returncode != 0 and b"source_version" in done.stderr
    typed = bound(python, tmp_path, "filters:rough", "--shape", "3,4", "--dtype", "q9")
    assert typed.returncode == 2 and b"element type" in typed.stderr
