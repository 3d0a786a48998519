"""Builds a stand-in for CUDA's libraries: what is written in C, and functions that return 0 for all else that a framework wants.

One library has every name: those of CUDA's libraries are links to it.
"""

import re
import subprocess
from pathlib import Path

COMMON = Path(__file__).resolve().parents[1] / "cuda" / "runtime" / "common.c"
_CUDA = re.compile(r"lib(cu|nv|nccl)")
_OTHER = re.compile(r"cu|nccl|nvml|nvshmem|nvtx|__cuda")


def build(libraries, source, out, asked=(), opened=(), driver=None):
    """Makes the stand-in in the folder `out`.

    libraries: those of the framework.
    source: what is this framework's beside common.c.
    asked: names that the framework looks up while it runs.
    opened: libraries in which it does.
    driver: the stand-in for the driver, whose functions and name are its own.
    """
    needed, wanted, defined = set(), set(), set()
    for library in libraries:
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", _output("readelf", "-d", library)))
        for kind, name in _symbols("-D", library):
            (wanted if kind in "Uvw" else defined).add(name)
    known = {name.partition("@")[0] for name in defined} | _defined("-D", driver)
    symbols = [name.partition("@")[::2] for name in wanted]
    symbols = [(name, version) for name, version in symbols if name not in known]
    versions = {"": [name for name in asked if name not in known]}
    for name, version in symbols:
        if _CUDA.match(version) or version == "NVSHMEM" or not version and _OTHER.match(name):
            versions.setdefault(version, []).append(name)
    objects = [_compiled(part, out) for part in (COMMON, source)]
    own = set().union(*(_defined("-g", each) for each in objects))
    rest = {name for names in versions.values() for name in names} - own
    (out / "rest.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in rest))
    nodes = [
        f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};"
        for version, names in versions.items()
        if version
    ]
    (out / "versions").write_text("\n".join(nodes))
    library = out / "libstandin.so"
    script = [f"-Wl,--version-script={out / 'versions'}"] if nodes else []
    objects.append(_compiled(out / "rest.c", out))
    subprocess.run(["cc", "-shared", *script, "-o", library, *objects, "-ldl"], check=True)
    links = {name for name in needed if _CUDA.match(name)} | {"libnvidia-ml.so.1", *opened}
    links -= {path.name for path in libraries}
    if driver:
        links = links - {driver.name}
        (out / driver.name).symlink_to(driver)
    for name in links:
        (out / name).symlink_to(library.name)


def _compiled(source, out):
    output = out / f"{source.stem}.o"
    options = ["-O1", "-fPIC", "-w", "-I", COMMON.parent]
    subprocess.run(["cc", *options, "-c", "-o", output, source], check=True)
    return output


def _defined(option, file):
    """Functions that a file has; none if there is no file."""
    return {name for kind, name in _symbols(option, file) if kind == "T"} if file else set()


def _symbols(option, file):
    """(kind, name) of each."""
    return [line.split()[-2:] for line in _output("nm", option, file).splitlines() if line]


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
