"""Sizes as people write them."""

import re

#: Sizes are less than this.
TOO_LARGE = 1 << 63
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", 1):
    _UNITS[_letter + "B"] = 1000**_power
    _UNITS[_letter + "IB"] = 1024**_power


def parse(size):
    """Bytes of `250 MB`, `1.5GB`, or of a number. ValueError: it is none of these."""
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < TOO_LARGE:
        return int(size)  # to the byte
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        found, unit = float(size), ""
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
        found = float(match.group(1)) if match else -1.0
        unit = match.group(2).upper() if match else ""
        if match and not unit and "." in match.group(1):
            raise ValueError(f"{size!r} has no unit; write 1.5 GB or 250 MiB")
    if unit not in _UNITS or not 0 <= found * _UNITS[unit] < TOO_LARGE:
        raise ValueError(f"{size!r} is not a size; write 250 MB or 1.5 GB")
    if isinstance(size, str) and _UNITS[unit] == 1 and found % 1:
        raise ValueError(f"{size!r} has no unit; write {size} GB, or a whole number of bytes")
    return int(found * _UNITS[unit])


def text(size):
    """Three digits of it: `62.0 MB`."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    if unit == "B":
        return f"{size} B"
    places = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{places}f} {unit}"
