"""Functions of known libraries are spans when an argument is large; else they cost next to nothing.

One of the texts that make up the recorder (see `__init__.py` for their constraints). `entries.py`
has each function call `entered` first, which checks the sizes of its first arguments. Only for a
large one are the arguments described and the return awaited (`await_return`).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT, arrays_in, first_members
    from .calls import await_return
    from .entries import announce
    from .errors import pass_on
    from .imports import when_executed
    from .ndarrays import _ndarray
    from .operators import GENERATORS, _by_code, _Operator
    from .spans import _arguments, _begin_call

LARGE = 64 * 1024  # bytes of an array from which on a call is a span
CHECKED = 3  # leading arguments that may be the large one
INTERNAL = ("core", "compat", "tests", "testing", "conftest")  # packages, by convention
SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, type(...)))

REDUCTIONS = ("sum", "prod", "mean", "median", "std", "var", "min", "max", "count", "quantile")
REDUCTIONS += ("first", "last", "nunique", "size", "aggregate", "agg", "apply", "transform")
REDUCTIONS += ("cumsum", "map", "reduce", "fillna", "ffill", "bfill", "rank")
TABLES = ("merge", "join", "sort_values", "drop_duplicates", "pivot", "pivot_table", "melt")
TABLES += ("corr", "cov", "describe")
FIELDS = ("interp", "sortby", "where", "stack", "unstack", "transpose", "polyfit")
FILES = ("to_zarr", "to_netcdf", "load", "compute")  # for what is in files or is to be

# Classes that users call methods of, by the beginning of the names of their modules.
METHODS = {
    "pandas.core.frame": {"DataFrame": TABLES},
    "pandas.core.series": {"Series": TABLES},
    "pandas.core.groupby": dict.fromkeys(
        ("GroupBy", "DataFrameGroupBy", "SeriesGroupBy"), REDUCTIONS
    ),
    "pandas.core.window": dict.fromkeys(("Rolling", "Expanding", "Window"), REDUCTIONS),
    "pandas.core.resample": {"Resampler": REDUCTIONS},
    "xarray.core.dataset": {"Dataset": FIELDS + REDUCTIONS + FILES},
    "xarray.core.dataarray": {"DataArray": FIELDS + REDUCTIONS + FILES},
    "xarray.core._aggregations": dict.fromkeys(
        (
            "DatasetAggregations",
            "DataArrayAggregations",
            "DatasetGroupByAggregations",
            "DataArrayGroupByAggregations",
            "DatasetResampleAggregations",
            "DataArrayResampleAggregations",
        ),
        REDUCTIONS,
    ),
    "xarray.core.groupby": dict.fromkeys(("DatasetGroupBy", "DataArrayGroupBy"), REDUCTIONS),
    "xarray.computation.rolling": dict.fromkeys(("DatasetRolling", "DataArrayRolling"), REDUCTIONS),
    "xarray.core.rolling": dict.fromkeys(("DatasetRolling", "DataArrayRolling"), REDUCTIONS),
}
_FunctionType = type(lambda: None)

_named = set()  # operators that `--operator` has named
_entries = {}  # code of an announced function -> its operator
_promised = {}  # package -> public names whose functions have not been found yet


def watch_libraries(modules, operators):
    """Waits for the public functions of these modules and of those inside them.

    operators: those that are recorded by name, and need no second span.
    """
    _named.update(operator.name for operator in operators)
    for module in modules:
        when_executed(module, _module_arrived, inside=True)


# Which functions ------------------------------------------------------------


def _module_arrived(module):
    name, space = module.__name__, vars(module)
    for package, names in list(_promised.items()):
        if name.startswith(package + "."):
            _keep_promises(package, names, space)
    for beginning, classes in METHODS.items():
        if name.startswith(beginning):
            for owner in [space.get(owner) for owner in classes]:
                if isinstance(owner, type):
                    _watch_methods(owner, classes[owner.__name__])
    listed = space.get("__all__")
    if listed is None and "__path__" in space:
        listed = _from_inside(name, space)
    if listed and not any(part[:1] == "_" or part in INTERNAL for part in name.split(".")):
        promised = {public for public in listed if not _watch_function(name, public, space)}
        _promised[name] = promised  # loaded when first used; or C code that dispatches
        for inside in [other for other in sys.modules if other.startswith(name + ".")]:
            _keep_promises(name, promised, vars(sys.modules[inside]))


def _from_inside(package, space):
    """Public functions of a package that lists no names: those of private modules inside it."""
    mine = (package + "._",)
    return [
        public
        for public, value in space.items()
        if public[:1] != "_"
        and type(value) is _FunctionType
        and str(value.__module__).startswith(mine)
    ]


def _keep_promises(package, names, space):
    for public in names & set(space):
        if _watch_function(package, public, space):
            names.discard(public)


def _watch_methods(owner, names):
    package = str(owner.__module__).partition(".")[0]
    for name in names:
        function = _function_of(vars(owner).get(name))
        if function is not None:
            _announce(function, _Operator(package, f"{owner.__name__}.{name}"))


def _watch_function(package, name, space):
    """Whether the name is a Python function's; which is announced then."""
    value = space.get(name)
    if isinstance(value, (type, type(sys))):
        return True  # no function, and none to come
    function = _function_of(value)
    if function is None or not str(function.__module__).startswith(package.partition(".")[0]):
        return False
    known = _entries.get(function.__code__)
    if known is None:
        _announce(function, _Operator(package, name))
    elif len(package) < len(known.module):
        known.module, known.name = package, f"{package}:{known.path}"  # as users import it
    return True


