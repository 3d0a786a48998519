"""The wheel on releases of Debian: pip installs it in a chroot; the bytes of GST3D are compared."""

import json
import platform
import shutil
import subprocess
import sys

from experiments.debian import certificates
from experiments.recording import RESULTS
from experiments.systems.system import systems, write

PAGE = RESULTS / "systems.md"
WHEEL = "memtrace-*_{machine}.whl"
#: Of the system; wheels for manylinux may need the libraries of GCC.
PROVIDED = ("python3-venv", "libstdc++6", "dash")
#: From PyPI, for the system's Python.
PACKAGES = ("numpy", "scipy", "duckdb")
#: What glibc 2.28 runs: minor versions.
GLIBC = range(17, 29)

OPERATOR = "operators.gst3d:gst3d"
SWEPT = "30,30,30..120,120,120"
SEEN = "100,100,100"  # recorded as well
UNSEEN = "200,200,200"

# In an environment of the system's own Python, by its own pip.
INSTALL = """
set -e
python3 -m venv /opt/venv
/opt/venv/bin/pip install --no-index --find-links /opt/wheels memtrace numpy scipy duckdb
"""

# Without examples/volume.py, which needs segyio: other samples, in blocks of the same bytes.
PROGRAM = """\
import sys
import numpy as np
from operators.gst3d import gst3d

shape = [int(cells) for cells in sys.argv[1].split(",")]
volume = np.random.default_rng(0).random(shape, np.float32)
for _ in range(3):
    print(gst3d(volume).mean())
"""

RECORD = f"""
set -e
. /opt/venv/bin/activate
cd /opt/out
memtrace --quiet -o trace --operator {OPERATOR} -- python program.py {SEEN}
memtrace sweep --operator {OPERATOR} --shapes {SWEPT} --model model.json -o sweep -- \\
    python program.py {{shape}}
for shape in {SEEN} {UNSEEN}; do
    memtrace predict --json model.json --operator gst3d --shape $shape >$shape.json
done
"""

# As a user of DuckDB reads a trace.
READ = f"""
import json, platform, duckdb, numpy, scipy
[(span, peak)] = duckdb.sql(
    "select span, working_peak_bytes from '/opt/out/trace/spans.parquet'"
    " where operator = '{OPERATOR}' and call = 1"
).fetchall()
[(blocks,)] = duckdb.sql(
    "select count(*) from '/opt/out/trace/allocations/*.parquet'"
    f" where span = {{span}} and bytes >= 65536"
).fetchall()
print(json.dumps({{
    "glibc": platform.libc_ver()[1],
    "python": platform.python_version(),
    "numpy": numpy.__version__,
    "scipy": scipy.__version__,
    "peak": peak,
    "blocks": blocks,
}}))
"""


def main(_arguments):
    rows = [measured(system, wheel) for system, [wheel] in systems("debian", [WHEEL])]
    if not rows:
        return True
    write(PAGE, page(rows), rows)
    return all(row["predicted"] == row["peak"] for row in rows) and are_same(rows)


def measured(system, wheel):
    """What the wheel says on a release."""
    root = system.unpack(PROVIDED)
    for folder in ("venv", "out"):
        shutil.rmtree(root / "opt" / folder, ignore_errors=True)
    (root / "opt" / "out").mkdir(parents=True)
    (root / "opt" / "out" / "program.py").write_text(PROGRAM)
    gathered(system, wheel)
    certificates(root)
    inside(system, "dash", "-c", INSTALL)
    inside(system, "dash", "-c", RECORD)
    out = root / "opt" / "out"
    seen, unseen = (json.loads((out / f"{shape}.json").read_text()) for shape in (SEEN, UNSEEN))
    return {
        "suite": system.suite,
        "processor": system.processor,
        **json.loads(inside(system, "/opt/venv/bin/python", "-c", READ)),
        "predicted": seen["peak_bytes"],
        "unseen": unseen["peak_bytes"],
        "confidence": unseen["confidence"],
        "law": " + ".join(term["words"] for term in unseen["model"]["terms"]),
        "small": unseen["model"]["residual_bytes"],
        "place": unseen["model"]["set_at"],
    }


def gathered(system, wheel):
    """Puts the wheel and what PyPI has for the system's Python into a folder there."""
    folder = system.root / "opt" / "wheels"
    if not folder.exists():
        version = inside(system, "/usr/bin/python3", "--version").split()[1].rsplit(".", 1)[0]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
        pip += [f"--platform=manylinux_2_{minor}_{system.machine}" for minor in GLIBC]
        pip += ["--python-version", version, "--dest", folder.with_name("partial")]
        subprocess.run([*pip, *PACKAGES], check=True)
        folder.with_name("partial").rename(folder)
    for earlier in folder.glob("memtrace-*.whl"):
        earlier.unlink()
    shutil.copy(wheel, folder)


def inside(system, *command):
    plain = {"HOME": "/tmp", "PYTHONPATH": "/checkout/examples", "PYTHONDONTWRITEBYTECODE": "1"}
    return system.inside(*command, **plain)


#: Columns of the page, and what a row has for them.
COLUMNS = {
    "processor": "{processor}",
    "release": "{suite}",
    "glibc": "{glibc}",
    "Python": "{python}",
    "NumPy": "{numpy}",
    "SciPy": "{scipy}",
    "recorded at 100³": "{peak:,}",
    "predicted at 100³": "{predicted:,}",
    "predicted at 200³": "{unseen:,} ({confidence})",
    "law": "{law} + {small:,} of small blocks",
    "large blocks": "{blocks:,}",
    "set at": "`{place}`",
}


def page(rows):
    lines = [
        "# The wheel on releases of Debian",
        "",
        "`scripts/experiments systems debian`, after `scripts/wheel`, unpacks each release into a",
        "folder that programs take for `/`. The release's own pip installs the wheel, with NumPy,",
        "SciPy and DuckDB as PyPI has them for that Python, into a virtual environment. There",
        "memtrace records GST3D at 100×100×100, fits a law to a sweep over",
        f"`{SWEPT}` and predicts; DuckDB reads the trace. Bytes are working peaks of",
        f"one call. The kernel is this machine's, Linux {platform.release()}. The wheel for 64-bit",
        "Arm (`scripts/wheel aarch64`) runs in qemu's user mode.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    for row in rows:
        lines.append(f"| {' | '.join(cell.format(**row) for cell in COLUMNS.values())} |")
    return "\n".join([*lines, "", verdict(rows), ""])


def verdict(rows):
    if not are_same(rows):
        return "The laws differ."
    return (
        "The law and the blocks of 64 KiB and more are the same on all; small blocks, which are\n"
        "objects of Python and NumPy, differ with their versions."
    )


def are_same(rows):
    """Whether the large blocks are: those of a law, and those of a recording."""
    return len({(row["law"], row["unseen"] - row["small"], row["blocks"]) for row in rows}) == 1
