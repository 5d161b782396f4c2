"""`step`: one warp of a kernel on the emulator, instruction by instruction.

What it is   the operands are those of `run`, and so are the checks and the loading of the file.
Read next    ../steps.py, run.py
"""

from __future__ import annotations

from ...gpu.devices.device import Device
from .. import steps, terminal
from . import command_operands, run
from .console import Parser, connect

__all__ = ["main", "make_parser"]


def main(arguments: list[str]) -> int:
    """Print the steps of one warp; the exit status is 1 if the kernel failed."""
    options = make_parser().read(arguments)
    code = run.read(options)
    grid, block = run.extents(options)
    at = command_operands.extents(options.at, "--at", most=3, least=0)
    operands = [command_operands.parse(text) for text in options.arguments]
    connect("emulator")
    device = Device(0)
    with run.load(device, options, code) as module:
        kernel = run.kernel_of(module, options)
        values = [operand.place(device) for operand in operands]
        made = steps.step(
            kernel,
            *values,
            grid=grid,
            block=block,
            shared_bytes=options.shared,
            warp=options.warp,
            block_index=at,
            limit=options.limit,
        )
        terminal.say(str(made))
    if made.error:
        return 1
    return 0


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        "step",
        "Show what one warp of a kernel does on the emulator, instruction by instruction.",
        command_operands.HELP,
    )
    run.add_kernel(parser)
    parser.add_argument("--warp", metavar="N", type=int, default=0, help="the warp of the block, numbered from 0")
    parser.add_argument("--at", metavar="X[xY[xZ]]", default="0", help="the index of the block in the grid")
    parser.add_argument("--limit", metavar="N", type=int, default=10_000, help="how many steps are kept")
    return parser
