"""Calls that are refused memory: how much, where, and what held memory then."""

from conftest import memtrace

MB = 1_000_000

PROGRAM = """\
import resource
HELD = []

def hold():
    HELD.append(bytearray(200000000))

def demand():
    return bytearray(8000000000)

hold()
resource.setrlimit(resource.RLIMIT_AS, (4000000000, 4000000000))
try:
    demand()
except MemoryError:
    print("refused")
"""


def test_a_memory_error_of_python(record, python, tmp_path):
    script = tmp_path / "refused.py"
    script.write_text(PROGRAM)
    run = record(python, script)
    assert run.stdout == b"refused\n", run.stderr
    [call] = run.report["refused"]
    assert call["requested_bytes"] == 8000 * MB + 1
    assert call["place"].startswith("demand refused.py:8")
    assert call["limit_bytes"] == 4000 * MB
    assert 200 * MB < call["live_bytes"] < 300 * MB
    assert call["sites"][0]["place"].startswith("hold refused.py:5")
    assert call["sites"][0]["bytes"] == 200 * MB + 1
    said = run.stderr.decode().splitlines()
    [line] = [line for line in said if "REFUSED" in line]
    assert "REFUSED 8.00 GB at demand refused.py:8" in line
    live, held = said[said.index(line) + 1 : said.index(line) + 3]
    assert "live then (limit on address space 4.00 GB)" in live
    assert "200 MB allocated at hold refused.py:5" in held


def test_each_way_in_c_and_a_few_calls_only(record, target):
    run = record(target("refused.c"))
    assert run.code == 0, "the program itself sees what it sees without memtrace"
    calls = run.report["refused"]
    wanted = [5000 * MB, 6000 * MB, 7000 * MB, 8000 * MB]
    assert [call["requested_bytes"] for call in calls] == wanted
    ways = ["by_malloc", "by_posix_memalign", "by_mmap", "by_realloc"]
    for call, way in zip(calls, ways, strict=True):
        assert way in call["place"]
        assert call["sites"][0]["bytes"] == 100 * MB
        assert call["limit_bytes"] == 4000 * MB
    said = run.stderr.decode()
    assert said.count("REFUSED") == 1
    assert "REFUSED 8.00 GB at by_realloc in refused" in said
    assert "and at least 3 more calls were refused memory" in said
    details = memtrace("report", "--details", run.path).stdout
    assert details.count(b"REFUSED") == 4


def test_an_allocation_that_succeeds_is_no_refusal(record, python):
    run = record(python, "-c", "bytearray(8000000)")
    assert run.report["refused"] == []
    assert b"REFUSED" not in run.stderr
