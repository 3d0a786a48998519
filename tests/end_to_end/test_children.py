"""Every way a process begets another: each child is a row of `processes`, and sees its own environment."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest
from conftest import MEMTRACE, is_root

OURS = (b"LD_PRELOAD=", b"MEMTRACE_")
EXECS = ("execl", "execlp", "execle", "execv", "execvp", "execvpe", "execve", "execveat", "fexecve")
STARTS = (*EXECS, "posix_spawn", "posix_spawnp", "vfork")
COMMAND = "select command from {processes} where process = 0"
CHILD = "select count(*) from {allocations} where bytes = 3000000"


def theirs(output):
    """What a program printed of its environment, without the variables of the recording."""
    return [line for line in output.splitlines() if not line.startswith(OURS)]


def test_the_environment_is_as_it_was(record):
    env = {"ZULU": "1", "PATH": "/usr/bin:/bin", "ALPHA": "2", "MIKE": "a=b"}
    bare = subprocess.run(["env"], env=env, capture_output=True, check=True)
    run = record("env", options=("-q",), env=env)
    assert theirs(run.stdout) == bare.stdout.splitlines(), "in its order too"


@pytest.mark.parametrize("environment", ["inherit", "own", "empty", "nowhere"])
@pytest.mark.parametrize("how", STARTS)
def test_a_program_started_with_this_environment(record, target, how, environment):
    command = (target("starts.c"), how, environment)
    env = {"ALPHA": "1", "MIKE": "a=b", "PATH": "/usr/bin:/bin"}
    bare = subprocess.run(command, env=env, capture_output=True, check=False)
    run = record(*command, options=("-q",), env=env)
    assert run.code == bare.returncode
    assert run.stderr == bare.stderr
    assert theirs(run.stdout) == bare.stdout.splitlines(), (
        "the variables meant for it, and no others"
    )
    started = bare.returncode == 3
    assert run.sql(CHILD) == [(int(started),)]
    images = run.sql("select count(*) from {processes} where origin = 'exec'")
    assert images == [(1 + started,)]
    if started:
        after = run.sql("select count(*) from {allocations} where bytes = 2000001")
        assert after == [(1,)], "the parent is still recorded"


@pytest.mark.parametrize("how", STARTS)
def test_a_preload_variable_of_the_childs_own_is_kept(record, target, how):
    run = record(target("starts.c"), how, "preload", options=("-q",))
    assert (run.code, run.stderr) == (3, b"")
    assert run.sql(CHILD) == [(1,)]
    [preload] = [line for line in run.stdout.split(b"\n") if line.startswith(b"LD_PRELOAD=")]
    assert preload.endswith(b":libm.so.6")


@pytest.mark.parametrize("how", ["fork", "_Fork", "clone"])
def test_a_copy_of_the_process(record, target, how):
    run = record(target("children.c"), how)
    assert run.code == 3
    assert b"outlived" not in run.stderr, "its end was noticed"
    [child] = run.sql(
        "select peak_heap_bytes, inherited_releases from {processes} where origin = 'fork'"
    )
    assert child == (3_000_000, 1)
    # The inherited block is the parent's, until the parent releases it.
    assert run.sql(
        "select origin, free_ns is not null from {allocations} join {processes} using (process)"
        " where bytes = 1000000"
    ) == [("exec", True)]


@pytest.mark.parametrize("how", ["system", "popen"])
def test_a_shell_in_between(record, target, how):
    run = record(target("children.c"), how)
    assert run.code == 3
    assert run.sql(CHILD) == [(1,)]


def test_a_daemon_that_outlives_its_parent(record, target):
    run = record(target("children.c"), "daemon")
    assert run.code == 3
    assert run.sql("select free_ns is not null from {allocations} where bytes = 3000000") == [
        (True,)
    ]


def test_children_that_end_at_once_are_known_to_have_ended(record, target):
    run = record(
        "sh", "-c", f"for i in 1 2 3; do {target('children.c')} child; done; sleep 1; exit 3"
    )
    assert run.code == 3
    ends = run.sql(
        "select max(p.end_ns) from {processes} p join {allocations} a using (process)"
        " where a.bytes = 3000000"
    )
    assert ends < run.sql("select max(end_ns) - 500000000 from {processes}"), "the shell slept on"
    assert run.report["peak"]["heap_bytes"] < 2 * 3_000_000, "one at a time"


def children_of(process):
    files = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def test_children_wait_for_a_recorder_that_is_late(target, tmp_path):
    trace, pipe = tmp_path / "trace", subprocess.PIPE
    script = f"echo; read line; {target('children.c')} child & {target('children.c')} child"
    words = [MEMTRACE, "-o", trace, "--", "sh", "-c", f"{script}; wait; exit 3"]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as recorder:
        recorder.stdout.readline()
        recorder.send_signal(signal.SIGSTOP)
        recorder.stdin.write(b"\n")
        recorder.stdin.flush()
        time.sleep(1)
        # A child that is stopped and goes on waits on.
        [shell] = children_of(recorder.pid)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for child in children_of(shell):
                os.kill(child, number)
            time.sleep(0.2)
        time.sleep(6)
        recorder.send_signal(signal.SIGCONT)
        _, said = recorder.communicate(timeout=120)
    assert recorder.returncode == 3
    assert b"note:" not in said, said.decode()
    blocks = duckdb.sql(f"FROM '{trace}/allocations/*.parquet' WHERE bytes = 3000000").fetchall()
    assert len(blocks) == 2


def test_a_child_that_allocates_nothing_is_a_row_too(record, target):
    run = record("sh", "-c", f"{target('silent.c')}; exit $?")
    assert run.code == 3
    commands = [command for (command,) in run.sql("select command from {processes}")]
    assert str(target("silent.c")) in commands


def test_env_with_nothing(record, target):
    run = record("env", "-i", target("children.c"), "child")
    assert run.code == 3
    assert run.sql(CHILD) == [(1,)]


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.call([program, 'child'], close_fds=True, env={})",
        "subprocess.call([program, 'child'], env={'ONE': '1'}, start_new_session=True, cwd='/')",
        "os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(program, [program, 'child'], {}), 0)[1])",
        "os.spawnve(os.P_WAIT, program, [program, 'child'], {'ONE': '1'})",
    ],
)
def test_python_starts_a_program_with_an_environment_of_its_own(record, python, target, call):
    program = f"import os, subprocess, sys; program = sys.argv[1]; sys.exit({call})"
    run = record(python, "-c", program, target("children.c"))
    assert run.code == 3
    assert run.sql(CHILD) == [(1,)]


def test_a_pool_under_load(record, python, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(
        "import os\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def work(n):\n    block = bytearray(1_000_000 + n)\n    return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(8) as pool: print(*pool.map(work, range(200)))\n"
    )
    run = record(python, script)
    assert run.code == 0
    # CPython asks for one byte more than a bytearray holds.
    blocks = run.sql(
        "select pid from {allocations} join {processes} using (process)"
        " where bytes between 1000001 and 1000200 order by bytes"
    )
    assert [pid for (pid,) in blocks] == list(map(int, run.stdout.split()))


def tree(folder, program):
    """A directory to chroot into: a program and the libraries it needs, at their places."""
    listing = subprocess.run(["ldd", program], capture_output=True, check=True, text=True).stdout
    words = [word for word in listing.split() if word.startswith("/")]
    for path in (str(program), *words):
        copy = folder / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return folder


@pytest.mark.skipif(not is_root(), reason="chroot needs root")
@pytest.mark.parametrize("has_probe", [False, True])
def test_another_root_directory(record, target, tmp_path, has_probe):
    root = tree(tmp_path / "root", target("children.c"))
    if has_probe:
        probe = record("printenv", "LD_PRELOAD", options=("-q",)).stdout.decode().strip()
        copy = root / probe.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(probe, copy)
    run = record("chroot", root, target("children.c"), "child", options=("-q",))
    assert (run.code, run.stdout, run.stderr) == (3, b"", b""), "nothing is said by ld.so"
    assert run.sql(CHILD) == [(int(has_probe),)]


@pytest.mark.parametrize(
    "namespace",
    [("--pid", "--fork"), ("--net",), ("--user", "--map-root-user"), ("--mount",), ("--ipc",)],
    ids=lambda namespace: namespace[0].strip("-"),
)
def test_another_namespace(record, target, namespace):
    possible = subprocess.run(["unshare", *namespace, "true"], capture_output=True, check=False)
    if possible.returncode:
        pytest.skip(f"unshare {' '.join(namespace)}: {possible.stderr.decode().strip()}")
    run = record("unshare", *namespace, target("children.c"), "sleeper")
    assert run.code == 3
    [child] = run.sql(
        "select p.peak_live_bytes, p.peak_mapped_bytes, p.peak_resident_bytes from {processes} p"
        " join {allocations} a using (process) where a.bytes = 3000000"
    )
    live, mapped, resident = child
    assert 30_000_000 <= mapped < 30_004_096
    assert 30_000_000 <= live < 34_000_000, "the touched mapping, and the block at its peak"
    assert 30_000_000 <= resident < 50_000_000


def test_no_file_of_the_recorder_is_open_in_a_child(record):
    run = record("sh", "-c", "ls -l /proc/self/fd; ls -l /proc/$$/fd >&2")
    assert run.code == 0
    assert b"socket" not in run.stdout + run.stderr
    assert b"memfd" not in run.stdout + run.stderr


NANNY = """
import os, signal, time
import numpy
from dask.distributed import Client, LocalCluster

