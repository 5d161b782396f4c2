"""`step`: one warp of a kernel on the emulator, instruction by instruction.

What it is   the operands are those of `run`, and so is the loading of the file.
Read next    ../steps.py, run.py
"""

from __future__ import annotations

from pathlib import Path

from ...gpu.devices.device import Device
from .. import steps, terminal
from . import command_operands, run
from .compile import add_options
from .console import Parser, Refusal, connect

__all__ = ["main", "make_parser"]


def main(arguments: list[str]) -> int:
    """Print the steps of one warp; the exit status is 1 if the kernel failed."""
    options = make_parser().read(arguments)
    for name in ("grid", "block"):
        if getattr(options, name) is None:
            raise Refusal(f"--{name} is missing: such as --{name} 32")
    grid, block, at = (
        command_operands.extents(getattr(options, name), f"--{name}", most=3, least=int(name != "at"))
        for name in ("grid", "block", "at")
    )
    operands = [command_operands.parse(text) for text in options.arguments]
    code = b"" if options.file.endswith(".cu") else Path(options.file).read_bytes()
    connect("emulator")
    device = Device(0)
    with run._load(device, options, code) as module:
        values = [operand.place(device) for operand in operands]
        made = steps.step(
            module[options.kernel],
            *values,
            grid=grid,
            block=block,
            shared_bytes=options.shared,
            warp=options.warp,
            block_index=at,
            limit=options.limit,
        )
        terminal.say(str(made))
    return 1 if made.error else 0


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "step",
        "Show what one warp of a kernel does on the emulator, instruction by instruction.",
        command_operands.HELP,
    )
    parser.add_argument("file", metavar="FILE", help="CUDA C (.cu) or PTX")
    parser.add_argument("kernel", metavar="KERNEL", help="its name")
    parser.add_argument("arguments", metavar="ARG", nargs="*", default=[], help="an argument of the kernel, see below")
    parser.add_argument("--grid", metavar="X[xY[xZ]]", help="blocks, such as 256 or 16x16")
    parser.add_argument("--block", metavar="X[xY[xZ]]", help="threads per block")
    parser.add_argument("--shared", metavar="BYTES", type=int, default=0, help="dynamic shared memory per block")
    parser.add_argument("--warp", metavar="N", type=int, default=0, help="the warp of the block, numbered from 0")
    parser.add_argument("--at", metavar="X[xY[xZ]]", default="0", help="the index of the block in the grid")
    parser.add_argument("--limit", metavar="N", type=int, default=10_000, help="how many steps are kept")
    add_options(parser)
    return parser
