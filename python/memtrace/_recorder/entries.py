"""Lets chosen Python functions say that they were entered, without a frame or a hook on all others.

One of the texts that make up the recorder (see `__init__.py` for their constraints). A profile
function costs each call of the program (up to 3.11), a wrapper puts a frame between caller and
function, which `warnings` and tracebacks show, and keeps the arguments alive. So a call of
`hook(argument, ...)` is put before the function's own instructions. The function object stays
what it was: every module that imported it still has it.
"""

import sys

MINOR = sys.version_info[1]
KNOWN = range(8, 14)  # CPython's 3.8 to 3.13: the instructions below are theirs
CACHES = {11: (1, 4), 12: (3,), 13: (3,)}  # inline caches of the instructions of a call


def announce(function, arguments, hook):
    """Calls `hook` with the named positional arguments whenever `function` is entered.

    Returns False, and changes nothing, where that cannot be done.
    """
    if sys.version_info[0] != 3 or MINOR not in KNOWN or sys.implementation.name != "cpython":
        return False
    code = function.__code__
    found = (_with_prologue if MINOR >= 11 else _with_detour)(code, arguments, hook)
    if found is not None:
        function.__code__ = found
    return found is not None


def _instruction(name, argument=0, caches=0):
    import opcode

    extended = []
    for shift in (24, 16, 8):
        if argument >> shift:
            extended += [opcode.opmap["EXTENDED_ARG"], argument >> shift & 255]
    return bytes([*extended, opcode.opmap[name], argument & 255] + [0, 0] * caches)


def _hook_call(code, arguments, constant):
    """Instructions that call a constant with some arguments and drop the result."""
    loads = b""
    for name in arguments:
        if name not in code.co_cellvars:
            loads += _instruction("LOAD_FAST", code.co_varnames.index(name))
        elif MINOR >= 11:
            loads += _instruction("LOAD_DEREF", code.co_varnames.index(name))
        else:
            loads += _instruction("LOAD_DEREF", code.co_cellvars.index(name))
    load, null = _instruction("LOAD_CONST", constant), b""
    if MINOR >= 11:
        null = _instruction("PUSH_NULL")
    head = load + null if MINOR >= 13 else null + load
    count = len(arguments)
    if MINOR < 11:
        call = _instruction("CALL_FUNCTION", count)
    elif MINOR == 11:
        before, after = CACHES[11]
        call = _instruction("PRECALL", count, before) + _instruction("CALL", count, after)
    else:
        call = _instruction("CALL", count, CACHES[MINOR][0])
    return head + loads + call + _instruction("POP_TOP")


# From 3.11 all jumps are relative: instructions can be put at the beginning -----------


def _with_prologue(code, arguments, hook):
    import opcode

    old = code.co_code
    resume = next((at for at in range(0, 512, 2) if old[at] == opcode.opmap["RESUME"]), None)
    if resume is None:
        return None
    new = _hook_call(code, arguments, len(code.co_consts))
    at, units = resume // 2 + 1, len(new) // 2
    lines = _lines_with(code.co_linetable, at, units)
    if lines is None:
        return None
    return code.replace(
        co_code=old[: 2 * at] + new + old[2 * at :],
        co_consts=(*code.co_consts, hook),
        co_stacksize=max(code.co_stacksize, len(arguments) + 2),
        co_linetable=lines,
        co_exceptiontable=_handlers_with(code.co_exceptiontable, at, units),
    )


def _lines_with(table, at, units):
    """The table of lines, with `units` instructions without a line at instruction `at`."""
    position = 0
    while at > 0 and position < len(table):
        at -= (table[position] & 7) + 1
        position += 1
        while position < len(table) and not table[position] & 0x80:
            position += 1
    if at != 0:
        return None
    none = 15 << 3 | 0x80
    entries = bytes(none | min(8, units - done) - 1 for done in range(0, units, 8))
    return table[:position] + entries + table[position:]


def _handlers_with(table, at, units):
    """The table of exception handlers, with `units` instructions more at instruction `at`."""
    numbers, value = [], 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            numbers.append(value)
            value = 0
    moved = b""
    for start, length, target, rest in zip(*(numbers[part::4] for part in range(4))):
        if start < at < start + length:
            length += units
        fields = (start + units * (start >= at), length, target + units * (target >= at), rest)
        encoded = [_six_bits(field) for field in fields]
        encoded[0] = bytes([encoded[0][0] | 0x80]) + encoded[0][1:]
        moved += b"".join(encoded)
    return moved


def _six_bits(number):
    """A number in the bytes of that table: six bits each, the highest first."""
    digits = [number & 0x3F]
    while number > 0x3F:
        number >>= 6
        digits.append(number & 0x3F | 0x40)
    return bytes(reversed(digits))


# Up to 3.10 jumps are absolute: the beginning jumps to instructions behind the end ----


def _with_detour(code, arguments, hook):
    import dis

    old = code.co_code
    unit = 2 if MINOR == 10 else 1  # bytes that a jump counts in
    there = _instruction("JUMP_ABSOLUTE", len(old) // unit)
    displaced = len(there)
    while displaced < len(old) and old[displaced - 2] == dis.opmap["EXTENDED_ARG"]:
        displaced += 2
    there += _instruction("NOP") * ((displaced - len(there)) // 2)
    relative = any(old[at] in dis.hasjrel for at in range(0, displaced, 2))
    if relative or any(target < displaced for target in dis.findlabels(old)):
        return None  # what is displaced belongs to a loop or a `try`
    new = _hook_call(code, arguments, len(code.co_consts)) + old[:displaced]
    new += _instruction("JUMP_ABSOLUTE", displaced // unit)
    changes = dict(
        co_code=there + old[displaced:] + new,
        co_consts=(*code.co_consts, hook),
        co_stacksize=max(code.co_stacksize, len(arguments) + 1),
    )
    starts = list(dis.findlinestarts(code))
    if starts:
        table = "co_linetable" if MINOR == 10 else "co_lnotab"
        lines = _lines_after(getattr(code, table), starts, len(old), len(new))
        changes[table] = lines
    return code.replace(**changes)


def _lines_after(table, starts, end, size):
    """The table of lines, with the first line again for `size` bytes behind the end."""
    back = starts[0][1] - starts[-1][1]
    steps = []
    while not -127 <= back <= 127:
        steps.append(127 if back > 0 else -127)
        back -= steps[-1]
    if MINOR == 10:  # (bytes, change of line before them)
        pairs = [(0, step) for step in steps] + [(min(size, 254), back)]
        pairs += [(min(size - done, 254), 0) for done in range(254, size, 254)]
    else:  # (bytes since the last change of line, change of line)
        since = end - starts[-1][0]
        pairs = [(255, 0)] * (since // 255) + [(since % 255, (steps + [back])[0])]
        pairs += [(0, step) for step in (steps + [back])[1:]]
    return table + bytes(number & 255 for pair in pairs for number in pair)
