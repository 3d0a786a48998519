"""The kernel side: resident memory to the page, faults, processes without a probe. Skipped where BPF does not load."""

import contextlib
import ctypes
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import MEMTRACE, TARGETS, Recording, memtrace

MIB = 1 << 20


WAYS = [
    "anonymous",
    "sparse",
    "huge",
    "populated",
    "shared",
    "read",
    "file",
    "copied",
    "malloc",
    "small",
    "break",
    "locked",
    "given-back",
    "twice",
    "moved",
    "pieces",
    "threads",
    "heaps",
    "kernel",
    "fork",
]


@pytest.mark.parametrize("way", WAYS)
def test_the_resident_peak_is_what_smaps_says_to_the_page(kernel_side, record, target, way):
    run = record(target("held.c"), way, options=("--kernel", "ebpf"))
    held = int(run.stdout)
    peaks = run.sql("SELECT max(peak_resident_bytes + probe_bytes) FROM {processes}")
    assert peaks == [(held,)]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_resident_peak_of_random_steps_in_threads(kernel_side, record, static, seed):
    run = record(static("steps.c"), seed, options=("--kernel", "ebpf"))
    [process] = run.report["processes"]
    assert process["peak_resident_bytes"] == int(run.stdout)


def test_a_peak_that_lasts_for_a_moment(kernel_side, record, target):
    run = record(target("held.c"), "brief", "64", options=("--kernel", "ebpf"))
    [process] = run.report["processes"]
    assert process["peak_resident_bytes"] >= 64 * MIB
    [(swing,)] = run.sql(
        "SELECT max(bytes) - min(anon_bytes + file_bytes + shmem_bytes) FROM {kernel_events} "
        "WHERE event = 'resident'"
    )
    assert swing >= 64 * MIB


def test_what_the_resident_peak_was_made_of(kernel_side, record, target):
    run = record(target("held.c"), "malloc", "48")
    [process] = run.report["processes"]
    parts = process["resident_at_peak"]
    assert parts["memory_bytes"] + parts["file_bytes"] == process["peak_resident_bytes"]
    assert 48 * MIB <= parts["live_bytes"] <= parts["memory_bytes"]
    assert parts["untouched_bytes"] == 0
    known = parts["live_bytes"] + (parts["stack_bytes"] or 0) + (parts["data_bytes"] or 0)
    assert parts["unexplained_bytes"] == parts["memory_bytes"] - known
    assert process["page_faults"] >= 48 * MIB // 4096
    assert "exact to the page, by the kernel side" in run.details
    assert run.report["recorded"]["kernel"] == "ebpf"


def test_without_the_kernel_side_that_is_said(record, target):
    run = record(target("held.c"), "malloc", options=("--kernel", "proc"))
    assert run.report["recorded"]["kernel"] == "proc"
    [process] = run.report["processes"]
    assert process["resident_at_peak"] is None
    assert process["peak_resident_bytes"] >= 32 * MIB
    assert "by /proc" in run.details
    assert run.sql("SELECT count(*) FROM {kernel_events}") == [(0,)]


def test_a_user_who_may_not_load_programs_reads_why(as_nobody):
    folder, as_nobody = as_nobody
    path = folder / "trace"
    done = as_nobody("-o", path, "--", "/bin/true")
    assert done.returncode == 0, done.stderr
    run = Recording(path, done.returncode, done.stdout, done.stderr)
    assert run.report["recorded"]["kernel"] == "proc"
    assert "CAP_BPF" in run.report["recorded"]["kernel_why"] or "clang" in done.stderr.decode()
    refused = as_nobody("-o", folder / "other", "--kernel", "ebpf", "--", "/bin/true")
    assert refused.returncode == 125
    assert not (folder / "other").exists()
    assert b"CAP_BPF" in refused.stderr or b"clang" in refused.stderr


def test_doctor_says_what_there_is():
    done = memtrace("doctor")
    assert done.returncode == 0
    words = done.stdout.decode()
    for what in ("probe", "clock", "kernel side", "memory accesses", "control groups"):
        [line] = [line for line in words.splitlines() if what in line[:24]]
        assert re.match(r"  (yes|no ) ", line)


