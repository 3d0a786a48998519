"""Signals, jumps and unusual moments: every event is recorded, and the program is left as it was."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import MEMTRACE, TARGETS, Recording, environment, is_root


@pytest.fixture
def library(tmp_path):
    """A target compiled as a library (-DLIBRARY)."""

    def build(name):
        path = tmp_path / f"{name}.so"
        flags = ["-DLIBRARY", "-O1", "-shared", "-fPIC", "-fno-builtin", "-mcmodel=large"]
        subprocess.run(["gcc", *flags, "-o", path, TARGETS / f"{name}.c"], check=True)
        return path

    return build


def pairs(run, size):
    """How many blocks of a size were allocated and how many of them released."""
    [row] = run.sql(f"select count(*), count(free_ns) from {{allocations}} where bytes = {size}")
    return row


@pytest.fixture
def storm(tmp_path, library):
    """The storm, linked with an allocator that handlers may use."""
    program, allocator = tmp_path / "storm", library("storm")
    flags = ["-O1", "-fno-builtin", "-Wl,-rpath", tmp_path]
    subprocess.run(["gcc", *flags, "-o", program, TARGETS / "storm.c", allocator], check=True)
    return program


@pytest.mark.parametrize("stacks", ["none", "auto", "all"])
@pytest.mark.parametrize(
    "when", [(), ("first",), (30,)], ids=["connected", "from_the_start", "almost_no_time_between"]
)
def test_a_handler_that_allocates(record, storm, when, stacks):
    """Also where the next signal comes almost as soon as the handler returns: whatever it interrupts hardly gets on."""
    run = record(storm, "handlers", 3000, *when, options=("--stacks", stacks))
    assert run.code == 0
    calls, rounds = map(int, run.stdout.split())
    assert calls >= 3000
    assert pairs(run, 777) == (calls, calls)
    assert pairs(run, 12288) == (calls, calls)
    assert pairs(run, 48) == (rounds, rounds)


@pytest.mark.parametrize(
    ("count", "first"), [(2000, ()), (20, ("first",))], ids=["connected", "from_the_start"]
)
def test_jumps_out_of_a_handler(record, storm, count, first):
    """What a jump cut off is gone, but from the next call of a shallower frame on all is recorded."""
    run = record(storm, "jumps", count, *first)
    assert run.code == 0
    _, rounds = map(int, run.stdout.split())
    assert pairs(run, 555) == (count, count)
    allocated, released = pairs(run, 48)
    # Each jump may cut one round, before or after its events.
    assert rounds <= allocated <= rounds + count
    assert rounds <= released <= allocated


def test_libraries_loaded_and_unloaded(record, target, library):
    run = record(target("plugins.c"), library("plugins"), 500)
    assert run.code == 0
    assert pairs(run, 50001) == pairs(run, 50002) == (500, 500)


def test_a_signal_stack_that_the_kernel_takes_away_meanwhile(record, target):
    run = record(target("disarmed.c"), options=("--stacks", "none"))
    assert run.code == 0, run.stderr.decode()
    [(blocks,)] = run.sql("select count(*) from {allocations} where bytes = 100")
    assert blocks == 1_000_000
    mapped = "from {allocations} where kind like 'map%' and bytes = 4096"
    assert run.sql(f"select count(*), count(free_ns) {mapped}") == [(int(run.stdout),) * 2]
    assert run.sql(f"select distinct kind {mapped}") == [("map_anonymous",)]


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_before_main_and_after_it(record, target, library, binding):
    variables = {"LD_PRELOAD": str(library("early"))}
    if binding == "now":
        variables["LD_BIND_NOW"] = "1"
    run = record(target("early.c"), env=environment(**variables))
    assert run.code == 6
    for size in (60001, 60002, 60003, 60004):
        assert pairs(run, size) == (1, 1)


def test_errno_is_what_it_would_be(record, target):
    bare = subprocess.run([target("errnos.c")], capture_output=True, check=True)
    assert b"changed 0\n" in bare.stdout
    run = record(target("errnos.c"))
    assert run.stdout.splitlines() == bare.stdout.splitlines()


def test_last_moments_of_short_threads(record, target):
    run = record(target("farewells.cpp"), 3000)
    assert run.code == 0
    for size in (4001, 4002, 4003, 4004):
        assert pairs(run, size) == (3000, 3000)
    # Another thread released it, but it belongs to the one that allocated it.
    assert run.sql("select count(distinct thread) > 100 from {allocations} where bytes = 4003") == [
        (True,)
    ]
    main = "(select thread from {allocations} where bytes = 4002 limit 1)"
    assert run.sql(
        f"select count(*) from {{allocations}} where bytes = 4002 and thread <> {main}"
    ) == [(0,)]


@pytest.fixture
def open_folder():
    """A directory where anybody may write, as pytest's are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not is_root(), reason="making a file setuid root needs root")
def test_a_setuid_program_is_left_alone(target, open_folder):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    program = open_folder / "program"
    shutil.copy(target("ends.c"), program)
    program.chmod(0o4755)
    if os.statvfs(open_folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{open_folder} is on a file system mounted nosuid")
    if subprocess.run(
        [*nobody, MEMTRACE, "--version"], capture_output=True, check=False
    ).returncode:
        pytest.skip(f"{MEMTRACE} is not there for other users")
    command = [*nobody, MEMTRACE, "-o", open_folder / "t", "--", program, "exit"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"up\n")
    run = Recording(
        open_folder / "t", *[getattr(done, name) for name in ("returncode", "stdout", "stderr")]
    )
    assert run.sql("select count(*) from {processes}") == [(0,)]
    assert b"set-user-ID" in done.stderr
    assert b"ld.so" not in done.stderr
