"""Records GST3D on CuPy, without a GPU: small runs that a law can be fitted to, and a large one to hold it against.

python tests/cupy/programs/gst3d_traces.py FOLDER      traces FOLDER/24x40x56 and so on
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests" / "end_to_end"))

import cupy_standin  # noqa: E402

MEMTRACE = ROOT / "target" / "release" / "memtrace"
GST3D = ROOT / "experiments" / "gpu" / "programs" / "gst3d_cupy.py"
OPERATOR = "__main__:gst3d"
CALLS = 2  # in one process: the first also compiles kernels
# Lengths without common factors: where all sizes are whole units, rounding up cannot be detected.
SMALL = ((38, 41, 43), (45, 46, 47), (49, 53, 52), (58, 59, 55))
LARGE = (150, 200, 240)  # 38 times as many cells as the largest of these


def record(standin, shape, trace):
    """Records calls for a volume of this shape; what the program printed."""
    program = [sys.executable, GST3D, name_of(shape), str(CALLS)]
    command = [MEMTRACE, "--quiet", "-o", trace, "--operator", OPERATOR, "--", *program]
    environment = {**os.environ, **standin.variables()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def name_of(shape):
    return "x".join(map(str, shape))


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    standin = cupy_standin.build(folder / "standin")
    for shape in (*SMALL, LARGE):
        print(name_of(shape), record(standin, shape, folder / name_of(shape)), end="")
