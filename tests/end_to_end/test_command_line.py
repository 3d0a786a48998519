"""Exit statuses, output and errors: a contract that scripts depend on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import MEMTRACE, environment, memtrace


def test_output_and_status_are_the_programs(record):
    script = "echo out; echo err >&2; cat; exit 42"
    run = record("sh", "-c", script, options=("--quiet",), input=b"in\n")
    assert (run.code, run.stdout, run.stderr) == (42, b"out\nin\n", b"err\n")


def test_false_is_false(record):
    assert record("false").code == 1


def test_a_missing_command(tmp_path):
    done = memtrace("-o", tmp_path / "t", "--", "no-such-command-anywhere")
    assert done.returncode == 127
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "t").exists()


def test_a_command_that_cannot_be_executed(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert memtrace("-o", tmp_path / "t", "--", plain).returncode == 126


def test_an_unwritable_output_directory_starts_nothing(tmp_path):
    witness = tmp_path / "witness"
    done = memtrace("-o", "/proc/nowhere/trace", "--", "touch", witness)
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    assert not witness.exists()


def test_an_existing_trace_is_not_overwritten(record, tmp_path):
    first = record("true")
    done = memtrace("-o", first.path, "--", "touch", tmp_path / "witness")
    assert done.returncode == 125
    assert not (tmp_path / "witness").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--no-such-option"],
        ["--operator", "nocolon", "--", "true"],
        ["--span", "x", "--", "true"],
    ],
)
def test_usage_errors_exit_2(arguments):
    assert memtrace(*arguments).returncode == 2


def test_a_signal_death_is_128_plus_n(record):
    assert record("sh", "-c", "kill -SEGV $$").code == 128 + signal.SIGSEGV


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_signals_sent_to_memtrace_reach_the_program(tmp_path, name):
    script = f'trap "echo got; exit 6" {name[3:]}; echo up; while :; do sleep 0.05; done'
    command = [MEMTRACE, "-q", "-o", tmp_path / "t", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"up\n"
        running.send_signal(getattr(signal, name))
        assert running.stdout.read() == b"got\n"
    assert running.returncode == 6


def test_closed_standard_streams_stay_closed(tmp_path):
    command = 'sh -c "echo out" >&-'
    bare = subprocess.run(["sh", "-c", command], stderr=subprocess.DEVNULL, check=False)
    recorded = f'"{MEMTRACE}" -q -o "{tmp_path / "t"}" -- {command}'
    done = subprocess.run(["sh", "-c", recorded], stderr=subprocess.DEVNULL, check=False)
    assert done.returncode == bare.returncode != 0


def test_an_operator_that_never_ran_is_reported(record, python):
    run = record(python, "-c", "pass", options=("--operator", "nomodule:nosuch"))
    assert b"nomodule:nosuch was never called" in run.stderr


def test_ctrl_c_reaches_the_program_and_the_trace_is_closed(tmp_path):
    program = "import time, sys; x = bytearray(10_000_000); print('up', flush=True); time.sleep(60)"
    command = [MEMTRACE, "-o", tmp_path / "t", "--", "python3", "-c", program]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        assert running.stdout.readline() == b"up\n"
        time.sleep(0.2)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert running.returncode in (1, 130)
    report = memtrace("report", tmp_path / "t")
    assert report.returncode == 0
    assert b"cut short" not in report.stdout


def test_an_ignored_hangup_stays_ignored(record):
    script = 'trap "" HUP; exec sh -c "kill -HUP \\$\\$; echo alive"'
    assert record("sh", "-c", script).stdout == b"alive\n"


def test_the_tracers_death_leaves_the_program_alone(tmp_path):
    program = (
        "print('up', flush=True)\nfor i in range(600000): x = bytearray(2000)\nprint('finished')"
    )
    log = tmp_path / "out"
    with log.open("wb") as out:
        command = [MEMTRACE, "-o", tmp_path / "t", "--", "python3", "-c", program]
        with subprocess.Popen(command, stdout=out, stderr=out) as running:
            while b"up" not in log.read_bytes():
                time.sleep(0.005)
            running.kill()
    deadline = time.monotonic() + 30
    while b"finished" not in log.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log.read_bytes() == b"up\nfinished\n"


def test_a_variable_of_the_users_own_preload_survives(record, target):
    run = record("sh", "-c", "echo $LD_PRELOAD", env=environment(LD_PRELOAD="libm.so.6"))
    assert run.stdout.strip().endswith(b":libm.so.6")


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
def test_a_bad_trace_is_one_sentence(record, tmp_path, damage):
    run = record("true")
    if damage == "missing":
        path = tmp_path / "nowhere"
    else:
        path = run.path
        text = "{]" if damage == "garbage" else ""
        (path / "meta.json").write_text(text)
    done = memtrace("report", path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"memtrace: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["meta.json", "processes.parquet", "sites.parquet"])
def test_a_pipe_in_a_trace_is_not_waited_for(record, name):
    run = record("true")
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    done = memtrace("report", run.path, timeout=20)
    assert done.returncode == 1
    assert done.stderr.startswith(b"memtrace: ") and done.stderr.count(b"\n") == 1


SCALED = """
import numpy as np

