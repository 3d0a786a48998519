"""JAX without a GPU: its own code on stand-ins for CUDA's libraries (tests/jax/runtime.c) and driver (tests/cuda).

python tests/end_to_end/jax_standin.py FOLDER      builds there, and prints the variables that programs need
"""

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from cuda_runtime import build as build_runtime
from cuda_standin import build_driver

ROOT = Path(__file__).resolve().parents[2]
JAX = ROOT / "target" / "jax"
SOURCE = ROOT / "tests" / "jax" / "runtime.c"
PLUGINS = ROOT / "tests" / "jax" / "plugins"
PLUGIN = JAX / "jax_plugins" / "xla_cuda12" / "xla_cuda_plugin.so"
#: XLA opens these by itself.
LIBRARIES = (
    *("libcublas.so.12", "libcublasLt.so.12", "libcudart.so.12", "libcudnn.so.9", "libcufft.so.11"),
    *("libcupti.so.12", "libcusolver.so.11", "libcusparse.so.12", "libnccl.so.2"),
    *("libnvJitLink.so.12", "libnvshmem_host.so.3"),
)
#: Names of functions that it looks up in them.
ASKED = re.compile(
    rb"\0((?:__cuda|cu[A-Z]|cuda|cublas|cudnn|cufft|cusolver|cusparse|cupti|nvml|nccl|nvshmem)\w+)(?=\0)"
)
#: The driver compiles, and no kernel is timed.
FLAGS = (
    "--xla_gpu_autotune_level=0",
    "--xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found",
)
#: Where XLA looks for the functions of mathematics that CUDA brings: a text of LLVM without any.
MATHEMATICS = Path("nvvm", "libdevice", "libdevice.10.bc")
#: With which each buffer is a block of the driver's own pool.
FROM_THE_DRIVER = {
    "XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
#: Of the device. XLA keeps 8 bytes for each 256 of an arena, and an arena is most of the device.
MEMORY = 4 << 30


class Standin(NamedTuple):
    """The libraries, built."""

    folder: Path

    def variables(self, **more):
        """Those with which Python finds JAX, and JAX the libraries."""
        variables = {
            "LD_LIBRARY_PATH": str(self.folder),
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", PLUGINS, JAX))),
            "JAX_PLATFORMS": "cuda",
            "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "XLA_FLAGS": " ".join((*FLAGS, f"--xla_gpu_cuda_data_dir={self.folder / 'cuda'}")),
            "TF_CPP_MIN_LOG_LEVEL": "2",  # errors only
            "STANDIN_MEMORY": str(MEMORY),
        }
        return {**variables, **more}


def is_installed():
    """Whether scripts/jax has installed it."""
    return (JAX / "installed.txt").is_file()


def build(folder):
    """Builds into a folder that is new or empty."""
    folder = Path(folder).resolve()
    (folder / "driver").mkdir(parents=True)
    driver = build_driver(folder / "driver")
    asked = {name.decode() for name in ASKED.findall(PLUGIN.read_bytes())}
    build_runtime([PLUGIN], SOURCE, folder, asked, LIBRARIES, driver)
    # Again, so that what it has no part in counting is found in it, too.
    build_driver(driver.parent, "-Wl,--no-as-needed", folder / "libstandin.so")
    mathematics = folder / "cuda" / MATHEMATICS
    mathematics.parent.mkdir(parents=True)
    mathematics.write_text('target triple = "nvptx64-nvidia-gpulibs"\n')
    return Standin(folder)


if __name__ == "__main__":
    for name, value in build(sys.argv[1]).variables().items():
        print(f"export {name}='{value}'")
