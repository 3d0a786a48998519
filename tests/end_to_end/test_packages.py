"""The packages without Python that `scripts/packages` makes, and the source distribution."""

import gzip
import json
import os
import platform
import re
import shutil
import sys

import duckdb
import pytest
from conftest import ROOT, memtrace, succeeded

INCLUDED = re.compile(r'include_(?:str|bytes)!\("([^"]+)"\)')


def unpacked(kind, folder):
    """The folder in the archive in dist/ that has this behind its version."""
    name = re.compile(rf"memtrace-[0-9.]+{kind}\.tar\.gz")
    found = [file for file in ROOT.glob("dist/*") if name.fullmatch(file.name)]
    if len(found) != 1:
        pytest.skip("no archive in dist/: scripts/wheel and scripts/packages make it")
    shutil.unpack_archive(found[0], folder)
    [tree] = folder.iterdir()
    assert f"{tree.name}.tar.gz" == found[0].name
    return tree


def test_the_tarball_runs_from_any_folder(tmp_path):
    tree = unpacked(f"-{platform.machine()}", tmp_path / "anywhere")
    place = tmp_path / "elsewhere"
    place.mkdir()
    environment = {"PATH": f"{tree / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*command):
        return succeeded(*command, cwd=place, env=environment)

    program = "data = bytearray(20_000_000); print('hello')"
    assert run("memtrace", "-q", "-o", "trace", "--", "python3", "-c", program) == "hello\n"
    assert (
        json.loads(run("memtrace", "report", "--json", "trace"))["peak"]["live_bytes"] > 20_000_000
    )
    modules = duckdb.sql(f"select distinct path from '{place}/trace/modules.parquet'").fetchall()
    assert (str(tree / "libexec" / "memtrace" / "libmemtrace_probe.so"),) in modules

    manuals = {file.name for file in (tree / "share" / "man" / "man1").iterdir()}
    assert {"memtrace.1", "memtrace-record.1", "memtrace-recommend.1"} <= manuals
    assert (tree / "share/zsh/site-functions/_memtrace").read_text() == run(
        "memtrace", "completions", "zsh"
    )
    licences = {file.name for file in (tree / "share" / "doc" / "memtrace").iterdir()}
    assert licences == {"LICENSE-APACHE", "LICENSE-MIT", "LICENSES.txt", "LICENSES-crates.txt"}
    of_crates = (tree / "share" / "doc" / "memtrace" / "LICENSES-crates.txt").read_text()
    assert re.search(r"^inferno [\d.]+: CDDL-1\.0 \(", of_crates, re.MULTILINE)
    assert "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE" in of_crates
    headers = {file.name for file in (tree / "include").iterdir()}
    assert headers == {"memtrace.h", "memtrace.f90"}
    assert named(run("memtrace", "doctor", "--json")).startswith("tarball ")


def named(doctor):
    """What doctor says of the package that it is in."""
    [words] = [check["words"] for check in json.loads(doctor) if check["name"] == "package"]
    return words


def test_a_build_says_how_to_make_packages():
    said = named(memtrace("doctor", "--json").stdout)
    assert said.startswith("built from source, in ") and "./scripts/packages" in said


@pytest.fixture
def system(tmp_path):
    """An empty system, and what is in it beside the lists of its package manager."""
    if os.geteuid():
        pytest.skip("packages are installed by root")
    root = tmp_path / "root"
    for folder in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/rpm"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()

    def files():
        found = (file.relative_to(root) for file in root.rglob("*") if not file.is_dir())
        kept = ("var/lib/dpkg", "var/lib/rpm", "var/log", "run")
        return {str(file) for file in found if not str(file).startswith(kept)}

    return root, files


DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
INSTALLERS = {
    "deb": (
        ["dpkg", "--root={root}", "--force-depends", "--install", "{package}"],
        ["dpkg", "--root={root}", "--purge", "memtrace"],
    ),
    "rpm": (
        ["rpm", "--root={root}", "--dbpath=/var/lib/rpm", "--nodeps", "--install", "{package}"],
        ["rpm", "--root={root}", "--dbpath=/var/lib/rpm", "--nodeps", "--erase", "memtrace"],
    ),
}


@pytest.mark.parametrize("kind", INSTALLERS)
def test_a_package_is_installed_works_and_leaves_nothing(kind, system, tmp_path):
    root, files = system
    install, remove = INSTALLERS[kind]
    architecture = platform.machine()
    names = {
        "deb": f"memtrace_*_{DEBIAN[architecture]}.deb",
        "rpm": f"memtrace-*.{architecture}.rpm",
    }
    packages = list(ROOT.glob(f"dist/{names[kind]}"))
    if len(packages) != 1 or shutil.which(install[0]) is None:
        pytest.skip(f"no {kind} in dist/, or no {install[0]}: scripts/packages makes it")
    words = {"root": root, "package": packages[0]}
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path)}
    succeeded(*(word.format(**words) for word in install), env=path)

    installed = files()
    assert {
        "usr/bin/memtrace",
        "usr/include/memtrace.h",
        "usr/share/man/man1/memtrace.1.gz",
    } <= installed
    assert not [file for file in installed if not file.startswith("usr/")]
    page = gzip.decompress((root / "usr/share/man/man1/memtrace-record.1.gz").read_bytes())
    assert b".TH memtrace-record" in page
    command = str(root / "usr/bin/memtrace")
    program = (sys.executable, "-c", "data = bytearray(20_000_000)")
    succeeded(command, "-q", "-o", "trace", "--", *program, cwd=tmp_path, env=path)
    report = json.loads(succeeded(command, "report", "--json", "trace", cwd=tmp_path, env=path))
    assert report["peak"]["live_bytes"] > 20_000_000
    said = named(succeeded(command, "doctor", "--json", env=path))
    assert said.startswith({"deb": "Debian package", "rpm": "RPM package"}[kind]), said
    assert "install the wheel of this release" in said

    succeeded(*(word.format(**words) for word in remove), env=path)
    assert not files()
    assert not (root / "usr/libexec/memtrace").exists()


def test_the_source_distribution_has_what_is_compiled(tmp_path):
    tree = unpacked("", tmp_path)
    assert "\nName: memtrace\n" in (tree / "PKG-INFO").read_text()
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"]
    packages = json.loads(succeeded(*command, cwd=tree))["packages"]
    members = [package["manifest_path"] for package in packages]
    assert len(members) == len(list(ROOT.glob("*/Cargo.toml")))
    sources = [file for file in tree.rglob("*.rs") if "tests" not in file.parts]
    included = [
        file.parent / name for file in sources for name in INCLUDED.findall(file.read_text())
    ]
    assert len(included) > 20
    assert not [path for path in included if not path.exists()]
