"""The law of an operator: by its name, or by the function that it is."""

from functools import partial
from typing import Any, NamedTuple

from .._planning.names import name_in, unwrapped
from .._running.load import model_of

#: Keywords of functions that `Model.predict` takes itself.
NOT_PARAMETERS = ("operator", "shape", "dtype", "any_version")


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
        """operator: a name or a function. model: it, or its file. keywords: what the function is
        called with in addition to `x`.

        ValueError: the model has no law for it. TypeError: that is no operator, or no model.
        """
        if not (callable(operator) or isinstance(operator, str)):
            raise TypeError(f"the operator must be a name or a function, not {operator!r}")
        model = model_of(model)
        function = operator if callable(operator) else None
        keywords = {**unwrapped(operator)[1], **(keywords or {})}
        name = name_in(model, operator)
        dtype = None if x is None else x.dtype.str
        chosen = cls(model, name, dtype, {}, any_version, function)
        if x is not None and not params:
            params = chosen.known(x.shape, keywords)
        return chosen._replace(params=dict(params or {}))

    def known(self, shape, keywords):
        """Those of a call's parameters that the laws were recorded with.

        ValueError: no law was recorded with their values.
        """
        params = {}
        for name, value in keywords.items():
            if name in NOT_PARAMETERS or not self._names(name, shape):
                continue  # the operator takes it, but no recorded call was given it
            params[name] = _scalar(name, value)
        if params:
            self._replace(params=params).predict(shape)
        return params

    def _names(self, name, shape):
        """True if some recorded call of the operator was given a parameter of this name."""
        try:
            self._replace(params={name: 0}).predict(shape)
        except ValueError as error:
            return f"knows no {name}" not in str(error)
        return True

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
        """The most that a task needs that calls it: its input, and all that it allocates."""
        answer = self.predict(shape)
        return int(max(answer["upper_bytes"], answer["peak_bytes"]) + answer["input_bytes"])

    def on_a_tiny_block(self, x, depths):
        """The operator's call on a block of a few cells; None if only its name is known."""
        if self.function is None:
            return None
        sides = (max(each) if isinstance(each, tuple) else each for each in depths.values())
        shape = tuple(min(n, 2 * side + 8) for n, side in zip(x.shape, sides))
        return partial(_call, self.function, shape, x.dtype)


def _scalar(name, value):
    """A parameter as laws have it. ValueError: it is no number and no text."""
    value = value.item() if getattr(value, "shape", None) == () else value
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(
            f"laws depend on {name}, and {value!r} is no number or text: choose the law by params="
        )
    return value


def _call(function, shape, dtype):
    import numpy as np

    function(np.ones(shape, dtype))