def test_what_faults_touch_of_a_large_mapping_is_live(kernel_side, record, target):
    """Nothing is read in time: it is killed right after it has touched three of eight parts."""
    run = record(target("touched.c"), may_fail=True)
    assert run.code == 128 + signal.SIGKILL
    assert run.report["peak"]["live_bytes"] - run.report["peak"]["heap_bytes"] == 24 * MIB


def test_the_part_of_a_block_that_was_never_touched(kernel_side, record, target):
    run = record(target("untouched.c"))
    rows = run.sql(
        "SELECT value / 1048576, bytes / 1048576 FROM {kernel_events} WHERE event = 'untouched' ORDER BY ALL"
    )
    # Of 24 MiB by malloc a third, of 16 MiB by mmap a half, of 8 MiB in huge pages a quarter.
    assert [(whole, round(part, 1)) for whole, part in rows] == [(8, 6), (16, 8), (24, 16)]


def mapping_rows(run):
    """Mappings of a MiB and more: kind, MiB, and whether they were released."""
    query = (
        "SELECT kind, bytes / 1048576, free_ns IS NOT NULL FROM {allocations} "
        "WHERE bytes >= 1048576 AND kind LIKE 'map%' AND kind != 'map_file' ORDER BY ALL"
    )
    # The dynamic linker reserves room for libraries with segments of 64 KiB, to align them there.
    reserves = platform.machine() == "aarch64"
    return [row for row in run.sql(query) if not (reserves and row[0] == "map_reserved")]


EXPECTED = sorted(
    [
        ("map_anonymous", 2, True),  # over it lies
        ("map_anonymous", 2, False),
        ("map_anonymous", 2, False),  # before that
        ("map_anonymous", 2, False),  # after that
        ("map_anonymous", 1, True),  # the hole
        ("map_anonymous", 1, True),  # moved away
        ("map_anonymous", 1, True),  # cut off what it became
        ("map_anonymous", 3, False),  # the rest of that
        ("map_anonymous", 6, True),
        ("map_break", 3, False),
        ("map_break", 2, True),
        ("map_shared", 3, True),
    ]
)


def attached(tmp_path, pid, *options, **kwargs):
    path = tmp_path / f"attached{len(list(tmp_path.iterdir()))}"
    command = [MEMTRACE, "attach", str(pid), "-o", path, *options]
    return path, subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs
    )


def wait_for(condition, what):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"waited in vain for {what}")


def finish(path, memtrace_process):
    out, err = memtrace_process.communicate(timeout=60)
    return Recording(path, memtrace_process.returncode, out, err)


def programs_of(pid):
    """Ids of the BPF programs, maps and links that a process holds (proc_pid_fdinfo(5))."""
    found = set()
    for entry in Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        for kind in ("prog_id", "map_id", "link_id"):
            found |= {(kind, int(number)) for number in re.findall(rf"^{kind}:\t(\d+)", text, re.M)}
    return found


def test_attach_sees_every_way_of_mapping(kernel_side, target, tmp_path):
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    path, recorder = attached(tmp_path, program.pid)
    wait_for(lambda: watches(recorder, path), "the recorder to watch")
    program.communicate(b"go\n", timeout=60)
    run = finish(path, recorder)
    assert run.code == 0, run.stderr
    assert mapping_rows(run) == EXPECTED
    assert run.report["exit"] == 5
    [process] = run.report["processes"]
    assert process["exit"] == 5
    assert process["peak_mapped_bytes"] >= 8 * MIB
    said = run.details
    assert "every system call on this machine" in said


def watches(recorder, path):
    """The first tables are written when all is watched."""
    if recorder.poll() is not None:
        pytest.fail(recorder.stderr.read().decode())
    return (path / "processes.parquet").exists()


def test_attach_stops_after_its_time_and_leaves_nothing(kernel_side, target, tmp_path):
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    path, recorder = attached(tmp_path, program.pid, "--seconds", "0.5", "--json")
    wait_for(lambda: watches(recorder, path), "the recorder to watch")
    held = programs_of(recorder.pid)
    run = finish(path, recorder)
    assert run.code == 0 and held
    assert json.loads(run.stdout)["peak"] == run.report["peak"]
    assert program.poll() is None, "the program goes on"
    program.communicate(b"go\n", timeout=60)
    assert program.returncode == 5
    wait_for(lambda: not any(exists(*each) for each in held), "programs to be gone")


