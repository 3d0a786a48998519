"""The table of what holds on which kernel, for a terminal and as a page."""

import re

from experiments.chunks.tables import table
from experiments.kernels.recorded import SEEDS, WAYS

#: Characters of what is told in a cell.
SHORT = 50


def told(release, rows):
    """Lines for a terminal."""
    lines = [f"  {'yes' if row.holds else 'NO '}  {row.what}: {row.found}" for row in rows]
    return "\n".join([release, *lines])


def page(kernels):
    """`kernels`: release of a kernel → its rows."""
    what = [row.what for row in next(iter(kernels.values()))]
    columns = zip(*kernels.values(), strict=True)
    rows = [(name, *map(cell, column)) for name, column in zip(what, columns, strict=True)]
    releases = [number(release) for release in kernels]
    said = "\n".join(f"- `{release}`: {rows[0].found}" for release, rows in kernels.items())
    return f"""# The kernel side on other kernels

`scripts/kernels` boots kernels of Debian's releases in a guest (QEMU, emulated, two processors,
1 GB) and records programs there. The traces come back, and are judged here.

- **Resident peak, programs with a probe**: {len(WAYS)} ways to come to a peak
  (`tests/targets/held.c`). What the program reads in `/proc/self/smaps_rollup` at its peak is what
  memtrace says, to the page.
- **Resident peak, random programs**: {len(SEEDS)} of them (`tests/targets/steps.c`), statically
  linked, in one to five threads that stay: the most that `smaps_rollup` said after a step.
- **Killed for lack of memory**: in a control group (version 2) with a limit of 24 MiB.
- **A user with CAP_BPF and CAP_PERFMON alone**: user id 1000, no other capability.
- **Without the kernel's types**: nothing in `/sys/kernel/btf`, as on kernels without BTF.

{table(["check", *releases], rows)}

What `memtrace doctor` says of the kernel side, as root:

{said}
"""


def cell(row):
    if not row.holds:
        return f"**no**: {row.found}"
    return row.found if len(row.found) <= SHORT else "yes"


def number(release):
    return re.match(r"[\d.]*\d", release)[0]
