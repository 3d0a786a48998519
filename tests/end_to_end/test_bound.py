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


UNKNOWN = """
import csv, io
import numpy as np
def written(table):
    text = io.StringIO()
    writer = csv.writer(text)
    for row in table[::10]:
        writer.writerow(row.tolist())
    return text.getvalue()
def joined(table):
    result = np.empty(0)
    for row in table:
        result = np.append(result, row)
    return result
"""


def test_no_bound_is_given_where_something_is_not_known(python, tmp_path):
    (tmp_path / "tables.py").write_text(UNKNOWN)
    command = ["bound", "--python", python, "--shape", "900,300", "--dtype", "f8"]
    for function, named in (("written", "csv.writer"), ("joined", "what a loop keeps")):
        done = memtrace(*command, f"tables:{function}", "--json", cwd=tmp_path)
        answer = json.loads(done.stdout)
        assert answer["upper_bytes"] is None and answer["peak_bytes"] > 0
        assert any(each.startswith(named) for each in answer["model"]["unknown"])
        shown = memtrace(*command, f"tables:{function}", cwd=tmp_path).stdout.decode()
        assert "an estimate, no bound" in shown and f"not known: {named}" in shown


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
