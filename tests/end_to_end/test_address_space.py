"""What a recording takes of a program's address space, and of the recorder's descriptors and mappings."""

import os
import subprocess
import time
from pathlib import Path

from conftest import MEMTRACE, ROOT, environment, memtrace

MIB = 1 << 20
HELD = 12345  # bytes of each block of crowd.c


def shared_bytes(text):
    """Of the lines of /proc/PID/maps that crowd.c prints."""
    places = [line.split()[0].split("-") for line in text.decode().splitlines()]
    return sum(int(end, 16) - int(start, 16) for start, end in places)


def test_each_of_many_threads_at_once_has_its_events(record, target):
    threads = 1500
    run = record(target("crowd.c"), threads, 3)
    assert run.code == 0
    blocks = f"select count(*), count(distinct thread) from {{allocations}} where bytes = {HELD}"
    assert run.sql(blocks) == [(4 * threads, threads)]
    assert run.report["peak"]["heap_bytes"] >= threads * HELD
    assert 0 < shared_bytes(run.stdout) <= 16 * MIB + threads * (64 << 10)


def test_one_process_takes_little_of_its_address_space(record, target):
    run = record(target("crowd.c"), 1, 1)
    assert 0 < shared_bytes(run.stdout) <= 16 * MIB


LIMITED = """
import memtrace

@memtrace.operator
def hold(count):
    return bytearray(count)

hold(50_000_000)
"""


def test_python_runs_within_300_mib(record, python):
    limited = f'ulimit -v {300 << 10}; exec "$@"'
    variables = environment(PYTHONPATH=ROOT / "python")
    run = record("sh", "-c", limited, "sh", python, "-c", LIMITED, env=variables)
    assert run.code == 0, run.stderr
    [(peak,)] = run.sql("select working_peak_bytes from {spans} where operator like '%hold'")
    assert 50_000_000 <= peak <= 50_100_000
    assert run.sql("select count(*) > 0 from {frames} where function = 'hold'") == [(True,)]


def test_a_small_limit_leaves_a_program_room(record, target):
    limited = 'ulimit -v 20000; exec "$@"'
    run = record("sh", "-c", limited, "sh", target("crowd.c"), 3, 1000)
    assert run.code == 0, run.stderr
    assert run.sql(f"select count(*) from {{allocations}} where bytes = {HELD}") == [(3003,)]


def test_what_short_processes_had_is_given_up(tmp_path):
    processes = 200
    # The recorder has the time to see each one end, beside other work, too.
    script = f"i=0; while [ $i -lt {processes} ]; do /bin/sleep 0.01; i=$((i+1)); done"
    command = [MEMTRACE, "-q", "-o", tmp_path / "trace", "sh", "-c", script]
    most = {"descriptors": 0, "mappings": 0}
    with subprocess.Popen(list(map(str, command))) as recorder:
        while os.waitid(os.P_PID, recorder.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            for what, count in held(recorder.pid).items():
                most[what] = max(most[what], count)
            time.sleep(0.01)
    assert recorder.returncode == 0
    assert 0 < most["descriptors"] < processes / 3 and 0 < most["mappings"] < processes / 3
    report = memtrace("report", "--json", tmp_path / "trace").stdout
    assert (
        report.count(b'"command": "/bin/sleep 0.01"') + report.count(b'"command":"/bin/sleep 0.01"')
        == processes
    )


def held(pid):
    """Segments that a recorder has descriptors of, and that it has mapped."""
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return {}
    names = {"descriptors": links, "mappings": maps}
    return {what: sum("/memfd:memtrace " in name for name in all) for what, all in names.items()}


def test_the_program_keeps_its_own_limit_of_open_files(tmp_path):
    inner = [MEMTRACE, "-q", "-o", tmp_path / "trace", "sh", "-c", "ulimit -Sn"]
    command = ["sh", "-c", 'ulimit -Sn 123; exec "$@"', "sh", *map(str, inner)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"123\n"
