"""The changes that make mutants: each changes one operation, condition, constant, statement or handler of a module."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}


class Mutant(NamedTuple):
    """One change to a module, named so that the name survives changes elsewhere in the module."""

    module: str  # the path of the module below the package: "gpu/memory/memory.py"
    place: str  # the definition that contains the change: "Memory.close", or "" for the module itself
    change: str  # the code before and after
    turn: int  # which of several equal changes in the same definition
    line: int
    number: int  # which change of the module
    kind: str

    @property
    def name(self) -> str:
        """Return the text that the list of equivalent mutants has."""
        return f"{self.module}: {self.place or 'module'}: {self.change}" + (f" #{self.turn}" if self.turn else "")


SYMBOLS: dict[type[ast.AST], str] = {
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is"},
    **{ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*"},
    **{ast.FloorDiv: "//", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|"},
}


class _Site(NamedTuple):
    """A node, the definition around it, and where it is in its parent, so that it can be replaced."""

    node: ast.AST
    place: str
    parent: ast.AST
    field: str
    number: int | None
    in_class: bool


def _sites(tree: ast.AST) -> Iterator[_Site]:
    """Yield all nodes that may change: no docstring, annotation, __all__, nor anything for type checkers only."""

    def inside(parent: ast.AST, place: str) -> Iterator[_Site]:
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list", "ctx", "type_comment"):
                continue
            for number, node in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not isinstance(node, ast.AST) or _left_out(node):
                    continue
                yield _Site(node, place, parent, field, number, isinstance(parent, ast.ClassDef))
                named = isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
                name = getattr(node, "name", "") if named else ""
                yield from inside(node, f"{place}.{name}".strip(".") if named else place)

    return inside(tree, "")


def _left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("__all__", "TYPE_CHECKING")
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr))  # an f-string: the wording of messages


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class _Change(NamedTuple):
    """A kind of change, what it makes of the code in words that every version of Python gives, and the new node."""

    kind: str
    after: str
    node: ast.AST


def _changes(node: ast.AST, in_class: bool) -> Iterator[_Change]:
    """Yield each change to a node."""
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                made = _changed(node, ops=[*node.ops[:number], other(), *node.ops[number + 1 :]])
                yield _Change("comparison", SYMBOLS[other] + (f" at {number}" if len(node.ops) > 1 else ""), made)
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        if type(node.op) in ARITHMETIC and not _is_text(node):
            another = ARITHMETIC[type(node.op)]
            yield _Change("arithmetic", SYMBOLS[another], _changed(node, op=another()))
    elif isinstance(node, ast.BoolOp):
        both = isinstance(node.op, ast.And)
        yield _Change("boolean", "or" if both else "and", _changed(node, op=ast.Or() if both else ast.And()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        kind = "boolean" if isinstance(node.op, ast.Not) else "arithmetic"
        yield _Change(kind, "its operand", node.operand)
    elif isinstance(node, ast.Constant):
        value: object = None
        if isinstance(node.value, bool):
            value = not node.value
        elif isinstance(node.value, int):
            value = node.value + 1
        elif isinstance(node.value, str) and _is_word(node.value):
            value = node.value + "_"
        elif isinstance(node.value, bytes) and _is_word(node.value.decode("latin-1")):
            value = node.value + b"_"
        if value is not None:
            yield _Change("constant", repr(value), _changed(node, value=value))
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        first, second, *rest = node.args
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            if ast.dump(first) != ast.dump(second):
                yield _Change("swapped arguments", "swapped", _changed(node, args=[second, first, *rest]))
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            nothing = ast.copy_location(ast.Constant(None), node)
            yield _Change("returned value", "return None", _changed(node, value=nothing))
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)) and not isinstance(node.test, ast.Constant):
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        yield _Change("negated condition", "the opposite", _changed(node, test=negated))
    if isinstance(node, ast.Try):
        yield from _without_a_part(node)
    if not in_class and _is_removable(node):
        kind = "removed raise" if isinstance(node, ast.Raise) else "removed statement"
        yield _Change(kind, "removed", ast.copy_location(ast.Pass(), node))


def _without_a_part(node: ast.Try) -> Iterator[_Change]:
    """Yield a try statement without each of its handlers, and without its finally clause."""
    always = ast.copy_location(ast.Constant(True), node)
    alone = ast.copy_location(ast.If(always, [*node.body, *node.orelse], []), node)  # what remains without any part
    for number in range(len(node.handlers)):
        handlers = [*node.handlers[:number], *node.handlers[number + 1 :]]
        made: ast.AST = alone
        if handlers or node.finalbody:
            body = node.body if handlers else [*node.body, *node.orelse]
            made = _changed(node, handlers=handlers, body=body, orelse=node.orelse if handlers else [])
        yield _Change("removed except", f"without except {number}", made)
    if node.finalbody:
        made = _changed(node, finalbody=[]) if node.handlers else alone
        yield _Change("removed finally", "without finally", made)


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Tell whether an operation plainly makes a text, in which case another operator only raises a TypeError."""
    ends = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(isinstance(e, ast.JoinedStr) or isinstance(e, ast.Constant) and isinstance(e.value, str) for e in ends)


