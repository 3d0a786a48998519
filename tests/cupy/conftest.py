"""Recordings of CuPy on the stand-ins: see cupy_standin.py. `scripts/cupy` installs it into target/cupy, where nothing else finds it."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import cupy_standin
import pytest
from conftest import Recording, memtrace
from cuda_standin import read_oracle

PROGRAMS = Path(__file__).with_name("programs")
sys.path.append(str(PROGRAMS))  # gst3d_traces


class Recorded(NamedTuple):
    """A recorded program."""

    told: object  # what it said of itself: the last line, JSON
    run: Recording
    report: dict
    driver: dict  # what the stand-in for the driver has counted

    @property
    def device(self):
        """The report's row of the device."""
        [row] = [row for row in self.report["devices"] if row["device"] == 0]
        return row

    def spans(self, operator):
        [found] = [each for each in self.report["operators"] if each["name"] == operator]
        return sorted(found["spans"], key=lambda span: span["call"])


def report_of(trace):
    return json.loads(memtrace("report", "--json", "--all-spans", trace).stdout)


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """CuPy's libraries without a GPU."""
    if not cupy_standin.is_installed():
        pytest.skip("no CuPy in target/cupy: scripts/cupy installs it (250 MB)")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return cupy_standin.build(tmp_path_factory.mktemp("cupy"))


@pytest.fixture
def record(standin, tmp_path):
    """Records a program that uses CuPy, of `programs` or by its path."""

    def run(program, *arguments, options=(), **variables):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        variables = standin.variables(STANDIN_REPORT=str(folder / "driver"), **variables)
        command = [sys.executable, "-W", "error", PROGRAMS / program, *map(str, arguments)]
        done = memtrace(
            *("--quiet", "-o", folder / "trace", *options, "--", *command),
            env={**os.environ, **variables},
        )
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-3000:]
        report = json.loads(memtrace("report", "--json", "--all-spans", folder / "trace").stdout)
        assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
        [driver] = read_oracle(folder / "driver").values()
        told = json.loads(done.stdout.splitlines()[-1])
        recording = Recording(folder / "trace", done.returncode, done.stdout, done.stderr)
        return Recorded(told, recording, report, driver)

    return run
