"""Kernels of Debian's releases: their packages, unpacked into target/kernels and kept there."""

import re
import shutil
from pathlib import Path

from experiments.debian import index, needed, unpack

KEPT = Path(__file__).resolve().parents[2] / "target" / "kernels"
#: The kernel for virtual machines: a third of the size, and all that a guest needs is built in.
PACKAGE = "linux-image-cloud-amd64"
#: Of what that depends on. Newer kernels have a package for the image, and one for the modules.
PARTS = re.compile(r"linux-(image|binary|modules)-\d")
#: Where the image is, in packages of older and of newer kernels.
IMAGES = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz")


def kept(suite):
    """The kernel image of a suite, if it was fetched before, else None; its modules are unpacked,
    too."""
    root = KEPT / suite
    images = (path for place in IMAGES for path in root.glob(place))
    return next(images) if (root / "complete").exists() else None


def fetched(suite):
    """The same, downloaded if it has to be. OSError where Debian's archive cannot be reached."""
    return kept(suite) or downloaded(suite)


def downloaded(suite):
    root = KEPT / suite
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    packages = index(suite)
    for name in filter(PARTS.match, needed(packages, [PACKAGE])):
        unpack(packages[name], root)
    (root / "complete").touch()
    return kept(suite)
