"""Recordings of programs that use a framework on the stand-ins for CUDA's libraries and driver."""

import json
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest
from conftest import MEMTRACE, ROOT, Recording, memtrace
from cuda_standin import read_oracle


class Recorded(NamedTuple):
    """A recorded program."""

    reported: object  # what it printed of itself: the last line, JSON
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


def record(standin, folder, program, *arguments, options=(), **variables):
    """Records a Python program in a new folder, with these variables beside the stand-in's; nothing may go wrong."""
    folder.mkdir()
    variables = standin.variables(STANDIN_REPORT=str(folder / "driver"), **variables)
    command = [sys.executable, "-W", "error", program, *map(str, arguments)]
    done = memtrace(
        *("--quiet", "-o", folder / "trace", *options, "--", *command),
        env={**os.environ, **variables},
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-3000:]
    report = json.loads(memtrace("report", "--json", "--all-spans", folder / "trace").stdout)
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    [driver] = read_oracle(folder / "driver").values()
    reported = json.loads(done.stdout.splitlines()[-1])
    recording = Recording(folder / "trace", done.returncode, done.stdout, done.stderr)
    return Recorded(reported, recording, report, driver)


def fixtures(library, missing, programs):
    """`standin` and `record` of a framework.

    library: the module that builds its stand-in; missing: what is said where it is not installed; programs: its
    folder of programs.
    """

    @pytest.fixture(scope="session")
    def standin(tmp_path_factory):
        """The framework's libraries without a GPU."""
        if not library.is_installed():
            pytest.skip(missing)
        if shutil.which("gcc") is None:
            pytest.skip("gcc is not installed")
        return library.build(tmp_path_factory.mktemp("standin"))

    @pytest.fixture(name="record")
    def recording(standin, tmp_path):
        """Records a program that uses the framework, of its folder or by its path."""

        def run(program, *arguments, **options):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            return record(standin, folder, programs / program, *arguments, **options)

        return run

    return standin, recording


def gpu_check(standin, folder):
    """What scripts/gpu-check prints, and the page that it writes."""
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "gpu-check",
            "--memtrace",
            MEMTRACE,
            "--output",
            folder,
        ],
        env={**os.environ, **standin.variables()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [page] = folder.iterdir()
    return done.stdout, page.read_text().splitlines()
