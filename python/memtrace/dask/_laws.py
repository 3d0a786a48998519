"""The law of an operator: by its name, or by the function that it is."""

from functools import partial
from typing import Any, NamedTuple

from .._names import ends_one


class Operator(NamedTuple):
    """An operator that a model has a law for."""

    model: Any
    name: str
    dtype: "str | None"
    params: dict
    any_version: bool
    function: Any = None  # called to warm workers, if it is known

    @classmethod
    def of(cls, operator, model, x=None, *, params=None, any_version=False, keywords=None):
        """operator: a name or a function. keywords: what the function is called with beside `x`.

        ValueError: the model has no law for it.
        """
        function = operator if callable(operator) else None
        keywords = dict(keywords or {})
        name = operator
        if function is not None:
            inner, bound = unwrapped(function)
            keywords = {**bound, **keywords}
            name = name_in(model.operators(), inner)
            if name is None:
                known = ", ".join(model.operators())
                raise ValueError(f"the model has no law for {names_of(inner)[0]}; it has {known}")
        dtype = None if x is None else x.dtype.str
        chosen = cls(model, name, dtype, {}, any_version, function)
        if x is not None and not params:
            params = chosen.known(x.shape, keywords)
        return chosen._replace(params=dict(params or {}))

    def known(self, shape, keywords):
        """Those of a call's scalars that the law was recorded with.

        ValueError: it was recorded with another value of one.
        """
        params = {}
        for name, value in keywords.items():
            if not isinstance(value, (bool, int, float, str)):
                continue
            try:
                self._replace(params={name: value}).predict(shape)
            except ValueError as error:
                if f"knows no {name}" in str(error):
                    continue  # the operator takes it, but no recorded call was given it
                raise
            params[name] = value
        return params

    def predict(self, shape):
        """What a call needs for an input of `shape`: see `Model.predict`."""
        return self.model.predict(
            self.name,
            tuple(map(int, shape)),
            self.dtype,
            any_version=self.any_version,
            **self.params,
        )

    def task_bytes(self, shape):
        """The most that a task holds that calls it: its input, and all that it allocates."""
        answer = self.predict(shape)
        return int(max(answer["upper_bytes"], answer["peak_bytes"]) + answer["input_bytes"])

    def on_a_tiny_block(self, x, depths):
        """The operator's call on a block of a few cells; None if only its name is known."""
        if self.function is None:
            return None
        sides = (max(each) if isinstance(each, tuple) else each for each in depths.values())
        shape = tuple(min(n, 2 * side + 8) for n, side in zip(x.shape, sides))
        return partial(_call, self.function, shape, x.dtype)


def _call(function, shape, dtype):
    import numpy as np

    function(np.ones(shape, dtype))


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
    return [f"{module}:{qualified}", qualified, qualified.rsplit(".", 1)[-1]]


def name_in(operators, function):
    """The name in a model of a function, or None."""
    for name in names_of(function):
        if name in operators or ends_one(name, operators):
            return name
    return None
