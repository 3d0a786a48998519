"""Builds memtrace for `pip install` of a checkout or of its source distribution (PEP 517).

python scripts/build_backend.py FOLDER      packs the source distribution into a folder
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Of the checkout, what the package is not made of.
ELSEWHERE = ("benches", "docs", "examples", "experiments", "fuzz", "packaging", "page/src", "tests")
#: As scripts/setup builds them.
BUILDS = (
    ("--release",),
    ("--profile", "preload", "-p", "memtrace-probe", "-p", "memtrace-cuda-probe"),
)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel for this machine: the package, the command and the probes."""
    if shutil.which("cargo") is None:
        sys.exit(
            "memtrace needs Rust 1.88 or newer to be built: install it from https://rustup.rs."
        )
    for options in BUILDS:
        command = ["cargo", "build", "--locked", "--target-dir", "target", *options]
        subprocess.run(command, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "scripts" / "stage", folder], check=True)
        [wheel] = Path(folder).iterdir()
        shutil.copy(wheel, wheel_directory)
    return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    """The source distribution: what git has of the checkout and the package is made of."""
    metadata = _metadata()
    version = metadata.split("\nVersion: ", 1)[1].split("\n", 1)[0]
    name = f"memtrace-{version}"
    listed = ["git", "ls-files", "-z", "--", ".", *(f":!{folder}" for folder in ELSEWHERE)]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for file in filter(None, files.split("\0")):
            archive.add(ROOT / file, f"{name}/{file}", recursive=False)
        about = tarfile.TarInfo(f"{name}/PKG-INFO")
        about.size = len(metadata.encode())
        archive.addfile(about, io.BytesIO(metadata.encode()))
    return f"{name}.tar.gz"


def _metadata():
    with tempfile.TemporaryDirectory() as folder:
        command = ["maturin", "pep517", "write-dist-info", "--metadata-directory", folder]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        return next(Path(folder).glob("*.dist-info/METADATA")).read_text(encoding="utf-8")


if __name__ == "__main__":
    build_sdist(sys.argv[1])
