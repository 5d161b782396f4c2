"""`compile`: a file of CUDA C into a file of PTX, a cubin or LTO-IR.

What it is   the command for `compile()`; it needs a compiler, but neither a GPU nor a driver.
What not     it links nothing.
Read next    run.py, which compiles a file by itself
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from errno import EEXIST
from pathlib import Path

from ...compiler.program import compile, compiler
from ...compiler.request import OUTPUTS
from ...elements.npy import replace
from ..terminal import say
from .console import PROGRAM, Parser, Refusal, check_folder, speaking_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main", "make_parser", "add_options", "showing_warnings", "write"]


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "compile",
        "Compile CUDA C, with NVRTC or else nvcc.",
        f"example:\n  {PROGRAM} compile saxpy.cu --target sm_80 --option=--use_fast_math",
    )
    parser.add_argument("file", metavar="FILE.cu", help="CUDA C")
    parser.add_argument("--target", metavar="sm_NN", default="sm_90", help="the architecture; sm_90 if it is not given")
    parser.add_argument("--output", choices=OUTPUTS, help="by default what the name of the result says, or else ptx")
    parser.add_argument("-o", dest="result", metavar="FILE", help="the result; by default FILE.ptx, .cubin or .ltoir")
    add_options(parser)
    return parser


def main(arguments: list[str]) -> int:
    """Compile one file."""
    options = make_parser().read(arguments)
    source = Path(options.file)
    if options.result:
        suffix = Path(options.result).suffix[1:]
    else:
        suffix = ""
    output = options.output or (suffix if suffix in OUTPUTS else "ptx")
    if options.result:
        result = Path(options.result)
    else:
        result = source.with_suffix(f".{output}")
    if result.exists() and source.exists() and result.samefile(source):
        raise Refusal(f"{result}: this is the source; give the result another name, with -o FILE")
    check_folder(str(result))
    with showing_warnings():
        code = compile(source, options.target, output, options=options.option)
    write(result, code)
    say(f"{result}: {output} for {options.target}, {len(code):,} bytes, by {compiler()!r}")
    return 0


def add_options(parser: Parser) -> None:
    """Add --option, which passes an option on to the compiler."""
    parser.add_argument(
        "--option",
        metavar="OPTION",
        action="append",
        default=[],
        help="an option for the compiler, such as --option=--use_fast_math or --option=-I/some/folder; may be repeated",
    )


@contextmanager
def showing_warnings() -> Iterator[None]:
    """Print the compiler's warnings as it words them, without the place in this package."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: say(str(message), stream=sys.stderr)
        yield


def write(path: Path, data: bytes) -> None:
    """Write a temporary file in the same folder, and rename it: after an error, the old file is unchanged.

    The new file has the mode of the old one. A link of this name is replaced, not followed.

    raises  OSError  the file cannot be written, or the name is that of a device or a pipe, which would be replaced
    """
    with speaking_of(path):
        if path.exists() and not path.is_file():
            raise OSError(EEXIST, "there is something of this name that is not a regular file")
        replace(str(path), b"", memoryview(data))
