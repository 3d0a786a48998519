"""Collections of Dask, xarray's among them: their tasks, optimised, in Dask's own order."""

import math
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from .names import ends_one


def document_of(collections, operators, given, arrays, threads):
    """The graph of what `compute()` would run."""
    try:
        from dask._expr import FinalizeCompute
        from dask.base import collections_to_expr, flatten
    except ImportError as error:
        raise ValueError(f"planning a Dask graph needs dask 2025.4 or newer ({error})") from error

    expression = FinalizeCompute(collections_to_expr(collections)).optimize()
    wanted = [_name(key) for key in flatten(expression.__dask_keys__())]
    tasks = Tasks(operators, given, known_chunks([*collections, *arrays]))
    tasks.add_all(expression.__dask_graph__())
    return {
        "version": 1,
        "sources": tasks.sources,
        "steps": tasks.steps,
        "results": [name for name in wanted if name in tasks.names],
        "executor": {"threaded": {"threads": threads}},
    }


def _name(key):
    return f"{key[0]}{key[1:]}" if isinstance(key, tuple) else str(key)


def known_chunks(arrays):
    """Shape and dtype of every chunk of arrays that the caller has, by key."""
    known = {}
    for array in arrays:
        chunks, dtype = getattr(array, "chunks", None), getattr(array, "dtype", None)
        if (
            not isinstance(chunks, tuple)
            or dtype is None
            or not isinstance(getattr(array, "name", None), str)
        ):
            continue
        for place in product(*(range(len(axis)) for axis in chunks)):
            shape = [chunks[axis][at] for axis, at in enumerate(place)]
            if not any(math.isnan(length) for length in shape):
                known[(array.name, *place)] = _array([int(length) for length in shape], dtype)
    return known


def _is_in_memory(value):
    return hasattr(value, "dtype") and type(value).__module__.partition(".")[0] in ("numpy", "cupy")


def _array(shape, dtype):
    return {"shape": list(shape), "dtype": getattr(dtype, "str", str(dtype))}


class _Call(NamedTuple):
    function: Any
    args: tuple
    kwargs: dict