def _function_of(value):
    """The innermost Python function of a function, a static method or NumPy's dispatcher.

    No attribute of anything else is read: some objects warn when it is.
    """
    for _ in range(32):
        kind = type(value)
        if kind is _FunctionType:
            inner = value.__dict__.get("__wrapped__")
            if type(inner) is not _FunctionType:
                return value
            value = inner
        elif kind is staticmethod:
            value = value.__func__
        elif kind.__name__ == "_ArrayFunctionDispatcher":
            value = value._implementation
        else:
            break
    return None


def _announce(function, operator):
    code = function.__code__
    if operator.name in _named or code in _entries or code in _by_code:
        return
    count = code.co_argcount
    if not count or code.co_flags & GENERATORS:
        return
    arguments = code.co_varnames[: min(count, CHECKED)]
    if announce(function, arguments, _entered(operator)):
        _entries[function.__code__] = operator


# Calls ----------------------------------------------------------------------


def _entered(operator):
    """The function that is called with the first arguments whenever the operator's is entered."""
    frame_at = sys._getframe
    files = operator.path.rpartition(".")[2] in FILES

    def entered(first, second=None, third=None, scalars=SCALARS, large=LARGE):
        try:  # what most calls come to: keep it short
            if second.__class__ in scalars and third.__class__ in scalars and first.nbytes < large:
                return
        except AttributeError:
            pass
        except Exception as error:
            pass_on(error)
        try:
            if any(map(_is_large, (first, second, third))) or (files and _is_elsewhere(first)):
                _enter_large(operator, frame_at(1), first)
        except Exception as error:
            pass_on(error)

    return entered


def _is_large(value):
    """Whether an argument is a large array, or contains one, that the function will work on."""
    if value.__class__ in SCALARS:
        return False
    is_list = issubclass(type(value), (list, tuple))
    members = first_members(value) if is_list else (value,)
    for member in members:
        parts = _members_of(member)
        if any(_bytes_of(part) >= LARGE for part in [part for _, part in parts] or [member]):
            return True
    return False


def _bytes_of(array):
    kind = type(array)
    if hasattr(kind, "__dask_graph__"):
        return 0  # work on it is only planned; its tasks will be spans
    if hasattr(kind, "nbytes"):
        return array.nbytes if isinstance(array.nbytes, int) else 0
    if not (hasattr(kind, "shape") and hasattr(kind, "dtype")):
        return 0
    size = getattr(array.dtype, "itemsize", 0)  # of xarray's views of files
    for length in array.shape:
        size *= length
    return size


def _is_elsewhere(value):
    """Whether some array that an object of xarray stands for is not in memory."""
    parts = [part for _, part in _members_of(value)]
    return not all(hasattr(type(part), "__array_interface__") for part in parts)


def _enter_large(operator, frame, first):
    if sys.version_info < (3, 12) and sys.getprofile() is not None:
        return  # a program that profiles itself keeps its profile function
    pairs = [pair for name, value in _arguments(frame) for pair in _spread(name, value)]
    if "." in operator.path:  # a method: users know it by the class of their object
        method = operator.path.rpartition(".")[2]
        name = f"{operator.module}:{type(first).__name__}.{method}"
        operator = _Operator(operator.module, operator.path, name, operator.params)
    span = _begin_call(operator, pairs, frame.f_code, frame.f_globals)
    if span:
        await_return(frame, span)


def _spread(name, value):
    """(name, value) of a value, or of the arrays in it if it is an object of pandas or xarray."""
    is_list = issubclass(type(value), (list, tuple))
    if is_list and any(map(_members_of, first_members(value))):
        members = enumerate(first_members(value))
        return [pair for i, member in members for pair in _spread(f"{name}[{i}]", member)]
    return [(f"{name}[{part}]", array) for part, array in _members_of(value)] or [(name, value)]


def outputs_of(result):
    """Descriptions of the arrays in what a call returned."""
    if type(result) is _ndarray:
        return arrays_in("", result)
    return [array for name, value in _spread("", result) for array in arrays_in(name, value)]


def _members_of(value):
    """(label, array) of what an object of pandas or xarray has in memory; none for others."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("pandas", "xarray"):
        return []
    space = getattr(value, "__dict__", {})
    inner = space.get("obj", value)  # of pandas' group-bys, windows, resamplers
    for slot in ("obj", "_obj"):  # of xarray's
        inner = getattr(value, slot, inner) if hasattr(type(value), slot) else inner
    if library == "pandas":
        manager = getattr(inner, "__dict__", {}).get("_mgr")
        return list(enumerate(getattr(manager, "arrays", ())))[:ITEM_LIMIT]
    variables = getattr(inner, "_variables", None)  # a Dataset's
    if variables is None:
        variables = {"data": getattr(inner, "_variable", inner)}
    return [(label, getattr(variable, "_data", None)) for label, variable in variables.items()]
