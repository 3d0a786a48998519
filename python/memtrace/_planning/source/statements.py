"""Statements of a function's text."""

import ast
import inspect
import sys

from .expressions import OPERATORS, Expressions


class Body(Expressions):
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
        lines = (
            kind(node) if kind else [{"evaluate": {"unknown": f"what {type(node).__name__} does"}}]
        )
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
        operator = OPERATORS[type(node.op).__name__]
        target, value = self.target(node.target), self.value(node.value)
        return [{"update": {"target": target, "operator": operator, "value": value}}]

    def do_Expr(self, node):
        if isinstance(node.value, ast.Constant):
            return []  # a docstring
        return [{"evaluate": self.value(node.value)}]

    def do_Pass(self, node):
        return []

    def do_Assert(self, node):
        return [{"evaluate": self.value(node.test)}]

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
        for handler in node.handlers:
            # The last statement may raise; a test that is no type is taken both ways.
            raised = self.block(node.body[:-1]) + self.block(handler.body)
            arms = {"then": raised, "otherwise": lines}
            lines = [{"line": self.line(handler), "if": {"test": {"dtype": "none"}, **arms}}]
        return lines + self.block(node.finalbody)

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
        if node.decorator_list:
            inner = {"unknown": f"what decorators make of {node.name}"}
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
        inner = Body(self.described, key, self.function, self.offset, self.closure)
        inner.locals = set(self.locals)
        self.described.functions[key] = inner.of(
            node, inspect.getsourcefile(self.function) or "", True
        )
        return {"function": key}

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
