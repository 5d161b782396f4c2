"""From an exception in generated code to a report for the user.

A running kernel records nothing for reports. The traceback contains the generated line; the table of lines contains its
PTX line and the register of the address; the frame contains the registers and the thread.

A report begins with what was found, with the names of compute-sanitizer's tools: "memcheck: out of bounds: ...". The
lines after it are the source lines that it names, and where the kernel was.

Read next    ../program.py, which makes the table of lines; ../checking/sources.py, for the text of a line
"""

from __future__ import annotations

import re

from ...space import NULL, Fault
from ..checking.history import Found
from ..checking.places import shared_fault
from ..checking.sources import place_of, texts_of_line
from .machine import ASSERT, ILLEGAL_ADDRESS, LAUNCH_FAILED, LAUNCH_TIMEOUT, MISALIGNED_ADDRESS, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from ..reading.syntax import Module
    from ..translating.emitting.emit import Line

__all__ = ["explain", "finding"]

_MOST_LINES = 4  # of the source, in one report
_PTX_LINE = r"\bptx line (\d{1,9})\b"  # a kernel may write any text into its assertions
_NAMED = re.compile(r"((mem|race|init|sync|leak)check|endless loop): ")


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
    return Fault(code, _located(text, code, frames, launch, lines, module, reason))


def finding(
    text: str, frame: FrameType | Found | None, launch: Launch, filename: str, lines: list[Line], module: Module
) -> str:
    """Return the report of a finding that does not stop the kernel, for its frame or for the place that it knows."""
    if isinstance(frame, Found):
        return _located(text, 0, [], launch, lines, module, frame)
    frames = []
    while frame is not None:
        if frame.f_code.co_filename == filename:
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _located(text, 0, frames[::-1], launch, lines, module, None)


def _located(
    text: str, code: int, frames: list[tuple[FrameType, int]], launch: Launch, lines: list[Line], module: Module,
    reason: Any,
) -> str:  # fmt: skip
    """Add kind, access, argument, lines with their text, callers, kernel, block, thread and the place of the launch."""
    where, shown = [], []
    block, thread = launch.block, launch.block.running if launch.block is not None and frames else None
    line = getattr(reason, "line", 0)  # of a finding whose thread no longer runs there
    index = (block.x, block.y, block.z) if block is not None else None
    above: tuple[int, ...] = ()  # lines of the generated code
    if line:
        thread, index = reason.thread, launch.index_of_block(reason.block)
        frames, above = reason.frames, reason.callers
    elif frames:
        line = lines[frames[-1][1] - 1].line
    note = lines[frames[-1][1] - 1].note if frames and not isinstance(reason, Found) else None
    named = _NAMED.match(text)
    if note is not None and not named:
        text = f"invalid {note.verb} of {note.width} bytes of {note.space} memory: {text}"
    text = (text if named else f"{_kind(code, text)}{text}") + _argument(text, launch)
    if line:
        shown.append(line)
        where.append(place_of(line, module))
    calls = [n for _, n in reversed(frames[:-1])] or above
    # a function that goes on in another form is no caller: see Launch.track
    callers = [lines[number - 1].line for number in calls if "L.track(" not in lines[number - 1].text]
    shown += callers[:4]
    text = re.sub(r"\bgenerated line (\d{1,9})\b", lambda found: _ptx_line(int(found[1]), lines) or found[0], text)
    where += [f"called from {place_of(number, module)}" for number in callers[:4]]
    shown += [int(number) for number in re.findall(_PTX_LINE, text)]
    text = re.sub(_PTX_LINE, lambda found: place_of(int(found[1]), module), text)
    where.append(f"kernel {launch.name}")
    if index is not None:
        where.append("block ({}, {}, {})".format(*index))
    if isinstance(thread, int):
        where.append(f"thread {launch.index_of(thread)}")
    launched = f"; the kernel was launched at {launch.site}" if launch.site else ""
    texts = dict.fromkeys(text for number in dict.fromkeys(shown) for text in texts_of_line(number, module))
    if not all(map(_is_ptx, texts)):
        texts = {text: None for text in texts if not _is_ptx(text)}
    quoted = "".join(f"\n    {text}" for text in list(texts)[:_MOST_LINES])
    return f"{text}{launched}{quoted}\n    at {', '.join(where)}"


def _ptx_line(number: int, lines: list[Line]) -> str:
    return f"ptx line {lines[number - 1].line}" if 0 < number <= len(lines) else ""


def _is_ptx(text: str) -> bool:
    return text.startswith("ptx line ")


def _kind(code: int, text: str) -> str:
    """Return the checker and the kind of an error that does not name them itself."""
    if "never written" in text:
        return "initcheck: "
    if code == MISALIGNED_ADDRESS:
        return "memcheck: misaligned: "
    if code == ILLEGAL_ADDRESS:
        freed = "that was freed" in text
        return "memcheck: use after free: " if freed else "memcheck: out of bounds: "
    if code == LAUNCH_TIMEOUT:
        return "endless loop: "
    if code == ASSERT:
        return "assertion failed: "
    return ""


def _argument(text: str, launch: Launch) -> str:
    """Return the words for the argument that passed the memory, or the null pointer, of a report to the kernel."""
    found = re.search(r"\baddress (0x[0-9a-f]+)(?: is not a multiple of \d+)?: ", text)
    if found is None or launch.kernel is None:
        return ""
    pointers = {  # the arguments that can be pointers, by number
        number: int.from_bytes(launch.parameters[offset : offset + 8], "little")
        for number, (offset, size) in enumerate(launch.kernel.parameters)
        if size >= 8
    }
    if text.startswith(NULL, found.end()):
        return _null([number for number, given in pointers.items() if not given])
    address = int(found[1], 16)
    base = re.search(r" allocation(?: '[^']*')? at (0x[0-9a-f]+)", text)
    into = re.search(r": (\d{1,18}) bytes into a (\d{1,18})-byte ", text)
    if base is not None:
        held = launch.space.find(int(base[1], 16))
        low, size = int(base[1], 16), held.size if held is not None else 1
    elif into is not None:
        low, size = address - int(into[1]), int(into[2])
    else:
        return ""
    for number, given in pointers.items():
        if low <= given < low + size:
            return f"; this is the memory of argument {number}, counted from 0"
    return ""


def _null(numbers: list[int]) -> str:
    """Return the words for the arguments that are 0."""
    if len(numbers) > 1:
        return f"; arguments {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}, counted from 0, are 0"
    return f"; argument {numbers[0]}, counted from 0, is 0" if numbers else ""


def _frames(trace: TracebackType | None, filename: str) -> list[tuple[FrameType, int]]:
    found = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _translated(
    reason: BaseException, found: tuple[FrameType, int] | None, launch: Launch, lines: list[Line]
) -> tuple[int, str]:
    """Return code and text for a Python exception: an access past the end of a view, or to freed memory."""
    note = lines[found[1] - 1].note if found is not None else None
    if note is not None and found is not None:
        address = _address(found[0], note.register) + note.offset
        if isinstance(reason, IndexError) and note.space == "shared":
            outside = shared_fault(launch, address & 0xFFFFFFFF, note.width, 1)
            return outside.code, outside.report
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
