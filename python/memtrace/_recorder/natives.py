"""Operators without Python code (ufuncs, builtins, compiled functions): wrapped when imported.

One of the texts that make up the recorder (see `__init__.py` for their constraints). Such a
function never makes a frame to watch, so a forwarding object takes its place in its module before
the program can import it. Its arguments are the caller's for the whole call anyway: the wrapper
adds no lifetime.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .calls import _watch
    from .errors import pass_on
    from .imports import when_executed
    from .operators import _code_of
    from .recursion import _no_room
    from .spans import _begin_call, _leave


class _Native:
    """Forwards everything to the callable it stands for; calls are spans."""

    __slots__ = ("_memtrace_target", "_memtrace_operator")

    def __init__(self, target, operator):
        object.__setattr__(self, "_memtrace_target", target)
        object.__setattr__(self, "_memtrace_operator", operator)

    def __call__(self, /, *args, **kwargs):
        span = _begin_native(self._memtrace_operator, args, kwargs)
        if not span:
            return self._memtrace_target(*args, **kwargs)
        try:
            result = self._memtrace_target(*args, **kwargs)
        except BaseException as error:
            _leave(span, None, type(error).__name__)
            raise
        _leave(span, result)
        return result

    @property
    def __class__(self):
        return type(self._memtrace_target)

    @property
    def __doc__(self):
        return self._memtrace_target.__doc__

    def __getattr__(self, name):
        return getattr(self._memtrace_target, name)

    def __setattr__(self, name, value):
        setattr(self._memtrace_target, name, value)

    def __delattr__(self, name):
        delattr(self._memtrace_target, name)

    def __dir__(self):
        return dir(self._memtrace_target)

    def __repr__(self):
        return repr(self._memtrace_target)

    def __eq__(self, other):
        return self is other or self._memtrace_target == other

    def __hash__(self):
        return hash(self._memtrace_target)

    def __reduce_ex__(self, protocol):
        return self._memtrace_operator.path  # pickled by the name it stands under


_Native.__module__ = property(lambda self: self._memtrace_operator.module)  # where pickle looks


def _begin_native(operator, args, kwargs):
    try:
        pairs = [(f"args[{i}]", value) for i, value in enumerate(args)]
        return _begin_call(operator, pairs + list(kwargs.items()))
    except _no_room:
        return 0
    except Exception as error:
        pass_on(error)
        return 0


def _wrap_or_watch(operator):
    """Wraps or watches an operator whose module has just been executed."""
    target = operator.at(operator.parts)
    code = _code_of(target)
    if code is not None:
        _watch(code.co_name, operator)  # the code's own name, where the operator's is an alias
    elif callable(target) and not isinstance(target, (type, _Native)):
        *parent, last = operator.parts
        setattr(operator.at(parent), last, _Native(target, operator))


def await_modules(operators):
    """Wraps or watches the operators as soon as their modules have been executed."""
    for operator in operators:
        when_executed(operator.module, lambda _module, operator=operator: _wrap_or_watch(operator))
