"""`run`: any kernel over .npy files and numbers, without a program.

What it is   the file, the kernel's name and the arguments are checked first, then the driver is loaded; the results
             are written and summarized last.
What not     it launches once. The compiler for a .cu file is called in compiler/program.py.
Read next    command_operands.py
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from errno import ENOENT
from math import fsum, nan
from pathlib import Path

from ...compiler.declarations import Declarations
from ...compiler.program import compile
from ...elements import npy
from ...gpu.devices.device import Device
from ...gpu.kernels import image, signature
from ...gpu.kernels.module import Module
from .. import terminal
from . import command_operands
from .compile import add_options, showing_warnings
from .console import (
    PROGRAM,
    NoGpu,
    Parser,
    Progress,
    Refusal,
    add_driver,
    advised,
    chosen_by,
    connect,
    first_line,
    show_progress,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from ...gpu.kernels.kernel import Kernel

__all__ = ["main", "make_parser"]

_EPILOG = (
    command_operands.HELP + f"""

Arguments are numbered from 0. To run saxpy over two files and write the second, as the kernel left it, to a third:

  {PROGRAM} run saxpy.ptx saxpy 1000 2.5 x.npy y.npy --grid 4 --block 256 --out 3=result.npy

"""
    "Without KERNEL, the kernels in FILE and their parameters are listed. If FILE ends in .cu, it is compiled first, "
    "for the device; KERNEL may then be an instance of a template, such as 'scale<float>'."
)


def main(arguments: list[str]) -> int:
    """Run one kernel, or list the kernels of a file."""
    options = make_parser().read(arguments)
    if options.kernel is None:
        return _list(options)
    code = read(options)
    grid, block = extents(options)
    arrays = [command_operands.parse(text) for text in options.arguments]
    return _run(options, code, grid, block, arrays, _outputs(options.out, arrays))


# -- the kernel of a command line, for `step`, too


def add_kernel(parser: Parser, nargs: str | None = None) -> None:
    """Add the file, the kernel, its arguments, and what a launch takes.

    nargs   "?" if the kernel may be left out
    """
    parser.add_argument("file", metavar="FILE", help="CUDA C (.cu), PTX, a cubin or a fatbin")
    if nargs:
        without = "; without it, the kernels are listed"
    else:
        without = ""
    parser.add_argument("kernel", metavar="KERNEL", nargs=nargs, help=f"its name{without}")
    parser.add_argument("arguments", metavar="ARG", nargs="*", default=[], help="an argument of the kernel, see below")
    parser.add_argument("--grid", metavar="X[xY[xZ]]", help="blocks, such as 256 or 16x16")
    parser.add_argument("--block", metavar="X[xY[xZ]]", help="threads per block")
    parser.add_argument("--shared", metavar="BYTES", type=_bytes, default=0, help="dynamic shared memory per block")
    add_options(parser)


def read(options: argparse.Namespace) -> bytes:
    """Return the code of the file, b"" for CUDA C, after checks of the file and of the kernel's name."""
    if options.file.endswith(".cu"):
        if not Path(options.file).exists():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), options.file)
        _look_for(options.kernel, options.file, None)
        return b""
    code, kind, data = _prepared(options)
    _look_for(options.kernel, options.file, (kind, data))
    return code


def _prepared(options: argparse.Namespace) -> tuple[bytes, str, bytes]:
    """Return the bytes of a file that is not CUDA C, its kind and its code; the file is read once: it may be a pipe."""
    with open(options.file, "rb") as file:
        code = file.read(_MOST_BYTES + 1)
    if len(code) > _MOST_BYTES:
        raise ValueError(f"{options.file} has more than {_MOST_BYTES >> 20} MiB: give a file with one module")
    try:
        kind, data = image.prepare(code + b"\n")  # a single line would be taken for a file's name
    except ValueError as error:
        raise ValueError(f"{options.file}: {error}") from None
    if options.option:
        raise Refusal("--option is for the compiler: the file is not CUDA C, whose name ends in .cu")
    return code, kind, data


