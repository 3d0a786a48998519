"""scripts/gpu-check, as far as that goes without a GPU: its program of the driver's calls on the stand-in."""

import ctypes.util
import subprocess
import sys

import pytest
from conftest import MEMTRACE, ROOT

CHECK = [sys.executable, str(ROOT / "scripts" / "gpu-check"), "--memtrace", str(MEMTRACE)]


def without_packages(tmp_path):
    """A Python that has neither PyTorch nor CuPy nor JAX."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return str(tmp_path / "bare" / "bin" / "python")


def test_what_the_driver_set_aside_is_what_the_program_asked_for(cuda, tmp_path):
    command = [*CHECK, "--python", without_packages(tmp_path), "--output", str(tmp_path)]
    done = subprocess.run(command, env=cuda.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "gpu-stand-in-0.md").read_text()
    assert page in done.stdout
    assert "calls of the driver: taken from the driver" in page and "| no |" not in page
    assert "no torch" in page and "no cupy" in page and "no jax" in page


def test_without_a_driver_it_says_so(tmp_path):
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a driver")
    done = subprocess.run([*CHECK, "--output", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no NVIDIA driver" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
