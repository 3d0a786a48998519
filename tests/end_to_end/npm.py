"""Packages of npm that tests read exports with."""

import shutil
import subprocess
import tarfile

import pytest


def node():
    """The command of Node.js; skips where it is missing."""
    return shutil.which("node") or pytest.skip("node is not installed: apt-get install nodejs")


def unpacked(package, folder):
    """Where a package is unpacked; skips where npm or a network is missing."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: apt-get install npm")
    pack = ["npm", "pack", "--silent", package]
    packed = subprocess.run(pack, cwd=folder, capture_output=True, check=False, text=True)
    if packed.returncode:
        pytest.skip(f"npm cannot download {package}: {packed.stderr[-200:]}")
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"
