"""Memory that processes share counts once; what a process writes of a private file is its own."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

MIB = 1 << 20
BYTES = 100 * MIB
IN_MEMORY = "/dev/shm"

pytestmark = pytest.mark.serial


def kind_of_file_system(path):
    found = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=True)
    return found.stdout.decode().strip()


@pytest.fixture
def memory_file():
    """The name of a file in memory, which the program makes."""
    if not Path(IN_MEMORY).is_dir() or kind_of_file_system(IN_MEMORY) != "tmpfs":
        pytest.skip(f"{IN_MEMORY} is no tmpfs")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Path(folder) / "file"


@pytest.fixture
def disk_file(tmp_path):
    if kind_of_file_system(tmp_path) == "tmpfs":
        pytest.skip(f"{tmp_path} is in memory")
    return tmp_path / "file"


def peaks(run):
    """Live bytes of mappings at the peak: of all processes, and of each."""
    peak = run.report["peak"]
    each = [row["peak_live_bytes"] - row["peak_heap_bytes"] for row in run.report["processes"]]
    return peak["live_bytes"] - peak["heap_bytes"], sorted(each, reverse=True)


def is_close(bytes_, expected):
    return abs(bytes_ - expected) <= max(expected // 100, MIB)


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("way", ["shm", "memfd", "file", "windows", "segment"])
def test_shared_memory_counts_once(record, target, memory_file, way, processes):
    name = f"/memtrace-{os.getpid()}-{processes}" if way == "shm" else memory_file
    run = record(target("shared_memory.c"), way, processes, name)
    assert run.code == 0
    together, each = peaks(run)
    assert is_close(together, BYTES)
    # One of those that map it has it; when that one ends, another one.
    assert is_close(each[0], BYTES)
    kinds = run.sql(
        "select kind, sum(bytes) from {allocations} where kind in ('map_shared', 'map_file')"
        " and bytes >= 1000000 group by kind order by kind desc"
    )
    expected = [("map_shared", BYTES), ("map_file", BYTES * (processes - 1))]
    assert kinds == expected[:processes]


def test_what_the_first_process_lets_go_of_counts_in_another(record, target):
    run = record(target("shared_memory.c"), "handed", 3, "-")
    assert run.code == 0
    together, each = peaks(run)
    assert is_close(together, BYTES)
    assert [is_close(one, BYTES) for one in each[:2]] == [True, True]


@pytest.mark.parametrize("processes", [1, 3])
def test_what_is_written_of_a_private_file_is_the_processs_own(
    record, target, disk_file, processes
):
    run = record(target("shared_memory.c"), "private", processes, disk_file)
    assert run.code == 0
    together, each = peaks(run)
    assert is_close(together, processes * BYTES)
    assert all(is_close(one, BYTES) for one in each)


def test_a_shared_file_on_disk_is_not_live(record, target, disk_file):
    run = record(target("shared_memory.c"), "file", 3, disk_file)
    assert run.code == 0
    assert is_close(peaks(run)[0], 0)


PYTHON = """
import multiprocessing, sys
from multiprocessing import shared_memory

def fill(name, part, parts, barrier):
    shared = shared_memory.SharedMemory(name=name)
    size = shared.size // parts
    for page in range(part * size, (part + 1) * size, 4096):
        shared.buf[page] = 1
    barrier.wait()
    shared.close()

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    shared = shared_memory.SharedMemory(create=True, size=100 << 20)
    barrier = multiprocessing.Barrier(2)
    arguments = [(shared.name, part, 2, barrier) for part in range(2)]
    workers = [multiprocessing.Process(target=fill, args=each) for each in arguments]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    shared.close()
    shared.unlink()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pythons_shared_memory(record, python, tmp_path, memory_file, method):
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    # Arenas of the interpreter count as touched until a sample finds less: a peak of all may then
    # come before the last pages of the object.
    run = record(python, script, method, options=["--python-allocators"])
    assert run.code == 0, run.stderr.decode()
    # The process that made it has all of it, though others wrote it.
    [(process, live)] = run.sql(
        "select process, live_bytes_at_peak from {allocations} join {sites} using (site)"
        f" where kind = 'map_shared' and bytes = {BYTES}"
    )
    assert is_close(live, BYTES)
    assert run.report["processes"][process]["peak_live_bytes"] >= live
    others = run.sql(
        f"select distinct process from {{allocations}} where kind = 'map_file' and bytes = {BYTES}"
    )
    assert len(others) == 2 and (process,) not in others
