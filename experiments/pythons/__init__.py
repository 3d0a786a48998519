"""Pythons of other systems: whether memtrace reads them."""

PARTS = {
    "debian": "the Python of other releases of Debian, in a folder that the program takes for /",
    "built": "CPython built without pymalloc, and without the GIL",
}
