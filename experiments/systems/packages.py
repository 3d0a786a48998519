"""The tarball, the .deb and the .rpm on releases of Debian: each is installed in a chroot without
Python, records a C++ program that the release's compiler builds, predicts, and is removed again."""

import json
import platform
import shutil

from experiments.recording import RESULTS
from experiments.systems.system import systems, write

PAGE = RESULTS / "packages.md"
#: Of the system: what installs, what compiles, and what scripts of packages may call.
PROVIDED = ("dash", "coreutils", "diffutils", "libc-bin", "tar", "gzip", "dpkg", "rpm", "g++")

SEEN = (100, 120, 140)
UNSEEN = (400, 400, 400)
#: Bytes of one cell: two volumes in double precision, and the result in single precision.
CELL = 20

RPM = "rpm --dbpath=/var/lib/rpm"
#: package -> the file in dist/, the prefix it is installed to, how it is installed and removed.
PACKAGES = {
    "tarball": (
        "memtrace-*-{machine}.tar.gz",
        "/opt/memtrace",
        "mkdir /opt/memtrace && tar -xf {file} -C /opt/memtrace --strip-components=1",
        "rm -r /opt/memtrace",
    ),
    "deb": ("memtrace_*_{debian}.deb", "/usr", "dpkg --install {file}", "dpkg --purge memtrace"),
    # The database of this rpm knows of no glibc, which dpkg has installed.
    "rpm": (
        "memtrace-*.{machine}.rpm",
        "/usr",
        f"{RPM} --nodeps --install {{file}}",
        f"{RPM} --nodeps --erase memtrace",
    ),
}

USE = f"""
set -e
cd /work
g++ -g -O2 -std=c++17 -I {{prefix}}/include /checkout/examples/blur.cpp -o blur
memtrace --quiet -o trace -- ./blur {" ".join(map(str, SEEN))} >/dev/null
memtrace report --json --all-spans trace >report.json
memtrace sweep --operator blur --shapes 30,30,30..90,90,90 --model model.json -- \\
    ./blur {{{{0}}}} {{{{1}}}} {{{{2}}}}
memtrace predict --json model.json --operator blur --shape {",".join(map(str, UNSEEN))} >law.json
memtrace doctor --json >doctor.json
"""

#: Lists of package managers, and what a command of ours writes.
NOT_OURS = ("var/lib/dpkg", "var/lib/rpm", "var/log", "run", "proc", "dev", "checkout", "work")


def main(_arguments):
    patterns = [pattern for pattern, *_ in PACKAGES.values()]
    rows = [
        measured(system, kind, file)
        for system, files in systems("packages", patterns)
        for kind, file in zip(PACKAGES, files, strict=True)
    ]
    if not rows:
        return True
    write(PAGE, page(rows), rows)
    return all(is_right(row) for row in rows)


def measured(system, kind, file):
    """What a package does on a release, from before it is installed to after it is removed."""
    root = system.unpack(PROVIDED)
    _, prefix, install, remove = PACKAGES[kind]
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    shutil.copy(file, work)
    for folder in ("opt", "var/lib/rpm"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    before = everything(root)
    inside(system, prefix, install.format(file=f"/work/{file.name}"))
    installed = everything(root) - before
    inside(system, prefix, USE.format(prefix=prefix))
    inside(system, prefix, remove)
    report, law, doctor = (
        json.loads((work / f"{name}.json").read_text()) for name in ("report", "law", "doctor")
    )
    [blur] = [each for each in report["operators"] if each["name"] == "blur"]
    [package] = [check["words"] for check in doctor if check["name"] == "package"]
    return {
        "suite": system.suite,
        "processor": system.processor,
        "glibc": inside(system, prefix, "getconf GNU_LIBC_VERSION").split()[1],
        "kind": kind,
        "packed": file.stat().st_size,
        "files": len(installed),
        "named": package.split(":", 1)[0],
        "recorded": blur["spans"][0]["working_peak_bytes"],
        "lost": report["lost"]["events"],
        "predicted": law["peak_bytes"],
        "confidence": law["confidence"],
        "left": sorted(everything(root) - before),
    }


def everything(root):
    """The files and folders of a system."""
    found = (str(path.relative_to(root)) for path in root.rglob("*"))
    return {path for path in found if not path.startswith(NOT_OURS)}


def inside(system, prefix, script):
    """What a script prints in the folder."""
    path = f"{prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return system.inside("dash", "-c", script, PATH=path, HOME="/tmp")


def is_right(row):
    """Whether the figures are those of the program, and nothing was left."""
    seen, unseen = (CELL * shape[0] * shape[1] * shape[2] for shape in (SEEN, UNSEEN))
    return (row["recorded"], row["predicted"], row["lost"], row["left"]) == (seen, unseen, 0, [])


#: Columns of the page, and what a row has for them.
COLUMNS = {
    "processor": "{processor}",
    "release": "{suite}",
    "glibc": "{glibc}",
    "package": "{kind}, {packed:,} bytes",
    "`memtrace doctor`": "{named}",
    "files and folders": "{files}",
    "recorded": "{recorded:,}",
    "predicted": "{predicted:,} ({confidence})",
    "left behind": "{left}",
}


def page(rows):
    seen, unseen = ("×".join(map(str, shape)) for shape in (SEEN, UNSEEN))
    lines = [
        "# Tarball, .deb and .rpm on releases of Debian",
        "",
        "`scripts/experiments systems packages`, after `scripts/wheel` and `scripts/packages`,",
        "unpacks each release into a folder that programs take for `/`, without Python. There each",
        "package is installed, by the release's own tar, dpkg or rpm. The release's own g++",
        "compiles `examples/blur.cpp` with the header from the package. memtrace records it at",
        f"{seen}, fits a law to a sweep, and predicts {unseen}. The operator needs",
        f"{CELL} bytes for each cell. Then the package is removed, and what the system has is",
        "compared with what it had before. dpkg checks that the C library is new enough; rpm",
        "runs without that check (`--nodeps`), because its database knows of no glibc there. Bytes",
        f"are working peaks of one call. The kernel is this machine's, Linux {platform.release()}.",
        "What is for 64-bit Arm runs in qemu's user mode.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for row in rows:
        shown = {**row, "left": ", ".join(f"`{path}`" for path in row["left"]) or "nothing"}
        lines.append(f"| {' | '.join(cell.format(**shown) for cell in COLUMNS.values())} |")
    wrong = [
        f"{row['kind']} on {row['suite']}, {row['processor']}" for row in rows if not is_right(row)
    ]
    verdict = f"Not as it should be: {', '.join(wrong)}." if wrong else "All are as they should be."
    return "\n".join([*lines, "", verdict, ""])
