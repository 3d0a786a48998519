"""Kernels of Debian's releases: their packages, unpacked into target/kernels and kept there."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

from experiments.debian import index, needed, unpack
from experiments.guest.machine import AMD64

KEPT = Path(__file__).resolve().parents[2] / "target" / "kernels"
#: Of what a kernel's package depends on. Newer kernels have a package for the image, and one for
#: the modules.
PARTS = re.compile(r"linux-(image|binary|modules)-\d")
#: Where the image is, in packages of older and of newer kernels.
IMAGES = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz")


class Kernel(NamedTuple):
    """A kernel of a release: by default that for virtual machines, which is a third of the size,
    and all that a guest needs is built in."""

    suite: str
    architecture: str = AMD64.name
    #: Another kind of it.
    flavour: str = "cloud"

    @property
    def package(self):
        words = {"cloud": f"cloud-{self.architecture}", "16k": f"{self.architecture}-16k"}
        return f"linux-image-{words[self.flavour]}"

    @property
    def folder(self):
        usual = self == Kernel(self.suite)
        return KEPT / (self.suite if usual else f"{self.suite}-{self.package}")


def kept(kernel):
    """The kernel's image, if it was fetched before, else None; its modules are unpacked, too."""
    images = (path for place in IMAGES for path in kernel.folder.glob(place))
    return next(images) if (kernel.folder / "complete").exists() else None


def fetched(kernel):
    """The same, downloaded if it has to be. OSError where Debian's archive cannot be reached."""
    return kept(kernel) or downloaded(kernel)


def downloaded(kernel):
    root = kernel.folder
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    packages = index(kernel.suite, kernel.architecture)
    for name in filter(PARTS.match, needed(packages, [kernel.package])):
        unpack(packages[name], root)
    (root / "complete").touch()
    return kept(kernel)
