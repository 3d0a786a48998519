"""Expressions of a function's text."""

import ast
import builtins
import types

from .values import call_of, constant, function_named

OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "MatMult": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>",
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Is": "is",
    "IsNot": "is not", "In": "in", "NotIn": "not in", "USub": "neg", "UAdd": "pos", "Not": "not",
    "Invert": "invert",
}  # fmt: skip


class Expressions:
    """Describes expressions; `Body` describes the statements that they stand in."""

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
        return constant(node.value) or {"unknown": "a constant"}

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
        written = constant(thing)
        if written is not None:
            return written
        if callable(thing):
            if getattr(thing, "__module__", None) == "builtins":
                return function_named(f"builtins.{thing.__name__}")
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
        return call_of(self.value(node.func), args, keywords, self.line(node))

    def as_BinOp(self, node):
        return self.operate(OPERATORS[type(node.op).__name__], [node.left, node.right], node)

    def as_UnaryOp(self, node):
        operator = OPERATORS[type(node.op).__name__]
        if operator == "neg" and isinstance(node.operand, ast.Constant):
            return constant(-node.operand.value) or {"unknown": "a constant"}
        return self.operate(operator, [node.operand], node)

    def as_BoolOp(self, node):
        return self.operate("and" if isinstance(node.op, ast.And) else "or", node.values, node)

    def as_Compare(self, node):
        pairs = zip([node.left, *node.comparators], node.ops, node.comparators)
        tests = [self.operate(OPERATORS[type(op).__name__], [a, b], node) for a, op, b in pairs]
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
        if None in node.keys:
            return {"unknown": "a mapping with others in it"}
        return {"mapping": [[self.value(key), self.value(value)] for key, value in pairs]}

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

    def as_JoinedStr(self, node):
        return call_of(
            function_named("builtins.format"), [self.value(value) for value in node.values]
        )

    def as_FormattedValue(self, node):
        return self.value(node.value)
