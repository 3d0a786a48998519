"""Names of functions, as a recording writes them."""

from functools import partial


def name_of(function):
    """`module:qualified name` of a function, or of what a partial calls; a name stays one.

    ValueError: it is neither.
    """
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, str):
        return function
    named = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if None in named:
        raise ValueError(f"say what {function!r} is called in the model: it has no name of its own")
    return ":".join(named)
