"""A guest that boots, runs its script and ends."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from experiments.guest.initramfs import BUSYBOX

QEMU = "qemu-system-x86_64"
#: Processors take turns in one thread. In threads of their own, one has met the breakpoint with
#: which the kernel guards code that another one changes, after it was gone: a panic.
ONE_BY_ONE = "tcg,thread=single"
#: A panic ends the guest; the kernel's messages go to the first serial port.
KERNEL = "console=ttyS0 panic=-1 quiet"


class Done(NamedTuple):
    """What a guest leaves."""

    #: Exit status of its script.
    status: int
    #: What that printed.
    output: str
    #: What the kernel said.
    console: str
    #: The files that it left in /out, unpacked.
    files: Path


def missing():
    """The tools that are not installed, as packages of Debian name them."""
    packages = {QEMU: "qemu-system-x86", "cpio": "cpio", "dpkg-deb": "dpkg", "strip": "binutils"}
    names = [package for tool, package in packages.items() if shutil.which(tool) is None]
    return names + ([] if BUSYBOX.exists() else ["busybox-static"])


def booted(folder, image, archive, memory="1G", processors=2, devices=(), seconds=300):
    """Boots a kernel with an archive of files; its ports' files stay in the folder. Emulated, as
    machines in which this runs may have no KVM that works. RuntimeError where the guest ends before
    its script, TimeoutExpired where it takes longer than so many seconds."""
    ports = ("console", "output", "status", "packed")
    console, output, status, packed = (folder / name for name in ports)
    command = [QEMU, "-accel", ONE_BY_ONE, "-cpu", "max", "-nographic", "-nodefaults", "-no-reboot"]
    command += ["-m", memory, "-smp", str(processors), *devices]
    command += ["-kernel", str(image), "-initrd", str(archive), "-append", KERNEL]
    for port in (console, output, status, packed):
        command += ["-serial", f"file:{port}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=seconds)
    said = console.read_text(errors="replace")
    code = status.read_text().strip()
    if not code:
        raise RuntimeError(f"the guest ended before its script:\n{said[-4000:]}")
    files = folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    subprocess.run(
        ["tar", "--extract", "--gzip", "--file", packed, "--directory", files], check=True
    )
    return Done(int(code), output.read_text(errors="replace"), said, files)
