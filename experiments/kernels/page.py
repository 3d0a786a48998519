"""The table of what holds on which kernel, for a terminal and as a page."""

import re
from typing import NamedTuple

from experiments.chunks.tables import table
from experiments.kernels.recorded import SEEDS, WAYS

#: Characters of what is told in a cell.
SHORT = 50


class Found(NamedTuple):
    """What was found on a kernel."""

    architecture: str
    release: str
    page_bytes: int
    rows: list


def told(found):
    """Lines for a terminal."""
    lines = [f"  {'yes' if row.holds else 'NO '}  {row.what}: {row.found}" for row in found.rows]
    return "\n".join([found.release, *lines])


def page(all_found):
    tables = "\n\n".join(
        f"## {heading}\n\n{checks([each for each in all_found if each.architecture == name])}"
        for name, heading in (("amd64", "x86-64"), ("arm64", "64-bit Arm"))
    )
    said = "\n".join(f"- `{each.release}`: {each.rows[0].found}" for each in all_found)
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

{tables}

## What it says of itself

What `memtrace doctor` says of the kernel side, as root:

{said}
"""


def checks(all_found):
    """A row for each check, a column for each kernel."""
    what = [row.what for row in all_found[0].rows]
    columns = zip(*(each.rows for each in all_found), strict=True)
    rows = [(name, *map(cell, column)) for name, column in zip(what, columns, strict=True)]
    return table(["check", *map(column_name, all_found)], rows)


def cell(row):
    if not row.holds:
        return f"**no**: {row.found}"
    return row.found if len(row.found) <= SHORT else "yes"


def column_name(found):
    version = re.match(r"[\d.]*\d", found.release)[0]
    pages = "" if found.page_bytes == 4096 else f", pages of {found.page_bytes // 1024} KiB"
    return f"{version}{pages}"
