"""Programs whose time goes to one block, which follows from their loops: that through which most
cache lines pass, where those read at random count whole.

The block was written down here before any of them was sampled.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
COMPILERS = {
    ".c": ("gcc", "-O2", "-g"),
    ".cpp": ("g++", "-O2", "-g"),
    ".f90": ("gfortran", "-O2", "-g"),
}


def built(source, folder):
    """Where the program is that is compiled from a source."""
    compiler = COMPILERS[source.suffix]
    if shutil.which(compiler[0]) is None:
        raise FileNotFoundError(f"{compiler[0]} is not installed")
    binary = folder / source.stem
    subprocess.run([*compiler, "-o", binary, source, "-lm"], check=True)
    return binary


def command_of(file, folder, *arguments):
    """One of the programs as a command; built in the folder, if it is compiled."""
    source = PROGRAMS / file
    run = [sys.executable, source] if source.suffix == ".py" else [built(source, folder)]
    return [*map(str, run), *map(str, arguments)]


@dataclass(frozen=True)
class Program:
    """A program, how often it repeats its work, and the size of the block that takes the time."""

    file: str
    what: str
    rounds: int
    block: str
    block_bytes: int
    #: Part of the place where it is allocated, if others have its size.
    place: str = ""

    def command(self, folder):
        return command_of(self.file, folder, self.rounds)

    def is_right(self, site):
        """Whether a site of the report is the block's."""
        differs = abs(site["largest_block_bytes"] - self.block_bytes)
        of_size = differs <= 4096 + self.block_bytes // 1000
        return of_size and self.place in (site["place"] or "")


CATALOGUE = [
    Program("sparse.c", "sparse matrix-vector, C", 40, "vector", 8 << 23),
    Program("hash.c", "hash table, C", 30, "table", 8 << 23),
    Program("stencil.c", "stencil, C", 60, "volume read", 8 * 240**3, "stencil.c:21"),
    Program("dips.py", "GST3D, NumPy and SciPy", 12, "tensor", 70**3 * 36),
    Program("mlp.py", "MLP with Adam, NumPy", 150, "wide", 4 << 23, "mlp.py:13"),
    Program("grades.cpp", "sums by key, C++", 40, "sums", 8 * 12_000_000),
    Program("rows.f90", "sums along rows, Fortran", 12, "matrix", 8 * 5000**2),
]
