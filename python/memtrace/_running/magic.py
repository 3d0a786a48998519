"""`%memtrace` and `%%memtrace`: a statement or a cell in a fresh recorded interpreter."""

import argparse
import shlex

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display

from . import fresh
from .record import ProgramFailed, finished, unused


@magics_class
class MemtraceMagics(Magics):
    """The magics of memtrace."""

    @no_var_expand
    @line_cell_magic
    def memtrace(self, line, cell=None):
        """Runs a statement or the cell in a fresh Python under memtrace, shows the report, and
        returns the trace.

        `%memtrace [OPTION... --] STATEMENT`, `%%memtrace [OPTION]...`: `--html` shows the page of
        the trace instead of the summary, `-o DIR` says where the trace goes; others are options of
        the command line, e.g. `--operator __main__:gst3d`. This interpreter cannot be recorded
        itself (the library that records is loaded when a program starts). So the code sees none of
        the notebook's variables and must import what it uses; other magics do not work in it. Code
        that raises is recorded too.
        """
        options, source = (line, cell) if cell is not None else _parted(line)
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("-o", "--output")
        parser.add_argument("--html", action="store_true")
        known, options = parser.parse_known_args(shlex.split(options))
        if known.html:
            options.append("--quiet")
        trace = _recorded(source, known.output or unused("cell"), options)
        if known.html:
            display(trace.show())
        return trace


def _parted(line):
    """The options and the statement of a line."""
    if not line.strip():
        raise UsageError("%memtrace takes a statement: %memtrace data = bytearray(10_000_000)")
    if not line.startswith("-"):
        return "", line
    options, dashes, statement = f"{line} ".partition(" -- ")
    if line.startswith("-- "):
        options, dashes, statement = "", "--", line[3:]
    if not dashes or not statement.strip():
        raise UsageError("%memtrace takes `--` between its options and the statement")
    return options, statement.strip()


def _recorded(source, output, options):
    try:
        return finished(fresh.source(source, output, options))
    except ProgramFailed as failure:
        return failure.trace