def _is_word(text: str) -> bool:
    """Tell whether a text is a name or a format that code compares, and not a part of a message."""
    return bool(text) and text.isascii() and not any(each.isspace() for each in text)


def _is_removable(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):  # without a plain name's assignment, the next line raises a NameError
        return any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in node.targets)
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return calls or isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise, ast.Break, ast.Continue))


def mutants_of(module: str, source: str) -> list[Mutant]:
    """List all mutants of a module."""
    found: list[Mutant] = []
    turns: dict[tuple[str, str], int] = {}
    lines = source.split("\n")
    for site in _sites(ast.parse(source)):
        for change in _changes(site.node, site.in_class):
            line, before = _before(site.node, change, lines)
            text = f"{before} -> {change.after}"
            turn = turns[site.place, text] = turns.get((site.place, text), -1) + 1
            found.append(Mutant(module, site.place, text, turn, line, len(found), change.kind))
    return found


def _before(node: ast.AST, change: _Change, lines: list[str]) -> tuple[int, str]:
    """Return the line that a test must run to notice a change, and the code that changes: the code of a condition,
    of a handler's or a finally's first statement, or of the whole node."""
    seen = node
    if change.kind == "negated condition":
        seen = node.test  # type: ignore[attr-defined]
    elif change.kind == "removed except":
        seen = node.handlers[int(change.after.split()[-1])].body[0]  # type: ignore[attr-defined]
    elif change.kind == "removed finally":
        seen = node.finalbody[0]  # type: ignore[attr-defined]
    first, last = getattr(seen, "lineno", 1), getattr(seen, "end_lineno", 1)
    within = [line.encode() for line in lines[first - 1 : last]]  # the columns count bytes
    within[-1] = within[-1][: getattr(seen, "end_col_offset", 0)]
    within[0] = within[0][getattr(seen, "col_offset", 0) :]
    text = " ".join(b" ".join(within).decode().split())
    return first, text if len(text) <= 100 else f"{text[:60]} ... {text[-35:]}"


def mutated(source: str, index: int, path: str) -> CodeType:
    """Compile a module with one of its changes."""
    tree = ast.parse(source)
    count = 0
    for site in _sites(tree):
        for change in _changes(site.node, site.in_class):
            other = change.node
            if count == index:
                ast.fix_missing_locations(other)
                if site.number is None:
                    setattr(site.parent, site.field, other)
                else:
                    getattr(site.parent, site.field)[site.number] = other
                return compile(tree, path, "exec", dont_inherit=True)
            count += 1
    raise IndexError(f"{path} has {count} changes, and no number {index}")


# -- recording: what runs


class Statement(NamedTuple):
    """A statement of a module: its definition, its lines, the names in it, and whether it runs in a function."""

    module: str
    place: str
    first: int
    last: int
    names: frozenset[str]
    in_function: bool
    defined: frozenset[str]  # outside functions: the names that it defines


def statements_of(
    module: str, source: str, wanted: set[tuple[str, int]] | None = None
) -> tuple[list[Statement], ast.Module]:
    """List all statements of a module in the order of their probes, and return its tree with the probes.

    A probe is the statement `_ran_((module, number))`; `_ran_` is a builtin while tests are recorded.

    wanted  which statements get a probe; None: all of them
    """
    tree = ast.parse(source)
    found: list[Statement] = []

    def inside(node: ast.AST, place: str, in_function: bool) -> None:
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if not isinstance(body, list) or isinstance(node, (ast.Lambda, ast.IfExp)):
                continue
            probed: list[ast.stmt] = []
            for statement in body:
                named = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
                within = f"{place}.{statement.name}".strip(".") if named else place
                docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if not docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
                    names = frozenset(
                        getattr(each, "id", "") or getattr(each, "attr", "") for each in ast.walk(statement)
                    )
                    last = statement.end_lineno or statement.lineno
                    first = min([statement.lineno, *(e.lineno for e in getattr(statement, "decorator_list", []))])
                    call = ast.Call(ast.Name("_ran_", ast.Load()), [ast.Tuple(
                        [ast.Constant(module), ast.Constant(len(found))], ast.Load())], [])  # fmt: skip
                    probe = ast.copy_location(ast.Expr(call), statement)
                    if wanted is None or (module, len(found)) in wanted:
                        probed.append(ast.fix_missing_locations(probe))
                    found.append(Statement(module, place, first, last, names, in_function, _defined(statement)))
                inside(statement, within, in_function or isinstance(statement, ast.FunctionDef))
                probed.append(statement)
            body[:] = probed
        for handler in getattr(node, "handlers", []):
            inside(handler, place, in_function)

    inside(tree, "", False)
    return found, tree


def _defined(statement: ast.stmt) -> frozenset[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return frozenset([statement.name])
    return frozenset(
        each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    )