def test_attach_to_children_too(kernel_side, target, tmp_path):
    script = f"cat > /dev/null; {target('held.c')} anonymous 16 > /dev/null; exit 3"
    program = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
    path, recorder = attached(tmp_path, program.pid)
    wait_for(lambda: watches(recorder, path), "the recorder to watch")
    program.communicate(b"", timeout=60)
    run = finish(path, recorder)
    children = [each for each in run.report["processes"] if "held" in each["command"]]
    assert max(each["peak_resident_bytes"] for each in children) >= 16 * MIB
    assert run.report["exit"] == 3


def test_a_zombie_does_not_keep_attach_going(kernel_side, tmp_path):
    """A child that no process waits for has ended all the same."""
    program = subprocess.Popen(["sh", "-c", "true & exec sleep 2"])
    wait_for(lambda: " Z " in processes_of(program.pid), "a zombie")
    path, recorder = attached(tmp_path, program.pid)
    run = finish(path, recorder)
    assert run.code == 0
    assert len(run.report["processes"]) == 1
    program.wait()


def processes_of(parent):
    """The lines of /proc/PID/stat of its children."""
    pids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return "".join(Path(f"/proc/{pid}/stat").read_text() for pid in pids)


def test_interrupting_attach_closes_the_trace(kernel_side, target, tmp_path):
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    path, recorder = attached(tmp_path, program.pid)
    wait_for(lambda: watches(recorder, path), "the recorder to watch")
    recorder.send_signal(signal.SIGINT)
    run = finish(path, recorder)
    assert run.code == 0 and run.report["complete"]
    program.communicate(b"go\n", timeout=60)


def test_attach_to_no_process(tmp_path):
    done = memtrace("attach", "4194304", "-o", tmp_path / "trace")
    assert done.returncode == 125
    assert b"no process 4194304" in done.stderr
    assert not (tmp_path / "trace").exists()


def test_functions_are_reported(kernel_side, target, tmp_path):
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    path, recorder = attached(tmp_path, program.pid, "--uprobe", "libc:madvise")
    wait_for(lambda: watches(recorder, path), "the recorder to watch")
    out, _ = program.communicate(b"go\n", timeout=60)
    run = finish(path, recorder)
    assert run.code == 0, run.stderr
    first = int(out.split()[0], 16)
    rows = run.sql("SELECT address, bytes, value FROM {kernel_events} WHERE event = 'function'")
    assert rows == [(first, MIB, 0)]


def test_an_attached_trace_agrees_with_its_rows(kernel_side, target, tmp_path):
    """What was mapped before anybody looked counts too, each mapping as one."""
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    status = Path(f"/proc/{program.pid}/stat")
    wait_for(lambda: "(mapped) S" in status.read_text(), "it to read its input")
    path, recorder = attached(tmp_path, program.pid, "--seconds", "0.1")
    assert finish(path, recorder).code == 0
    program.communicate(b"go\n")
    assert "DIFFER" not in memtrace("report", "--recompute", path).stdout.decode()