def scale(x):
    return x * np.float32(2)

for n, m in ((300, 400), (430, 310), (500, 600), (2000, 1900)):
    for _ in range(2):
        scale(np.ones((n, m), np.float32))
"""


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """A folder with a trace of an operator at four shapes, and what its summary says."""
    folder = tmp_path_factory.mktemp("scaled")
    program = folder / "scale.py"
    program.write_text(SCALED)
    options = ("-o", "trace", "--operator", "__main__:scale")
    done = memtrace(*options, "--", sys.executable, program, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder, done.stderr.decode()


def test_the_commands_that_a_summary_names_work_as_they_are(scaled):
    folder, said = scaled
    named = said[said.index("  next:") :].removeprefix("  next:").replace(";", "\n").splitlines()
    assert [command.split()[1] for command in named] == ["report", "flamegraph", "fit"]
    for command in named:
        done = memtrace(*command.replace("TRACE", "trace").split()[1:], cwd=folder)
        assert done.returncode == 0, done.stderr.decode()
    assert (folder / "model.json").exists()
    assert (folder / "peak.svg").exists()


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("800,800", None),
        ("8000,8000", None),
        ("100,400", "n0 is less than half of what it was in any run"),
        ("8000,400", "n0 is over twice as long next to n1 as in any run"),
        ("250,250", "it is smaller than any run"),
    ],
)
def test_a_prediction_says_why_nothing_proves_it(scaled, shape, why):
    folder, _ = scaled
    memtrace("fit", "trace", "-o", "laws.json", cwd=folder)
    asked = ("predict", "laws.json", "--operator", "scale", "--shape", shape)
    found = json.loads(memtrace(*asked, "--json", cwd=folder).stdout)
    assert found["unverified_because"] == why
    assert (found["confidence"] == "unverified") == (why is not None)
    if why:
        assert f"  unverified: {why}\n" in memtrace(*asked, cwd=folder).stdout.decode()


@pytest.mark.parametrize(
    ("shape", "why"),
    [("4000,4000", None), ("240,320", "it is smaller than any run")],
)
def test_recommended_chunks_say_how_sure_they_are(scaled, shape, why):
    folder, _ = scaled
    memtrace("fit", "trace", "-o", "laws.json", cwd=folder)
    asked = (
        "recommend",
        "laws.json",
        "--operator",
        "scale",
        "--shape",
        shape,
        "--memory-limit",
        "1GB",
    )
    found = json.loads(memtrace(*asked, "--json", cwd=folder).stdout)
    assert found["unverified_because"] == why
    assert (found["confidence"] == "unverified") == (why is not None)
    text = memtrace(*asked, cwd=folder).stdout.decode()
    assert f"({found['confidence']})" in text and (f"  unverified: {why}\n" in text or not why)


def test_a_model_whose_operators_are_not_recorded_is_a_note(scaled):
    folder, _ = scaled
    memtrace("fit", "trace", "-o", "laws.json", cwd=folder)
    predicting = ("-o", "again", "-f", "--model", "laws.json", "--memory-limit", "1MB")
    note = "Nothing was predicted: no operator of the model was recorded."
    for named in ((), ("--operator", "__main__:scale")):
        done = memtrace(*predicting, *named, "--", sys.executable, "scale.py", cwd=folder)
        assert done.returncode == 0
        assert (note in done.stderr.decode()) == (not named)
