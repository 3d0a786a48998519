"""Swap for a study: what the machine has, or compressed memory (zram), removed at the end."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

BYTES = 4 << 30


@contextmanager
def swap():
    """OSError or CalledProcessError where there is none and none can be made."""
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        yield
        return
    device = Path("/sys/block/zram0")
    if not device.exists():
        subprocess.run(["modprobe", "zram"], check=True)
    (device / "disksize").write_text(str(BYTES))
    subprocess.run(["mkswap", "/dev/zram0"], check=True, capture_output=True)
    subprocess.run(["swapon", "/dev/zram0"], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", "/dev/zram0"], check=True)
        (device / "reset").write_text("1")