class Tasks:
    """Steps of a graph, as far as they are translated."""

    def __init__(self, operators, given, known):
        from dask import _task_spec

        self.spec = _task_spec
        self.operators, self.given, self.known = set(operators), given, known
        self.sources, self.steps, self.names = {}, [], set()
        self.constants = {}  # values in the graph that are no arrays

    def add_all(self, graph):
        """All tasks of a graph, in Dask's order."""
        from dask.order import order

        graph = self.spec.convert_legacy_graph(dict(graph))
        priority = order(graph)
        for key in sorted(graph, key=priority.get):
            self.add(key, graph[key])

    def add(self, key, node):
        step = self.step(key, node)
        if step is not None:
            self.names.add(_name(key))
            self.steps.append({"name": _name(key), **step})

    def step(self, key, node):
        if isinstance(node, self.spec.Alias):
            return {"inputs": [_name(node.target)], "slice": []}
        if isinstance(node, self.spec.DataNode):
            return self.data(key, node.value)
        if not isinstance(node, self.spec.Task):
            raise ValueError(
                f"the task {_name(key)} is of a kind that is not known: {type(node).__name__}"
            )
        if node.has_subgraph():
            return self.fused(key, node)
        call = self.unwrapped(_Call(node.func, node.args, dict(node.kwargs or {})))
        special = _SPECIAL.get(getattr(call.function, "__name__", ""))
        step = special(self, key, call) if special else None
        return step or self.operator(key, call)

    def unwrapped(self, call):
        """What is called in the end: Dask and its users wrap functions."""
        function, args, kwargs = call
        if isinstance(function, partial):
            wrapped = _Call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
            return self.unwrapped(wrapped)
        if getattr(function, "__name__", "") == "_pass_extra_kwargs":  # of map_blocks
            function, names = self.constant(args[0]), self.constant(args[1])
            extra = dict(zip(names, args[2:]))
            return self.unwrapped(_Call(function, args[2 + len(names) :], {**kwargs, **extra}))
        return call

    def data(self, key, value):
        """Data in the graph itself lives as long as the graph; an array in storage takes none."""
        if not _is_in_memory(value):
            self.constants[_name(key)] = value
            return None
        name = f"data of {_name(key)}"
        self.sources[name] = {**_array(value.shape, value.dtype), "retained": "throughout"}
        return {"inputs": [name], "slice": []}

    def fused(self, key, node):
        inside, outkey, inkeys, *values = node.args
        tasks = type(self)(self.operators, self.given, self.known)
        tasks.names, tasks.constants = set(self.names), dict(self.constants)
        # A name inside may stand for another value than it does outside.
        taken = {name for value in values for name in self.references(value)} & self.names
        taken &= set(map(_name, inkeys))
        for name in sorted(taken):
            tasks.steps.append({"name": f"{name} outside", "inputs": [name], "slice": []})
        for inkey, value in zip(inkeys, values):
            inputs = [name for name in self.references(value) if name != _name(inkey)]
            constants = [name for name in inputs if name in self.constants]
            if constants or not inputs:
                if constants or not list(self.references(value)):
                    tasks.constants[_name(inkey)] = self.constant(value)
                    tasks.names.discard(_name(inkey))
            else:  # inside, the value has a name of its own
                tasks.constants.pop(_name(inkey), None)
                tasks.names.add(_name(inkey))
                inputs = [f"{name} outside" if name in taken else name for name in inputs]
                tasks.steps.append({"name": _name(inkey), "inputs": inputs, "slice": []})
        for each in _in_order(inside, outkey):
            tasks.add(each, inside[each])
        self.sources.update(tasks.sources)
        return {"inputs": [], "steps": tasks.steps}

    def operator(self, key, call):
        """A call that has a law, or whose bytes the user gives."""
        from dask.utils import key_split

        inputs, function = self.inputs(call), call.function
        prefix = key_split(key)
        module, qualified = (
            getattr(function, "__module__", None),
            getattr(function, "__qualname__", prefix),
        )
        candidates = [prefix, f"{module}:{qualified}", qualified]
        output = self.known.get(key)
        for name in candidates:
            if name in self.given:
                step = {"inputs": inputs, "operator": name, **self.given[name]}
                return step if output is None else {"output": output, **step}
        law = next((name for name in candidates if name in self.operators), None)
        law = law or next((name for name in candidates if ends_one(name, self.operators)), None)
        if law is not None and inputs:
            return {"inputs": inputs, "operator": law}
        if prefix.endswith(("-aggregate", "-partial")):
            return self.reduction(inputs, output)
        output = output or (None if inputs else self.made(call))
        if not inputs and output is None:
            raise ValueError(
                f"the shape of what {_name(key)} makes is not known: give the Dask array it is a "
                f"chunk of in arrays=, or the bytes of {prefix!r} and its output in given="
            )
        if not inputs:
            return {"inputs": [], "operator": prefix, "bytes": {}, "output": output}
        return {"inputs": inputs, "operator": prefix}  # the planner reports that it has no law

    def made(self, call):
        """The result of a task without inputs, if its arguments say it: `ones`, `full`, a function
        of `map_blocks` that gets its block's place, a block that is read with its halo."""
        info = self.constant(call.kwargs.get("block_info"))
        if isinstance(info, dict) and None in info:
            return _array(info[None]["chunk-shape"], info[None]["dtype"])
        values = [self.constant(each) for each in call.args]
        if getattr(call.function, "__name__", "") == "_read_block":  # of memtrace.dask
            cuts, place = values[1], self.constant(call.kwargs.get("block_id"))
            return _array(
                [b - a for a, b in (cuts[i][at] for i, at in enumerate(place))], values[0].dtype
            )
        shape = next((value for value in values if _is_shape(value)), None)
        dtype = call.kwargs.get("dtype", getattr(call.kwargs.get("meta"), "dtype", None))
        dtype = getattr(self.constant(dtype), "str", None)
        return None if shape is None or dtype is None else _array(shape, dtype)

    def reduction(self, inputs, output):
        """Joining what earlier reductions left: as much again, in double precision."""
        step = {"inputs": inputs, "operator": "reduction", "bytes": {"per_element": 16}}
        return step if output is None else {**step, "output": output}

    def inputs(self, call):
        """Names of the values that a call takes in, in the order of its arguments."""
        found = dict.fromkeys(self.references((call.args, call.kwargs)))
        return [name for name in found if name in self.names]

    def references(self, value):
        spec = self.spec
        if isinstance(value, spec.TaskRef):
            yield _name(value.key)
        elif isinstance(value, spec.Alias):
            yield _name(value.target)
        elif isinstance(value, spec.Task):
            yield from self.references((value.args, value.kwargs))
        elif isinstance(value, dict):
            yield from self.references(list(value.values()))
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from self.references(each)

    def nested(self, value):
        """Lists of references as lists of names: constructs of Dask stand for lists too."""
        if isinstance(value, self.spec.Task):
            return [self.nested(each) for each in value.args]
        if isinstance(value, (list, tuple)):
            return [self.nested(each) for each in value]
        names = list(self.references(value))
        return names[0] if names else None

    def constant(self, value):
        """A value that is in the graph itself, without what Dask wraps it in."""
        if isinstance(value, (self.spec.TaskRef, self.spec.Alias)):
            return self.constants.get(next(self.references(value)))
        if isinstance(value, self.spec.DataNode):
            return value.value
        if isinstance(value, self.spec.NestedContainer) and not value.dependencies:
            return value()  # a list or a tuple
        return value

    # Functions of Dask that are no operators ---------------------------------

    def getitem(self, key, call):
        """A part of another value, or of an array outside the graph, which is read."""
        cuts = _cuts(self.constant(call.args[1]))
        array = self.constant(call.args[0])
        if cuts is None:
            return self.copied(key, call)
        if array is None or not hasattr(array, "shape"):
            inputs = list(self.references(call.args[0]))
            return {"inputs": inputs, "slice": cuts} if inputs else None
        output = _array(_cut(array.shape, cuts), array.dtype)
        if _is_in_memory(array):
            name = f"array {id(array)}"
            self.sources[name] = {**_array(array.shape, array.dtype), "retained": "throughout"}
            return {"inputs": [name], "slice": cuts}
        return {"inputs": [], "operator": "read", "bytes": {}, "output": output}

    def copied(self, key, call):
        """Cells by lists of indices, or with new axes: no more than what comes out."""
        output = self.known.get(key)
        if output is None:
            return None
        return {"inputs": self.inputs(call), "operator": "copy", "bytes": {}, "output": output}

    def joined(self, key, call):
        """Blocks as one array: lists of lists, or (`concatenate_shaped`) a list and its shape."""
        blocks = self.nested(call.args[0])
        names, counts = _flat(blocks)
        if getattr(call.function, "__name__", "") == "concatenate_shaped":
            counts = [int(count) for count in call.args[1]]
        if len(names) == 1:
            return {"inputs": names, "slice": []}
        return {"inputs": names, "join": counts}

    def trimmed(self, key, call):
        """What `map_overlap` leaves of a block: all but its halo, where there is a neighbour."""
        inputs = list(self.references(call.args[0]))
        axes, boundary = call.kwargs.get("axes"), call.kwargs.get("boundary")
        place = self.constant(call.kwargs.get("_overlap_trim_info", call.args[-1]))
        if not inputs or not isinstance(place, (list, tuple)) or axes is None:
            return None
        location, counts = place
        cuts = []
        for axis, (at, count) in enumerate(zip(location, counts)):
            depth = axes.get(axis, 0)
            front, back = depth if isinstance(depth, tuple) else (depth, depth)
            kept = boundary.get(axis, "none") == "none"
            cuts.append(
                [
                    0 if at == 0 and kept else front,
                    -back if back and not (at == count - 1 and kept) else None,
                    1,
                ]
            )
        return {"inputs": inputs, "slice": cuts}

    def converted(self, key, call):
        """A copy in another element type."""
        output = self.known.get(key)
        dtype = call.kwargs.get("astype_dtype")
        inputs = self.inputs(call)
        if output is None and dtype is None:
            return None
        step = {"inputs": inputs, "operator": "astype", "bytes": {}}
        return {**step, "output": output} if output else {**step, "output": {"dtype": dtype.str}}

    def random(self, key, call):
        """Numbers of a generator: doubles, unless they are integers or of a type that is named."""
        from numpy import dtype

        size = next((each for each in call.args if _is_shape(each)), None)
        if size is None:
            return None
        keywords = self.constant(call.args[-1])
        named = keywords.get("dtype") if isinstance(keywords, dict) else None
        named = named or ("<i8" if "int" in str(call.args[1]) else "<f8")
        output = self.known.get(key) or _array(size, dtype(named))
        return {"inputs": [], "operator": "random", "bytes": {}, "output": output}


