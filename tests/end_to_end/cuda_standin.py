"""Builds the stand-in for NVIDIA's driver (tests/cuda) and the programs that use it, and reads what it knows of a run.

python tests/end_to_end/cuda_standin.py FOLDER
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CUDA = Path(__file__).resolve().parents[1] / "cuda"
COMPILER = ("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
LIBRARY = ("-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-z,defs")
SOURCES = {
    "all_calls": (
        "all_calls.c",
        "memory_calls.c",
        "context_calls.c",
        "pool_calls.c",
        "virtual_calls.c",
        "process_calls.c",
    ),
    "random_calls": ("random_calls.c",),
    "graph_freed": ("graph_freed.c",),
    "ending_pools": ("ending_pools.c",),
    "spans": ("spans.c",),
    "images": ("images.c",),
}
PHASES = re.findall(r"\bX\((\w+)\)", (CUDA / "programs" / "calls.h").read_text())  # of all_calls
ROADS = ("linked", "dlsym", "default", "ask", "ask_v2", "ask_for_asking")


class Standin(NamedTuple):
    """The library and the programs, built."""

    folder: Path  # of libcuda.so.1

    def program(self, name, road, *arguments):
        """A command line."""
        binary = f"{name}_linked" if road == "linked" else name
        return [str(argument) for argument in (self.folder / binary, road, *arguments)]

    def environment(self, **more):
        """Variables with which programs find the library."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), **more}


def build_driver(folder, *more):
    """Builds the library into a folder that is there, with more flags or libraries."""
    library = Path(folder) / "libcuda.so.1"
    link(library, (CUDA / "driver").glob("*.c"), *LIBRARY, *more)
    return library


def build_counters(folder, *headers):
    """Builds the stand-ins for NVML and CUPTI beside the driver's, by NVIDIA's headers if these folders have them."""
    folders = headers or (CUDA / "counters",)
    include = [flag for each in folders for flag in ("-isystem", each)]
    for name, source in (("libnvidia-ml.so.1", "nvml.c"), ("libcupti.so.12", "cupti.c")):
        flags = ["-fPIC", "-shared", f"-Wl,-soname,{name}", "-Wl,-z,defs", *include]
        link(folder / name, [CUDA / "counters" / source], *flags, folder / "libcuda.so.1")


def build(folder):
    """Builds library and programs into a folder that is there."""
    library = build_driver(folder)
    for name, files in SOURCES.items():
        files = [CUDA / "programs" / file for file in (*files, "roads.c")]
        link(Path(folder) / name, files)
        link(Path(folder) / f"{name}_linked", files, "-DLINKED", library)
    return Standin(Path(folder))


def link(output, sources, *flags):
    sources = sorted(str(source) for source in sources)
    subprocess.run([*COMPILER, "-o", output, *sources, *flags], check=True)


def read_oracle(path):
    """What each process reported, by process, in the order in which they ended."""
    reports = [json.loads(line) for line in Path(path).read_text().splitlines()]
    for report in reports:
        assert report["dead_pools_asked"] == 0, "what a driver does then is not said anywhere"
    return {report["pid"]: report for report in reports}


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    build(sys.argv[1])
