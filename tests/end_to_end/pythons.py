"""The Python interpreters of this machine, and what they need to run pytest and IPython."""

import json
import os
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PATTERNS = (
    "/usr/bin/python3",
    "~/.pyenv/versions/*/bin/python",
    "~/.local/share/uv/python/*/bin/python3",
    "/opt/*/bin/python3",
)
# Other interpreters, separated by colons.
MORE = "MEMTRACE_TEST_PYTHONS"

_ABOUT = """
import json, os, platform, sys
from sysconfig import get_config_var as of
library = os.path.join(of("LIBDIR") or "", of("INSTSONAME") or "") if of("Py_ENABLE_SHARED") else ""
version = list(sys.version_info[:3])
print(json.dumps([platform.python_implementation(), version, library]))
"""


class Python(NamedTuple):
    """An interpreter."""

    path: str
    implementation: str
    version: tuple
    library: str  # the path of libpython, if it is a shared library

    @property
    def is_read(self):
        """True if memtrace reads its frames: a release build of CPython 3.8 to 3.14 with the GIL."""
        known = self.implementation == "CPython" and (3, 8) <= self.version < (3, 15)
        return known and not (
            self.says("import sys; print(hasattr(sys, 'gettotalrefcount'))")
            or self.is_free_threaded
        )

    @property
    def is_free_threaded(self):
        """True without the GIL: the native module cannot be loaded."""
        return self.says("import sys; print('t' in sys.abiflags)")

    @property
    def name(self):
        number = ".".join(map(str, self.version))
        return f"{'debian' if self.path.startswith('/usr/') else self.implementation}-{number}"

    def says(self, program):
        """What a program prints: True or False."""
        done = subprocess.run([self.path, "-c", program], capture_output=True, check=False)
        return done.stdout.strip() == b"True"


def found():
    """All that can be run."""
    paths = [Path(path) for pattern in PATTERNS for path in _matching(pattern)]
    pypy = shutil.which("pypy3")
    paths += [Path(path) for path in [*os.environ.get(MORE, "").split(":"), pypy] if path]
    return [python for path in paths if (python := _about(path)) is not None]


def _matching(pattern):
    path = Path(pattern).expanduser()
    return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


@cache
def _about(path):
    done = subprocess.run([path, "-c", _ABOUT], capture_output=True, check=False)
    if done.returncode:
        return None
    implementation, version, library = json.loads(done.stdout)
    return Python(str(path), implementation, tuple(version), library)


def packages(folder, *names):
    """A folder with the pure packages of this interpreter that these names need."""
    folder.mkdir()
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another version of Python
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                waiting.append(_name(requirement))
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..",)}
        for top in tops - {"__pycache__"}:
            target = Path(distribution.locate_file(top)).resolve()
            if target.exists() and not (folder / top).exists():
                (folder / top).symlink_to(target)
    return folder


def _name(requirement):
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), None)
    return requirement[:end]
