"""From an exception in generated code to a report for the user.

A running kernel records nothing for reports. The traceback contains the generated line; the table of lines contains its
PTX line and the register of the address; the frame contains the registers and the thread.

A report begins with what happened and where: "misaligned read of 4 bytes in scale(), saxpy.cu:4, thread (3, 0, 0) of
block (0, 0, 0)". If a checker found it that a setting can choose, its name comes first, as compute-sanitizer calls it.
The lines after it are the line of the launch, the source lines that the report names, the details, the kernel with its
arguments, and the place in the PTX. Whoever needs the parts reads the attributes of the `Report`.

Read next    ptx/ptx_program.py, which makes the table of lines; ../checking/sources.py, for the text of a line
"""

from __future__ import annotations

import linecache
import re
from struct import unpack

from ....images import mangled
from ...machine.codes import ASSERT, ILLEGAL_ADDRESS, LAUNCH_FAILED, LAUNCH_TIMEOUT, MISALIGNED_ADDRESS
from ...machine.reports import Report
from ...machine.space import NULL, Fault
from ..checking.history import Found
from ..checking.places import shared_fault
from ..checking.sources import PTX, Sources
from .later_writes import OTHERS_FIRST
from .lookups import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from ..reading.syntax import Module
    from ..translating.emitting.emit import Line

__all__ = ["explain", "finding"]

_MOST_LINES = 4  # of the source, in one report
_KEEP = (
    ". Keep the memory until the kernel has run: pass the array, and not its address, which keeps nothing alive. "
    "Memory that is freed in the order of another stream must be kept, or that stream must wait for this one"
)
_PTX_LINE = r"\bptx line (\d{1,9})\b"  # a kernel may write any text into its assertions
_NAMED = re.compile(r"((mem|race|init|sync|leak)check|endless loop): ")


def explain(reason: BaseException, launch: Launch, filename: str, lines: list[Line], module: Module) -> Fault:
    """Return the fault of a launch for the exception that stopped it."""
    frames = _frames(reason.__traceback__, filename)
    if frames:
        found = frames[-1]
    else:
        found = None
    if isinstance(reason, Fault):
        code, text = reason.code, reason.report
    elif isinstance(reason, RecursionError):
        code, text = LAUNCH_FAILED, "stack overflow: device functions call each other too deeply"
    else:
        code, text = _translated(reason, found, launch, lines)
    return Fault(code, _located(text, code, frames, launch, lines, module, reason))


def finding(
    text: str, frame: FrameType | Found | None, launch: Launch, filename: str, lines: list[Line], module: Module
) -> Report:
    """Return the report of a finding that does not stop the kernel, for its frame or for the place that it knows."""
    if isinstance(frame, Found):
        return _located(text, 0, [], launch, lines, module, frame)
    frames = []
    while frame is not None and frame.f_code is not OTHERS_FIRST:
        if frame.f_code.co_filename == filename:
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _located(text, 0, frames[::-1], launch, lines, module, None)


