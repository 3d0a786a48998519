"""`%%memtrace`: a cell in a fresh recorded interpreter."""

import argparse
import shlex

from IPython.core.magic import Magics, cell_magic, magics_class

from . import fresh
from .record import ProgramFailed, finished, unused


@magics_class
class MemtraceMagics(Magics):
    """The magics of memtrace."""

    @cell_magic
    def memtrace(self, line, cell):
        """Runs the cell in a fresh Python under memtrace, shows the report, and returns the trace.

        `%%memtrace [-o DIR] [OPTION]...`: options of the command line, e.g. `--operator
        __main__:gst3d`. This interpreter cannot be recorded itself (the library that records is
        loaded when a program starts). So the cell sees none of the notebook's variables and must
        import what it uses; other magics do not work in it. A cell that raises is recorded too.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("-o", "--output")
        known, options = parser.parse_known_args(shlex.split(line))
        ended = fresh.source(cell, known.output or unused("cell"), options)
        try:
            return finished(ended)
        except ProgramFailed as failure:
            return failure.trace
