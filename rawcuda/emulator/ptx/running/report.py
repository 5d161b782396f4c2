"""From an exception in generated code to a report for the user.

A running kernel records nothing for reports. The traceback contains the generated line; the table of lines contains its
PTX line and the register of the address; the frame contains the registers and the thread.

Read next    ../program.py, which makes the table of lines
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ...space import Fault
from .machine import ILLEGAL_ADDRESS, LAUNCH_FAILED, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from ..reading.syntax import Module
    from ..translating.emitting.emit import Line

__all__ = ["explain", "finding"]


def explain(reason: BaseException, launch: Launch, filename: str, lines: list[Line], module: Module) -> Fault:
    """Return the fault of a launch for the exception that stopped it."""
    frames = _frames(reason.__traceback__, filename)
    found = frames[-1] if frames else None
    if isinstance(reason, Fault):
        code, text = reason.code, reason.report
    elif isinstance(reason, RecursionError):
        code, text = LAUNCH_FAILED, "stack overflow: device functions call each other too deeply"
    else:
        code, text = _translated(reason, found, launch, lines)
    return Fault(code, _located(text, frames, launch, lines, module))


def finding(
    text: str, frame: FrameType | None, launch: Launch, filename: str, lines: list[Line], module: Module
) -> str:
    """Return the report of a finding that does not stop the kernel, from the frame of the finding."""
    frames = []
    while frame is not None:
        if frame.f_code.co_filename == filename:
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _located(text, frames[::-1], launch, lines, module)


def _located(text: str, frames: list[tuple[FrameType, int]], launch: Launch, lines: list[Line], module: Module) -> str:
    """Add access, line, callers, kernel, block, thread and the place of the launch to a text."""
    text = re.sub(r"ptx line (\d+)", lambda found: _place(int(found[1]), module), text)
    where = []
    if frames:
        line = lines[frames[-1][1] - 1]
        if line.note is not None:
            text = f"invalid {line.note.verb} of {line.note.width} bytes of {line.note.space} memory: {text}"
        where.append(_place(line.line, module))
        callers = [lines[number - 1].line for _, number in reversed(frames[:-1])]
        where += [f"called from {_place(number, module)}" for number in callers[:4]]
    where.append(f"kernel {launch.name}")
    block = launch.block
    if block is not None:
        where.append(f"block ({block.x}, {block.y}, {block.z})")
        if frames and isinstance(block.running, int):
            where.append(f"thread {launch.index_of(block.running)}")
    launched = f"; the kernel was launched at {launch.site}" if launch.site else ""
    return f"{text}{launched}\n    at {', '.join(where)}"


def _frames(trace: TracebackType | None, filename: str) -> list[tuple[FrameType, int]]:
    found = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _place(line: int, module: Module) -> str:
    """Return the words for a line of the PTX, with the source line from .loc."""
    at = bisect_right(module.locations, (line, 1 << 64, 0)) - 1
    if at >= 0:
        _, file, number = module.locations[at]
        if file in module.files:
            return f"ptx line {line} ({module.files[file]}:{number})"
    return f"ptx line {line}"


def _translated(
    reason: BaseException, found: tuple[FrameType, int] | None, launch: Launch, lines: list[Line]
) -> tuple[int, str]:
    """Return code and text for a Python exception: an access past the end of a view, or to freed memory."""
    note = lines[found[1] - 1].note if found is not None else None
    if note is not None and found is not None:
        address = _address(found[0], note.register) + note.offset
        if isinstance(reason, IndexError) and note.space == "shared":
            size = launch.shared_bytes
            address &= 0xFFFFFFFF
            return ILLEGAL_ADDRESS, (
                f"shared address {address:#x}: {address + note.width - size} bytes past the end of the block's "
                f"{size} bytes"
            )
        if isinstance(reason, ValueError) and "released" in str(reason):
            return ILLEGAL_ADDRESS, launch.space.explain(address, note.width)
        if isinstance(reason, TypeError) and "read-only memory" in str(reason):
            return ILLEGAL_ADDRESS, f"{launch.space.explain(address, note.width)}, which this device may only read"
    return LAUNCH_FAILED, f"the emulator itself failed: {type(reason).__name__}: {reason}"


def _address(frame: FrameType, register: str) -> int:
    if not register:
        return 0
    if register.isdecimal() or register[:2] == "0x":
        return int(register, 0)
    value: Any = frame.f_locals.get(register, 0)
    return int(value)
