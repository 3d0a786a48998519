"""Which functions are operators, and which operator a call belongs to.

One of the texts that make up the recorder (see `__init__.py` for their constraints). Nothing is
imported and no code of the program runs to find out.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .errors import pass_on
    from .spans import versions_of

OPTIMIZED = 0x1  # co_flags
GENERATORS = 0x20 | 0x80 | 0x200  # generator, coroutine, async generator
_by_name = {}  # name of a code object -> operators it may be; also the names watched
_by_code = {}  # code of a decorated function -> its operator
_found = {}  # id of a code object -> (it, its operator, module, reference to what is at its path)
KNOWN_CODES = 1024  # that `_found` keeps at a time
_CodeType = type((lambda: None).__code__)
_FunctionType, _BuiltinType = type(lambda: None), type(len)


class _Operator:
    """What is recorded, under which name, and which of its arguments count (None: all)."""

    def __init__(self, module, path, name=None, params=None, shape_of=None):
        self.module, self.path, self.parts = module, path, path.split(".")
        self.name = name or f"{module}:{path}"
        self.params, self.shape_of = params, shape_of
        self._versions = None

    def at(self, parts):
        """The object at an attribute path of the module now, found without running any code."""
        value = sys.modules.get(self.module)
        for part in parts:
            for owner in value.__mro__ if isinstance(value, type) else (value,):
                space = getattr(owner, "__dict__", ())
                if part in space:
                    value = space[part]
                    break
            else:
                return None
        return value

    def owns(self, code, module):
        """Whether `code`, run with the globals of `module`, is this operator's."""
        own = _code_of(self.at(self.parts))
        if own == code:
            return True  # equal, not the same: cloudpickle copies code
        if own is not None and own.co_name == code.co_name:
            return False  # another function of that name, a method perhaps
        if module != self.module and (self.module, module) != ("__main__", "__mp_main__"):
            return False
        qualname = getattr(code, "co_qualname", None)  # from 3.11
        if qualname is None:
            return "." not in self.path
        return qualname == self.path or qualname.endswith("<locals>." + self.path)

    def versions(self, code, namespace, more=()):
        """JSON: versions of Python, NumPy, the operator's package and those its code names.

        more: modules of others, which all calls have from then on.
        """
        if self._versions is None or more:
            names = [self.module, "numpy", *more]
            for name in code.co_names if code else ():
                value = namespace.get(name)
                names.append(_module_of(type(value), value))
            self._versions = versions_of(names)
        return self._versions


def _module_of(kind, value):
    """The module that a global name stands for, or comes from. A proxy is not asked."""
    if kind is type(sys):
        return value.__name__
    is_own = kind is _FunctionType or kind is _BuiltinType or issubclass(kind, type)
    return getattr(value if is_own else kind, "__module__", None)


def _code_of(value):
    """The code of the innermost Python function that `value` is or wraps, None if there is none."""
    code = None
    for _ in range(32):
        found = getattr(value, "__code__", None)
        code = found if isinstance(found, _CodeType) else code
        kind = type(value)
        if kind.__module__ == "functools" and kind.__name__ == "partial":
            value = value.func
            continue
        links = ("__func__", "_implementation", "__wrapped__")
        inner = [getattr(value, link, None) for link in links]
        value = next((link for link in inner if link is not None), None)
        if value is None:
            break
    return code


def _operator_of(frame):
    """The operator that a function's frame runs, None if it runs none."""
    code, module = frame.f_code, frame.f_globals.get("__name__")
    try:
        found = _found.get(id(code))
        if found is not None:
            _, operator, its_module, reference = found
            if module == its_module and operator.at(operator.parts) is reference():
                return operator
        if code.co_flags & GENERATORS or not code.co_flags & OPTIMIZED:
            return None  # no call that begins and ends; a class body
        if code in _by_code:
            return _by_code[code]
        candidates = _by_name.get(code.co_name, ())
        for operator in candidates:
            if operator.owns(code, module):
                if operator is candidates[0]:
                    _keep_found(code, operator, module)
                return operator
        return None
    except BaseException as error:
        pass_on(error)
        return None


def _keep_found(code, operator, module):
    """The operator of this code, as long as its path leads to the same object as now."""
    from _weakref import ref

    there = operator.at(operator.parts)
    if type(module) is str and type(there).__weakrefoffset__:
        if len(_found) >= KNOWN_CODES:
            _found.clear()
        _found[id(code)] = code, operator, module, ref(there)
