"""Programs that would not be what they are with a probe in them: they are left alone, and a note names them."""

import shutil
import subprocess
import sys

import pytest
from conftest import TARGETS, memtrace


def compiled(source, binary, *flags):
    command = ["gcc", "-O1", "-g", *flags, "-o", binary, TARGETS / source]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("gcc cannot build it: " + done.stderr.decode().splitlines()[-1])
    return binary


def bare(*command):
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=["address", "thread"])
def sanitized(request, tmp_path):
    binary = compiled("sanitized.c", tmp_path / "sanitized", f"-fsanitize={request.param}")
    if bare(binary)[:2] != (5, b"7\n"):
        pytest.skip("this sanitizer does not run here")
    return binary


@pytest.mark.parametrize("kernel", ["auto", "proc"])
def test_a_sanitizers_program(tmp_path, sanitized, kernel):
    done = memtrace("--kernel", kernel, "-o", tmp_path / "trace", "--", sanitized)
    assert (done.returncode, done.stdout) == (5, b"7\n")
    said = memtrace("report", "--details", tmp_path / "trace").stdout.decode()
    assert "linked with a sanitizer" in said


STARTS = {
    "a shell": ("sh", "-c", "'{}'; exit $?"),
    "a name": ("sh", "-c", "PATH='{}/..':$PATH exec env sanitized"),
    "spawned": (
        sys.executable,
        "-c",
        "import os, sys; child = os.posix_spawn({!r}, ['it'], os.environ);"
        " sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    ),
}


@pytest.mark.parametrize("how", STARTS)
def test_a_sanitizers_program_as_a_child(record, sanitized, how):
    command = [part.replace("{}/..", str(sanitized.parent)) for part in STARTS[how]]
    command = [part.replace("{!r}", repr(str(sanitized))) for part in command]
    command = [part.replace("{}", str(sanitized)) for part in command]
    run = record(*command)
    assert (run.code, run.stdout) == (5, b"7\n"), run.stderr.decode()
    assert "linked with a sanitizer" in run.details
    assert run.report["totals"]["allocations"] > 0, "what started it is recorded"


def test_a_32_bit_program_is_not_made_to_load_a_64_bit_library(record, tmp_path):
    flags = ("-m32", "-static", "-nostdlib", "-ffreestanding", "-fno-pie", "-no-pie")
    binary = compiled("environment32.c", tmp_path / "environment32", *flags)
    try:
        code, expected, _ = bare("env", "-i", "LD_PRELOAD=", "KEPT=1", binary)
    except OSError as error:
        pytest.skip(f"this kernel runs no 32-bit programs: {error}")
    if code != 3:
        pytest.skip("this kernel runs no 32-bit programs")
    assert b"KEPT=1" in expected
    run = record("sh", "-c", f"KEPT=1 '{binary}'; exit $?")
    assert run.code == 3
    lines = run.stdout.decode().splitlines()
    assert "KEPT=1" in lines
    assert not [line for line in lines if line.startswith("LD_PRELOAD")]
    assert "32-bit" in run.details


#: How a program is compiled that cannot load the probe, and what a note says of it.
OTHERS = {
    "musl": (("musl-gcc",), "linked with musl instead of glibc"),
    "32-bit": (("gcc", "-m32"), "32-bit"),
}


@pytest.fixture(params=OTHERS)
def other(request, tmp_path):
    """A program for another C library, and why the probe is not in it."""
    compiler, why = OTHERS[request.param]
    binary = tmp_path / "held"
    command = [*compiler, "-O1", "-pthread", "-o", binary, TARGETS / "held.c"]
    if shutil.which(compiler[0]) is None or bare(*command)[0]:
        pytest.skip(f"{' '.join(compiler)} compiles nothing here")
    return binary, why


OTHER_STARTS = {
    "the command": ("{}", "malloc", "24"),
    "a child": ("sh", "-c", "'{}' malloc 24; exit $?"),
}


@pytest.mark.parametrize("how", OTHER_STARTS)
def test_a_program_of_another_c_library(record, other, how):
    """It runs as it does by itself, and a note says why nothing inside it was recorded."""
    program, why = other
    command = [part.replace("{}", str(program)) for part in OTHER_STARTS[how]]
    run = record(*command, options=("--kernel", "proc"))
    assert (run.code, run.stderr.count(b"libmemtrace")) == (0, 0)
    assert int(run.stdout) >= 24 << 10
    assert f"{program} ({why})" in run.details


def test_the_kernel_side_records_it(kernel_side, record, other):
    program, why = other
    run = record(program, "anonymous", "24")
    assert (run.code, int(run.stdout) >= 24 << 20) == (0, True)
    assert f"{program} ({why})" in run.details
    [process] = run.report["processes"]
    assert process["peak_resident_bytes"] >= 24 << 20
    mapped = run.sql("SELECT bytes FROM {allocations} WHERE bytes = 24 << 20")
    assert len(mapped) == (0 if why == "32-bit" else 2), (
        "system calls of 32-bit programs are not seen"
    )
