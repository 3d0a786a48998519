"""The files of a guest, packed: programs with the libraries that they load, and busybox."""

import shutil
import subprocess

from experiments.guest.machine import AMD64, PORTS

#: The first process.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
export HOME=/tmp PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C
cd /tmp
stty -F /dev/{output} raw
stty -F /dev/{packed} raw
mkdir /out
sh /script </dev/null >/dev/{output} 2>&1
status=$?
tar -cz -C /out . >/dev/{packed}
echo $status >/dev/{status}
poweroff -f
"""


def packed(folder, script, files, machine=AMD64):
    """An archive in a folder, of a guest that runs a shell script. `files`: path in the guest →
    file here; the libraries that the loader names of them are added."""
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    put(root, "/bin/busybox", machine.file("/bin/busybox"))
    for path, file in files.items():
        put(root, path, file)
        for library in machine.libraries(file):
            if not (root / library.lstrip("/")).exists():
                put(root, library, machine.file(library))
    (root / "init").write_text(INIT.format(**dict(zip(PORTS, machine.ports, strict=True))))
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


def recorder(folder, machine=AMD64):
    """memtrace and its probe, as `packed` takes files; without what debuggers need of memtrace,
    which is most of it."""
    stripped = folder / "memtrace"
    subprocess.run([f"{machine.prefix}strip", "-o", stripped, machine.memtrace], check=True)
    return {"/usr/bin/memtrace": stripped, "/usr/bin/libmemtrace_probe.so": machine.probe}


def put(root, path, file):
    """Copies a file to its place in the guest."""
    place = root / str(path).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)
