"""The journal of a process: how often it called each function, and its last calls, in a file that outlives a crash.

What it is   `create`, which makes the memory into which the machine code writes; `read`, which reads the files of a
             folder; `told`, which describes their content.
How          the memory is a shared mapping of a file, so the system keeps what was written, however the process ends.
             The header has 64 bytes: b"journal1", the number of calls, the process, the number of names, whether the
             process has run its exit handlers, and the name of the library. Then come the last 64 calls (16
             bytes each: number of the function, result or -1, thread), how often each function was called, one word for
             each function (bit 31: it was called but does not exist; the other bits: how often cuGetProcAddress did not
             find it), and text: the command and the unknown names, one on each line. The last 1,024 bytes describe the
             last call that was refused with a report.
Read next    symbol_table.py, attaching.py
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys

from ..interface.thunks import keep_for_ever
from .stand_in_libraries import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Journal", "Record", "create", "read", "told"]

_HEADER = struct.Struct("<8s4I40s")
_MAGIC = b"journal1"
_RING, _COUNTS, _CALLS, _TEXT, _REFUSED = 0x40, 0x440, 64, 4096, 1024
_ABSENT, _RUNNING = 1 << 31, 2**32 - 1
_ENDED = 20  # its offset in the header
_SHOWN = 200  # characters of a command
_MOST = 1 << 20  # bytes of a journal that are read: more than any has


class Journal:
    """The journal of this process for one library."""

    __slots__ = ("address", "_memory", "_count", "_end")

    def __init__(self, memory: Any, count: int) -> None:
        keep_for_ever(memory)  # the machine code writes into it, even when the interpreter has ended
        self._memory, self._count = memory, count
        self._end = _COUNTS + 8 * count
        content = (ctypes.c_char * len(memory)).from_buffer(memory)
        keep_for_ever(content)
        self.address = ctypes.addressof(content)

    def _word(self, number: int) -> Any:
        return ctypes.c_uint32.from_address(self.address + _COUNTS + 4 * (self._count + number))

    def absent(self, number: int) -> None:
        """Record that a missing function was called."""
        self._word(number).value |= _ABSENT

    def asked(self, number: int) -> None:
        """Record that a program asked cuGetProcAddress for a missing function."""
        self._word(number).value += 1

    def write(self, line: str) -> None:
        """Add a line of text, if there is room."""
        text = line.encode("utf-8", "backslashreplace")[: _TEXT // 2].replace(b"\n", b" ") + b"\n"
        if (
            self._end + len(text) <= len(self._memory) - _REFUSED
            and text not in self._memory[_COUNTS + 8 * self._count :]
        ):
            self._memory[self._end : self._end + len(text)] = text
            self._end += len(text)

    def refused(self, text: str) -> None:
        """Record the last call that was refused, and why."""
        self._memory[-_REFUSED:] = text.encode("utf-8", "backslashreplace")[: _REFUSED - 1].ljust(_REFUSED, b"\0")

    def ended(self) -> None:
        """Record that the process has run its exit handlers."""
        ctypes.c_uint32.from_address(self.address + _ENDED).value = 1


def create(folder: str, library: str, count: int) -> Journal:
    """Create the journal of this process for a library with this number of functions.

    folder  the folder for the file; if no file can be created there, the journal is only in memory
    """
    size = _COUNTS + 8 * count + _TEXT + _REFUSED
    memory = None
    try:
        name = os.path.join(folder, f"calls-{os.getpid()}-{os.urandom(4).hex()}")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)  # in a full folder, writing to a file with holes is a SIGBUS
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
    except OSError:
        memory = memory or mmap.mmap(-1, size)
    memory[: _HEADER.size] = _HEADER.pack(_MAGIC, 0, os.getpid(), count, 0, library.encode())
    made = Journal(memory, count)
    made.write(_command())
    return made


def _command() -> str:
    """Return the command line of this process, which may be a program without Python."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return os.fsdecode(file.read().replace(b"\0", b" ")).strip()
    except OSError:
        return " ".join(getattr(sys, "orig_argv", sys.argv))


