"""The wheels that `scripts/wheel` builds; this machine's in a clean environment of each Python on it."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, succeeded
from elftools.elf.elffile import ELFFile

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

PROGRAM = """
import importlib.metadata, importlib.util, json, os, sys
import memtrace

where, prefix = sys.argv[1], sys.argv[2]
assert memtrace.__file__.startswith(prefix), memtrace.__file__
trace = memtrace.load(where)
assert trace.report()["peak"]["live_bytes"] > 20_000_000
assert len(trace.allocations) > 100
assert trace.allocations.__arrow_c_stream__() is not None
assert "arrow_schema" in repr(trace.sites.__arrow_c_schema__())

recorded = memtrace.record("data = bytearray(30_000_000)", output=where + "-2")
assert recorded.report()["peak"]["live_bytes"] > 30_000_000
from memtrace._running.command import command
assert command().startswith(prefix), command()
for folder in ("dask", "torch"):
    assert importlib.util.find_spec(f"memtrace.{folder}"), folder

[plugin] = [
    entry
    for entry in importlib.metadata.distribution("memtrace").entry_points
    if entry.group == "pytest11"
]
print(plugin.value, sys.version_info[:2])
"""


#: Completions by shell, below the prefix of an installation.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/memtrace",
    "zsh": "share/zsh/site-functions/_memtrace",
    "fish": "share/fish/vendor_completions.d/memtrace.fish",
}


def interpreter(version):
    """A Python that was installed for itself: no virtual environment, no shim."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob(f"versions/{version}.*/bin/python3"))
    found += [shutil.which(f"python{version}", path="/usr/local/bin:/usr/bin")]
    for candidate in filter(None, found):
        ask = [candidate, "-m", "pip", "--version"]
        if subprocess.run(ask, capture_output=True, check=False).returncode == 0:
            return str(candidate)
    return pytest.skip(f"no Python {version} with pip under pyenv or /usr")


def found(architecture):
    """The wheel for an architecture."""
    wheels = list((ROOT / "dist").glob(f"memtrace-*_{architecture}.whl"))
    if len(wheels) != 1:
        pytest.skip(f"dist/ has not one wheel for {architecture}: scripts/wheel makes it")
    return wheels[0]


@pytest.fixture(scope="session")
def wheel():
    return found(platform.machine())


@pytest.fixture(params=("x86_64", "aarch64"))
def architecture(request):
    return request.param


@pytest.fixture
def built(architecture):
    return found(architecture)


@pytest.fixture
def clean(tmp_path):
    """An environment in which nothing of the build tree is found."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYENV_ROOT") if name in os.environ}
    return {**kept, "PATH": "/usr/bin:/bin", "PYTHONUSERBASE": str(tmp_path / "user")}


def check(python, bin_folder, prefix, folder, clean):
    """Records by the command in `bin_folder`, and reads it from Python."""
    environment = {**clean, "PATH": f"{bin_folder}:{clean['PATH']}"}
    trace = folder / "trace"

    def run(*command):
        return succeeded(*command, cwd=folder, env=environment)

    source = "data = bytearray(20_000_000); print('hello')"
    assert run("memtrace", "-q", "-o", trace, "--", python, "-c", source) == "hello\n"
    assert f" in {prefix}: the command and the Python module" in run("memtrace", "doctor")
    printed = run(python, "-c", PROGRAM, str(trace), str(prefix))
    assert printed.startswith("memtrace.pytest_plugin ")

    for page in ("memtrace", "memtrace-record", "memtrace-recommend"):
        assert ".TH" in (prefix / "share" / "man" / "man1" / f"{page}.1").read_text()
    for shell, file in COMPLETIONS.items():
        assert (prefix / file).read_text() == run("memtrace", "completions", shell), shell


@pytest.mark.parametrize("version", VERSIONS)
def test_in_a_virtual_environment(version, wheel, tmp_path, clean):
    python, place = interpreter(version), tmp_path / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", place], check=True)
    install(python, "--python", str(place / "bin" / "python"), wheel=wheel, clean=clean)
    check(place / "bin" / "python", place / "bin", place, tmp_path, clean)


@pytest.mark.parametrize("version", VERSIONS)
def test_out_of_one(version, wheel, tmp_path, clean):
    python, place = interpreter(version), tmp_path / "user"
    install(python, wheel=wheel, clean=clean, options=("--user", "--break-system-packages"))
    check(python, place / "bin", place, tmp_path, clean)


def test_in_a_folder_of_its_own(wheel, tmp_path, clean):
    """`pip install --target`, as for containers."""
    python, place = interpreter("3.11"), tmp_path / "target"
    install(python, wheel=wheel, clean=clean, options=("--target", str(place)))
    clean["PYTHONPATH"] = str(place)
    check(python, place / "bin", place, tmp_path, clean)


def install(python, *before, wheel, clean, options=()):
    command = [python, "-m", "pip", *before, "install", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", *options, wheel],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    if "no such option" in done.stderr:
        pytest.skip(f"the pip of {python} is too old: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def needed_glibc(file):
    """The newest version among the symbols that a binary takes of the C library: (2, 28)."""
    needed = ELFFile(file).get_section_by_name(".gnu.version_r").iter_versions()
    names = [each.name for _, versions in needed for each in versions]
    numbers = [name.removeprefix("GLIBC_") for name in names if name.startswith("GLIBC_")]
    return max(tuple(map(int, number.split("."))) for number in numbers)


def test_every_binary_runs_with_glibc_2_28(built):
    newest = {}
    with zipfile.ZipFile(built) as files:
        for name in files.namelist():
            with files.open(name) as file:
                if file.read(4) == b"\x7fELF":
                    newest[name.split(".data/")[-1]] = needed_glibc(file)
    preloaded = [
        f"data/libexec/memtrace/{folder}libmemtrace_{name}.so"
        for folder in ("", "before-2.34/")
        for name in ("probe", "cuda")
    ]
    assert set(newest) == {"memtrace/_native.abi3.so", "scripts/memtrace", *preloaded}
    assert max(newest.values()) <= (2, 28), newest


def test_auditwheel_gives_it_the_tag_it_has(built, architecture):
    tag = f"manylinux_2_28_{architecture}"
    assert built.name.endswith(f"-cp38-abi3-{tag}.whl")
    command = [sys.executable, "-m", "auditwheel", "show", built]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f'platform tag: "{tag}"' in " ".join(done.stdout.split())


def test_its_size(built):
    assert built.stat().st_size <= 13_000_000


def test_pip_chooses_it_from_an_index(wheel, tmp_path, clean):
    page = tmp_path / "index" / "memtrace" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<!DOCTYPE html><a href="{wheel.as_uri()}">{wheel.name}</a>')
    index = ("--index-url", page.parents[1].as_uri())
    pip = [interpreter("3.11"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "download", "-q", *index, "memtrace"], cwd=tmp_path, env=clean, check=True
    )
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_pytest_finds_the_plugin(wheel, tmp_path, clean):
    place = tmp_path / "target"
    install(sys.executable, wheel=wheel, clean=clean, options=("--target", str(place)))
    test = "import pytest\n\n@pytest.mark.limit_memory('1MB')\ndef test_it():\n    bytearray(3_000_000)\n"
    (tmp_path / "test_it.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "test_it.py"],
        env={**clean, "PYTHONPATH": str(place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "needed 3.00 MB (3,000," in done.stdout, done.stdout + done.stderr