def _located(
    text: str, code: int, frames: list[tuple[FrameType, int]], launch: Launch, lines: list[Line], module: Module,
    reason: Any,
) -> Report:  # fmt: skip
    """Return the report: what happened and where, then the launch, the source, the details, the call and the place.

    Why long  it makes the report's lines in their order, and each needs what the earlier ones found
    """
    sources = launch.sources = launch.sources or Sources(module)  # a launch may have thousands of reports
    where, shown = [], []
    block, thread = launch.block, launch.block.running if launch.block is not None and frames else None
    line = getattr(reason, "line", 0)  # of a finding whose thread no longer runs there
    if block is not None:
        index = (block.x, block.y, block.z)
    else:
        index = None
    above: tuple[int, ...] = ()  # lines of the generated code
    if line:
        thread, index = reason.thread, launch.index_of_block(reason.block)
        frames, above = reason.frames, reason.callers
    elif frames:
        line = lines[frames[-1][1] - 1].line
    if frames and not isinstance(reason, Found):
        note = lines[frames[-1][1] - 1].note
    else:
        note = None
    checker, what, text = _happened(text, code, note)
    calls = [n for _, n in reversed(frames[:-1])] or above
    # a function that goes on in another form is no caller: see Launch.track
    callers = [lines[number - 1].line for number in calls if "L.track(" not in lines[number - 1].text]
    called = _arguments(launch, module, [line, *callers][-1], sources)
    words, memory = _argument(text, launch, called)
    words = words or _below_zero(what, text, launch, called)
    if line:
        shown.append(line)
        where.append(sources.place(line))
        if checker == "racecheck":
            numbers = [line, *map(int, re.findall(_PTX_LINE, text))]
            if _is_update(numbers, sources.ptx):
                text = re.sub(f"{_BETWEEN}.*", _ATOMIC, text, flags=re.DOTALL)
            elif same := _same_memory(numbers, launch, module, called, sources):
                text, words = re.sub(f"{_BETWEEN}.*", lambda _: same, text, flags=re.DOTALL), ""
    shown += callers[:4]
    text = re.sub(r"\bgenerated line (\d{1,9})\b", lambda found: _ptx_line(int(found[1]), lines) or found[0], text)
    where += [f"called from {sources.place(number)}" for number in callers[:4]]
    shown += [int(number) for number in re.findall(_PTX_LINE, text)]
    text = re.sub(_PTX_LINE, lambda found: sources.place(int(found[1])), text)
    where.append(f"kernel {launch.name}")
    name, spot = mangled.base_name(launch.name), ""
    if isinstance(thread, int):
        spot += f", thread {launch.index_of(thread)}"
    if index is not None:
        where.append("block ({}, {}, {})".format(*index))
        spot += f" of {where[-1]}" if spot else f", {where[-1]}"
    if isinstance(thread, int):
        where.append(f"thread {launch.index_of(thread)}")
    quoted = list(dict.fromkeys(shown))[: 2 * _MOST_LINES]  # each may name other files
    quotes = list(dict.fromkeys(quote for number in quoted for quote in sources.quotes(number)))
    if line:
        first = quotes[0]
    else:
        first = None
    head = f"{what} in {name}()" + (f", {first.place}" if first is not None else "") + spot
    quotes = [quote for quote in quotes if quote.text]
    if any(quote.file != PTX for quote in quotes):
        quotes = [quote for quote in quotes if quote.file != PTX]
    if launch.site:
        details = [f"launched at {launch.site}{_quoted(launch.site)}"]
    else:
        details = []
    details += [str(quote) for quote in quotes[:_MOST_LINES]]
    if words and "that was freed" in text:
        words += _KEEP
    details += [text + words] if text else []
    if called:
        details.append(f"{name}({', '.join(f'{type} = {value}' for type, _, value in called)})")
    details.append(f"at {', '.join(where)}")
    address = re.search(r"\baddress (0x[0-9a-f]+)", text)
    return Report(
        "\n    ".join([head, *details]),
        checker=checker,
        kernel=launch.name,
        file=first.file if first is not None else "",
        line=first.line if first is not None else 0,
        text=first.text if first is not None else "",
        block=index,
        thread=launch.index_of(thread) if isinstance(thread, int) else None,
        address=int(address[1], 16) if address is not None else None,
        allocation=memory,
        launch=launch.site,
    )


def _ptx_line(number: int, lines: list[Line]) -> str:
    if 0 < number <= len(lines):
        return f"ptx line {lines[number - 1].line}"
    return ""


def _quoted(site: str) -> str:
    """Return the text of the line that launched the kernel, as words for its place."""
    file, _, number = site.rpartition(":")
    if number.isdecimal():
        text = linecache.getline(file, int(number)).strip()
    else:
        text = ""
    if text:
        return f" | {text}"
    return ""


# -- what happened

# kind of an access, in the words of a checker: the adjective
_ACCESS = {
    "misaligned": "misaligned", "out of bounds": "out-of-bounds", "use after free": "use-after-free",
    "null pointer": "null-pointer",
}  # fmt: skip
_CHECKED = {
    "initcheck": "use of a value that was never written", "racecheck": "race", "synccheck": "threads that do not meet",
}  # fmt: skip
_BEGINNING = re.compile(r"([a-z][a-z ]{2,50}): ")


