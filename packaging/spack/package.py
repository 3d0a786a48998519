"""memtrace for Spack: the file in packages/memtrace of a repository (spack repo create)."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Memtrace(PythonPackage):
    """A memory profiler that predicts: it records every allocation of a program, and fits laws
    that give the peak bytes of its operators at shapes that were never run."""

    homepage = "https://github.com/memtrace/memtrace"
    git = "https://github.com/memtrace/memtrace.git"
    import_modules = ["memtrace"]

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("kernel", default=True, description="Build the BPF programs of the kernel side")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("python@3.8:", type=("build", "run"))
    depends_on("py-maturin@1.7:1", type="build")
    depends_on("py-wheel", type="build")
    depends_on("patchelf", type="build")
    depends_on("llvm +clang targets=bpf", type="build", when="+kernel")

    conflicts("platform=darwin", msg="memtrace records on Linux")
    requires(
        "target=x86_64:",
        "target=aarch64:",
        policy="one_of",
        msg="memtrace reads the stacks of x86-64 and of 64-bit Arm",
    )
