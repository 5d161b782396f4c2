"""Run PTX without a driver: a space, a loaded module, and buffers as arguments.

machine = Machine(PTX)
out = machine.buffer("f", 100)
machine.run("kernel", out, 3, 0.5, grid=1, block=100)
out.values()
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from tests.subject import module

space = module("emulator.machine.space")
ptx = module("emulator.ptx")
Fault, Rejected = space.Fault, ptx.Rejected

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
EXECUTOR = os.environ.get("TESTED_EXECUTOR", "auto")  # "numpy": all kernels as arrays, if they can run so
HEAD = ".version 7.8\n.target sm_75\n.address_size 64\n"
Size = Union[int, Sequence[int]]


class Buffer:
    """Device memory with numbers of one format of the struct module."""

    def __init__(self, machine: Machine, code: str, values: Sequence[Any]) -> None:
        self.code, self.count = code, len(values)
        self.memory = machine.space.allocate(max(1, struct.calcsize(code) * self.count))
        if self.count:
            self.memory.data[:] = struct.pack(f"<{self.count}{code}", *values)

    @property
    def address(self) -> int:
        return self.memory.base

    def values(self) -> list:
        return list(struct.unpack(f"<{self.count}{self.code}", bytes(self.memory.data)))

    def raw(self) -> bytes:
        return bytes(self.memory.data)


class Machine:
    """One PTX module, loaded into its own space."""

    def __init__(self, text: str | bytes, *, executor: str = EXECUTOR, **options: Any) -> None:
        self.space = space.Space()
        self.space.executor = executor
        self.code = ptx.load(text.encode() if isinstance(text, str) else text, self.space, **options)

    def buffer(self, code: str, values: int | Sequence[Any]) -> Buffer:
        """Allocate a buffer with values; a number of elements instead leaves the memory uninitialized."""
        if isinstance(values, int):
            made = Buffer(self, code, [])
            self.space.free(made.memory.base)
            made.count = values
            made.memory = self.space.allocate(struct.calcsize(code) * values)
            return made
        return Buffer(self, code, values)

    def run(
        self, kernel: str, *arguments: Any, grid: Size = 1, block: Size = 1, shared: int = 0, **options: Any
    ) -> None:
        """Launch with numbers, bytes and buffers as arguments."""
        entry = self.code.entries[kernel]
        assert len(arguments) == len(entry.parameters), f"{kernel} takes {len(entry.parameters)} arguments"
        packed = bytearray(entry.parameter_bytes)
        for argument, (offset, size) in zip(arguments, entry.parameters):
            if isinstance(argument, Buffer):
                argument = argument.address
            if isinstance(argument, float):
                argument = struct.pack({4: "<f", 8: "<d"}[size], argument)
            elif isinstance(argument, int):
                argument = (argument & (1 << 8 * size) - 1).to_bytes(size, "little")
            assert len(argument) == size
            packed[offset : offset + size] = argument
        entry.run(three(grid), three(block), shared, bytes(packed), **options)


def three(size: Size) -> tuple[int, int, int]:
    """Return a grid or block with three dimensions."""
    x, y, z = (*((size,) if isinstance(size, int) else size), 1, 1)[:3]
    return x, y, z


def kernel(body: str, parameters: str = ".param .u64 out", name: str = "k", head: str = HEAD, before: str = "") -> str:
    """Return a module with a kernel of these instructions and registers of every class; %out is its first parameter."""
    return f"""{head}{before}
.visible .entry {name}({parameters})
{{
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<64>;
    .reg .f32 %f<32>;
    .reg .b64 %d<64>;
    .reg .f64 %g<32>;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
{body}
    ret;
}}
"""


def rejection(text: str | bytes, **options: Any) -> Any:
    """Return the Rejected that loading raises."""
    try:
        ptx.load(text.encode() if isinstance(text, str) else text, space.Space(), **options)
    except Rejected as reason:
        return reason
    raise AssertionError("loaded, though it should have been rejected")
