"""One command, and what it took."""

import os
import subprocess
import time
from pathlib import Path

#: Seconds between two looks at its memory.
EVERY = 0.01


def taken(*words):
    """Seconds, those of a processor with all children, and the most memory of its own process;
    whether it succeeded.

    What wait4(2) says of memory is never less than what this process had when it started it.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    most, ended = 0, 0
    while not ended:
        most = max(most, most_memory(process.pid))
        time.sleep(EVERY)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": time.monotonic() - start,
        "processor": usage.ru_utime + usage.ru_stime,
        "bytes": most,
        "has_ended": process.returncode == 0,
    }


def most_memory(pid):
    """Bytes of memory that a process had at most so far; 0 where it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
