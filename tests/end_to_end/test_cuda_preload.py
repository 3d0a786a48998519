"""When the library in front of the CUDA driver is preloaded, and what a program notices of it."""

import json
import subprocess
import sys

import duckdb
import pytest
from conftest import CUDA_PROBE, PROBE, environment, memtrace


def test_without_a_recording_programs_run_as_before(standin):
    """The library alone, and both libraries without a recorder."""
    for preload in (f"{CUDA_PROBE}", f"{PROBE}:{CUDA_PROBE}"):
        variables = environment(LD_PRELOAD=preload, LD_LIBRARY_PATH=str(standin))
        command = [standin / "all_calls", "ask_v2"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def recorded(*arguments, **variables):
    done = memtrace("--quiet", *arguments, env=environment(**variables))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


SHOW = "import os; print(os.environ['LD_PRELOAD'].count('libmemtrace_cuda.so'))"


@pytest.mark.parametrize(
    ("options", "driver", "loaded", "said"),
    [
        ([], True, 1, "driver calls"),
        (["--cuda", "auto"], False, 0, "no driver"),
        (["--cuda", "off"], True, 0, "off"),
    ],
)
def test_it_is_preloaded_where_there_is_a_driver(standin, tmp_path, options, driver, loaded, said):
    if not driver and "yes" in next(line for line in doctor() if "CUDA" in line):
        pytest.skip("there is a driver here")
    variables = {"LD_LIBRARY_PATH": str(standin)} if driver else {}
    trace = tmp_path / "trace"
    command = ["-o", trace, *options, "--", sys.executable, "-c", SHOW]
    assert recorded(*command, **variables) == f"{loaded}\n"
    assert json.loads((trace / "meta.json").read_text())["recorded"]["cuda"] == said


def doctor(**variables):
    return memtrace("doctor", env=environment(**variables)).stdout.decode().splitlines()


def test_doctor_names_the_driver(standin):
    [line] = [line for line in doctor(LD_LIBRARY_PATH=f"/nowhere:{standin}") if "CUDA" in line]
    assert line.split() == [
        "yes",
        "CUDA",
        "calls",
        "of",
        f"{standin}/libcuda.so.1",
        "are",
        "recorded",
    ]


def test_it_stays_in_the_environment_that_a_program_makes_by_hand(standin, tmp_path):
    program = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {SHOW!r}], env={{}})\n"
        f"subprocess.run(['env', '-i', sys.executable, '-c', {SHOW!r}])\n"
    )
    trace = tmp_path / "trace"
    command = ["-o", trace, "--", sys.executable, "-u", "-c", program]
    assert recorded(*command, LD_LIBRARY_PATH=str(standin)) == "1\n1\n"


def test_a_whole_recording_of_every_call(standin, tmp_path):
    """Nothing is lost on the way to the tracer, and the program notices nothing."""
    trace = tmp_path / "trace"
    command = ["-o", trace, "--", standin / "all_calls", "ask_v2"]
    plain = subprocess.run(
        [standin / "all_calls", "ask_v2"],
        env=environment(LD_LIBRARY_PATH=str(standin)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert recorded(*command, LD_LIBRARY_PATH=str(standin)) == plain.stdout
    report = json.loads(memtrace("report", "--json", trace).stdout)
    assert report["lost"]["events"] == 0
    innermost = duckdb.sql(
        f"select distinct function from '{trace}/allocations/*.parquet' as a join '{trace}/sites.parquet' using (site) "
        f"join '{trace}/frames.parquet' using (frame) where a.kind like 'cuda%'"
    ).fetchall()
    assert ("cuMemAlloc_v2",) in innermost
    assert [name for (name,) in innermost if not name.startswith("cu")] == []
