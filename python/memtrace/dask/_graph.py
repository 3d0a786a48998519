"""What the tasks of a graph need by their laws, as far as shapes are known."""

import inspect
import math
import operator as operators_of_python
from typing import NamedTuple

from .._planning.dask_graph import Tasks, _cut, _name
from ._laws import Operator


class Need(NamedTuple):
    """What a task needs that calls an operator with a law."""

    operator: str
    block: tuple  # the shape that the operator is called with
    dtype: str
    bytes: int
    params: dict  # of the call, as far as the law was recorded with them


class Needs(NamedTuple):
    """Needs of a graph's tasks, by key, and the operators without a law: name -> number of
    tasks."""

    tasks: dict
    unknown: dict


def needs_of(graph, model, known=None, any_version=False):
    """The needs of a graph's tasks. What is not known needs nothing here, and is counted."""
    tasks = _Lenient(model.operators(), {}, known or {})
    tasks.add_all(graph)
    shapes = _Shapes(model, any_version)
    shapes.values.update(
        {name: (tuple(s["shape"]), s["dtype"]) for name, s in tasks.sources.items()}
    )
    found = {}
    for key, step in tasks.by_key:
        needs = []
        shapes.step(_name(key), step, needs)
        if needs:
            found[key] = max(needs, key=lambda need: need.bytes)
    return Needs(found, shapes.unknown)


class _Lenient(Tasks):
    """A translation that keeps tasks which it cannot translate, as operators without a law."""

    def __init__(self, operators, given, known):
        super().__init__(operators, given, known)
        self.by_key = []

    def add(self, key, node):
        before = len(self.steps)
        try:
            super().add(key, node)
        except Exception:  # graphs of users contain anything
            self.names.add(_name(key))
            inputs = [name for name in self.references(node) if name in self.names]
            self.steps.append({"name": _name(key), "inputs": inputs, "operator": str(key)})
        self.by_key += [(key, step) for step in self.steps[before:]]

    def operator(self, key, call):
        try:
            step = super().operator(key, call)
        except ValueError:
            step = {"inputs": self.inputs(call), "operator": str(key)}
        if "bytes" not in step:
            step["params"] = self.scalars(call)
        if _is_elementwise(call.function) and "output" not in step:
            step["elementwise"] = True
        return step

    def scalars(self, call):
        """A call's scalar arguments, by the names of its function's parameters."""
        args, kwargs = call.args, call.kwargs
        try:
            kwargs = inspect.signature(call.function).bind_partial(*args, **kwargs).arguments
        except (TypeError, ValueError):  # a function of C has no known names
            pass
        values = {name: self.constant(value) for name, value in kwargs.items()}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, (bool, int, float, str))
        }


def _is_elementwise(function):
    """True of NumPy's universal functions, and of what an operator of Python stands for."""
    name = getattr(function, "__name__", "")
    return type(function).__name__ == "ufunc" or (
        getattr(function, "__module__", "") in ("_operator", "operator")
        and hasattr(operators_of_python, name)
        and name not in ("getitem", "itemgetter", "matmul")
    )


class _Shapes:
    """Shape and dtype of every value of a graph, by what makes it; None where unknown."""

    def __init__(self, model, any_version):
        self.model, self.any_version = model, any_version
        self.values, self.unknown, self.answers = {}, {}, {}

    def step(self, name, step, needs):
        for inner in step.get("steps", ()):
            self.step(inner["name"], inner, needs)
        if "steps" in step:
            last = step["steps"][-1]["name"] if step["steps"] else None
            self.values[name] = self.values.get(last)
            return
        inputs = [self.values.get(each) for each in step.get("inputs", ())]
        try:
            self.values[name] = self.value(step, inputs, needs)
        except (IndexError, TypeError, ValueError):
            self.values[name] = None

    def value(self, step, inputs, needs):
        if "slice" in step:
            shape, dtype = inputs[0]
            return tuple(_cut(shape, step["slice"])), dtype
        if "join" in step:
            return self.joined(step["join"], inputs)
        output = step.get("output")
        known = None if output is None or "shape" not in output else tuple(output["shape"])
        if known is not None:
            known = known, output["dtype"]
        elif output is not None and inputs and inputs[0]:
            known = inputs[0][0], output["dtype"]  # another element type
        if "bytes" in step:
            return known
        answer = self.law(step["operator"], inputs, step.get("params", {}), needs)
        if answer is None and known is None and step.get("elementwise"):
            shapes = [each[0] for each in inputs]
            return max(shapes, key=math.prod), inputs[0][1]
        return known or answer

    def law(self, name, inputs, params, needs):
        """What comes out of an operator; what it needs joins the needs."""
        from dask.utils import key_split

        if not inputs or inputs[0] is None:
            self.count(key_split(name))
            return None
        shape, dtype = inputs[0]
        query = name, shape, dtype, tuple(sorted(params.items()))
        if query not in self.answers:
            self.answers[query] = self.query(name, shape, dtype, params)
        if self.answers[query] is None:
            self.count(key_split(name))
            return None
        answer, recorded = self.answers[query]
        most = max(answer["upper_bytes"], answer["peak_bytes"]) + answer["input_bytes"]
        needs.append(Need(name, shape, dtype, int(most), recorded))
        if not answer["output_shape"]:
            return None
        return tuple(answer["output_shape"]), answer["output_dtype"] or dtype

    def query(self, name, shape, dtype, params):
        """The law's answer and the parameters of the query; None if there is no law for these
        values of them."""
        law = Operator(self.model, name, dtype, {}, self.any_version)
        try:
            law = law._replace(params=law.known(shape, params))
            return law.predict(shape), law.params
        except ValueError:
            return None

    def count(self, name):
        self.unknown[name] = self.unknown.get(name, 0) + 1

    def joined(self, counts, inputs):
        """Blocks in C order as one array: along each axis the lengths of the first row."""
        shapes, dtype = [each[0] for each in inputs], inputs[0][1]
        lengths, stride = [], len(shapes)
        for axis, count in enumerate(counts):
            stride //= count
            lengths.append(sum(shapes[at * stride][axis] for at in range(count)))
        return tuple(lengths), dtype
