"""Cutting a vendored part to what it uses and what its users read.

What it is   `cut_tables`, which leaves out rows of cuda.h: a row stays if the code of the other files names it, if a
             row that stays names it, or if it has a constant that a comment names. A row is a function, a type, an
             enumeration, or a constant.
             `cut_notes`, which leaves out comments, the docstrings of private functions and classes, and what follows
             the first line of a module's docstring.
What not     no statement is changed, and the docstrings that help() shows of public names stay.
Read next    headers/cuda_h.py: the form of the tables; parts.py
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Files = dict[str, bytes]  # path in the package, with "/": content

__all__ = ["cut_notes", "cut_tables"]


# -- the tables of cuda.h

_TABLES = re.compile(r"headers/(?:functions\w*|structures|enumerations)\.py")
_NOTE = "/* this copy is the part '{}' only: what it does not use was left out, and the whole package has it */\n"
_STUB = "headers/calls.pyi"
_FACTS = "headers/behaviour.py"  # about functions of cuda.h, whether anything calls them or not
_WORD = re.compile(r"\b[a-zA-Z]\w+")
_FORM = re.compile(r"_(?:ptsz|ptds)$")  # a form of a function, for which its row has a mark


def cut_tables(copied: Files, part: str) -> Files:
    """Return the tables of a copy, and the stub of its functions, with the rows that its other files use."""
    texts = {path: copied[path].decode() for path in copied if _TABLES.fullmatch(path)}
    wanted: set[str] = set()
    for path in copied.keys() - texts.keys():
        if path.endswith(".py") and path != _FACTS:
            text = copied[path].decode()
            wanted |= _words_of_code(text) | set(re.findall(r"\bCU_\w+", text))  # comments explain numbers by constants
    rows = {path: list(_rows(text)) for path, text in texts.items()}
    waiting = {row: _names(row) for each in rows.values() for row in each if row[0] not in "\n/"}
    kept: set[str] = set()
    while True:
        found = {row for row, names in waiting.items() if row not in kept and names & wanted}
        if not found:
            break
        kept |= found
        wanted.update(*(_WORD.findall(_code(row)) for row in found))
    made = {path: _with_rows(text, rows[path], kept, part).encode() for path, text in texts.items()}
    if _STUB in copied:
        functions = {name for row in kept for name in waiting[row]}
        head, *stubs = re.split(r"(?m)^(?=    def )", copied[_STUB].decode())
        stay = [stub for stub in stubs if _FORM.sub("", stub[8 : stub.index("(")]) in functions]
        made[_STUB] = "".join([head, *stay]).encode()
    return made


def _words_of_code(source: str) -> set[str]:
    """Return the words of a file's code, also those in its strings that are not docstrings."""
    found: set[str] = set()
    tree = ast.parse(source)
    documentation = {id(each.value) for each in _docstrings(tree)}
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "value") if id(node) not in documentation else ():
            text = getattr(node, field, None)
            if isinstance(text, str):
                found |= {_FORM.sub("", word) for word in _WORD.findall(text)}
    return found


def _rows(text: str) -> Iterator[str]:
    """Yield the rows, the headings and the empty lines of a table in their order."""
    inside = text[text.index('r"""\n') + 5 : text.rindex('"""')]
    yield from re.findall(r"(?m)^(?:\n|[^ }\n].*\n(?:[ }].*\n)*)", inside)


def _code(row: str) -> str:
    return re.sub("//.*", "", row)


def _names(row: str) -> set[str]:
    """Return the names that a row defines: an enumeration defines its enumerators, too."""
    code = _code(row)
    if code.startswith("enum "):
        return set(_WORD.findall(code)[1:])
    if code.startswith("typedef ") and "(*" in code:
        return {code.partition("(*")[2].partition(")")[0]}
    if code.startswith("typedef "):
        return {code.rstrip().rstrip(";").split()[-1].lstrip("*")}
    if code.startswith(("struct ", "union ", "#define ")):
        return {code.split()[1]}
    return {code[: code.index("(")].split()[-1].lstrip("*")}


def _with_rows(text: str, rows: list[str], kept: set[str], part: str) -> str:
    """Return the file of a table with the rows that are kept, and the headings above them."""
    made = [_NOTE.format(part)]
    heading = ""
    for row in rows:
        if row[0] in "\n/":
            if row[0] == "/":
                heading = heading + row
            else:
                heading = row
        elif row in kept:
            made += heading, row
            heading = ""
    return text[: text.index('r"""\n') + 5] + "".join(made) + text[text.rindex('"""') :]


# -- comments and docstrings

_PRAGMA = re.compile(r"#.*\b(?:noqa|type:|fmt:)")
_OPENS = re.compile(r":(?:  #.*)?$")


def cut_notes(source: str) -> str:
    """Return a file without comments and docstrings of private names; its own docstring keeps only the first line."""
    lines = source.splitlines()
    tree = ast.parse(source)
    gone: set[int] = set()  # numbers of lines, from 1
    for each in _docstrings(tree, private=True):
        gone.update(range(each.lineno, (each.end_lineno or 0) + 1))
    first = next(_docstrings(ast.Module(tree.body[:1], [])), None)
    if first is not None and first.end_lineno != 1 and not lines[1] and len(lines[0]) < 118:
        gone.update(range(2, (first.end_lineno or 0) + 1))
        lines[0] += '"""'
    depth, start = 0, 0  # of brackets; the line in which the statement starts
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        elif token.type == tokenize.COMMENT and not depth and not _PRAGMA.match(token.string):
            before = lines[row - 1][:column].rstrip()
            if not before:
                gone.add(row)
            elif row == start:  # (a comment can be why the formatter splits a statement)
                lines[row - 1] = before
        if token.type == tokenize.NEWLINE:
            start = 0
        elif not start and token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            start = row
    return _joined(lines, gone)


def _docstrings(tree: ast.AST, private: bool = False) -> Iterator[ast.Expr]:
    """Yield the docstrings of a file, or only those of private names that have other statements."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            name = getattr(node, "name", "")
            inside = inside or name.startswith("_") and not name.endswith("__")
            if node.body:
                first = node.body[0]
            else:
                first = None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                if isinstance(first.value.value, str) and (not private or inside and len(node.body) > 1):
                    yield first
            inside = inside or isinstance(node, ast.FunctionDef)
        waiting += [(each, inside) for each in ast.iter_child_nodes(node)]


def _joined(lines: list[str], gone: set[int]) -> str:
    """Return the text without some lines; of the empty lines around each, the longer run stays."""
    made: list[str] = []
    empty = longest = 0
    is_cut = False
    for number, line in enumerate(lines, 1):
        if number in gone:
            is_cut, longest, empty = True, max(longest, empty), 0
        elif not line:
            empty += 1
        else:
            if is_cut:
                is_first = bool(made) and _OPENS.search(made[-1]) is not None  # in a block
                if is_first:
                    empty = 0
                else:
                    empty = max(longest, empty)
            made += [""] * empty + [line]
            empty = longest = 0
            is_cut = False
    return "\n".join([*made, ""])
