"""Names of operators, as traces and models have them: `module:Class.method`."""


def last_part(operator):
    """What a name is called for short."""
    return operator.replace(":", ".").rsplit(".", 1)[-1]


def ends_one(name, operators):
    """True if an operator's last part is `name`."""
    return any(last_part(known) == name for known in operators)
