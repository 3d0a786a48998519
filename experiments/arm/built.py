"""Builds memtrace for 64-bit Arm with Debian's compiler."""

import os
import shutil
import subprocess
import sys

from experiments.debian import in_root, index, unpack, unpacked
from experiments.guest.machine import ARM as WORK
from experiments.recording import ROOT

TARGET = "aarch64-unknown-linux-gnu"
COMMANDS = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-system-aarch64": "qemu-system-arm",
    "cpio": "cpio",
    "mke2fs": "e2fsprogs",
}
#: What builds, and what runs the result in user mode.
TOOLS = ("rustc", "cargo", "gcc", "libc6-dev", "clang-19", "dash", "qemu-user")
#: Architectures of backports are not always at the same version.
SUITES = ("trixie-backports", "forky", "sid")
CROSS_TOOLS = ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
#: For Arm, GCC has no large code model with -fPIC.
COMPILER = """#!/bin/sh
for word; do
    shift
    [ "$word" = -mcmodel=large ] || set -- "$@" "$word"
done
exec {} "$@"
"""
#: What runs in user mode, and what guests get.
SYSTEM = ("libc6", "libstdc++6", "python3", "busybox-static", "util-linux")
#: In the folder of the tools, where there is no network.
BUILD = f"""
set -e
cd /checkout
export CARGO_HOME=/checkout/target/arm/cargo CARGO_TARGET_DIR=/checkout/target/arm/built
export CLANG=clang-19
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
build="cargo build --quiet --offline --locked --target {TARGET}"
$build --release
$build --profile preload -p memtrace-probe -p memtrace-cuda-probe
"""


def installed():
    missing = [package for command, package in COMMANDS.items() if shutil.which(command) is None]
    if missing:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)


def tools():
    """The folder of what builds."""
    return unpacked(WORK / "tools", SUITES[0], TOOLS + CROSS_TOOLS)


def system(suite="trixie"):
    """The folder of a release for Arm, in which programs find their libraries."""
    name = "system" if suite == "trixie" else f"system-{suite}"
    return unpacked(WORK / name, suite, SYSTEM, "arm64")


def standard_library(compiler):
    """Rust's for Arm, of the version of a compiler (`rustc 1.97.1 …`): a package of the first suite
    that has it."""
    if not compiler:
        sys.exit(f"the compiler in {WORK / 'tools'} does not run; remove that folder, try again")
    wanted = compiler.split()[1]
    for suite in SUITES:
        package = index(suite, "arm64")["libstd-rust-dev"]
        if package["Version"].startswith(f"{wanted}+"):
            return package
    sys.exit(f"Debian has no standard library of Rust {wanted} for Arm; remove {WORK}, try again")


def built():
    """Builds with Debian's compiler: there is a standard library of the same version for Arm."""
    folder = tools()
    system()
    home = {**os.environ, "CARGO_HOME": str(WORK / "cargo")}
    subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=ROOT, env=home, check=True)
    if not (folder / "usr/lib/rustlib" / TARGET).exists():
        unpack(standard_library(in_root(folder, "rustc", "--version").stdout), folder)
    done = in_root(folder, "dash", "-c", BUILD)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def compilers(folder, command):
    """The folder, with compilers for Arm that have the names of this machine's: `command`, with
    their names in it."""
    folder.mkdir(exist_ok=True)
    for name in ("gcc", "g++"):
        (folder / name).write_text(COMPILER.format(command.format(name)))
        (folder / name).chmod(0o755)
    return folder