def extents(options: argparse.Namespace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the grid and the block."""
    for name, what in (("grid", "blocks"), ("block", "threads per block")):
        if getattr(options, name) is None:
            raise Refusal(f"--{name} is missing: how many {what}, such as --{name} 256")
    grid, block = (command_operands.extents(getattr(options, name), f"--{name}", most=3) for name in ("grid", "block"))
    return grid, block


def load(device: Device, options: argparse.Namespace, code: bytes) -> Module:
    """Load the code, or compile the CUDA C; the kernel may then be any name expression."""
    if code:
        return Module(device, code)
    if options.kernel.startswith("_Z"):
        names = []
    else:
        names = [options.kernel]
    with showing_warnings():
        return device.compile(Path(options.file), options=options.option, names=names)


def kernel_of(module: Module, options: argparse.Namespace) -> Kernel:
    """Return the kernel.

    raises  Refusal  the number of arguments is wrong: before anything is uploaded
    """
    kernel: Kernel = module[options.kernel]
    wanted, given = len(kernel.parameters), len(options.arguments)
    if given != wanted:
        if given > wanted:
            more = "; a grid of two dimensions is --grid 4x2"
        else:
            more = ""
        raise Refusal(
            f"kernel {options.kernel} has {wanted} parameters, and {given} arguments were given; "
            f"{PROGRAM} run {options.file} lists them{more}"
        )
    return kernel


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser("run", "Run a kernel of a CUDA C, PTX, cubin or fatbin file over .npy files and numbers.", _EPILOG)
    add_kernel(parser, nargs="?")
    parser.add_argument(
        "--out",
        metavar="I=FILE.npy",
        action="append",
        default=[],
        help="write argument I, numbered from 0, after the launch; may be given several times",
    )
    parser.add_argument("--device", metavar="N", type=int, default=0, help="which GPU, numbered from 0")
    add_driver(parser, "without it the GPU's")
    return parser


def _bytes(text: str) -> int:
    number = int(text, 0)
    if number < 0:
        raise ValueError
    return number


_bytes.__name__ = "number of bytes"  # argparse shows this name in its error


def _outputs(words: list[str], arguments: list[command_operands.Operand]) -> list[tuple[int, str]]:
    """Parse each I=FILE.npy, and check that the file can be written, before any work.

    raises  Refusal  the word or the argument's number is wrong
            OSError, ValueError  the file could not be written
    """
    found: list[tuple[int, str]] = []
    for word in words:
        number, equals, path = word.partition("=")
        if not equals or not (number.isascii() and number.isdigit()) or not path:
            raise Refusal(f"--out {word}: give I=FILE.npy, where I is the number of an argument, the first being 0")
        if not path.endswith(".npy"):
            raise Refusal(f"--out {word}: the file's name must end in .npy")
        if int(number) >= len(arguments):
            raise Refusal(f"--out {word}: there are {len(arguments)} arguments, numbered from 0")
        if not arguments[int(number)].is_array:
            raise Refusal(f"--out {word}: argument {number}, {arguments[int(number)].text!r}, is not an array")
        real = npy.check_target(path)
        if any(os.path.realpath(other) == real for _, other in found):
            raise Refusal(f"--out {word}: this file is written twice")
        found.append((int(number), path))
    return found


# -- listing


def _list(options: argparse.Namespace) -> int:
    """Print the kernels and their parameters, numbered as for --out; this needs no driver."""
    path = options.file
    if path.endswith(".cu"):
        with showing_warnings():
            kind, data = "ptx", compile(Path(path), options=options.option)
    else:
        _, kind, data = _prepared(options)
    if kind == "fatbin":
        raise ValueError(
            f"{path}: a fatbin is compressed, and only the driver can list its kernels: give the name of a kernel"
        )
    if kind == "cubin":
        for name in image.cubin_kernels(data):
            shown = name.replace("\n", "\\n")
            terminal.say(
                f"{shown}\n     only the driver knows a cubin's parameters: give each number a type, such as 3:int32"
            )
        return 0
    found = signature.kernels(data.decode("utf-8", "replace"))
    if not found:
        raise ValueError(f"{path}: this PTX contains no .entry: compile a __global__ function")
    for name, parameters in found.items():
        terminal.say(name.replace("\n", "\\n"))
        for index, parameter in enumerate(parameters):
            terminal.say(f"  {index:2}  {_worded(parameter):28}{parameter.name}")
    return 0


def _worded(parameter: signature.Parameter) -> str:
    if parameter.pointer:
        return "pointer"
    if parameter.type in ("u64", "b64", "s64"):
        return f"{parameter.type}, or a pointer"
    return parameter.type or f"{parameter.size} bytes without a type"


def _look_for(kernel: str, path: str, code: tuple[str, bytes] | None) -> None:
    """Check a kernel's name before any other work, as far as that is possible without a driver and a compiler.

    code    what kind of code the file contains, and its bytes; None for CUDA C
    raises  ValueError  the file has no such kernel, and the error names those that it has; or the name is an argument
    """
    if kernel[:1].isdigit() or re.search(r"(?<!:):(?!:)|\.npy$", kernel):
        raise ValueError(f"{kernel!r} is an argument; the name of the kernel comes before: {path} KERNEL {kernel}")
    if code is None:
        text = Path(path).read_text("utf-8", "replace")
        found = Declarations([text]).names
        if not kernel.isidentifier() or kernel.startswith("_Z") or re.search(rf"\b{kernel}\b", text) or "#inc" in text:
            return  # an instance of a template, or possibly from another file: the compiler decides
    elif code[0] == "ptx":
        found = list(signature.kernels(code[1].decode("utf-8", "replace")))
    elif code[0] == "cubin":
        found = list(image.cubin_kernels(code[1]))
    else:
        return
    if kernel not in found:
        found = list(dict.fromkeys(found))  # symbols may share a name
        near = get_close_matches(kernel, found[:1000], 1)  # comparing long names takes milliseconds each
        raise ValueError(
            f"{path} has no kernel {kernel!r}"
            + (f": did you mean {near[0]}?" if near else "")
            + (f" It has {', '.join(found[:20])}" if found else "")
            + (f" and {len(found) - 20} more" if len(found) > 20 else "")
        )


# -- running


def _run(
    options: argparse.Namespace,
    code: bytes,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: list[command_operands.Operand],
    outputs: list[tuple[int, str]],
) -> int:
    try:
        loaded = connect(options.driver)
    except NoGpu as missing:
        if chosen_by(options.driver):
            raise advised(missing) from None
        raise NoGpu(
            f"no GPU can be used: {missing}\nTo run on the emulator instead, slowly, add --driver emulator; "
            f"{PROGRAM} doctor shows what was tried"
        ) from None
    device = Device(options.device)
    with load(device, options, code) as module:
        launch = kernel_of(module, options).configure(grid=grid, block=block, shared_bytes=options.shared)
        values = [argument.place(device) for argument in arguments]
        with Progress(options.kernel) as progress, device.event(timing=True) as start, device.event(timing=True) as end:
            show_progress(loaded, progress)
            start.record()
            launch(*values)
            end.record()
            end.synchronize()
            elapsed = end.elapsed_ms(since=start)
            show_progress(loaded, None)
        terminal.say(terminal.folded(first_line(loaded, chosen_by(options.driver))))
        said = f"{options.kernel}: grid {_times(grid)}, block {_times(block)}, {elapsed:.3f} ms"
        terminal.say(terminal.folded(said, "  ", ""))
        _write(values, outputs)
        for number, argument in enumerate(arguments):
            if argument.is_array:
                terminal.say(terminal.folded(f"{number}  {argument.text}: {summary(values[number])}", "   ", ""))
    return 0


def _times(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))


_MOST = 1 << 20  # elements that a summary reads
_MOST_BYTES = 1 << 28  # of a file


def summary(array: Any) -> str:
    """Return what a result looks like: its dtype, its shape, its first and last elements, and for numbers its range."""
    text = f"{array.dtype} {_times(array.shape) or 'scalar'}"
    if not array.size:
        return f"{text}, no elements"
    flat = array.reshape(array.size)
    part = flat[: min(array.size, _MOST)].tolist()
    if len(part) <= 6:
        ends = part
    else:
        ends = part[:3] + ["..."] + flat[-2:].tolist()
    text += ": " + " ".join([f"{each:.6g}" if isinstance(each, float) else str(each) for each in ends])
    numbers = [each for each in part if isinstance(each, (int, float)) and each == each]
    if numbers:
        text += f"; {min(numbers):.6g} to {max(numbers):.6g}, mean {_mean(numbers):.6g}"
    absent = sum(isinstance(each, float) and each != each for each in part)
    text += f"; {absent} are NaN" if absent else ""
    return text + (f" (of the first {_MOST} elements)" if array.size > _MOST else "")


def _mean(numbers: list[Any]) -> float:
    """Return the mean, also of numbers whose sum is too large; that of infinities of both signs is NaN."""
    try:
        return fsum(numbers) / len(numbers)
    except OverflowError:
        return fsum(each / len(numbers) for each in numbers)
    except ValueError:
        return nan


def _write(values: list[Any], outputs: list[tuple[int, str]]) -> None:
    """Download every result, then write them: a failed download leaves no file behind."""
    results = [(path, values[index].download()) for index, path in outputs]
    for path, result in results:
        npy.write(path, result.memoryview(), dtype=result.dtype, shape=result.shape)
        terminal.say(terminal.folded(f"{path}: {result.dtype} {result.shape}", "  ", ""))