def _happened(text: str, code: int, note: Any) -> tuple[str, str, str]:
    """Return the checker, what happened in a few words, and the rest of the text."""
    named = _NAMED.match(text)
    if named is not None and named[2]:
        checker = named[1]
    else:
        checker = ""
    if named is not None:
        text = text[named.end() :]
    if named is None and "never written" in text:
        checker = "initcheck"
    if checker and checker != "memcheck":
        begun = _BEGINNING.match(text)
        if begun is None or checker == "initcheck":
            return checker, f"{checker}: {_CHECKED.get(checker, 'an error')}", text
        return checker, f"{checker}: {begun[1]}", text[begun.end() :]
    if named is not None and not checker:
        return "", named[1], text
    kind = _kind(code, text)
    if kind in _ACCESS:
        if note is None:
            access = "access"
        else:
            access = f"{note.verb} of {note.width} bytes"
        return "memcheck", f"{_ACCESS[kind]} {access}", text
    if kind:
        return "", kind, text
    begun = re.match(r"([^:\d]{3,60})(?:: |$)", text)
    if begun is None:
        return ("", "failure", text)
    return ("", begun[1], text[begun.end() :])


def _kind(code: int, text: str) -> str:
    """Return the kind of an error that does not name it itself."""
    if code == MISALIGNED_ADDRESS:
        return "misaligned"
    if code == ILLEGAL_ADDRESS:
        if "that was freed" in text:
            return "use after free"
        if f": {NULL}" in text:
            return "null pointer"
        return "out of bounds"
    if code == LAUNCH_TIMEOUT:
        return "endless loop"
    if code == ASSERT:
        return "assertion failed"
    return ""


# -- races of updates

_BETWEEN = ", with no barrier in between: "
_ATOMIC = (
    ": several threads read, change and write the same address. An atomic operation does that in one step, such as "
    "atomicAdd(); a barrier does not help. If each thread should have elements of its own, look at its index and stride"
)
_NEAR = 20  # PTX lines from the read of an update to its write


def _is_update(numbers: list[int], lines: list[str]) -> bool:
    """Tell whether the lines of a race read and write one address, by the same register, as in x[i] += 1."""
    accesses = [re.search(r"\b(ld|st)\b[^;\[]{0,200}\[([^\[\]]+)\]", lines[number - 1]) for number in numbers]
    places = {(found[2].strip()) for found in accesses if found is not None}
    if len(numbers) < 2 or None in accesses or len(places) != 1:
        return False
    first = max(min(numbers) - _NEAR, 1)
    near = "\n".join(lines[first - 1 : max(numbers)])
    place = re.escape(places.pop())
    return all(re.search(rf"\b{verb}\b[^;\[]{{0,200}}\[\s*{place}\s*\]", near) for verb in ("ld", "st"))


def _same_memory(
    numbers: list[int], launch: Launch, module: Module, called: list[tuple[str, str, str]], sources: Sources
) -> str:
    """Return the words for a race between accesses by two parameters that have the same memory, or ""."""
    function = module.functions.get(launch.name)
    if function is None or launch.kernel is None or len(numbers) != 2:
        return ""
    names = [variable.name for variable in function.parameters]
    used = [sources.reached(number, function.line) & {*names} for number in numbers]
    given = []
    for number in sorted(names.index(name) for name in used[0] | used[1]):
        offset, size = launch.kernel.parameters[number]
        address = int.from_bytes(launch.parameters[offset : offset + size], "little")
        if size == 8:
            memory = launch.space.find(address)
        else:
            memory = None
        if memory is not None:
            given.append((number, address, memory.base))
    if len(given) != 2 or given[0][2] != given[1][2] or used[0] & used[1] & {names[number] for number, *_ in given}:
        return ""
    one, other = (called[number][1] if number < len(called) else f"argument {number}" for number, *_ in given)
    if given[0][1] == given[1][1]:
        parts = ""
    else:
        parts = "parts of "
    return f": {one} and {other} are {parts}the same memory: give another array for the output"


