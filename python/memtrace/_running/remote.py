"""Traces on object storage: fsspec copies them here before they are read."""

import atexit
import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress

META = "meta.json"
#: How deep traces may lie: `HOST/JOB/RANK/meta.json`, as below a directory.
DEPTH = 4
#: What may stand before the place of a file, without a path of its own.
CACHES = ("simplecache", "filecache", "blockcache", "cached")
#: `github://OWNER:REPOSITORY@REVISION/PATH` has no password.
REVISIONS = ("git", "github")
#: What a query that gives access has.
SIGNS = re.compile("sig|token|delegation|key|credential|secret|password", re.IGNORECASE)


def is_remote(place):
    """Whether it is a URL, as fsspec takes it."""
    return isinstance(place, str) and "://" in place


def traces_in(url):
    """The URLs of the traces there, in the order of those in a directory.

    ImportError: fsspec, or what it needs for such a URL, is not installed. OSError: the storage
    refuses. ValueError: there is no trace, or no such kind of URL.
    """
    return [_below(url, folders) for folders in _folders(url)]


def _folders(url):
    """Where below it the traces are, each as the names on the way."""
    files, root = _opened(url)
    files.invalidate_cache(root)
    there = [names[:-1] for names in _names_below(files, root) if names[-1] == META]
    found = set()
    for folders in sorted(map(tuple, there), key=len):
        hidden = any(folder.startswith(".") for folder in folders)
        inside = any(folders[:depth] in found for depth in range(len(folders)))
        if len(folders) < DEPTH and not hidden and not inside:
            found.add(folders)
    if not found:
        with suppress(FileNotFoundError):
            files.ls(root)  # says so where it may not be read
        why = "has no trace: give the URL of one, or of a folder with traces"
        raise ValueError(f"{public(url)} {why}")
    return sorted(found, key=lambda folders: _in_order("/".join(folders)))


def kept_copy(url):
    """A directory with copies of the traces there, under their names, until this process ends."""
    found = _folders(url)
    folder = tempfile.mkdtemp(prefix="memtrace-")
    atexit.register(_remove, folder, os.getpid())
    for folders in found:
        _copy(_below(url, folders), os.path.join(folder, *folders))
    return folder


def public(url):
    """A URL without passwords and signatures: for messages, and for models, which are shared."""
    return "::".join(map(_public_part, url.split("::")))


def _public_part(part):
    scheme, separator, rest = part.partition("://")
    rest, _, query = rest.partition("?")
    if query and not SIGNS.search(query):
        rest += f"?{query}"
    if scheme in REVISIONS:
        return scheme + separator + rest
    place, slash, path = rest.partition("/")
    who, at, host = place.rpartition("@")
    user = "" if scheme.lower() in ("http", "https") else who.partition(":")[0] + at
    return f"{scheme}{separator}{user}{host}{slash}{path}"


@contextmanager
def naming(copied):
    """Errors name the URLs of copies: pairs of a directory and a public URL."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for copy, url in copied:
            text = text.replace(copy, url)
        raise ValueError(text) from None


@contextmanager
def copies(places):
    """Directories of traces, each with its URL if it is a copy, which is here for a while."""
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        local = []
        for number, place in enumerate(places):
            if is_remote(place):
                copy = os.path.join(folder, f"{number:06}")  # none begins as another does
                _copy(place, copy)
                local.append((copy, public(place)))
            else:
                local.append((place, None))
        with naming([(copy, url) for copy, url in local if url]):
            yield local


def _copy(url, folder):
    """Copies the files of a trace."""
    files, root = _opened(url)
    found = _names_below(files, root)
    if any(".." in names for names in found):
        raise ValueError(f"{public(url)} has a file outside of itself: it is no trace")
    copied = [os.path.join(folder, *names) for names in found]
    for parent in {os.path.dirname(path) for path in copied}:
        os.makedirs(parent, exist_ok=True)
    files.get(["/".join([root, *names]) for names in found], copied)


def _names_below(files, root):
    """The files there, each as the names on the way to it."""
    return [path[len(root) :].strip("/").split("/") for path in files.find(root or "/")]


def _below(url, folders):
    """The URL of a folder below, in the first part between `::` that is a place. Those before it
    say how it is kept, those behind it where it lies."""
    parts = url.split("::")
    at = next(number for number, part in enumerate(parts) if part not in CACHES)
    scheme, _, path = parts[at].partition("://")
    inside = path.rstrip("/") + "/" if path else ""  # an archive's root has no path
    parts[at] = f"{scheme}://" + (inside + "/".join(folders)).rstrip("/")
    return "::".join(parts)


def _opened(url):
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        why = f"is read by fsspec: pip install fsspec ({error})"
        raise ImportError(f"{public(url)} {why}") from error
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def _remove(folder, process):
    """Not in a fork."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _in_order(name):
    """Sorts as the name does, but `9` before `10`."""
    return re.sub(r"\d+", lambda digits: digits.group().zfill(20), name)
