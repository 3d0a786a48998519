"""A guest that boots, runs its script and ends."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from experiments.guest.machine import AMD64, PORTS


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


def booted(
    folder, image, archive, machine=AMD64, memory="1G", processors=2, devices=(), seconds=300
):
    """Boots a kernel with an archive of files; its ports' files stay in the folder. Emulated, as
    machines in which this runs may have no KVM that works. RuntimeError where the guest ends before
    its script, TimeoutExpired where it takes longer than so many seconds."""
    console = folder / "console"
    command = [machine.qemu, "-accel", f"tcg,thread={machine.threads}", *machine.options]
    command += ["-nographic", "-nodefaults", "-no-reboot"]
    command += ["-m", memory, "-smp", str(processors), *devices]
    command += ["-kernel", str(image), "-initrd", str(archive)]
    # A panic ends the guest.
    command += [
        "-append",
        f"console={machine.console} panic=-1 quiet",
        "-serial",
        f"file:{console}",
    ]
    for name in PORTS:
        command += ["-chardev", f"file,id={name},path={folder / name}"]
        command += [word.format(name) for word in machine.port]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=seconds)
    said = console.read_text(errors="replace")
    code = (folder / "status").read_text().strip()
    if not code:
        raise RuntimeError(f"the guest ended before its script:\n{said[-4000:]}")
    files = folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    extract = ["tar", "--extract", "--gzip", "--file", folder / "packed", "--directory", files]
    subprocess.run(extract, check=True)
    return Done(int(code), (folder / "output").read_text(errors="replace"), said, files)
