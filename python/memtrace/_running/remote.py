"""Traces on object storage: fsspec copies them here before they are read."""

import atexit
import os
import posixpath
import re
import shutil
import tempfile
from contextlib import contextmanager

META = "meta.json"
#: How deep traces may lie: `HOST/JOB/RANK/meta.json`, as below a directory.
DEPTH = 4


def is_remote(place):
    """Whether it is a URL, as fsspec takes it."""
    return isinstance(place, str) and "://" in place


def traces_in(url):
    """The URLs of the traces there, in the order of those in a directory.

    ImportError: fsspec, or what it needs for such a URL, is not installed. ValueError: there is
    no trace, or no such kind of URL.
    """
    files, root = _opened(url)
    folders = [posixpath.split(path) for path in files.find(root, maxdepth=DEPTH)]
    found = [folder for folder, name in folders if name == META and "/." not in folder]
    if not found:
        raise ValueError(f"{url} has no trace: give the URL of one, or of a folder with traces")
    return [files.unstrip_protocol(folder) for folder in sorted(found, key=_in_order)]


def kept_copy(url):
    """A directory with copies of the traces there, until this process ends."""
    folder = tempfile.mkdtemp(prefix="memtrace-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number, trace in enumerate(traces_in(url)):
        _copy(trace, os.path.join(folder, str(number)))
    return folder


@contextmanager
def copies(places):
    """Directories of traces, each with its URL if it is a copy, which is here for a while."""
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        local = []
        for number, place in enumerate(places):
            if is_remote(place):
                copy = os.path.join(folder, str(number))
                _copy(place, copy)
                local.append((copy, place))
            else:
                local.append((place, None))
        yield local


def _copy(url, folder):
    """Copies the files of a trace."""
    files, root = _opened(url)
    paths = files.find(root)
    names = [posixpath.relpath(path, root) for path in paths]
    if any(name.startswith("..") for name in names):
        raise ValueError(f"{url} has a file outside of itself: it is no trace")
    copied = [os.path.join(folder, *name.split("/")) for name in names]
    for parent in {os.path.dirname(path) for path in copied}:
        os.makedirs(parent, exist_ok=True)
    files.get(paths, copied)


def _opened(url):
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"{url} is read by fsspec: pip install fsspec ({error})") from error
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def _in_order(name):
    """Sorts as the name does, but `9` before `10`."""
    return re.sub(r"\d+", lambda digits: digits.group().zfill(20), name)
