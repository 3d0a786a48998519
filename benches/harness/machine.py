"""The machine, in words."""

import os
import platform
from datetime import date

LOAD = os.getloadavg()[0]


def describe():
    """{what: value}, in the order of a table."""
    return {
        "processor": f"{processor()}, {len(os.sched_getaffinity(0))} to run on",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "C library": " ".join(platform.libc_ver()),
        "Python": platform.python_version(),
        "load before": f"{LOAD:.1f} (what else ran then disturbs the figures)",
        "date": date.today().isoformat(),
    }


def processor():
    """Model name in /proc/cpuinfo (proc(5))."""
    with open("/proc/cpuinfo") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
