"""A release of Debian for a processor, in a folder: on x86-64, programs for Arm are emulated."""

import platform
from typing import NamedTuple

from experiments.arm import emulated
from experiments.debian import ROOT, in_root, unpacked, why_not
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
        within = () if is_own(self.machine) else emulated.emulated()
        done = in_root(self.root, *command, within=within, **variables)
        if done.returncode:
            said = f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
            raise RuntimeError(f"{self.root.name}: {command}: {said}")
        return done.stdout


def is_own(machine):
    return machine == platform.machine()


def write(page, text, rows):
    """Writes a page that has rows for each processor; prints one that has not."""
    if len({row["processor"] for row in rows}) == len(MACHINES):
        page.write_text(text)
    else:
        print(text)


def systems(kind, patterns):
    """Releases for each processor, with files in dist/: one of each pattern, which has the names
    that Debian and others have for it. Says why a processor is left out."""
    for machine, (debian, processor) in MACHINES.items():
        named = [pattern.format(machine=machine, debian=debian) for pattern in patterns]
        found = [list((ROOT / "dist").glob(name)) for name in named]
        wrong = [name for name, files in zip(named, found, strict=True) if len(files) != 1]
        reason = why_not() if is_own(machine) else emulated.why_not_beside()
        if wrong:
            reason = f"in dist/ there is not one {' and one '.join(wrong)} (docs/installing.md)"
        if reason:
            print(f"systems {kind}: left out for {processor}: {reason}", flush=True)
            continue
        for suite in SUITES:
            yield System(suite, machine, kind), [file for [file] in found]
