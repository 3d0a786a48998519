"""A release of Debian for a processor, in a folder: programs for another one than this machine's
are emulated."""

import platform
from typing import NamedTuple

from experiments.arm.emulated import emulated
from experiments.debian import ROOT, in_root, unpacked
from experiments.recording import KEPT

SUITES = ("bullseye", "bookworm", "trixie", "sid")
#: What Debian calls them, and how pages do.
MACHINES = {"x86_64": ("amd64", "x86-64"), "aarch64": ("arm64", "64-bit Arm")}


class System(NamedTuple):
    suite: str
    machine: str
    #: Below what experiments keep.
    kind: str

    @property
    def debian(self):
        return MACHINES[self.machine][0]

    @property
    def processor(self):
        return MACHINES[self.machine][1]

    @property
    def root(self):
        return KEPT / self.kind / f"{self.suite}-{self.debian}"

    def unpack(self, packages):
        return unpacked(self.root, self.suite, packages, self.debian)

    def inside(self, *command, **variables):
        """What a command in it prints; it fails with what it said."""
        within = () if self.machine == platform.machine() else emulated()
        done = in_root(self.root, *command, within=within, **variables)
        if done.returncode:
            said = f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
            raise RuntimeError(f"{self.root.name}: {command}: {said}")
        return done.stdout


def systems(kind, patterns):
    """The systems for whose processors there are files in dist/, one of each pattern (of the names
    that Debian and others have for it), with these files."""
    for machine, (debian, _) in MACHINES.items():
        named = [pattern.format(machine=machine, debian=debian) for pattern in patterns]
        found = [list((ROOT / "dist").glob(name)) for name in named]
        if all(len(files) == 1 for files in found):
            for suite in SUITES:
                yield System(suite, machine, kind), [file for [file] in found]
