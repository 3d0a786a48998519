"""Where the command `memtrace` is, and how it is told a directory."""

import os
import shutil
import sysconfig
from pathlib import Path


def command():
    """Path of the command that came with this package, or of one in PATH.

    FileNotFoundError: there is neither.
    """
    for place in _places():
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("memtrace")
    if found is None:
        raise FileNotFoundError(
            "the command `memtrace` is neither installed with this package nor in PATH: "
            "install memtrace from a wheel"
        )
    return found


def directory(path):
    """What `-o` takes for this very directory: it reads `%` as the beginning of a placeholder."""
    return str(path).replace("%", "%%")


def _places():
    """As pip puts it: where its list says, in the environment's scripts, or in `--target`'s."""
    from importlib import metadata

    try:
        for file in metadata.files("memtrace") or ():
            if file.name == "memtrace" and file.parent.name == "bin":
                yield Path(file.locate())
    except metadata.PackageNotFoundError:
        return
    yield Path(sysconfig.get_path("scripts")) / "memtrace"
    yield Path(__file__).resolve().parents[2] / "bin" / "memtrace"
