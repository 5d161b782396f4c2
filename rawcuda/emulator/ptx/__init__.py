"""PTX, executed: text to Python source, compiled, and run thread by thread.

The way through, each step a room of its own:

    lexer -> parser (declare, syntax) -> forms, opcodes (what is legal, what it means)
          -> flow, registers (what can be known) -> translate (emit, access, data, control)
          -> program (compiled, loaded) -> machine, scheduler, warps (running) -> report (what went wrong)

Arithmetic is in integers, rounding and half. A new opcode is a row in opcodes.py.

source       PTX ISA, https://docs.nvidia.com/cuda/parallel-thread-execution/
Read next    parser.py, and along the arrows
"""

from __future__ import annotations

from .program import Code, Entry, load
from .reading.syntax import Rejected
from .running.machine import Limits

__all__ = ["Code", "Entry", "Limits", "Rejected", "load"]
