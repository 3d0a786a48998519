"""Recordings of CuPy on the stand-ins: see cupy_standin.py. `scripts/cupy` installs it into target/cupy, where nothing else finds it."""

import shutil
import sys
from pathlib import Path

import cupy_standin
import device_recording
import pytest

PROGRAMS = Path(__file__).with_name("programs")
sys.path.append(str(PROGRAMS))  # gst3d_traces


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

    def run(program, *arguments, **options):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return device_recording.record(standin, folder, PROGRAMS / program, *arguments, **options)

    return run
