"""Calls the other texts of the recorder when a module of the program has been executed.

One of the texts that make up the recorder (see `__init__.py` for their constraints).

Nothing is imported for it. A finder at the head of `sys.meta_path` queries the finders behind it.
It has the loader of an awaited module report when it is done, before any other code can have seen
the module.
"""

import sys

_awaited = []  # (name of a module, whether those inside it count too, what to call)


def when_executed(name, arrived, inside=False):
    """Calls `arrived(module)` when a module has been executed, at once if it has been.

    name: of the module, as in `sys.modules`.
    inside: whether to do the same for each module inside that package.
    """
    if not _awaited:
        sys.meta_path.insert(0, _Finder())
    _awaited.append((name, inside, arrived))
    for found in list(sys.modules):
        if _is_awaited(found, name, inside) and sys.modules[found] is not None:
            _call(arrived, sys.modules[found])


def _is_awaited(module, name, inside):
    return module == name or (inside and module.startswith(name + "."))


def _call(arrived, module):
    try:
        arrived(module)
    except Exception:
        pass  # a type that cannot be changed, for one


class _Finder:
    """A finder that finds what those behind it find."""

    def __init__(self):
        self._queries = set()  # (thread, module): other finders may query all finders, this one too

    def find_spec(self, name, path=None, target=None):
        from _thread import get_ident

        query = get_ident(), name
        awaited = any(_is_awaited(name, *awaited[:2]) for awaited in _awaited)
        if not awaited or query in self._queries:
            return None
        self._queries.add(query)
        try:
            finders = list(sys.meta_path)
            behind = finders[finders.index(self) + 1 :] if self in finders else finders
            for finder in behind:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    _follow(spec.loader)
                    return spec
            return None
        finally:
            self._queries.discard(query)


def _follow(loader):
    """Has a loader call what awaits the next module, after it has executed that."""
    try:
        own = vars(loader)
        if isinstance(loader, type) or "exec_module" in own:
            return  # builtin and frozen modules share their loader; or it is followed already
        execute = loader.exec_module

        def exec_module(module):
            own.pop("exec_module", None)
            execute(module)
            for awaited, inside, arrived in list(_awaited):
                if _is_awaited(module.__name__, awaited, inside):
                    _call(arrived, module)

        loader.exec_module = exec_module
    except Exception:
        pass
