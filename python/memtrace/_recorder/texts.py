"""JSON, put together by hand: an encoder of Python's takes longer than all else of a span.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

TEXT_LIMIT = 60 * 1024  # bytes of one span's JSON that the probe accepts


class Json(str):
    """A text that is JSON already."""

    __slots__ = ()


def _first_quoted(text):
    try:
        from _json import encode_basestring  # `json` may be a module of the program's
    except ImportError:
        from json.encoder import encode_basestring

    global quoted
    quoted = encode_basestring
    return quoted(text)


quoted = _first_quoted  # a string as JSON; from the second call on it is Python's own function


def json_of(value):
    """A parameter as JSON: a scalar, or lists and dicts of them."""
    kind = type(value)
    if kind is Json:
        return value
    if kind is str:
        return quoted(value)
    if kind is int or kind is float:
        return repr(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is dict:
        return members_of(value)
    return f"[{', '.join([json_of(member) for member in value])}]"


def members_of(values):
    """A dict as JSON, from names to parameters."""
    members = ""
    for name, value in values.items():
        members += f", {quoted(name)}: {json_of(value)}"
    return f"{{{members[2:]}}}"


def with_arrays(before, arrays, after, shortest):
    """The bytes of a JSON text with a list of arrays in it.

    Of a text that is too long half the arrays go until it is not; if none are left, what is
    `after` them gives way to the `shortest`.
    """
    members = ""
    for array in arrays:
        members += f", {array.text()}"
    # "replace": file names may hold lone surrogates, JSON readers refuse them.
    text = f"{before}[{members[2:]}]{after}".encode("utf-8", "replace")
    if len(text) <= TEXT_LIMIT:
        return text
    if arrays:
        return with_arrays(before, arrays[: len(arrays) // 2], after, shortest)
    return f"{before}[]{shortest}".encode("utf-8", "replace")
