"""Docstrings of memtrace's native module, for the documentation site.

Its stub has the types, the built module the texts: this brings them together (mkdocs.yml).
"""

import importlib
import operator
import sys
from pathlib import Path

import griffe

MODULE = "memtrace._native"


class NativeDocstrings(griffe.Extension):
    def __init__(self):
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
        self.native = importlib.import_module(MODULE)

    def on_object(self, *, obj, **_):
        name = obj.path.removeprefix(f"{MODULE}.")
        if name == obj.path or obj.docstring:
            return
        try:
            text = operator.attrgetter(name)(self.native).__doc__
        except AttributeError:
            return  # a name of the stub only, such as an alias of a type
        if text:
            obj.docstring = griffe.Docstring(text, parent=obj)
