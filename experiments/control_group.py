"""Memory control groups, versions 1 and 2: a limit without swap, and what was charged under it."""

import itertools
import os
import signal
import time
from contextlib import contextmanager, suppress
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

    def limit_with_swap(self, limit_bytes):
        """Sets the limit; what does not fit is swapped out."""
        if self._version == 1:
            self._write("memory.limit_in_bytes", limit_bytes)
        else:
            self._write("memory.max", limit_bytes)

    def peak_bytes(self):
        """The most that was ever charged: page cache and the kernel's own memory included."""
        return int(self._read("memory.max_usage_in_bytes", "memory.peak"))

    def held_bytes(self):
        """Anonymous and shared memory: the kernel cannot take it back as it can pages of files."""
        stat = self._numbers(self._read("memory.stat", "memory.stat"))
        wanted = ("total_rss", "total_shmem") if self._version == 1 else ("anon", "shmem")
        return sum(stat.get(name, 0) for name in wanted)

    def kills(self):
        """Processes that the kernel killed at the limit."""
        return self._numbers(self._read("memory.oom_control", "memory.events"))["oom_kill"]

    def kernel_bytes(self):
        """The most kernel memory (page tables, stacks, inodes); version 2: what there is now."""
        if self._version == 1:
            return int((self.folder / "memory.kmem.max_usage_in_bytes").read_text())
        return self._numbers(self._read("memory.stat", "memory.stat")).get("kernel", 0)

    def entered_by(self, command):
        """The command as one that runs in the group."""
        return [*ENTER, str(self.folder), *command]

    def close(self):
        """Kills what is still in the group, and removes it."""
        for pid in self._read("cgroup.procs", "cgroup.procs").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(100):  # a killed process is in it until it is gone
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)
        self.folder.rmdir()

    def _write(self, name, value):
        (self.folder / name).write_text(str(value))

    def _read(self, first, second):
        return (self.folder / (first if self._version == 1 else second)).read_text()

    @staticmethod
    def _numbers(text):
        return {name: int(number) for name, number in map(str.split, text.splitlines())}


@contextmanager
def group():
    """A new control group, removed at the end. OSError where none can be made."""
    version = 1 if (FIRST / "memory.limit_in_bytes").exists() else 2
    parent = FIRST if version == 1 else SECOND
    folder = parent / f"memtrace-study-{os.getpid()}-{next(NUMBERS)}"
    folder.mkdir()
    made = Group(folder, version)
    try:
        yield made
    finally:
        made.close()
