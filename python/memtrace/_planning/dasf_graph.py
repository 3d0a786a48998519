"""Pipelines of DASF: needs its interface, not DASF itself."""

from . import dasf_files
from .names import is_known, names_of


def document_of(pipeline, operators, given=None, halo=None, whole_axes=None, results=None):
    """The graph of a pipeline: its datasets are sources, its other elements steps.

    given: what a graph's step says of bytes and output, halo, whole_axes: by operator. results:
    the names of steps that are kept, None for those that no other takes in.
    """
    table = pipeline._dag_table
    given, halo, whole_axes = given or {}, halo or {}, whole_axes or {}
    sources, steps, names = {}, [], {}
    for key, (name, entry) in zip(_in_order(table), _named(table)):
        names[key] = name
        inputs = _inputs(table, entry)
        array = _array(entry)
        if not inputs and array is not None:
            sources[name] = array
            continue
        if len(inputs) == 1 and _passes_on(entry):
            names[key] = names[next(iter(inputs.values()))]
            continue
        step = {"name": name, "inputs": [names[each] for each in inputs.values()]}
        candidates = _candidates(entry)
        known = next((each for each in candidates if each in given), None)
        if known is not None:
            step.update(given[known], operator=known)
        else:
            step["operator"] = next(
                (each for each in candidates if is_known(each, operators)), candidates[0]
            )
            step["params"] = _params(entry, inputs)
        axes = max((len(source["shape"]) for source in sources.values()), default=0)
        own = {"halo": _depth(_owner(entry), axes), "whole_axes": []}
        for member, given_by_name in (("halo", halo), ("whole_axes", whole_axes)):
            step[member] = next(
                (list(given_by_name[each]) for each in candidates if each in given_by_name),
                own[member],
            )
        step["padded"] = _is_padded(_owner(entry))
        steps.append(step)
    kept = {} if results is None else {"results": list(results)}
    return {"version": 1, "sources": sources, "steps": steps, **kept}


def datasets(pipeline):
    """The datasets of a pipeline: name in its graph, the dataset, its shape and element type."""
    for name, entry in _named(pipeline._dag_table):
        if not _inputs(pipeline._dag_table, entry) and _array(entry) is not None:
            yield name, _owner(entry), _array(entry)


def functions(pipeline):
    """What a pipeline calls for each element, by name in its graph."""
    return {name: entry["fn"] for name, entry in _named(pipeline._dag_table)}


def modules(pipeline):
    """Names of the modules that a pipeline's functions are in."""
    owners = [getattr(fn, "__self__", fn) for fn in functions(pipeline).values()]
    owners += [mapped for mapped in map(_mapped, owners) if mapped is not None]
    named = (getattr(owner, "__module__", None) for owner in owners)
    return sorted({name for name in named if name and name != "__main__"})


def _named(table):
    """Elements with their names in the graph, each after those it takes in."""
    taken = []
    for key in _in_order(table):
        taken.append(_name(table[key], taken))
        yield taken[-1], table[key]


def _in_order(table):
    """Keys, each after those it takes in."""
    order, entered = [], set()
    for start in table:
        waiting = [(start, False)]
        while waiting:
            key, done = waiting.pop()
            if done:
                order.append(key)
            elif key not in entered:
                entered.add(key)
                inputs = list(_inputs(table, table[key]).values())
                waiting += [(key, True), *((each, False) for each in reversed(inputs))]
    return order


def _inputs(table, entry):
    """Parameters that other elements of the pipeline give, as names and keys."""
    inputs = {}
    for name, value in (entry.get("parameters") or {}).items():
        key = _key_of(table, value)
        if key is not None:
            inputs[name] = key
    return inputs


def _key_of(table, value):
    """A parameter names its origin by its key, its function, or the object that has this."""
    try:
        if value in table:
            return value
    except TypeError:
        pass  # no key
    owner = getattr(value, "__self__", value)
    for key, entry in table.items():
        if entry["fn"] is value or getattr(entry["fn"], "__self__", entry["fn"]) is owner:
            return key
    return None


def _array(entry):
    """Shape and element type of a dataset; None if it is none."""
    owner = _owner(entry)
    array = dasf_files.array_of(owner)
    array = owner if array is None else array
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or dtype is None:
        return None
    return {"shape": [int(length) for length in shape], "dtype": getattr(dtype, "str", str(dtype))}


def _owner(entry):
    return getattr(entry["fn"], "__self__", entry["fn"])


def _passes_on(entry):
    """True of DASF's ExtractData: what it gives out is its dataset's array."""
    return any(kind.__name__ == "ExtractData" for kind in type(_owner(entry)).__mro__)


def _mapped(owner):
    """The function that DASF's MappedTransform calls for each block; None of other elements."""
    if any(kind.__name__ == "MappedTransform" for kind in type(owner).__mro__):
        return owner.function
    return None


def _depth(owner, axes):
    """The halo that an element itself asks for, as DASF's MappedTransform does: [] for none."""
    depth = getattr(owner, "depth", None) if _mapped(owner) is not None else None
    if isinstance(depth, dict):
        depth = [depth.get(axis, 0) for axis in range(axes)]
    cells = depth if isinstance(depth, (list, tuple)) else [depth or 0]
    # Other cells before than after a block: as many as the more of them.
    return [max(each) if isinstance(each, (list, tuple)) else int(each) for each in cells]


def _is_padded(owner):
    """Whether an element has Dask make up cells around the array, as it does but for "none"."""
    boundary = getattr(owner, "boundary", None) if _mapped(owner) is not None else None
    if isinstance(boundary, dict):
        boundary = list(boundary.values())
    sides = boundary if isinstance(boundary, (list, tuple)) else [boundary]
    return any(side not in (None, "none") for side in sides)


def _candidates(entry):
    """Names that its law may have: its function's, its class's, what the pipeline calls it."""
    function = entry["fn"]
    owner = getattr(function, "__self__", None)
    kind = type(function if owner is None else owner)
    qualified = getattr(function, "__qualname__", None) or kind.__qualname__
    module = getattr(function, "__module__", None) or kind.__module__
    mapped = _mapped(owner)
    names = [
        *([] if mapped is None else names_of(mapped)),
        f"{module}:{qualified}",
        qualified,
        kind.__name__ if owner is not None else "",
        entry.get("name"),
        # What a transform calls for each block, and a recording names.
        f"{kind.__module__}:{kind.__qualname__}._transform_cpu" if owner is not None else "",
    ]
    return [str(name) for name in names if name]


def _params(entry, inputs):
    scalars = (bool, int, float, str)
    given = (entry.get("parameters") or {}).items()
    return {
        name: value for name, value in given if name not in inputs and isinstance(value, scalars)
    }


def _name(entry, taken):
    name = number = str(entry.get("name") or _candidates(entry)[0])
    count = 1
    taken = set(taken)
    while number in taken:
        count += 1
        number = f"{name} {count}"
    return number
