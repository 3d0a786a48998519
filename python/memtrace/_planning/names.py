"""Names of operators, as traces and models have them: `module:Class.method`."""

from functools import partial


def last_part(operator):
    """What a name is called for short."""
    return operator.replace(":", ".").rsplit(".", 1)[-1]


def ends_one(name, operators):
    """True if an operator's last part is `name`."""
    return any(last_part(known) == name for known in operators)


def is_known(name, operators):
    """True of an operator's name, and of its last part."""
    return name in operators or ends_one(name, operators)


def unwrapped(function):
    """What a `functools.partial` calls in the end, and the keywords that it brings."""
    keywords = {}
    while isinstance(function, partial):
        keywords = {**function.keywords, **keywords}
        function = function.func
    return function, keywords


def names_of(function):
    """How a trace may name a function: as a whole, by its qualified name, by its last part."""
    module = getattr(function, "__module__", None)
    qualified = getattr(function, "__qualname__", type(function).__qualname__)
    return [f"{module}:{qualified}", qualified, last_part(qualified)]


def name_in(model, operator):
    """The name that a model has for a function, or for what a partial calls; a name stays one.

    ValueError: the model has no law for it.
    """
    function, _ = unwrapped(operator)
    if isinstance(function, str):
        return function
    known = model.operators()
    for name in names_of(function):
        if is_known(name, known):
            return name
    raise ValueError(f"the model has no law for {names_of(function)[0]}; it has {', '.join(known)}")