# -- the arguments of the kernel

_FORMATS = {
    ("f", 4): "f", ("f", 8): "d", ("f", 2): "e",
    ("s", 1): "b", ("s", 2): "h", ("s", 4): "i", ("s", 8): "q",
    ("u", 1): "B", ("u", 2): "H", ("u", 4): "I", ("u", 8): "Q", ("b", 1): "B", ("b", 2): "H",
}  # fmt: skip
_KINDS = {"float": "f", "double": "f", "__half": "f", "int": "s", "long": "s", "long long": "s", "short": "s"}
_MOST_ARGUMENTS = 16
_MOST_BELOW = 1 << 20  # elements: a number that wraps around is seldom further below 0
_MEMORY = re.compile(
    r"\b(?:the start of|the end of|bytes into) (an? [^;\n]{0,300}? at 0x[0-9a-f]+(?:, allocated at [^;,\n]+)?)"
)


def _arguments(launch: Launch, module: Module, line: int, sources: Sources) -> list[tuple[str, str, str]]:
    """Return the declaration, the name and the value of each argument of a launch; line: of the PTX, in the kernel."""
    if launch.kernel is None:
        return []
    function, places = module.functions.get(launch.name), launch.kernel.parameters
    known = sources.declared(launch.name, [size for _, size in places], line)
    found = []
    for number, (offset, size) in enumerate(places[:_MOST_ARGUMENTS]):
        data = launch.parameters[offset : offset + size]
        if known is not None:
            name, type = known[number]
        else:
            name, type = ("", None)
        if type is not None and type.name:
            stars = type.stars
            if stars:
                kind = "p"
            else:
                kind = _KINDS.get(type.name, "u" if type.name.startswith("unsigned") else "")
            words = f"{type}{'' if stars else ' '}{name}".strip()
        else:
            if function is not None:
                variable = function.parameters[number]
            else:
                variable = None
            if variable is not None and variable.scalar:
                kind = variable.type[:1]
            else:
                kind = ""
            words = name = variable.name if variable is not None else f"argument {number}"
        found.append((words, name, _value(kind, data, launch)))
    if len(places) > _MOST_ARGUMENTS:
        found.append((f"and {len(places) - _MOST_ARGUMENTS} more", "", "..."))
    return found


def _value(kind: str, data: bytes, launch: Launch) -> str:
    """Return a value as text; shape: kind: "f", "s", "u", "b" (bits) or "p" (a pointer), "" for anything else."""
    number = int.from_bytes(data, "little")
    if kind == "p" or len(data) == 8 and kind in ("u", "b") and launch.space.find(number) is not None:
        if number:
            return hex(number)
        return "null"
    code = _FORMATS.get((kind, len(data)))
    if code is not None:
        if kind == "f":
            return f"{unpack('<' + code, data)[0]:.9g}"
        return str(unpack("<" + code, data)[0])
    if len(data) <= 8:
        return hex(number)
    return f"{{{len(data)} bytes}}"


def _argument(text: str, launch: Launch, called: list[tuple[str, str, str]]) -> tuple[str, str]:
    """Return the words for the argument that passed the memory or the null pointer of a report, and for the memory."""
    held = _MEMORY.search(text)
    if held is not None:
        memory = held[1]
    else:
        memory = ""
    found = re.search(r"\baddress (0x[0-9a-f]+)(?: is not a multiple of \d+)?: ", text)
    if found is None or launch.kernel is None:
        return "", memory
    pointers = {  # the arguments that can be pointers, by number
        number: int.from_bytes(launch.parameters[offset : offset + 8], "little")
        for number, (offset, size) in enumerate(launch.kernel.parameters)
        if size >= 8
    }
    if text.startswith(NULL, found.end()):
        return _null([number for number, given in pointers.items() if not given]), memory
    address = int(found[1], 16)
    base = re.search(r" allocation(?: '[^']*')? at (0x[0-9a-f]+)", text)
    into = re.search(r": (\d{1,18}) bytes into a (\d{1,18})-byte ", text)
    if base is not None:
        seen = launch.space.find(int(base[1], 16))
        low, size = int(base[1], 16), seen.size if seen is not None else 1
    elif into is not None:
        low, size = address - int(into[1]), int(into[2])
    else:
        return "", memory
    for number, given in pointers.items():
        if low <= given < low + size:
            if number < len(called):
                name = called[number][1]
            else:
                name = ""
            return f"; this is the memory of argument {number}, counted from 0{name and f': {name}'}", memory
    return "", memory