def test_what_cannot_be_probed_is_refused_and_leaves_nothing(kernel_side, target, tmp_path):
    program = subprocess.Popen([target("mapped.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for function, why in (("libc:memcpy", "chosen among several"), ("libc:nothing", "no function")):
        path, recorder = attached(tmp_path, program.pid, "--uprobe", function)
        _, err = recorder.communicate(timeout=60)
        assert recorder.returncode == 125 and why in err.decode()
        assert not path.exists()
    program.communicate(b"go\n")


def test_a_statically_linked_program(kernel_side, record, static):
    run = record(static("mapped.c"), input=b"go\n")
    assert run.code == 5
    assert mapping_rows(run) == EXPECTED
    assert "statically linked" in run.details
    [process] = run.report["processes"]
    assert process["origin"] == "exec" and process["exit"] == 5
    assert process["resident_at_peak"]["live_bytes"] >= 8 * MIB


def test_raw_system_calls(kernel_side, record, static):
    run = record(static("raw.c", "-nostdlib"))
    assert run.code == 7
    assert mapping_rows(run) == [
        ("map_anonymous", 4, True),
        ("map_anonymous", 8, False),
        ("map_anonymous", 16, True),
    ]
    # Of the first, 12 MiB were touched, of the second 8, when both were there.
    assert run.report["peak"]["live_bytes"] == 20 * MIB
    assert run.report["peak"]["mapped_bytes"] == 24 * MIB


@pytest.fixture
def set_user_id(target, tmp_path):
    """Compiles a target that becomes another user (who runs this is root)."""
    binary = tmp_path / "set-user-id"
    shutil.copy(target("mapped.c"), binary)
    os.chown(binary, 65534, -1)
    binary.chmod(0o4755)
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip(f"{tmp_path} is on a file system without set-user-ID programs")
    return binary


def test_a_set_user_id_program(kernel_side, record, set_user_id):
    run = record(set_user_id, input=b"go\n")
    assert run.code == 5
    assert mapping_rows(run) == EXPECTED
    assert f"No probe could be loaded into {set_user_id}" in run.details


def test_children_that_no_probe_can_be_in(kernel_side, record, static, set_user_id):
    """They have begun by the time system calls are reported."""
    for program in (static("mapped.c"), set_user_id):
        run = record("sh", "-c", f"(sleep 0.5; echo go) | {program}; true")
        assert run.code == 0
        assert mapping_rows(run) == EXPECTED
        rows = run.sql("SELECT command, origin FROM {processes} WHERE peak_mapped_bytes > 1048576")
        assert rows == [(str(program), "exec")]
        assert f"No probe could be loaded into {program} (" in run.details


def test_children_of_a_static_program_are_recorded_once(kernel_side, record, target, static):
    """The probe is in them, though the kernel side reports their system calls too."""
    run = record(static("runs.c"), target("mapped.c"), input=b"go\n")
    rows = run.sql(
        "SELECT count(*), sum(peak_mapped_bytes > 1048576) FROM {processes} WHERE origin = 'exec'"
    )
    assert rows == [(2, 1)]
    assert mapping_rows(run) == EXPECTED


def test_many_static_children_of_a_program_with_a_probe(kernel_side, record, target, static):
    """Rows of both are made while the other is met."""
    run = record(target("many.c"), "300", static("many.c"))
    assert run.code == 0
    executed = "SELECT count(*) FROM {processes} WHERE origin = 'exec' AND exit = 0"
    assert run.sql(executed) == [(301,)]
    named = "SELECT count(DISTINCT process), count(*) FROM {processes}"
    [(distinct, rows)] = run.sql(named)
    assert distinct == rows


def test_a_go_program(kernel_side, record, tmp_path):
    """Its runtime makes system calls by itself."""
    if not shutil.which("go"):
        pytest.skip("there is no Go compiler")
    binary = tmp_path / "held_go"
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "CGO_ENABLED": "0"}
    build = ["go", "build", "-o", binary, TARGETS / "held.go"]
    subprocess.run(build, check=True, env=environment)
    run = record(binary)
    assert run.code == 0
    [process] = run.report["processes"]
    resident = int(run.stdout) * 1024
    assert resident <= process["peak_resident_bytes"] <= resident + 4 * MIB, (
        "it says so a little later"
    )
    assert process["resident_at_peak"]["live_bytes"] > 112 * MIB, "huge pages are known as such"


def test_a_killed_recorder_leaves_nothing(kernel_side, target, tmp_path):
    path = tmp_path / "trace"
    command = [MEMTRACE, "-o", path, "--kernel", "ebpf", "--", "sleep", "60"]
    recorder = subprocess.Popen([str(part) for part in command], start_new_session=True)
    try:
        wait_for(lambda: len(programs_of(recorder.pid)) > 20, "all programs to be attached")
        held = programs_of(recorder.pid)
        assert {kind for kind, _ in held} == {"prog_id", "map_id", "link_id"}
        recorder.kill()
        recorder.wait()
        wait_for(
            lambda: not any(exists(*each) for each in held), "programs, maps and links to be gone"
        )
    finally:
        with contextlib.suppress(ProcessLookupError):  # on a busy machine the program has ended
            os.killpg(recorder.pid, signal.SIGKILL)


def exists(kind, number):
    """True if the kernel has such an object: bpf(2), BPF_{PROG,MAP,LINK}_GET_FD_BY_ID."""
    command = {"prog_id": 13, "map_id": 14, "link_id": 30}[kind]
    attributes = ctypes.create_string_buffer(number.to_bytes(4, "little"), 16)
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(321, command, attributes, 12)
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True
