"""PyTorch's CUDA build without CUDA: see runtime.c.

`scripts/torch` installs it into target/torch, where nothing else finds it.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_runtime import build
from forked import Forked

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
TORCH = ROOT / "target" / "torch"
MEMTRACE = ROOT / "target" / "release" / "memtrace"
TRANSFORMER = ROOT / "experiments" / "gpu" / "programs" / "transformer.py"


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """The folder with the stand-in runtime."""
    libraries = TORCH / "torch" / "lib"
    if not libraries.is_dir():
        pytest.skip("no PyTorch in target/torch: scripts/torch installs it (540 MB)")
    out = tmp_path_factory.mktemp("runtime")
    found = [path for path in libraries.iterdir() if ".so" in path.name]
    # What PyTorch asks the driver and NVML for by name.
    names = re.findall(
        rb"\0(cu[A-Z]\w+|nvml[A-Z]\w+)(?=\0)", (libraries / "libc10_cuda.so").read_bytes()
    )
    asked = {name.decode() for name in names}
    build(found, Path(__file__).with_name("runtime.c"), out, asked)
    return out


@pytest.fixture(scope="session")
def forked(runtime):
    """Forks of a Python that has imported PyTorch, and what dry runs need: most tests take less
    time than that."""
    variables = {
        "LD_LIBRARY_PATH": str(runtime),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(TORCH)]),
        "PYTHONWARNINGS": "ignore",
    }
    server = Forked(["torch", "torch._dynamo"], variables)
    yield server
    server.close()


@pytest.fixture
def python(forked, tmp_path):
    """Runs a text in a Python with PyTorch; returns what it printed last, read as JSON.

    PyTorch reads its settings when its allocator is used first, so each fork may have its own.
    """

    def run(text, *args, gpu, settings="", **variables):
        variables["PYTORCH_CUDA_ALLOC_CONF"] = settings
        if not gpu:
            variables["STANDIN_NONE"] = "1"
        code, out, error = forked.run(text, args, variables, PROGRAMS, tmp_path)
        assert code == 0, error[-3000:]
        return json.loads(out.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def memtrace():
    """Runs memtrace; returns what it prints."""

    def run(*arguments, **variables):
        command = [str(argument) for argument in (MEMTRACE, *arguments)]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def record(runtime, memtrace):
    """Records training steps of a transformer; returns what they print of themselves."""

    def run(trace, batch, sequence, *options, **more):
        variables = {"LD_LIBRARY_PATH": str(runtime), "PYTHONPATH": str(TORCH), **more}
        program = [sys.executable, "-W", "ignore", TRANSFORMER, batch, sequence, "2"]
        reported = memtrace("--quiet", "-o", trace, *options, "--", *program, **variables)
        return json.loads(reported.splitlines()[-1])

    return run
