"""Run the blocks of a page in a browser, in one namespace; worker.js calls this, and the site's bundle contains it."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Callable

__all__ = ["InAdvance", "begin", "key_of", "run"]

_STEPS = 2000  # that a page gets: about 1 KB each
_namespace: dict[str, Any] = {"__name__": "__main__"}
_tell: list[Callable[[str, str], object]] = []


def begin(tell: Callable[[str, str], object]) -> None:
    """Prepare for the first block.

    tell   gets the kind and the text of what is shown: "picture" and its SVG, or "steps" and their JSON
    """
    _tell[:] = [tell]
    os.makedirs("/work", exist_ok=True)
    os.chdir("/work")
    os.environ.update(RAWCUDA_DRIVER="emulator", COLUMNS="100")
    from rawcuda.compiler import program

    program._loaded[:] = [InAdvance()]  # type: ignore[list-item]


def key_of(request: Any) -> str:
    """Return the key of what a compiler was asked for."""
    asked = request.source, request.options, sorted(request.headers.items()), request.names, request.target
    return hashlib.sha256(repr((*asked, request.output)).encode()).hexdigest()[:24]


class InAdvance:
    """A compiler that knows the CUDA C of the pages alone, which docs/make_compiled.py has compiled."""

    kind, path = "NVRTC", "compiled in advance"

    def __init__(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "compiled.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.version, self.architectures = tuple(found["version"]), found["architectures"]
        self._compiled = found["compiled"]

    def identity(self) -> str:
        """Return a text that names this compiler, for caches."""
        return self.path

    def compile(self, request: Any, folders: list[str]) -> Any:
        """Return the outcome; raises CompilerNotFound if the pages do not have this source."""
        from rawcuda.compiler.request import Outcome
        from rawcuda.errors import CompilerNotFound

        outcome = self._compiled.get(key_of(request))
        if outcome is None:
            raise CompilerNotFound(
                "CUDA C cannot be compiled in a browser. The CUDA C of these pages was compiled in advance, and runs "
                "as it stands: press Reset to undo your changes to it. Launches, data and PTX can be changed here",
                tried=[],
            )
        return Outcome(outcome[0].encode("latin-1"), *outcome[1:])


def run(number: int, code: str, files: str, place: str = "") -> bool:
    """Run a block, show the pictures of its last expression if that has one, and tell whether the block has failed.

    files   the files that the page has above it, as JSON: name -> text
    place   which warp of the block's first launch is shown step by step, as JSON: [the index of its block, its number];
            "" for none
    """
    for name, text in json.loads(files).items():
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    name = f"block {number + 1}"
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    try:
        with _stepping(*json.loads(place)) if place else contextlib.nullcontext():
            tree = ast.parse(code, name)
            last = tree.body[-1] if tree.body else None
            is_shown = isinstance(last, ast.Expr)
            exec(compile(ast.Module(tree.body[:-1] if is_shown else tree.body, []), name, "exec"), _namespace)
            if isinstance(last, ast.Expr):
                _show(eval(compile(ast.Expression(last.value), name, "eval"), _namespace))
    except BaseException as error:
        _print_error(error)
        return True
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return False


@contextlib.contextmanager
def _stepping(index: list[int], warp: int) -> Iterator[None]:
    """Record a warp of the first launch, and show its steps, also if the launch fails."""
    from rawcuda.driver import current
    from rawcuda.tools.steps import Steps

    library: Any = current().libcuda
    with library.record(tuple(index), warp, _STEPS) as record:
        try:
            yield
        finally:
            if not record.ran:
                sys.stderr.write("no kernel ran, so there are no steps\n")
            elif not (steps := Steps(record)) and not steps.error:
                sys.stderr.write(f"the launch has no warp {warp} in block {tuple(index)}: there are no steps of it\n")
            else:
                _show(steps)


def _print_error(error: BaseException) -> None:
    """Print a traceback with the lines of the blocks alone: a reader has not written those of the package."""
    shown = traceback.TracebackException.from_exception(error)
    each: traceback.TracebackException | None = shown
    while each is not None:
        each.stack[:] = [frame for frame in each.stack if frame.filename.startswith("block ")]
        each = each.__cause__ or each.__context__
    sys.stderr.write("".join(shown.format()))


def _show(value: object) -> None:
    """Show a value that a page can show: a picture, the steps of a warp, or a tuple of such."""
    for each in value if isinstance(value, tuple) else (value,):
        if type(each).__module__ == "rawcuda.tools.steps":  # importing it here would import all of gpu/ for a picture
            found = each.as_dict()
            _tell[0]("steps", json.dumps({**found, "steps": found["steps"][:_STEPS]}))
        elif text := getattr(each, "_repr_svg_", str)():
            _tell[0]("picture", text)
