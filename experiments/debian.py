"""Any release of Debian: its packages, found in its index and unpacked into a folder that programs
take for `/`."""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = "http://deb.debian.org/debian"

# In mount namespaces of their own: nothing stays mounted. In a user namespace /proc can only be had
# with what is mounted in it.
IN_ROOT = """
set -e
mount --rbind /proc "$0/proc"
mount --rbind /dev "$0/dev"
mkdir -p "$0/checkout"
mount --bind "$CHECKOUT" "$0/checkout"
exec chroot "$0" "$@"
"""


def why_not():
    """Why there can be no such folder here; None if there can."""
    if os.geteuid() == 0 and shutil.which("dpkg-deb") is not None:
        return None
    return "a chroot needs root, and unpacking needs dpkg-deb"


def in_root(root, *command, within=(), **more):
    """Runs a command in a folder, by a program that is given as its words; the checkout is
    /checkout there. More are variables of its environment."""
    words = [*within, "unshare", "-m", "sh", "-c", IN_ROOT, str(root), *command]
    # There is no other locale in the folder, and PyPy fails without the one it is told.
    plain = {**os.environ, "LC_ALL": "C", "CHECKOUT": str(ROOT), **more}
    return subprocess.run(words, env=plain, capture_output=True, text=True, check=False)


def unpacked(root, suite, wanted, architecture="amd64"):
    """The folder, with packages of a suite and all that they depend on."""
    complete = root / "complete"
    if complete.exists() and complete.read_text().split() == sorted(wanted):
        return root
    packages = index(suite, architecture)
    names = needed(packages, wanted)
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for folder in ("proc", "dev", "tmp"):
        (root / folder).mkdir()
    for name in names:
        unpack(packages[name], root)
    register([packages[name] for name in names], root)
    complete.write_text("\n".join(sorted(wanted)))
    return root


def register(packages, root):
    """Tells dpkg of the folder which packages are there."""
    known = ("Package", "Version", "Architecture", "Multi-Arch", "Maintainer", "Description")
    status = root / "var" / "lib" / "dpkg" / "status"
    status.parent.mkdir(parents=True, exist_ok=True)
    with status.open("w") as file:
        for fields in packages:
            lines = [f"{name}: {fields[name]}" for name in known if name in fields]
            file.write("\n".join([*lines, "Status: install ok installed", "", ""]))


def certificates(root):
    """Pip reads them even where it asks no index; the package's own script would put them there."""
    found = sorted((root / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    file = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(each.read_text() for each in found))


def index(suite, architecture="amd64"):
    """The packages of a suite by name; a name that several provide is the first one's. Backports
    come with the rest of their release."""
    address = f"{ARCHIVE}/dists/{suite}/main/binary-{architecture}/Packages.xz"
    with urllib.request.urlopen(address) as answer:
        text = lzma.decompress(answer.read()).decode()
    release = suite.removesuffix("-backports")
    packages = {} if release == suite else index(release, architecture)
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields:
            packages[fields["Package"]] = fields
    for fields in list(packages.values()):
        for name in names(fields.get("Provides", "")):
            packages.setdefault(name, fields)
    return packages


def needed(packages, wanted):
    """The names of packages and all they depend on, the first of alternatives."""
    found, waiting = [], list(wanted)
    while waiting:
        name = waiting.pop()
        if name in packages and packages[name]["Package"] not in found:
            found.append(packages[name]["Package"])
            waiting += names(packages[name].get("Depends", ""))
            waiting += names(packages[name].get("Pre-Depends", ""))
    return found


def names(relations):
    """`a (>= 1), b | c` → a, b"""
    return [re.match(r"[\w.+-]+", part.strip())[0] for part in relations.split(",") if part.strip()]


def unpack(package, root):
    """Puts the files of a package of the index into a folder, which it is downloaded for."""
    with urllib.request.urlopen(f"{ARCHIVE}/{package['Filename']}") as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != package["SHA256"]:
        raise OSError(f"{package['Filename']} is not the file that the index names; try again")
    # As a stream of tar: links that are there already stay.
    tar = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", "/dev/stdin"], input=data, capture_output=True, check=True
    )
    extract = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root)]
    subprocess.run(extract, input=tar.stdout, check=True)
