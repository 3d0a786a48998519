"""Keeps out of the last of the stack, where the program is to run into its limit by itself.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

# Up to 3.8 an interpreter aborts that recurses further after a function has caught a RecursionError
# that the limit has raised. Its `sys.setrecursionlimit` raises another, and does nothing else, if
# the limit is closer than 50 calls: to set the limit that is set asks for the depth. That needs no
# stack itself, which a function around it would.
needs_room = sys.version_info < (3, 9)

# What is raised where the stack ends. `ctypes` has its own way to say it, where a call converts its
# arguments: the probe's functions take what the recorder has made itself, so it says nothing else.
_no_room = (RecursionError,)


def learn_no_room(ctypes):
    """Adds what `ctypes` raises."""
    global _no_room
    _no_room = (RecursionError, ctypes.ArgumentError)
