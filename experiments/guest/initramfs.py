"""The files of a guest, packed: programs with the libraries that they load, and busybox."""

import re
import shutil
import subprocess
from pathlib import Path

from experiments.recording import MEMTRACE, ROOT

BUSYBOX = Path("/bin/busybox")
PROBE = ROOT / "target" / "preload" / "libmemtrace_probe.so"

#: The first process. What the script prints goes to the second serial port, its status to the
#: third, and what it leaves in /out, packed, to the fourth.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
export HOME=/tmp PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C
cd /tmp
stty -F /dev/ttyS1 raw
stty -F /dev/ttyS3 raw
mkdir /out
sh /script </dev/null >/dev/ttyS1 2>&1
status=$?
tar -cz -C /out . >/dev/ttyS3
echo $status >/dev/ttyS2
poweroff -f
"""


def packed(folder, script, files):
    """An archive in a folder, of a guest that runs a shell script. `files`: path in the guest →
    file here; the libraries that ldd(1) names of them are added."""
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    put(root, "/bin/busybox", BUSYBOX)
    for path, file in files.items():
        put(root, path, file)
        for library in libraries(file):
            put(root, library, library)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "script").write_text(script)
    names = [str(path.relative_to(root)) for path in sorted(root.rglob("*"))]
    archive = folder / "initramfs.cpio"
    with archive.open("wb") as output:
        command = ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"]
        subprocess.run(
            command, cwd=root, input="\n".join(names).encode(), stdout=output, check=True
        )
    return archive


def recorder(folder):
    """memtrace and its probe, as `packed` takes files; without what debuggers need of memtrace,
    which is most of it."""
    stripped = folder / "memtrace"
    subprocess.run(["strip", "-o", stripped, MEMTRACE], check=True)
    return {"/usr/bin/memtrace": stripped, "/usr/bin/libmemtrace_probe.so": PROBE}


def put(root, path, file):
    """Copies a file to its place in the guest."""
    place = root / str(path).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)


def libraries(file):
    """The libraries that a program or a library loads; of any other file, none."""
    told = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", told)
