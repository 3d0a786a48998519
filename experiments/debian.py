"""Packages of any release of Debian: found in its index, and unpacked into a folder."""

import hashlib
import lzma
import re
import subprocess
import urllib.request

ARCHIVE = "http://deb.debian.org/debian"


def index(suite):
    """The packages of a suite by name; a name that several provide is the first one's."""
    with urllib.request.urlopen(f"{ARCHIVE}/dists/{suite}/main/binary-amd64/Packages.xz") as answer:
        text = lzma.decompress(answer.read()).decode()
    packages = {}
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
