"""Operators of programs in Fortran and Rust: named by themselves, and unchanged where nothing is recorded."""

import shutil
import subprocess

import pytest
from conftest import ROOT


@pytest.fixture(scope="session")
def fortran(tmp_path_factory):
    """examples/smooth.f90 with include/memtrace.f90."""
    if shutil.which("gfortran") is None:
        pytest.skip("gfortran is not installed")
    folder = tmp_path_factory.mktemp("fortran")
    sources = [ROOT / "include" / "memtrace.f90", ROOT / "examples" / "smooth.f90"]
    command = ["gfortran", "-std=f2018", "-Wall", "-Werror", "-O2", *sources, "-o", "smooth"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "smooth"


@pytest.fixture(scope="session")
def rust():
    """The example of the crate memtrace-span."""
    command = [
        "cargo",
        "build",
        "--release",
        "--quiet",
        "-p",
        "memtrace-span",
        "--example",
        "shrink",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target" / "release" / "examples" / "shrink"


def only_span(run):
    assert run.code == 0
    [operator] = run.report["operators"]
    [span] = operator["spans"]
    return operator["name"], span


def alone(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout


def test_fortran(record, fortran):
    run = record(fortran, "100", "120", "140")
    assert run.stdout == alone(fortran, "100", "120", "140")
    name, span = only_span(run)
    assert name == "smooth"
    # Fortran's first axis is the fastest, and comes last.
    [volume], [result] = span["inputs"], span["outputs"]
    assert (volume["name"], volume["shape"], volume["dtype"]) == ("volume", [140, 120, 100], "<f4")
    assert (result["name"], result["shape"]) == ("result", [140, 120, 100])
    sums, mean = 8 * 101 * 120 * 140, 4 * 100 * 120 * 140
    assert span["working_peak_bytes"] == sums + mean
    assert span["output_bytes"] == mean
    assert span["params"] == {"width": "9"}


def test_rust(record, rust):
    run = record(rust, "1001")
    assert run.stdout == alone(rust, "1001")
    name, span = only_span(run)
    assert name == "shrink"
    [square], [small] = span["inputs"], span["outputs"]
    assert (square["shape"], square["dtype"]) == ([1001, 1001], "<f8")
    assert (small["name"], small["shape"]) == ("small", [501, 501])
    assert span["working_peak_bytes"] == 8 * 501 * 1001 + 8 * 501 * 501
    assert (span["output_bytes"], span["one_time_bytes"]) == (8 * 501 * 501, 0)
    assert span["params"] == {"step": "2"}
