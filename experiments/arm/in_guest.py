"""Tests of capturing in a guest: a system of Debian for Arm, on a kernel for Arm."""

import lzma
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from experiments.arm.built import WORK, compilers
from experiments.debian import certificates, unpacked
from experiments.guest import guest, initramfs
from experiments.guest.kernel import Kernel, fetched
from experiments.guest.machine import ARM64
from experiments.recording import ROOT

SYSTEM = (
    *("libc6", "libc-bin", "bash", "dash", "coreutils", "busybox-static", "procps", "util-linux"),
    *("mount", "gcc", "g++", "libc6-dev", "binutils", "python3", "python3-pytest", "python3-numpy"),
    *("python3-pip", "python3-venv", "python3-pyelftools"),
)
#: What tests read traces with: packages of PyPI.
READERS = ("duckdb",)
#: Random programs know what Linux does from 6.17 on where it moves mappings.
KERNEL = Kernel("sid", ARM64.name)
#: Of the checkout.
TREES = ("tests", "python", "include", "examples", "scripts", "pytest.ini", "README.md")
MEMORY, SECONDS = "4G", 7200
#: Files with tests of capturing.
FILES = (
    *("children", "ends", "random_programs", "record_native", "segments", "protection", "order"),
    *("shared_memory", "kernel", "oom", "resident", "unwinding", "signals", "address_space"),
)
#: Of the wheel, if there is one: that pip installs it, and that it records.
WHEEL = ("test_in_a_virtual_environment", "test_out_of_one")
#: Without those for which the guest has no packages.
TESTS = (
    *(f"tests/end_to_end/test_{name}.py" for name in FILES),
    *(f"tests/end_to_end/test_wheel.py::{name}" for name in WHEEL),
    *("-k", "not dask_nanny"),
)
#: Snapshots are further apart where reading /proc is emulated, and a program that a timer
#: interrupts gets further where there is more time between two signals.
COMPILER = "/usr/bin/{} -DHELD_SECONDS=10 -DINTERRUPTED_EVERY=5000"
#: What the kernel has no disks without.
MODULE = "virtio_blk.ko"
DISK_BYTES = 4 << 30
#: The system is on a disk: mappings of files in memory, where the guest starts, count as shared
#: memory.
SCRIPT = """
insmod /{module}
mkdir /system
mount /dev/vda /system
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
ip link set lo up
for folder in proc sys dev; do mount -o bind /$folder /system/$folder; done
exec chroot /system sh /script
"""
IN_SYSTEM = """
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
export PYTHONPATH=/readers PYTHONDONTWRITEBYTECODE=1 PATH=/compilers:/usr/bin:/bin:/usr/sbin:/sbin
cd /checkout
{command}
"""
#: As many as are to agree with what they know of themselves.
RANDOM_PROGRAMS = ("scripts/random-programs", "--programs", "500")


def tested(arguments):
    """Runs tests in a guest: the exit status of pytest. All of them, unless arguments for it name
    some."""
    if not any(word.startswith("tests/") for word in arguments):
        arguments = [*TESTS, *arguments]
    return status("python3", "-m", "pytest", "-q", *arguments)


def random_programs():
    """Runs random programs in a guest: 0 if all are recorded as they should be."""
    return status("python3", *RANDOM_PROGRAMS)


def status(*command):
    """Boots a guest, runs a command in the checkout there and prints what it prints: its exit
    status."""
    image = fetched(KERNEL)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        folder = Path(folder)
        script = SCRIPT.format(module=MODULE)
        archive = initramfs.packed(folder, script, {f"/{MODULE}": module(folder)}, ARM64)
        devices = disk(folder, system_with(folder, IN_SYSTEM.format(command=shlex.join(command))))
        more = {"memory": MEMORY, "devices": devices, "seconds": SECONDS}
        try:
            done = guest.booted(folder, image, archive, ARM64, **more)
        except subprocess.TimeoutExpired:
            print((folder / "output").read_text(errors="replace"), flush=True)
            sys.exit(f"scripts/arm: the guest took more than {SECONDS} s")
        except RuntimeError as error:
            sys.exit(f"scripts/arm: {error}")
    print(done.output, flush=True)
    return done.status


def module(folder):
    """The kernel's module for disks, as it loads it."""
    [packed] = KERNEL.folder.rglob(f"{MODULE}.xz")
    file = folder / MODULE
    file.write_bytes(lzma.decompress(packed.read_bytes()))
    return file


def disk(folder, root):
    """QEMU's arguments for a disk that has the files of a folder."""
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, image], check=True)
    drive = ["-drive", f"file={image},if=none,id=disk,format=raw"]
    return [*drive, "-device", "virtio-blk-pci,drive=disk"]


def system_with(folder, script):
    """The folder of a system that has the checkout, and a script."""
    root = folder / "system"
    shutil.copytree(system(), root, symlinks=True)
    certificates(root)
    (root / "script").write_text(script)
    (root / "tmp").chmod(0o1777)
    for name in ("sys", "run"):
        (root / name).mkdir(exist_ok=True)
    checkout = root / "checkout"
    memtrace, probe = initramfs.recorder(folder, ARM64).values()
    for place, file in (("release", memtrace), ("preload", probe)):
        (checkout / "target" / place).mkdir(parents=True)
        shutil.copy(file, checkout / "target" / place)
    (checkout / "dist").mkdir()
    for wheel in (ROOT / "dist").glob("*_aarch64.whl"):
        shutil.copy(wheel, checkout / "dist")
    for name in TREES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    shutil.copytree(readers(), root / "readers")
    compilers(root / "compilers", COMPILER)
    return root


def system():
    """The folder of a whole system."""
    return unpacked(WORK / "guest", "trixie", SYSTEM, ARM64.name)


def readers():
    """Wheels for Arm, of the versions that are installed here."""
    wanted = [f"{name}=={version(name)}" for name in READERS]
    folder = WORK / "-".join(["readers", *wanted])
    if not folder.exists():
        where = ["--platform", "manylinux_2_28_aarch64", "--python-version", "3.13"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *where]
        subprocess.run([*command, "--only-binary", ":all:", "--no-deps", *wanted], check=True)
    return folder
