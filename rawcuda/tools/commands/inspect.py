"""`inspect`: what an object says about its memory, by every protocol that it offers.

What it is   it evaluates an expression, or reads a .npy file, and prints what explain() says about the result.
What not     it evaluates only the given expression, and imports only the modules that the expression names.
Read next    ../explaining/__init__.py
"""

from __future__ import annotations

import ast
import builtins
import re
from importlib import import_module
from pathlib import Path

from ...elements import npy
from ..explaining import explain
from ..explaining.offers import raised
from ..terminal import say
from .console import PROGRAM, Parser, Refusal, add_driver, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main", "make_parser"]

_SHORT = {"np": "numpy", "cp": "cupy", "tf": "tensorflow", "wp": "warp", "pa": "pyarrow", "jnp": "jax.numpy"}


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "inspect",
        "Show which protocols an object offers, what each of them says, field by field beside the bytes, where they "
        "disagree, what view() would make of the object, and which known quirks it shows.",
        "EXPR names modules in full, and they are imported:\n"
        f"  {PROGRAM} inspect 'numpy.arange(12.).reshape(3, 4).T' --svg layout.svg",
    )
    add_driver(parser, "only for expressions that use one")
    parser.add_argument("--svg", metavar="FILE", help="draw the layout in memory")
    parser.add_argument("expression", metavar="EXPR", help="a Python expression, or a .npy file")
    return parser


def main(arguments: list[str]) -> int:
    """Explain an object; return 0 if it could be made."""
    options = make_parser().read(arguments)
    choose(options.driver)
    text = options.expression.strip()
    try:
        if text.endswith(".npy"):
            made = npy.read(text)
        else:
            made = _evaluate(text, options.debug)
    except ValueError as error:
        if not text.endswith(".npy") or options.svg is not None:
            raise
        _show_file(text, error)
        return 0
    explanation = explain(made)
    say(str(explanation))
    if options.svg is not None:
        picture = explanation._repr_svg_()
        if picture is None:
            raise ValueError(
                f"{options.svg} was not written: no protocol describes any memory, so there is no layout to draw"
            )
        from .compile import write  # (it imports tempfile, and that random)

        write(Path(options.svg), picture.encode())
        say(f"\nThe layout is drawn in {options.svg}")
    return 0


def _show_file(path: str, why: ValueError) -> None:
    """Print what a .npy file says of itself, and why it is not read; without a header, raise what was raised."""
    try:
        header, data, begin = npy.read_header(path)
    except ValueError:
        raise why from None
    say(f"{path}: a .npy file\n\nIts header\n  {header}\n")
    say(f"The data\n  from byte {begin} on: {data.hex(' ') or 'nothing'}\n")
    say(f"What view() makes of it\n  - nothing: the file {str(why)[len(path) + 2 :]}")


def _evaluate(text: str, debug: bool) -> Any:
    try:
        tree = ast.parse(text, mode="eval")
        code = compile(tree, "EXPR", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refusal(f"{text[:60]!r} is not a Python expression: {getattr(error, 'msg', error)}") from None
    doing = ""
    try:
        nodes = list(ast.walk(tree))
        bound = {
            getattr(node, "arg", "") or getattr(node, "id", "")
            for node in nodes
            if isinstance(node, ast.arg) or isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        names: dict[str, Any] = {"__name__": "__main__"}  # so that classes made here have a module
        for node in nodes:
            dotted = ""
            if isinstance(node, (ast.Name, ast.Attribute)):
                dotted = ast.unparse(node)
            first = dotted.partition(".")[0]
            if re.fullmatch(r"[\w.]+", dotted) and first not in bound and not hasattr(builtins, first):
                doing = f"importing {first}"
                names[first] = import_module(first)
                _import_inside(dotted)
        doing = "the expression"
        return eval(code, names)
    except Exception as error:
        if debug:
            raise
        missing = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and doing == f"importing {missing}":
            raise Refusal(
                f"{missing!r} in the expression is neither a built-in nor an installed module"
                f"{f': write {_SHORT[missing]}' if missing in _SHORT else ''}"
            ) from None
        raise ValueError(f"{doing} raised {raised(error)}") from None


def _import_inside(dotted: str) -> None:
    """Import each part of a dotted name that is a module: xml.etree.ElementTree.parse."""
    try:
        for end in re.finditer(r"\.\w+", dotted):
            import_module(dotted[: end.end()])
    except ImportError:  # evaluating the expression will report the missing name
        pass