def grow():
    numpy.ones(625_011)
    return os.getpid()

if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        first = client.submit(grow, pure=False).result()
        os.kill(first, signal.SIGKILL)
        second = first
        while second == first:
            try:
                second = client.submit(grow, pure=False).result(timeout=20)
            except Exception:
                time.sleep(0.1)
        print(first, second)
"""


def test_a_worker_that_a_dask_nanny_restarts(record, python, tmp_path):
    script = tmp_path / "nanny.py"
    script.write_text(NANNY)
    run = record(python, script, options=("-q",), timeout=120)
    first, second = map(int, run.stdout.split())
    blocks = run.sql(
        "select pid, count(*) from {allocations} join {processes} using (process) "
        "where bytes = 5000088 group by pid order by pid"
    )
    assert blocks == sorted([(first, 1), (second, 1)])


def test_a_child_that_allocates_when_its_parent_has_left_memory(record, target):
    """Many others have ended since: the rows of the parent are written, and what it was is known."""
    run = record(target("many.c"), "900", options=("-q",))
    assert run.code == 0
    late = """select origin, command, allocator_settings is null from {processes}
        where process = (select process from {allocations} where bytes = 5000003)"""
    assert run.sql(late) == [("fork", run.sql(COMMAND)[0][0], False)]
    children = "select count(distinct process) from {allocations} where bytes = 12345"
    assert run.sql(children) == [(900,)]
