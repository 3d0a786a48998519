"""Describes the source of a Python function as JSON that any language's extractor could write.

The function is not run; its module is imported. Functions that it calls are described too, unless
they belong to a library whose functions are known by their laws (`LIBRARIES`) or to Python itself.
What the JSON means: docs/generic.md. Needs nothing but Python 3.8: `memtrace bound` hands this file
to whichever interpreter has the operator.
"""

import ast
import builtins
import inspect
import json
import math
import sys
import textwrap
import types

VERSION = 1
LIBRARIES = ("numpy", "scipy", "pandas", "xarray", "dask", "torch", "cupy", "numba")
MAX_FUNCTIONS = 200  # described beside the one asked about
MAX_ITEMS = 4096  # of a constant sequence

_OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "MatMult": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>",
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Is": "is",
    "IsNot": "is not", "In": "in", "NotIn": "not in", "USub": "neg", "UAdd": "pos", "Not": "not",
    "Invert": "invert",
}  # fmt: skip


def describe(function):
    """The description of a function, as a dict. TypeError, OSError: it has no Python source."""
    described = _Description()
    entry = described.add(function)
    if entry is None:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} has no Python source to describe")
    described.finish()
    return {
        "source_version": VERSION,
        "language": "python",
        "entry": entry,
        "functions": described.functions,
        "versions": _versions(),
    }


def _versions():
    loaded = ((name, sys.modules.get(name)) for name in ("numpy", "scipy", "pandas", "xarray"))
    found = {name: getattr(module, "__version__", None) for name, module in loaded}
    found["python"] = ".".join(map(str, sys.version_info[:3]))
    return {name: version for name, version in found.items() if isinstance(version, str)}


def public_name(thing):
    """`scipy.ndimage.gaussian_filter` for what is defined in `scipy.ndimage._filters`."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    module = getattr(thing, "__module__", None)
    if type(thing).__name__ == "ufunc":
        module = "scipy.special" if module and module.startswith("scipy") else "numpy"
        name = thing.__name__
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):  # the first package that shows it
        place = ".".join(parts[:count])
        if getattr(sys.modules.get(place), name, None) is thing:
            return f"{place}.{name}"
    return ".".join([part for part in parts if not part.startswith("_")] + [name])


class _Description:
    def __init__(self):
        self.functions = {}
        self.waiting = []

    def add(self, function):
        """Name under which a function is described; None if it has no source."""
        function = inspect.unwrap(function)
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType):
            return None
        name = f"{function.__module__}:{function.__qualname__}"
        if name not in self.functions:
            if len(self.functions) > MAX_FUNCTIONS:
                return None
            try:
                lines, first = inspect.getsourcelines(function)
                tree = ast.parse(textwrap.dedent("".join(lines)))
            except (OSError, TypeError, SyntaxError):
                return None
            self.functions[name] = None
            self.waiting.append((name, function, tree, first))
        return name

    def finish(self):
        while self.waiting:
            name, function, tree, first = self.waiting.pop()
            self.functions[name] = _Body(self, name, function, first - 1).whole(tree)

    def reference(self, thing):
        """How a function, type or class that a name stands for is written."""
        dtype = _dtype(thing)
        if dtype is not None:
            return {"dtype": dtype}
        inner = (
            inspect.unwrap(thing) if callable(thing) and hasattr(thing, "__wrapped__") else thing
        )
        root = (getattr(inner, "__module__", None) or "").split(".")[0]
        if (
            isinstance(inner, types.FunctionType)
            and root not in LIBRARIES
            and root not in _STANDARD
        ):
            name = self.add(inner)
            if name is not None:
                return {"function": name}
        name = public_name(thing)
        return None if name is None else {"function": name}


_STANDARD = getattr(
    sys,
    "stdlib_module_names",
    frozenset(
        [
            "builtins",
            "functools",
            "itertools",
            "math",
            "os",
            "collections",
            "warnings",
            "inspect",
            "operator",
        ]
    ),
)


def _dtype(thing):
    """`<f4` for numpy.float32 and numpy.dtype("f4"); None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.dtype):
        return thing.str
    if isinstance(thing, type) and issubclass(thing, numpy.generic):
        try:
            made = numpy.dtype(thing)
        except TypeError:
            return None
        # numpy.floating and the like are kinds, not types
        return made.str if made.type is thing else None
    return None


