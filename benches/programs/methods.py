"""Programs whose memory can be counted by hand: `python methods.py NAME FOLDER`.

TRUTH has what each asks for beyond its base (`none`, which does nothing; for an operator its run on next to nothing, which
loads and keeps what its first call does), and what of that is in memory.
"""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
MIB = 1 << 20
TEXTS = 500_000
SIDE = 96

TEXT = sys.getsizeof(
    "x" * 50
)  # what CPython asks its allocator for; pymalloc rounds it up to 16 bytes
GST3D = 204 * (SIDE - 2) ** 3 + 4 * SIDE**3  # docs/derivations.md, and the input

# {name: (bytes asked for at the peak, bytes of them in memory then, what it does)}
TRUTH = {
    "array": (200 * MIB, 200 * MIB, "an array of 200 MiB, filled and kept for 0.3 s"),
    "burst": (24 * MIB, 24 * MIB, "an array of 24 MiB, filled and released at once"),
    "untouched": (400 * MIB, 100 * MIB, "`np.zeros` of 400 MiB, a quarter of it written to"),
    "texts": (
        TEXTS * (TEXT + 8),
        TEXTS * ((TEXT + 15) // 16 * 16 + 8),
        f"{TEXTS:,} texts of 50 characters in a list",
    ),
    "native": (100 * MIB, 100 * MIB, "100 MiB from `malloc`, called through ctypes, filled"),
    "child": (150 * MIB, 150 * MIB, "a child process that fills 150 MiB"),
    "mapped file": (0, 200 * MIB, "a file of 200 MiB, read through `np.memmap`"),
    "gst3d": (GST3D, GST3D, f"GST3D on {SIDE}×{SIDE}×{SIDE} float32"),
}
BASES = {"gst3d": "gst3d base", "child": "child base"}


def filled(bytes_):
    block = np.empty(bytes_, np.uint8)
    block.fill(1)
    return block


def array(_):
    block = filled(200 * MIB)
    time.sleep(0.3)
    return block[0]


def burst(_):
    return filled(24 * MIB)[0]


def untouched(_):
    block = np.zeros(400 * MIB, np.uint8)
    block[: 100 * MIB] = 1
    time.sleep(0.1)
    return block[0]


def texts(_):
    kept = [None] * TEXTS
    for at in range(TEXTS):
        kept[at] = f"{at:050d}"
    time.sleep(0.1)
    return kept[0]


def native(_):
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(ctypes.c_size_t(100 * MIB))
    ctypes.memset(block, 1, 100 * MIB)
    time.sleep(0.1)
    libc.free(ctypes.c_void_p(block))


def child(folder, name="in the child"):
    subprocess.run([sys.executable, HERE, name, folder], check=True)


def child_base(folder):
    child(folder, "none")


def in_the_child(_):
    block = filled(150 * MIB)
    time.sleep(0.1)
    return block[0]


def mapped_file(folder):
    file = np.memmap(folder / "data", np.uint8, "r")
    return int(file[::4096].sum())


def gst3d(_, side=SIDE):
    sys.path.insert(0, str(HERE.parents[2] / "examples"))
    from operators.gst3d import gst3d as operator

    operator(np.ones((side, side, side), np.float32))


def gst3d_base(_):
    gst3d(_, 8)


def none(_):
    pass


def main():
    name, folder = sys.argv[1:]
    globals()[name.replace(" ", "_")](Path(folder))
    if "tracemalloc" in sys._xoptions and name != "in the child":
        import tracemalloc

        (Path(folder) / "tracemalloc").write_text(str(tracemalloc.get_traced_memory()[1]))


if __name__ == "__main__":
    main()
