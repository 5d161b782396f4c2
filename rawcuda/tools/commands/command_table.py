"""The table of commands: their names, what each does, and where its module is.

What it is   the names and one line each, which --help and the manual page show; `module_of` and `parser_of`, which
             import the module of a command when it is needed.
Read next    console.py, then demo.py
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .console import Parser

__all__ = ["COMMANDS", "module_of", "parser_of"]

COMMANDS = {
    "demo": "three kernels over generated data, checked and timed; on the GPU, or else on the emulator",
    "run": "any kernel of a CUDA C or PTX file over .npy files, generated data and numbers",
    "step": "one warp of a kernel on the emulator, instruction by instruction",
    "compile": "CUDA C to PTX, a cubin or LTO-IR, with NVRTC or nvcc",
    "inspect": "what an object says about its memory: every protocol, field by field, with its quirks",
    "emulate": "another program that uses CUDA, on the emulator",
    "vendor": "copy this package, or a part of it, into another project; or check or update a copy",
    "check": "test the driver of this machine, row by row, in less than a minute",
    "bench": "measure the driver of this machine: calls, launches, copies and kernels",
    "doctor": "which driver was tried, what it said, and whether a kernel runs",
    "manual": "the manual page, and completions for shells",
}
_MODULES = {  # of the commands whose module is not named after them in this folder
    "check": "..checking.check",
    "bench": "..checking.bench",
    "emulate": ".emulate_command",
    "manual": "..manual",
}


def module_of(command: str) -> Any:
    """Import the module of a command."""
    from importlib import import_module

    return import_module(_MODULES.get(command, f".{command}"), __package__)


def parser_of(command: str) -> Parser:
    """Return the parser of a command."""
    made: Parser = module_of(command).make_parser()
    return made
