"""Which folder of a crate's source uses which other: read from the paths that its files write."""

import re
from pathlib import Path

_COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|r(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"', re.DOTALL
)
_UNIT_TESTS = "#[cfg(test)]\nmod tests {"  # they may use what they test with
_PATH = re.compile(r"\b(crate|super)\s*::")
_WORD = re.compile(r"\s*(r#)?(\w+|\*)\s*")


class Crate:
    """The modules of a crate, each in a room: the folder it lies in.

    Folders in `opened` are no rooms themselves: the folders and files in them are.
    """

    def __init__(self, source: Path, opened=()):
        self.source = source
        self.opened = set(opened)
        self.modules = {self._module(path): path for path in sorted(source.rglob("*.rs"))}

    def arrows(self):
        """For each room the rooms that it uses, itself left out."""
        found = {}
        for module, path in self.modules.items():
            room = self.room(module)
            used = found.setdefault(room, set())
            for target in _paths(path.read_text(), module[:-1]):
                used.add(self.room(self._known(target)))
            used.discard(room)
            used.discard(None)
        found.pop(None, None)
        return found

    def room(self, module):
        """The folder of a module, or the file that stands by itself; None for the root."""
        depth = 1
        while "/".join(module[:depth]) in self.opened and depth < len(module):
            depth += 1
        name = "/".join(module[:depth])
        return None if name == "" or name in self.opened else name

    def _module(self, path):
        parts = path.relative_to(self.source).with_suffix("").parts
        return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts

    def _known(self, target):
        """The longest part of a path that is a module; the rest are items."""
        while target and target not in self.modules:
            target = target[:-1]
        return target


def _paths(text, parent):
    """Every path of the text that begins with `crate` or `super`, from the crate's root."""
    text = _COMMENT_OR_TEXT.sub(" ", text.split(_UNIT_TESTS)[0])
    for match in _PATH.finditer(text):
        before = text[: match.start()].rstrip()
        if before.endswith("::") or before.endswith("pub(") or before.endswith("in"):
            continue
        base = () if match[1] == "crate" else parent
        yield from _tree(text, match.end(), base)[0]


def _tree(text, at, base):
    """The paths of a use tree or an expression from `at` on, and where they end."""
    if text[at : at + 8].lstrip().startswith("{"):
        return _group(text, text.index("{", at) + 1, base)
    word = _WORD.match(text, at)
    if word is None:
        return [base], at
    if word[2] == "super":
        base, here = base[:-1], base[:-1]
    else:
        here = base if word[2] in ("self", "*") else (*base, word[2])
    if text.startswith("::", word.end()):
        following = word.end() + 2
        if text[following : following + 1] == "<":  # a turbofish
            return [here], word.end()
        return _tree(text, following, here)
    return [here], word.end()


def _group(text, at, base):
    """The paths between braces."""
    found = []
    while at < len(text):
        rest = re.compile(r"[\s,]*").match(text, at).end()
        if text[rest : rest + 1] == "}":
            return found, rest + 1
        paths, end = _tree(text, rest, base)
        alias = re.compile(r"\s*as\s+\w+").match(text, end)
        end = alias.end() if alias else end
        found += paths
        if end == at:
            break
        at = end
    return found, at


def circles(arrows):
    """Sets of rooms that use each other, directly or by way of others."""
    reach = {room: _reached(arrows, room) for room in arrows}
    found = []
    for room in arrows:
        circle = {other for other in reach[room] if room in reach.get(other, ())} | {room}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def _reached(arrows, room):
    seen, waiting = set(), [room]
    while waiting:
        for following in arrows.get(waiting.pop(), ()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen
