"""What is live when a program ends: Python, C and C++; `report --leaks` and `flamegraph --at end`."""

import json

import pytest
from conftest import memtrace

MB = 1_000_000

PYTHON = """\
import atexit, sys

KEPT = []

def keep():
    for _ in range(20):
        KEPT.append(bytearray(1000000))

def temporary():
    return len(bytearray(50000000))

atexit.register(lambda: bytearray(10))
temporary()
keep()
if sys.argv[1] == "exit":
    sys.exit(3)
if sys.argv[1] == "_exit":
    import os
    os._exit(3)
if sys.argv[1] == "raise":
    raise ValueError
"""


def leaks(run):
    return json.loads(memtrace("report", "--leaks", "--json", run.path).stdout)


@pytest.mark.parametrize("ending", ["return", "exit", "_exit", "raise"])
def test_a_list_of_a_module_is_the_first_row(record, python, tmp_path, ending):
    script = tmp_path / "leak.py"
    script.write_text(PYTHON)
    run = record(python, script, ending)
    found = leaks(run)
    first = found["places"][0]
    assert first["place"].startswith("leak.py:7 keep")
    assert (first["bytes"], first["blocks"]) == (20 * 1_000_001, 20)
    assert found["live_bytes"] >= first["bytes"]
    listed = sum(place["bytes"] for place in found["places"]) + found["without_stack_bytes"]
    assert listed == found["live_bytes"]
    assert not any("temporary" in place["place"] for place in found["places"])

    text = memtrace("report", "--leaks", run.path).stdout.decode().splitlines()
    row = text[text.index(next(line for line in text if "allocated at" in line)) + 1]
    assert row.split()[:3] == ["20.0", "MB", "20"]
    assert "leak.py:7 keep" in row


def test_processes_are_summed_up(record, python, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        "import multiprocessing as mp\n"
        "KEPT = []\n"
        "def keep(_):\n"
        "    KEPT.append(bytearray(5000000))\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('fork').Pool(2) as pool:\n"
        "        pool.map(keep, range(4), chunksize=1)\n"
        "        pool.close()\n"
        "        pool.join()\n"
    )
    run = record(python, script)
    assert run.code == 0
    found = leaks(run)
    assert found["processes"] == 3
    assert found["places"][0]["place"].startswith("pool.py:4 keep")
    assert (found["places"][0]["bytes"], found["places"][0]["blocks"]) == (4 * 5_000_001, 4)


@pytest.mark.parametrize("ending", [(), ("exit",)])
def test_c_before_functions_at_exit(record, target, ending):
    run = record(target("leaks.c"), *ending)
    found = leaks(run)
    first, second = found["places"][:2]
    assert (first["bytes"], first["blocks"]) == (20 * MB, 1)
    assert (first["place"], second["place"]) == ("keep in leaks", "grow in leaks")
    assert second["bytes"] == 4 * MB
    [left] = found["operators"]
    assert left == {
        "operator": "grow",
        "calls": 4,
        "leaving_calls": 4,
        "bytes": 4 * MB,
        "bytes_per_call": MB,
    }
    [process] = run.sql("SELECT live_bytes_at_end, main_end_ns <= end_ns FROM {processes}")
    assert process == (found["live_bytes"], True)
    assert 24 * MB <= found["live_bytes"] < 25 * MB


def test_cpp_before_destructors_of_static_objects(record, target):
    run = record(target("statics.cpp"))
    assert 30 * MB <= leaks(run)["live_bytes"] < 31 * MB
    sizes = "SELECT live_bytes_at_end, live_blocks_at_end FROM {sites} ORDER BY 1 DESC LIMIT 2"
    assert run.sql(sizes) == [(20 * MB, 1), (10 * MB, 1)]


def test_a_program_that_another_replaces_has_no_end(record, target):
    run = record("sh", "-c", 'exec "$0"', target("leaks.c"))
    rows = run.sql(
        "SELECT main_end_ns IS NULL, live_bytes_at_end FROM {processes} ORDER BY process"
    )
    assert rows[0] == (True, None)
    assert rows[1][0] is False
    assert leaks(run)["processes"] == 1


def test_the_flame_graph_of_the_end(record, target, tmp_path):
    run = record(target("leaks.c"))
    svg = tmp_path / "end.svg"
    done = memtrace("flamegraph", run.path, "--at", "end", "-o", svg)
    assert done.returncode == 0, done.stderr
    total = int(
        (done.stdout + done.stderr).decode().split("(")[1].split(" bytes")[0].replace(",", "")
    )
    assert total == leaks(run)["live_bytes"]
    assert "live bytes at the end of the program" in svg.read_text()


def test_stacks_do_not_show_the_frame_around_main(record, target):
    run = record(target("leaks.c"))
    [(probes,)] = run.sql("SELECT count(*) FROM {frames} WHERE module LIKE '%memtrace%'")
    assert probes == 0
