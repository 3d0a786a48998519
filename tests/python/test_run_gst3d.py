"""The example scripts from end to end, as a user starts them."""

import re
import subprocess
import sys
from pathlib import Path

import operators
import pytest

EXAMPLES = Path(operators.__file__).parents[1]


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def segy(tmp_path_factory):
    path = tmp_path_factory.mktemp("segy") / "volume.sgy"
    assert run("run_gst3d.py", "--make", path, "--shape", "21,23,27").returncode == 0
    return path


@pytest.fixture(scope="module")
def result(segy):
    """The line that NumPy gives, without its seconds."""
    done = run("run_gst3d.py", segy)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition(",")[0]


def test_numpy_finds_the_dip_that_the_file_states(result):
    assert result.startswith("gst3d 21×23×27, checksum ")
    assert float(re.search(r"\|dip - 25°\| = ([\d.]+)°", result)[1]) < 0.5


@pytest.mark.parametrize("cluster", [(), ("--workers", 2, "--memory-limit", "1.5GB")])
def test_dask_finds_the_same_bits(segy, result, cluster):
    done = run("run_gst3d.py", segy, "--engine", "dask", "--chunks", "11,9,27", *cluster)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].rpartition(",")[0] == result
    if cluster:
        assert re.search(r"peak resident: \d+ MB, \d+ MB\n", done.stdout)


def test_repeat_gives_the_same_again(segy, result):
    lines = run("run_gst3d.py", segy, "--repeat", 2).stdout.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [result, result]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 2, "give a SEG-Y file"),
        (("absent.sgy",), 1, "cannot read absent.sgy as a SEG-Y volume"),
        (("--make", "absent/volume.sgy"), 1, "absent/volume.sgy"),
        (("--make", "volume.sgy", "--shape", "4,5"), 2, "4,5 is not three positive numbers"),
        (("volume.sgy", "--engine", "dask"), 2, "needs --chunks"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, status, words):
    done = run("run_gst3d.py", *arguments)
    assert done.returncode == status
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", operators.NAMES)
def test_run_operator_runs_as_often_as_requested(name):
    done = run("run_operator.py", "--operator", name, "--shape", "13,14,15", "--repeat", 2)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith(f"{name} of 13×14×15: mean ")
