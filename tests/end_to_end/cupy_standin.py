"""CuPy without a GPU: its own code on stand-ins for CUDA's libraries (tests/cupy/runtime.c) and driver (tests/cuda).

python tests/end_to_end/cupy_standin.py FOLDER      builds there, and prints the variables that programs need
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from cuda_runtime import build as build_runtime
from cuda_standin import build_driver

ROOT = Path(__file__).resolve().parents[2]
CUPY = ROOT / "target" / "cupy"
DASK_CUDA = ROOT / "target" / "dask-cuda"
SOURCE = ROOT / "tests" / "cupy" / "runtime.c"
PACKAGES = ("cupy", "cupy_backends", "cupyx")
#: Modules of libraries that CuPy does without.
OPTIONAL = ("cudnn", "cutensor", "nccl")
#: Of the device.
MEMORY = 64 << 30


class Standin(NamedTuple):
    """The libraries, built."""

    folder: Path

    def variables(self, **more):
        """Those with which Python finds CuPy, and CuPy the libraries."""
        variables = {
            "LD_LIBRARY_PATH": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(CUPY)]),
            "CUPY_CACHE_IN_MEMORY": "1",
            "STANDIN_MEMORY": str(MEMORY),
        }
        return {**variables, **more}


def is_installed(folder=CUPY):
    """Whether scripts/cupy has installed CuPy, or what another folder is for."""
    return (folder / "installed.txt").is_file()


def build(folder):
    """Builds into a folder that is new or empty."""
    folder = Path(folder).resolve()
    (folder / "driver").mkdir(parents=True)
    driver = build_driver(folder / "driver")
    libraries = [
        library
        for package in PACKAGES
        for library in (CUPY / package).rglob("*.so")
        if not library.name.startswith(OPTIONAL)
    ]
    build_runtime(libraries, SOURCE, folder, driver=driver)
    return Standin(folder)


if __name__ == "__main__":
    for name, value in build(sys.argv[1]).variables().items():
        print(f"export {name}={value}")