def _constant(value, depth=0):
    """A value that is known without running anything; None: it cannot be written."""
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value} if not isinstance(value, int) or abs(value) < 2**63 else None
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"unknown": "a number beyond all"}
    if isinstance(value, (tuple, list, set, frozenset)) and len(value) <= MAX_ITEMS and depth < 8:
        items = [_constant(item, depth + 1) for item in value]
        return None if None in items else {"sequence": items}
    if isinstance(value, dict) and len(value) <= MAX_ITEMS and depth < 8:
        pairs = [
            [_constant(key, depth + 1), _constant(item, depth + 1)] for key, item in value.items()
        ]
        return None if any(None in pair for pair in pairs) else {"mapping": pairs}
    dtype = _dtype(value)
    if dtype is not None:
        return {"dtype": dtype}
    if isinstance(value, type) and value.__module__ == "builtins":
        return {"function": f"builtins.{value.__name__}"}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _call(
            _function("numpy.asarray"),
            [_constant(value.item()) or {"value": 0}],
            [["dtype", {"dtype": value.dtype.str}]],
        )
    if numpy is not None and isinstance(value, numpy.ndarray) and depth == 0:
        shape = {"sequence": [{"value": length} for length in value.shape]}
        return _call(
            _function("numpy.broadcast_to"),
            [_call({"dtype": value.dtype.str}, [{"value": 0}]), shape],
        )
    return None


def _function(name):
    return {"function": name}


def _call(function, args, keywords=(), line=0):
    return {"call": {"function": function, "args": args, "keywords": list(keywords), "line": line}}


