"""Functions that `jax.jit` has compiled are spans, by themselves when an argument is large.

One of the texts that make up the recorder (see `__init__.py` for their constraints). A compiled
function is an object of C++ that enters Python code only to trace it, one time for each kind of
arguments. So `jax.jit` returns an object that forwards to it, and calls that JAX makes while it
traces are no spans: there are no arrays yet. Memory is seen where it is requested, at the driver.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT
    from .dask import _replace
    from .errors import _hide_frame, pass_on
    from .imports import when_executed
    from .libraries import LARGE
    from .natives import _Native
    from .operators import _by_code, _by_name, _code_of, _Operator
    from .spans import _begin_call, _leave

_MethodType = type((lambda self: self).__get__(0))


def watch_jax(automatic):
    """Waits for JAX; `automatic`: whether functions without `--operator` are spans too."""
    when_executed("jax", lambda jax: _jax_arrived(jax, automatic))


def is_tracing():
    """Whether JAX is tracing, differentiating or vectorising in this thread."""
    is_clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", None)
    return is_clean is not None and not is_clean()


def _jax_arrived(jax, automatic):
    compiled = jax.jit
    Jitted = _new_class()

    def forwarding(target):
        try:
            code = _code_of(target)
            package = str(getattr(target, "__module__", None)).partition(".")[0]
            if type(target).__name__ != "PjitFunction" or code is None or package == "jax":
                return target  # JAX's own are parts of what the program calls
            return Jitted(target, None, _Calls(target, code, jax, automatic))
        except Exception as error:
            pass_on(error)
            return target

    def jit(*args, **kwargs):
        try:
            made = compiled(*args, **kwargs)
        except BaseException as error:
            _hide_frame(error)
            raise
        if args or "fun" in kwargs:
            return forwarding(made)
        return lambda function: forwarding(made(function))

    _replace(jax, "jit", jit)
    # Operations are not to be said to come from the forwarding call.
    jax._src.source_info_util.register_exclusion(_leave.__code__.co_filename)


def _new_class():
    """The class of what `jax.jit` returns: compiled functions whose calls may be spans."""

    class Jitted(_Native):
        __slots__ = ("_memtrace_calls", "__weakref__")  # JAX refers to functions weakly
        __doc__ = property(lambda self: self._memtrace_target.__doc__)

        def __init__(self, target, operator, calls):
            super().__init__(target, operator)
            object.__setattr__(self, "_memtrace_calls", calls)

        def __call__(self, /, *args, **kwargs):
            span = self._memtrace_calls.begin(args, kwargs)
            try:
                result = self._memtrace_target(*args, **kwargs)
            except BaseException as error:
                if span:
                    _leave(span, None, type(error).__name__)
                _hide_frame(error)
                raise
            if span:
                self._memtrace_calls.end(span, result)
            return result

        def __get__(self, instance, owner=None):
            return self if instance is None else _MethodType(self, instance)

        def __reduce_ex__(self, protocol):
            return self._memtrace_target.__reduce_ex__(protocol)  # recorded or not where it arrives

    Jitted.__module__ = property(lambda self: self._memtrace_target.__module__)
    return Jitted


def _inside_of(function):
    """The function in methods, partials and wrappers, and how many of its arguments they give."""
    given = 0
    while True:
        if isinstance(function, _MethodType):
            function, given = function.__func__, given + 1
        elif hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
            function, given = function.func, given + len(function.args)
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function, given


class _Calls:
    """What is recorded of the calls of a compiled function."""

    def __init__(self, target, code, jax, automatic):
        self._code, self._jax, self._automatic = code, jax, automatic
        self._leaves = jax.tree_util.tree_leaves
        function, given = _inside_of(target.__wrapped__)
        self._names = code.co_varnames[given : code.co_argcount]
        self._globals = getattr(function, "__globals__", {})
        path = getattr(code, "co_qualname", code.co_name)  # from 3.11
        self._operator = _Operator(str(function.__module__), path.rpartition("<locals>.")[2])
        self._is_named = None  # known at the first call: `@memtrace.operator` may come later

    def begin(self, args, kwargs):
        """Begins the span of a call; 0 if it is none."""
        try:
            if self._is_named is None:
                self._find_name()
            if is_tracing() or self._jax.config.jax_disable_jit:  # then Python runs the function
                return 0
            if not self._is_named and not (self._automatic and self._is_large(args, kwargs)):
                return 0
            more = (f"args[{i}]" for i in range(len(self._names), len(args)))
            pairs = [*zip((*self._names, *more), args), *kwargs.items()]
            pairs = [pair for name, value in pairs for pair in self._spread(name, value)]
            pairs = [pair for pair in pairs if getattr(pair[1], "size", 1) != 0]
            return _begin_call(self._operator, pairs, self._code, self._globals)
        except Exception as error:
            pass_on(error)
            return 0

    def end(self, span, result):
        """Ends the span of a call."""
        arrays = [value for _, value in self._spread("", result)]
        _leave(span, arrays[0] if len(arrays) == 1 else arrays)

    def _find_name(self):
        module, code = self._operator.module, self._code
        named = [_by_code[code]] if code in _by_code else _by_name.get(code.co_name, ())
        named = [each for each in named if code in _by_code or each.owns(code, module)]
        self._operator = (*named, self._operator)[0]
        self._is_named = bool(named)
        # On the CPU XLA allocates in threads of its own: spans would miss what is computed.
        self._automatic = self._automatic and self._jax.default_backend() != "cpu"
        self._operator.versions(code, self._globals, ["jax"])

    def _is_large(self, args, kwargs):
        leaves = self._leaves((args, kwargs))[:ITEM_LIMIT]
        return any(getattr(leaf, "nbytes", 0) >= LARGE for leaf in leaves)

    def _spread(self, name, value):
        """(name, value) of an argument, or of the arrays in a tree of them."""
        leaves = self._leaves(value)[:ITEM_LIMIT]
        is_tree = any(leaf is not value and hasattr(type(leaf), "nbytes") for leaf in leaves)
        if not is_tree:
            return [(name, value)]
        return [(f"{name}[{i}]", leaf) for i, leaf in enumerate(leaves)]
