"""The execution of PTX: the text is translated to Python source, compiled, and run.

The steps, each with its own module:

    reading/      lexer -> parser (header, declare, operands) -> syntax
    translating/  forms, opcodes (which instructions are legal, and what they do) -> flow, registers (analysis)
                  -> unit, translate (emit, access, data, convert, control): Python source
                  -> tracking: the same again, if an undefined value arises
    ptx_program.py    compiles and loads the source, and runs kernels
    running/      machine, scheduler, races, builtins and the units (called by the source) -> report (errors)
    checking/     races in all memory, delayed stores (if the settings turn them on)
    vectors/      a second translation to NumPy, for large launches

The exact arithmetic is in running/integers.py, running/rounding.py and running/half.py. A new opcode is a row in
translating/table/opcodes.py.

Source       PTX ISA, https://docs.nvidia.com/cuda/parallel-thread-execution/
Order        reading, translating, checking, running, vectors, ptx_program
Read next    reading/parser.py, then the modules in the order of the arrows
"""

from __future__ import annotations

from .ptx_program import Code, Entry, load
from .reading.syntax import Rejected
from .running.lookups import Limits

__all__ = ["Code", "Entry", "Limits", "Rejected", "load"]
