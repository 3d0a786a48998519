"""Recordings of JAX on the stand-ins: see jax_standin.py. `scripts/jax` installs it into target/jax, where nothing else finds it."""

import shutil
from pathlib import Path

import device_recording
import jax_standin
import pytest

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """JAX's libraries without a GPU."""
    if not jax_standin.is_installed():
        pytest.skip("no JAX in target/jax: scripts/jax installs it (730 MB)")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return jax_standin.build(tmp_path_factory.mktemp("jax"))


@pytest.fixture
def record(standin, tmp_path):
    """Records a program that uses JAX, of `programs` or by its path."""

    def run(program, *arguments, **options):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return device_recording.record(standin, folder, PROGRAMS / program, *arguments, **options)

    return run
