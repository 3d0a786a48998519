"""Names of operators, as traces and models have them: `module:Class.method`."""

from functools import partial


def last_part(operator):
    """What a name is called for short."""
    return operator.replace(":", ".").rsplit(".", 1)[-1]


def ends_one(name, operators):
    """True if an operator's last part is `name`."""
    return any(last_part(known) == name for known in operators)


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