def _in_order(inside, last):
    """Keys of the tasks of a fused one, the one whose result it gives at the end."""
    chain, key = [last], last
    while len(needed := inside[key].dependencies & inside.keys()) == 1:
        (key,) = needed
        chain.append(key)
    if len(chain) == len(inside):  # as Dask fuses most: it has one order, which is had sooner so
        return chain[::-1]
    from dask.order import order

    priority = order(dict(inside))
    return [*sorted((each for each in inside if each != last), key=priority.get), last]


def _is_shape(value):
    return isinstance(value, tuple) and value and all(type(each) is int for each in value)


def _cuts(index):
    """An index as a graph writes it; None if it is none of numbers and slices."""
    index = index if isinstance(index, tuple) else (index,)
    cuts = []
    for each in index:
        if each is Ellipsis and each is index[-1]:
            break
        if isinstance(each, slice):
            cuts.append([each.start, each.stop, each.step])
        elif hasattr(each, "__index__"):
            cuts.append(int(each))
        else:
            return None
    return cuts


def _cut(shape, cuts):
    rest = list(shape[len(cuts) :])
    kept = (length for length, cut in zip(shape, cuts) if not isinstance(cut, int))
    ranges = (cut for cut in cuts if not isinstance(cut, int))
    return [len(range(length)[slice(*cut)]) for length, cut in zip(kept, ranges)] + rest


def _flat(blocks):
    """Lists of lists as one list, and how long they are on each level."""
    counts, inner = [], blocks
    while isinstance(inner, list):
        counts.append(len(inner))
        inner = inner[0] if inner else None
    for _ in counts[1:]:
        blocks = [each for inner in blocks for each in inner]
    return blocks, counts


_SPECIAL = {
    "getitem": Tasks.getitem,
    "getter": Tasks.getitem,
    "getter_nofancy": Tasks.getitem,
    "getter_inline": Tasks.getitem,
    "concatenate3": Tasks.joined,
    "concatenate_shaped": Tasks.joined,
    "finalize": Tasks.joined,
    "_trim": Tasks.trimmed,
    "astype": Tasks.converted,
    "_apply_random": Tasks.random,
    "_apply_random_func": Tasks.random,
}
