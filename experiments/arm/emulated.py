"""Runs programs for 64-bit Arm beside those of this machine, by qemu's user mode."""

import platform
import shutil

from experiments import debian
from experiments.arm.built import tools

#: In user and mount namespaces of its own. By the head of an ELF file: 64 bits, of Arm. Signatures
#: of pointers in a cipher that is fast to emulate.
EMULATED = r"""
set -e
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-aarch64:M::$head:$mask:$0:FP" >/proc/sys/fs/binfmt_misc/register
export QEMU_CPU=max,pauth-impdef=on
exec "$@"
"""


def why_not():
    """Why nothing can be built for Arm here, or emulated; None if it can."""
    if platform.machine() != "x86_64":
        return "what builds and emulates is for x86-64"
    if shutil.which("apt-get") is None:
        return "qemu and the cross compiler come with apt-get"
    return debian.why_not()


def why_not_beside():
    """Why nothing for Arm runs beside programs of this machine; None if it can."""
    version = tuple(map(int, platform.release().split("-")[0].split(".")[:2]))
    if version < (6, 7):
        return "emulating beside this machine's programs needs Linux 6.7"
    return why_not()


def emulated(*words):
    """A command in which programs for Arm run, as the words to start it with."""
    qemu = tools() / "usr" / "bin" / "qemu-aarch64"
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", EMULATED, qemu, *words]
