"""Sources of programs as package registries have them: Debian, crates.io and PyPI."""

import os
import shutil
import subprocess
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEBIAN = f"deb-src [signed-by={KEYS}] http://deb.debian.org/debian"


def unpacked(program, folder):
    """The folder with the program's sources; one that is there already is used."""
    fetch = REGISTRIES[program.registry]
    return placed(
        folder / program.name,
        lambda scratch: fetch(program.package, program.version, scratch),
    )


def placed(tree, fetch):
    """This folder, which `fetch` makes somewhere in a scratch folder if it is not there."""
    if not tree.exists():
        scratch = tree.with_name(f"{tree.name}.partial")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        shutil.move(fetch(scratch), tree)
        shutil.rmtree(scratch)
    return tree


def debian(package, version, scratch, suite="bookworm"):
    """By apt, whose lists and settings for this stay in the folder; `None` is any version."""
    (scratch / "lists" / "partial").mkdir(parents=True)
    (scratch / "sources.list").write_text(f"{DEBIAN} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    source = [*apt, "source", package if version is None else f"{package}={version}"]
    subprocess.run(source, cwd=scratch, capture_output=True, check=True)
    return next(each.parent.parent for each in scratch.glob("*/debian/control"))


def crates(package, version, scratch):
    """By cargo, as what an empty crate needs; a copy, as cargo's folder is no program's tree."""
    (scratch / "src").mkdir()
    (scratch / "src" / "lib.rs").touch()
    (scratch / "Cargo.toml").write_text(
        '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
        f'[dependencies]\n{package} = "={version}"\n'
    )
    subprocess.run(["cargo", "fetch"], cwd=scratch, capture_output=True, check=True)
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    found = next((home / "registry" / "src").glob(f"*/{package}-{version}"))
    return shutil.copytree(found, scratch / "copy")


def pypi(package, version, scratch):
    """By pip: the source distribution."""
    pip = ["python3", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "-d", scratch, f"{package}=={version}"], check=True)
    shutil.unpack_archive(next(scratch.glob("*.tar.gz")), scratch / "unpacked")
    return next((scratch / "unpacked").iterdir())


REGISTRIES = {"Debian": debian, "crates.io": crates, "PyPI": pypi}