def _below_zero(what: str, text: str, launch: Launch, called: list[tuple[str, str, str]]) -> str:
    """Return the words for an access at an unsigned index of 32 bits from which too much was subtracted, or ""."""
    found = re.search(r"\baddress (0x[0-9a-f]+): no allocation is near", text)
    width = re.search(r" of (\d+) bytes", what)
    if found is None or width is None or launch.kernel is None:
        return ""
    for number, (offset, size) in enumerate(launch.kernel.parameters):
        given, itemsize = int.from_bytes(launch.parameters[offset : offset + 8], "little"), int(width[1])
        index, rest = divmod(int(found[1], 16) - given, itemsize)
        if size == 8 and not rest and 0 < (1 << 32) - index <= _MOST_BELOW and launch.space.find(given) is not None:
            if number < len(called):
                name = called[number][1]
            else:
                name = ""
            return (
                f"; it is element {index} of argument {number}, counted from 0{name and f': {name}'}: an unsigned "
                f"index has become {index - (1 << 32)}, which wraps around. Compute it as an int, and compare it with 0"
            )
    return ""


def _null(numbers: list[int]) -> str:
    """Return the words for the arguments that are 0."""
    if len(numbers) > 1:
        return f"; arguments {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}, counted from 0, are 0"
    if numbers:
        return f"; argument {numbers[0]}, counted from 0, is 0"
    return ""


# -- where


def _frames(trace: TracebackType | None, filename: str) -> list[tuple[FrameType, int]]:
    found: list[tuple[FrameType, int]] = []
    while trace is not None:
        if trace.tb_frame.f_code is OTHERS_FIRST:
            found.clear()
        elif trace.tb_frame.f_code.co_filename == filename:
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _translated(
    reason: BaseException, found: tuple[FrameType, int] | None, launch: Launch, lines: list[Line]
) -> tuple[int, str]:
    """Return code and text for a Python exception: an access past the end of a view, or to freed memory."""
    if found is not None:
        note = lines[found[1] - 1].note
    else:
        note = None
    if note is not None and found is not None:
        address = _address(found[0], note.register) + note.offset
        if isinstance(reason, IndexError) and note.space == "shared":
            outside = shared_fault(launch, address & 0xFFFFFFFF, note.width, 1)
            return outside.code, outside.report
        if isinstance(reason, ValueError) and "released" in str(reason) and note.space != "shared":
            return ILLEGAL_ADDRESS, launch.space.explain(address, note.width)
        if isinstance(reason, TypeError) and "read-only memory" in str(reason):
            held = launch.space.find(address)
            if held is not None and held.constant:
                who = "kernels"
            else:
                who = "this device"
            return ILLEGAL_ADDRESS, f"{launch.space.explain(address, note.width)}, which {who} may only read"
    if isinstance(reason, ValueError) and "released" in str(reason):  # at a wait, which names no address
        return ILLEGAL_ADDRESS, "an asynchronous copy has begun in memory that was freed before the copy was complete"
    return LAUNCH_FAILED, f"the emulator itself failed: {type(reason).__name__}: {reason}"


def _address(frame: FrameType, register: str) -> int:
    if not register:
        return 0
    if register.isdecimal() or register[:2] == "0x":
        return int(register, 0)
    value: Any = frame.f_locals.get(register, 0)
    return int(value)