class Record:
    """The content of a journal.

    calls, absent  how often each function was called, and the same only for functions that do not exist
    asked          how often a program asked cuGetProcAddress for functions that do not exist
    unknown        the names that the emulator does not know
    last           the last calls, newest first: name, result (None while it runs), thread
    refused        the last call that was refused with a report, or ""
    """

    __slots__ = ("pid", "served", "ended", "command", "calls", "absent", "asked", "unknown", "last", "refused")

    def __init__(self, data: bytes) -> None:
        magic, position, self.pid, count, ended, library = _HEADER.unpack_from(data)
        self.served = library.rstrip(b"\0").decode()
        if magic == _MAGIC and self.served in LIBRARIES:
            names = LIBRARIES[self.served].names()
        else:
            names = []
        if len(names) != count:
            raise ValueError(f"this is not a journal of {self.served!r} that this version of the package wrote")
        self.ended = bool(ended)
        counts = struct.unpack_from(f"<{count}I", data, _COUNTS)
        words = struct.unpack_from(f"<{count}I", data, _COUNTS + 4 * count)
        self.calls = {name: counts[i] for i, name in enumerate(names) if counts[i]}
        self.absent = {name: counts[i] for i, name in enumerate(names) if words[i] & _ABSENT and counts[i]}
        self.asked = {name: words[i] & ~_ABSENT for i, name in enumerate(names) if words[i] & ~_ABSENT}
        self.refused = data[-_REFUSED:].rstrip(b"\0").decode("utf-8", "replace")
        text = data[_COUNTS + 8 * count : -_REFUSED].rstrip(b"\0").decode("utf-8", "replace").splitlines()
        self.command, self.unknown = text[0] if text else "", text[1:]
        self.last: list[tuple[str, int | None, int]] = []
        for back in range(1, min(position, _CALLS) + 1):
            number, result, thread = struct.unpack_from("<2IQ", data, _RING + 16 * ((position - back) % _CALLS))
            self.last.append((names[number], None if result == _RUNNING else result, thread))


def read(folder: str) -> list[Record]:
    """Return the journals in a folder that contain calls."""
    found = []
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ()):  # (a cleaner may have removed it)
        path = os.path.join(folder, name)
        if name.startswith("calls-") and os.path.isfile(path):  # opening a pipe would wait for its writer
            try:
                with open(path, "rb") as file:
                    record = Record(file.read(_MOST))
            except (OSError, ValueError, IndexError, struct.error):  # damaged, or of another version
                continue
            if record.calls or record.asked or record.unknown:
                found.append(record)
    return found


def told(records: list[Record], *, everything: bool = False, crashed: bool = False) -> list[str]:
    """Return lines about the functions that programs called and that do not exist, and about the last refused calls.

    everything  also the called functions of each process, and the functions that cuGetProcAddress did not find
    crashed     also the last calls of each process that has not run its exit handlers
    """
    lines = []
    missing = _sum([record.absent for record in records])
    if missing:
        lines.append(f"called, but missing in the emulator: {_listed(missing)}")
    lines += [f"the last call that was refused: {record.refused}" for record in records if record.refused]
    for record in records if crashed else ():
        if not record.ended and record.last:
            running = [call for call in record.last if call[1] is None]
            name, result, thread = (running or record.last)[0]
            lines.append(
                f"process {record.pid} ({record.command[:_SHOWN]}) ended without its exit handlers; last call: {name}, "
                + (f"in thread {thread:#x}, which had not returned" if result is None else f"which returned {result}")
            )
            lines.append("before it: " + ", ".join(f"{name} {result}" for name, result, _ in record.last[1:9]))
    if everything:
        for record in records:
            lines.append(f"process {record.pid} called {record.served}: {record.command[:_SHOWN]}")
            lines.append(f"  {_listed(record.calls)}")
        asked = _sum([record.asked for record in records])
        lines.append(f"requested with cuGetProcAddress, but missing in the emulator: {_listed(asked)}" if asked else "")
        unknown = sorted({name for record in records for name in record.unknown})
        lines.append(f"names that the emulator does not know: {', '.join(unknown)}" if unknown else "")
    return [line for line in lines if line]


def _sum(counts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _listed(counts: dict[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({count})" for name, count in most)
