"""Memory control groups, versions 1 and 2: a limit without swap, and what was charged under it."""

import itertools
import os
from contextlib import contextmanager
from pathlib import Path

FIRST, SECOND = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
NUMBERS = itertools.count()
#: A command behind this runs in the group whose folder is $0.
ENTER = ("sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"')


class Group:
    """A control group; `folder` is what a process enters it by."""

    def __init__(self, folder, version):
        self.folder, self._version = folder, version

    def limit(self, limit_bytes):
        """Sets the limit. Nothing may be swapped out."""
        if self._version == 1:
            self._write("memory.swappiness", 0)
            self._write("memory.limit_in_bytes", limit_bytes)
        else:
            self._write("memory.swap.max", 0)
            self._write("memory.max", limit_bytes)

    def peak_bytes(self):
        """The most that was ever charged: page cache and the kernel's own memory included."""
        return int(self._read("memory.max_usage_in_bytes", "memory.peak"))

    def kernel_bytes(self):
        """The most kernel memory (page tables, stacks, inodes); version 2: what there is now."""
        if self._version == 1:
            return int((self.folder / "memory.kmem.max_usage_in_bytes").read_text())
        stat = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        return int(stat.get("kernel", 0))

    def entered_by(self, command):
        """The command as one that runs in the group."""
        return [*ENTER, str(self.folder), *command]

    def _write(self, name, value):
        (self.folder / name).write_text(str(value))

    def _read(self, first, second):
        return (self.folder / (first if self._version == 1 else second)).read_text()


@contextmanager
def group():
    """A new control group, removed at the end. OSError where none can be made."""
    version = 1 if (FIRST / "memory.limit_in_bytes").exists() else 2
    parent = FIRST if version == 1 else SECOND
    folder = parent / f"memtrace-study-{os.getpid()}-{next(NUMBERS)}"
    folder.mkdir()
    try:
        yield Group(folder, version)
    finally:
        folder.rmdir()
