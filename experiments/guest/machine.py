"""What a guest of an architecture is made of."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from experiments.recording import MEMTRACE, ROOT

ARM = ROOT / "target" / "arm"
ARM_BUILT = ARM / "built" / "aarch64-unknown-linux-gnu"
#: What a guest's script prints, its status, and what it leaves, packed: each has a serial port.
PORTS = ("output", "status", "packed")


class Machine(NamedTuple):
    """Programs and files for guests of an architecture."""

    #: What Debian calls it.
    name: str
    #: Of QEMU: its program, the package that has it, and what kind of computer it is to be.
    qemu: str
    package: str
    options: tuple
    #: Whether a thread emulates each processor, or one does so in turn.
    threads: str
    #: The serial port that the kernel writes to, those that the script uses, and what adds each of
    #: these.
    console: str
    ports: tuple
    port: tuple
    #: Where the files of a system lie that guests get programs and libraries from.
    root: Path
    #: The dynamic loader there, as this machine runs it.
    loader: tuple
    #: GCC and binutils for it are called so, with this before their names.
    prefix: str
    memtrace: Path
    probe: Path
    #: What makes the files that are missing.
    made_by: str

    def compiled(self, binary, source, *flags):
        """A program for the guest, compiled from C."""
        command = [f"{self.prefix}gcc", "-O1", "-fno-builtin", "-pthread", f"-I{ROOT / 'include'}"]
        subprocess.run([*command, *flags, "-o", binary, source], check=True)
        return binary

    def file(self, path):
        """A file of the system."""
        return self.root / path.lstrip("/")

    def libraries(self, file):
        """Paths of the libraries that a program or a library loads; of any other file, none."""
        command = [*self.loader, "--list", file]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        paths = re.findall(r"(/\S+) \(0x", told)
        return [f"/{path.removeprefix(str(self.root)).lstrip('/')}" for path in paths]

    def missing(self):
        """What there is to be done before a guest can boot, in words; empty if nothing."""
        packages = {
            self.qemu: self.package,
            "cpio": "cpio",
            "dpkg-deb": "dpkg",
            f"{self.prefix}strip": f"binutils{'-' if self.prefix else ''}{self.prefix[:-1]}",
        }
        names = [package for tool, package in packages.items() if shutil.which(tool) is None]
        files = (
            self.file("/bin/busybox"),
            self.file("/usr/bin/setpriv"),
            self.memtrace,
            self.probe,
        )
        gone = [str(file) for file in files if not file.exists()]
        words = [f"a guest needs {' '.join(names)}"] if names else []
        words += [f"a guest needs {', '.join(gone)}"] if gone else []
        return f"{'; '.join(words)}: {self.made_by}" if words else ""


AMD64 = Machine(
    name="amd64",
    qemu="qemu-system-x86_64",
    package="qemu-system-x86",
    options=("-cpu", "max"),
    # In threads of their own, one has met the breakpoint with which the kernel guards code that
    # another one changes, after it was gone: a panic.
    threads="single",
    console="ttyS0",
    ports=("ttyS1", "ttyS2", "ttyS3"),
    port=("-device", "isa-serial,chardev={0}"),
    root=Path("/"),
    loader=("/lib64/ld-linux-x86-64.so.2",),
    prefix="",
    memtrace=MEMTRACE,
    probe=ROOT / "target" / "preload" / "libmemtrace_probe.so",
    made_by="scripts/guest installs packages, scripts/setup builds memtrace",
)
#: Signatures of pointers in a cipher that is fast to emulate.
ARM64 = Machine(
    name="arm64",
    qemu="qemu-system-aarch64",
    package="qemu-system-arm",
    options=("-machine", "virt", "-cpu", "max,pauth-impdef=on"),
    threads="multi",
    console="ttyAMA0",
    ports=("ttyS0", "ttyS1", "ttyS2"),
    port=("-device", "pci-serial,chardev={0}"),
    root=ARM / "system",
    loader=(
        str(ARM / "tools" / "usr" / "bin" / "qemu-aarch64"),
        *("-L", str(ARM / "system")),
        str(ARM / "system" / "lib" / "ld-linux-aarch64.so.1"),
    ),
    prefix="aarch64-linux-gnu-",
    memtrace=ARM_BUILT / "release" / "memtrace",
    probe=ARM_BUILT / "preload" / "libmemtrace_probe.so",
    made_by="scripts/arm makes it",
)
