"""Compiles the target programs and runs memtrace on them."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import cuda_sent
import cuda_standin
import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests" / "targets"
LEAN = ROOT / "tests" / "lean"
# What cargo has built; of another architecture in scripts/arm.
BUILT = ROOT / os.environ.get("MEMTRACE_BUILT", "target")
MEMTRACE = BUILT / "release" / "memtrace"


def preloadable(library):
    """A path that ld.so does not read as two: a link, if the checkout's path has a space."""
    if not set(str(library)) & {" ", ":"}:
        return library
    link = Path(tempfile.mkdtemp(prefix="memtrace-preload-")) / library.name
    link.symlink_to(library)
    atexit.register(shutil.rmtree, link.parent, ignore_errors=True)
    return link


PRELOAD = BUILT / "preload"
PROBE = preloadable(PRELOAD / "libmemtrace_probe.so")
CUDA_PROBE = preloadable(PRELOAD / "libmemtrace_cuda.so")
COMPILERS = {
    ".c": ["gcc", "-O1", "-fno-builtin", "-pthread", f"-I{ROOT / 'include'}"],
    ".cpp": ["g++", "-std=c++17", "-O0"],  # an optimiser may elide new and delete
    ".rs": ["rustc", "-O"],
}

# What a shell or nohup(1) puts into the background ignores these, and so would all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Recording(NamedTuple):
    """A finished run of memtrace."""

    path: Path
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def report(self):
        return json.loads(memtrace("report", "--json", "--stacks", self.path).stdout)

    @property
    def details(self):
        """What `report --details` says."""
        return memtrace("report", "--details", self.path).stdout.decode()

    def sql(self, query):
        """Rows of a query over the trace's tables, as any DuckDB user would write it."""
        for table in ("allocations", "timeline", "kernel_events", "accesses", "placements"):
            query = query.replace(f"{{{table}}}", f"'{self.path}/{table}/*.parquet'")
        for table in (
            "processes",
            "threads",
            "spans",
            "modules",
            "sites",
            "frames",
            "folded",
            "devices",
        ):
            query = query.replace(f"{{{table}}}", f"'{self.path}/{table}.parquet'")
        return duckdb.sql(query).fetchall()


def memtrace(*arguments, **options):
    """Runs the command line; text in and out are bytes."""
    command = [str(argument) for argument in (MEMTRACE, *arguments)]
    return subprocess.run(command, capture_output=True, check=False, **options)


def succeeded(*command, **options):
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    """Path of a compiled target program."""
    folder = tmp_path_factory.mktemp("targets")

    def build(name):
        source = TARGETS / name
        compiler = COMPILERS[source.suffix]
        if shutil.which(compiler[0]) is None:
            pytest.skip(f"{compiler[0]} is not installed")
        binary = folder / source.stem
        if not binary.exists():
            subprocess.run([*compiler, "-o", binary, source], check=True)
        return binary

    return build


@pytest.fixture(scope="session")
def cuda(tmp_path_factory):
    """The stand-in for NVIDIA's driver, and programs that use it."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    return cuda_standin.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="session")
def door(tmp_path_factory):
    return cuda_sent.library(tmp_path_factory.mktemp("door"), "reported.so", "cuda_sent.c")


@pytest.fixture(scope="session")
def standin(cuda):
    """The folder of the stand-in driver and the programs that use it."""
    return cuda.folder


@pytest.fixture
def reported(door, tmp_path):
    """Runs a program with the library in front of a driver; the events it received, by process."""

    def run(*command, driver=None, before=(), after=(), **variables):
        events = tmp_path / f"reported-{len(list(tmp_path.iterdir()))}"
        preload = ":".join(map(str, [*before, door, CUDA_PROBE, *after]))
        variables.update(LD_PRELOAD=preload, TOLD=str(events))
        if driver:
            variables["LD_LIBRARY_PATH"] = str(driver)
        command = [str(part) for part in command]
        done = subprocess.run(
            command, env=environment(**variables), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = events.read_text().splitlines() if events.exists() else []
        return done, [json.loads(line) for line in lines]

    return run


@pytest.fixture(scope="session")
def kernel_side():
    """Skips, with memtrace's own words, where the programs cannot be loaded."""
    lines = memtrace("doctor").stdout.decode().splitlines()
    [line] = [line.strip() for line in lines if "kernel side" in line]
    if not line.startswith("yes"):
        pytest.skip(line)


@pytest.fixture
def static(target, tmp_path):
    """Compiles a target without a dynamic linker."""

    def build(name, *flags):
        target("held.c")  # there is a compiler
        binary = tmp_path / Path(name).stem
        command = [*COMPILERS[".c"], "-static", *flags, "-o", binary, TARGETS / name]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("no static C library: " + done.stderr.decode().splitlines()[-1])
        return binary

    return build


@pytest.fixture
def record(tmp_path):
    """Records a command; every recording must have lost nothing."""

    def run(*command, options=(), may_fail=False, **kwargs):
        path = tmp_path / f"trace{len(list(tmp_path.iterdir()))}"
        done = memtrace("-o", path, *options, "--", *command, **kwargs)
        recording = Recording(path, done.returncode, done.stdout, done.stderr)
        if not may_fail:
            assert path.is_dir(), done.stderr.decode()
            assert recording.report["lost"] == {
                "events": 0,
                "late_events": 0,
                "unseen_releases": 0,
            }
        return recording

    return run


@pytest.fixture
def python():
    """The interpreter that runs the tests (with NumPy and friends); in scripts/arm one without."""
    return os.environ.get("MEMTRACE_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def lean():
    """Interpreters that are started do without xarray: Dask imports it where it is installed, and pandas
    with it, which is half of what a worker needs to start."""
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(LEAN)  # which is that of spawned workers, too
        changed.setenv("PYTHONPATH", str(LEAN), prepend=os.pathsep)
        yield


@pytest.fixture
def examples():
    """Directory of the examples, where scripts find each other."""
    return ROOT / "examples"


@pytest.fixture(scope="module")
def chromium():
    """A browser without a window; pages of a module are opened in one."""
    import browser  # which imports from here

    with browser.started() as started:
        yield started


@pytest.fixture
def as_nobody():
    """Runs memtrace as a user who may not load programs, in a folder that is open to all."""
    if not is_root() or shutil.which("setpriv") is None:
        pytest.skip("becoming another user needs root and setpriv(1)")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folder.chmod(0o777)
        shutil.copy(MEMTRACE, folder)
        shutil.copy(MEMTRACE.parents[1] / "preload" / "libmemtrace_probe.so", folder)

        def run(*arguments):
            nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
            command = [*nobody, folder / "memtrace", *arguments]
            return subprocess.run(command, capture_output=True, check=False, cwd=folder)

        yield folder, run


def environment(**more):
    """The environment with additions."""
    return {**os.environ, **more}


def is_root():
    """True if tests may mount, chroot and change the user."""
    return os.geteuid() == 0