class _Body:
    """One function's text, statement by statement."""

    def __init__(self, described, name, function, offset, closure=None):
        self.described, self.name, self.function, self.offset = described, name, function, offset
        self.globals = getattr(function, "__globals__", {})
        self.closure = closure if closure is not None else _closure(function)
        self.locals = set()

    def whole(self, tree):
        node = tree.body[0]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.of(node, inspect.getsourcefile(self.function) or "", False)
        found = [each for each in ast.walk(tree) if isinstance(each, ast.Lambda)]
        return self.of(found[0], inspect.getsourcefile(self.function) or "", False)

    def of(self, node, file, nested):
        if nested:
            self.locals |= _stored(node)
        else:
            self.locals = _stored(node)
        parameters = self.parameters(node.args)
        if isinstance(node, ast.Lambda):
            body = [{"line": self.line(node), "return": self.value(node.body)}]
        else:
            body = self.block(node.body)
        return {"file": file, "parameters": parameters, "body": body, "nested": nested}

    def line(self, node):
        return getattr(node, "lineno", 0) + self.offset

    def parameters(self, args):
        places = [*getattr(args, "posonlyargs", []), *args.args]
        defaults = [None] * (len(places) - len(args.defaults)) + list(args.defaults)
        found = [self.parameter(arg, default) for arg, default in zip(places, defaults)]
        if args.vararg:
            found.append({"name": args.vararg.arg, "takes": "rest"})
        found += [
            {**self.parameter(arg, default), "takes": "named"}
            for arg, default in zip(args.kwonlyargs, args.kw_defaults)
        ]
        if args.kwarg:
            found.append({"name": args.kwarg.arg, "takes": "names"})
        return found

    def parameter(self, arg, default):
        if default is None:
            return {"name": arg.arg}
        return {"name": arg.arg, "default": self.value(default)}

    def block(self, statements):
        return [line for statement in statements for line in self.statement(statement)]

    def statement(self, node):
        kind = getattr(self, "do_" + type(node).__name__, None)
        lines = kind(node) if kind else []
        for line in lines:
            line.setdefault("line", self.line(node))
        return lines

    def do_Assign(self, node):
        targets = [self.target(target) for target in node.targets]
        return [{"assign": {"targets": targets, "value": self.value(node.value)}}]

    def do_AnnAssign(self, node):
        if node.value is None:
            return []
        return [
            {"assign": {"targets": [self.target(node.target)], "value": self.value(node.value)}}
        ]

    def do_AugAssign(self, node):
        operator = _OPERATORS[type(node.op).__name__]
        target, value = self.target(node.target), self.value(node.value)
        return [{"update": {"target": target, "operator": operator, "value": value}}]

    def do_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return []  # a docstring
        return [{"evaluate": self.value(node.value)}]

    def do_Return(self, node):
        return [{"return": None if node.value is None else self.value(node.value)}]

    def do_If(self, node):
        arms = {"then": self.block(node.body), "otherwise": self.block(node.orelse)}
        return [{"if": {"test": self.value(node.test), **arms}}]

    def do_For(self, node):
        loop = {"target": self.target(node.target), "over": self.value(node.iter)}
        loop["body"] = self.block(node.body)
        return [{"for": loop}, *self.block(node.orelse)]

    def do_While(self, node):
        loop = {"test": self.value(node.test), "body": self.block(node.body)}
        return [{"while": loop}, *self.block(node.orelse)]

    def do_Break(self, node):
        return [{"leave": "break"}]

    def do_Continue(self, node):
        return [{"leave": "continue"}]

    def do_Raise(self, node):
        return [{"leave": "raise"}]

    def do_Delete(self, node):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return [{"release": names}] if names else []

    def do_With(self, node):
        lines = []
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is None:
                lines.append({"line": self.line(node), "evaluate": value})
            else:
                target = self.target(item.optional_vars)
                lines.append(
                    {"line": self.line(node), "assign": {"targets": [target], "value": value}}
                )
        return lines + self.block(node.body)

    def do_Try(self, node):
        lines = self.block(node.body) + self.block(node.orelse)
        return lines + self.block(node.finalbody)  # what handlers do is not looked at

    do_TryStar = do_Try

    def do_Match(self, node):
        lines = []
        for case in reversed(node.cases):
            arms = {"then": self.block(case.body), "otherwise": lines}
            test = {"unknown": "a case of match"}
            lines = [{"line": self.line(case.pattern), "if": {"test": test, **arms}}]
        return lines

    def do_FunctionDef(self, node):
        inner = self.nested(node, node.name)
        return [{"assign": {"targets": [{"name": node.name}], "value": inner}}]

    def do_Import(self, node):
        for alias in node.names:
            module = sys.modules.get(alias.name)
            if module is not None:
                self.closure[alias.asname or alias.name.split(".")[0]] = (
                    module if alias.asname else sys.modules[alias.name.split(".")[0]]
                )
        return []

    def do_ImportFrom(self, node):
        package = self.globals.get("__package__") or ""
        base = package.rsplit(".", node.level - 1)[0] if node.level else ""
        name = ".".join(part for part in (base, node.module) if part)
        module = sys.modules.get(name)
        for alias in node.names:
            thing = getattr(module, alias.name, sys.modules.get(f"{name}.{alias.name}"))
            if thing is not None:
                self.closure[alias.asname or alias.name] = thing
        return []

    def nested(self, node, name):
        key = f"{self.name}.{name}@{self.line(node)}"
        inner = _Body(self.described, key, self.function, self.offset, self.closure)
        inner.locals = set(self.locals)
        self.described.functions[key] = inner.of(
            node, inspect.getsourcefile(self.function) or "", True
        )
        return {"function": key}

    def target(self, node):
        if isinstance(node, ast.Name):
            return {"name": node.id}
        if isinstance(node, (ast.Tuple, ast.List)):
            return {"sequence": [self.target(item) for item in node.elts]}
        if isinstance(node, ast.Starred):
            return {"spread": self.target(node.value)}
        return self.value(node)

    def value(self, node):
        kind = getattr(self, "as_" + type(node).__name__, None)
        return kind(node) if kind else {"unknown": type(node).__name__}

    def as_Constant(self, node):
        if node.value is Ellipsis:
            return "rest"
        return _constant(node.value) or {"unknown": "a constant"}

    def as_Name(self, node):
        if node.id in self.locals and node.id not in self.closure:
            return {"name": node.id}
        return self.thing(node.id) or {"name": node.id}

    def thing(self, name):
        """What a name that is no variable stands for."""
        places = (self.closure, self.globals, vars(builtins))
        for place in places:
            if name in place:
                return self.known(place[name], name)
        return None

    def known(self, thing, name):
        constant = _constant(thing)
        if constant is not None:
            return constant
        if callable(thing):
            if getattr(thing, "__module__", None) == "builtins":
                return _function(f"builtins.{thing.__name__}")
            found = self.described.reference(thing)
            if found is not None:
                return found
        return {"unknown": f"the value of {name}"}

    def as_Attribute(self, node):
        found = self.resolved(node)
        if found is not None:
            return self.known(found[0], node.attr)
        return {"attribute": {"of": self.value(node.value), "name": node.attr}}

    def resolved(self, node):
        """The object of a dotted name that leads through modules: (object,)."""
        if isinstance(node, ast.Name):
            if node.id in self.locals and node.id not in self.closure:
                return None
            for place in (self.closure, self.globals):
                if node.id in place:
                    return (place[node.id],)
            return None
        if isinstance(node, ast.Attribute):
            outer = self.resolved(node.value)
            if outer is not None and isinstance(outer[0], (types.ModuleType, type)):
                thing = getattr(outer[0], node.attr, outer)
                return None if thing is outer else (thing,)
        return None

    def as_Call(self, node):
        args = [self.value(arg) for arg in node.args]
        keywords = [[word.arg or "**", self.value(word.value)] for word in node.keywords]
        return _call(self.value(node.func), args, keywords, self.line(node))

    def as_BinOp(self, node):
        return self.operate(_OPERATORS[type(node.op).__name__], [node.left, node.right], node)

    def as_UnaryOp(self, node):
        operator = _OPERATORS[type(node.op).__name__]
        if operator == "neg" and isinstance(node.operand, ast.Constant):
            return _constant(-node.operand.value) or {"unknown": "a constant"}
        return self.operate(operator, [node.operand], node)

    def as_BoolOp(self, node):
        return self.operate("and" if isinstance(node.op, ast.And) else "or", node.values, node)

    def as_Compare(self, node):
        pairs = zip([node.left, *node.comparators], node.ops, node.comparators)
        tests = [self.operate(_OPERATORS[type(op).__name__], [a, b], node) for a, op, b in pairs]
        if len(tests) == 1:
            return tests[0]
        return {"operate": {"operator": "and", "args": tests, "line": self.line(node)}}

    def operate(self, operator, operands, node):
        args = [self.value(operand) for operand in operands]
        return {"operate": {"operator": operator, "args": args, "line": self.line(node)}}

    def as_Subscript(self, node):
        index = node.slice
        index = getattr(index, "value", index) if type(index).__name__ == "Index" else index  # 3.8
        if type(index).__name__ == "ExtSlice":  # 3.8
            items = [
                getattr(item, "value", item) if type(item).__name__ == "Index" else item
                for item in index.dims
            ]
        else:
            items = index.elts if isinstance(index, ast.Tuple) else [index]
        index = [self.value(item) for item in items]
        return {"item": {"of": self.value(node.value), "index": index, "line": self.line(node)}}

    def as_Slice(self, node):
        edges = (node.lower, node.upper, node.step)
        return {"slice": [None if edge is None else self.value(edge) for edge in edges]}

    def as_Tuple(self, node):
        return {"sequence": [self.value(item) for item in node.elts]}

    as_List = as_Set = as_Tuple

    def as_Dict(self, node):
        pairs = zip(node.keys, node.values)
        return {
            "mapping": [
                [self.value(key), self.value(value)] for key, value in pairs if key is not None
            ]
        }

    def as_Starred(self, node):
        return {"spread": self.value(node.value)}

    def as_IfExp(self, node):
        arms = {"then": self.value(node.body), "otherwise": self.value(node.orelse)}
        return {"choose": {"test": self.value(node.test), **arms, "line": self.line(node)}}

    def as_ListComp(self, node):
        names = {
            name.id
            for part in node.generators
            for name in ast.walk(part.target)
            if isinstance(name, ast.Name)
        }
        new = names - self.locals
        self.locals |= names
        item = self.value(node.elt)
        for part in reversed(node.generators):
            each = {"item": item, "target": self.target(part.target), "over": self.value(part.iter)}
            each["when"] = [self.value(test) for test in part.ifs]
            item = {"each": each}
        self.locals -= new
        return item

    as_GeneratorExp = as_SetComp = as_ListComp

    def as_NamedExpr(self, node):
        return self.value(node.value)

    def as_JoinedStr(self, node):
        return {"value": "text"}

    def as_Lambda(self, node):
        return self.nested(node, "lambda")


def _closure(function):
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


def _stored(node):
    """Names that a function gives values to."""
    names = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            names.add(each.id)
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each is not node:
            names.add(each.name)
    declared = [each for each in ast.walk(node) if isinstance(each, (ast.Global, ast.Nonlocal))]
    return names - {name for each in declared for name in each.names}


def load(name):
    """The function `MODULE:FUNCTION`; its module is imported."""
    from importlib import import_module

    module, _, path = name.partition(":")
    if not path:
        raise ValueError(f"{name!r} names no function; write MODULE:FUNCTION")
    thing = import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


def main(name):
    sys.path.insert(0, "")
    print(json.dumps(describe(load(name)), separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1])
