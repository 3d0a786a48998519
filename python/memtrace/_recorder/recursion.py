"""Keeps out of the last of the stack, where the program is to run into its limit by itself.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

import sys

# Up to 3.8 an interpreter aborts that recurses further after somebody has caught a RecursionError.
needs_room = sys.version_info < (3, 9)

# In 3.8 `sys.setrecursionlimit` raises a RecursionError, and does nothing else, if the limit is
# closer than 50 calls. To set the limit that is set is the only inexpensive question after the
# depth. As one call of C code it cannot be interrupted.
room = map(sys.setrecursionlimit, iter(sys.getrecursionlimit, None)).__next__
