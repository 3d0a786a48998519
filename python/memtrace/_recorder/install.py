"""The way in: what the probe calls, and what `@memtrace.operator` calls.

One of the texts that make up the recorder (see `__init__.py` for their constraints).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .calls import _watch
    from .cupy import watch_cupy
    from .dask import watch_dask
    from .errors import pass_on, say_unrecorded
    from .gc import watch_collector
    from .jax import watch_jax
    from .libraries import watch_libraries
    from .natives import await_modules
    from .operators import _by_code, _code_of, _found, _Operator
    from .torch import watch_torch


def install(config):
    """Starts recording `config["operators"]`, a list of "module:function".

    `config["gc"]`, if it is not empty, is the mode of `watch_collector`;
    `config["automatic"]` lists modules with automatic spans, which Dask, PyTorch and JAX
    have in addition; without it no module has any.
    """
    try:
        if config.get("gc"):
            watch_collector(config["gc"])
        operators = []
        for spec in config.get("operators", ()):
            module, _, path = spec.partition(":")
            if module and path:
                operators.append(_Operator(module, path))
        for operator in operators:
            _watch(operator.path.rpartition(".")[2], operator)
        await_modules(operators)
        watch_cupy()
        watch_jax("automatic" in config)
        if "automatic" in config:
            watch_dask()
            watch_torch()
            watch_libraries(config["automatic"], operators)
    except Exception as error:
        say_unrecorded(error)


def register(function, name=None, params=None, shape_of=None):
    """Records the calls of a Python function: what `@memtrace.operator` does when recorded."""
    code = _code_of(function)
    if code is not None:
        while not hasattr(function, "__qualname__"):
            inner = getattr(function, "func", None) or getattr(function, "__func__", None)
            if inner is None:
                break
            function = inner  # of a partial; up to 3.9, of a static or class method
        path = getattr(function, "__qualname__", code.co_name)
        module = getattr(function, "__module__", None) or "__main__"
        operator = _Operator(module, path, name, params, shape_of)
        _by_code[code] = operator
        _found.clear()
        try:
            _watch(code.co_name)
        except BaseException as error:
            pass_on(error)
            say_unrecorded(error)
