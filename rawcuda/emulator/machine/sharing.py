"""Memory and events that several processes use: files in memory, which other processes open by their descriptors.

What it is   Backing, a file without a name in any folder (memfd_create) that holds the bytes of an allocation;
             SharedMark, the state of an event in such a file; and the 64 bytes of a handle, which say where it is.
How          a process opens the file of another through /proc/PID/fd. The system frees the file when the last process
             has closed it or has ended, so nothing is left after a kill. A process that opens memory locks the file, so
             the owner can tell whether another process still uses memory that it frees. An event counts its records. A
             process that records it takes the next number, and stores this number as reached when its stream gets
             there. While other processes may wait for such an event, a thread runs the work before it, because this
             process may make no call of the driver in the meantime.
Trust        files have seals, so nobody can make one smaller: an access to the pages that are gone would end every
             process that has mapped it. A file of another process is used only if it has this seal and belongs to this
             user.
What not     support for systems without memfd_create and /proc: nothing can be shared there.
Source       memfd_create(2), fcntl(2): "File Sealing", proc(5), flock(2); CUDA Driver API, cuIpcGetMemHandle,
             cuIpcGetEventHandle
Read next    entries/memories/ipc.py
"""

from __future__ import annotations

import _thread
import mmap
import os
import re
import struct
import time
import zlib
from functools import partial

from .codes import Refused
from .queues import Conditional
from .recovery import RUNNING, recover, unlocked
from .space import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .machine import Machine
    from .queues import Work

__all__ = [
    "Backing",
    "MARK_SIZE",
    "between_kernels",
    "pause",
    "SharedMark",
    "alive",
    "is_supported",
    "packed",
    "unpacked",
]

_HANDLE = struct.Struct("<8sIi16sQQ12xI")  # magic, process, descriptor, token, two numbers; checksum
_MAGIC = b"emulated"
_MARK = struct.Struct("<QQQ")  # number of records, the last that was reached, the process that recorded last
MARK_SIZE = 4096
_EVERY = 0.002  # seconds between two checks by the thread that runs what other processes wait for


def is_supported() -> bool:
    """Tell whether this system can share memory between processes in this way."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


def _require() -> None:
    """Refuse a call if this system cannot share memory."""
    if not is_supported():
        raise Refused(
            801, "this system cannot share memory between processes: the emulator needs memfd_create and /proc (Linux)"
        )


def alive(pid: int) -> bool:
    """Tell whether a process still runs, as far as that can be told now."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return False
    except OSError:  # this process can open no more files now
        return True


def packed(kind: str, backing: Backing, first: int, second: int = 0) -> bytes:
    """Return a handle: the 64 bytes with which another process opens a file, and two numbers."""
    body = _HANDLE.pack(_MAGIC, os.getpid(), backing.fd, bytes.fromhex(backing.token), first, second, 0)[:-4]
    return body + struct.pack("<I", zlib.crc32(kind.encode() + body))


def unpacked(kind: str, handle: bytes) -> tuple[int, int, str, int, int]:
    """Return process, descriptor, token and the two numbers of a handle; refuse one that is damaged or foreign."""
    magic, pid, fd, token, first, second, checksum = _HANDLE.unpack(handle)
    if magic != _MAGIC or checksum != zlib.crc32(kind.encode() + handle[:-4]):
        raise Refused(400, f"these 64 bytes are not a handle of {kind} that this driver made, or they are damaged")
    return pid, fd, token.hex(), first, second


def between_kernels(machine: Machine) -> Any:
    """Wait until no kernel runs; return a lock that keeps kernels from starting, which the caller releases."""
    if machine.queues.inside_work():
        raise Refused(
            800,
            "a __del__ method that a garbage collection called, or a signal handler, must wait until an emulated "
            "kernel of its thread ends: do not share memory in __del__ or in a signal handler",
        )
    unlocked(machine, RUNNING.acquire)
    return RUNNING


def pause(machine: Machine) -> None:
    """Let other threads make calls for a moment, because this one waits for another process."""
    unlocked(machine, partial(time.sleep, _EVERY))


def _checked_size(fd: int, token: str, least: int) -> int:
    """Return the size of a file that is safe to map: one of this user that nobody can make smaller.

    raises  Refused  another file, or one that has fewer bytes than least (400)
    """
    import fcntl

    status = os.fstat(fd)
    try:
        is_sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:  # a file of a kind that has no seals
        is_sealed = 0
    is_named = os.readlink(f"/proc/self/fd/{fd}").startswith(f"/memfd:cuda-{token}-")
    if not is_named or not is_sealed or status.st_uid != os.geteuid():
        raise Refused(
            400,
            f"the file of descriptor {fd}, of user {status.st_uid}, does not come from an export of this driver by a "
            f"process of user {os.geteuid()}",
        )
    if status.st_size < least:
        raise Refused(400, f"the shared memory has {status.st_size} bytes, and its handle says {least}")
    return status.st_size


class Backing:
    """A file in memory, open in this process.

    token  the random name of the file; index: the number of the device to which the memory belongs
    count  how many times an imported file was opened
    """

    __slots__ = ("fd", "token", "index", "size", "pages", "imported", "count")

    def __init__(
        self, fd: int, token: str, imported: bool, *, index: int = 0, least: int = 1, lock: bool = False
    ) -> None:
        self.fd, self.token, self.index, self.imported, self.count = fd, token, index, imported, 1
        try:
            self.size = _checked_size(fd, token, least)
            self.pages = mmap.mmap(fd, self.size)
            if lock:
                import fcntl

                fcntl.flock(fd, fcntl.LOCK_SH)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def create(cls, size: int, index: int = 0, kind: str = "") -> Backing:
        """Create a file of a given size for memory of a device, of a kind that adopt() asks for.

        raises  Refused   the system cannot share memory (801), or has too little (2)
        """
        _require()
        import fcntl

        token = os.urandom(16).hex()
        try:
            fd = os.memfd_create(f"cuda-{token}-{index}-{kind}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(fd, size)
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            except BaseException:
                os.close(fd)
                raise
            return cls(fd, token, False, index=index)
        except (OSError, OverflowError, ValueError) as reason:
            raise Refused(2, f"{size} bytes of shared memory cannot be created: {reason}") from None

    @classmethod
    def open(cls, pid: int, fd: int, token: str, size: int, lock: bool = True) -> Backing:
        """Open the file of another process; it stays locked while it is open.

        raises  Refused   that process has ended or has closed it (205), or it is smaller than size (400)
        """
        _require()
        path = f"/proc/{pid}/fd/{fd}"
        try:
            if not os.readlink(path).startswith(f"/memfd:cuda-{token}-"):
                raise FileNotFoundError
            return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC), token, True, least=size, lock=lock)
        except OSError as reason:
            raise Refused(
                205,
                f"process {pid}, which made the handle, has freed the memory, has ended, or is not visible here"
                + (f": {reason}" if reason.args else ""),
            ) from None

    @classmethod
    def adopt(cls, fd: int, kind: str) -> Backing:
        """Open the file of a descriptor that another process passed; the descriptor stays open.

        raises  Refused   the descriptor is not one of such a file, or of another kind (400)
        """
        _require()
        try:
            found = re.match(rf"/memfd:cuda-([0-9a-f]{{32}})-(\d+)-{kind}\b", os.readlink(f"/proc/self/fd/{fd}"))
            if found is None:
                raise Refused(400, f"file descriptor {fd} does not come from an export of {kind} memory by this driver")
            return cls(os.dup(fd), found[1], True, index=int(found[2]))
        except OSError as reason:
            raise Refused(400, f"file descriptor {fd} cannot be used: {reason}") from None

    def is_open_elsewhere(self) -> bool:
        """Tell whether another process has opened this memory and not closed it."""
        import fcntl

        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        return False

    def close(self, unmap: bool = True) -> None:
        """Close the descriptor, and unmap the pages unless a view of them exists."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
        if unmap:
            try:
                self.pages.close()
            except BufferError:
                pass


class SharedMark:
    """The state of an event that several processes record and wait for."""

    __slots__ = ("machine", "backing", "closed")

    def __init__(self, machine: Machine, backing: Backing) -> None:
        self.machine, self.backing, self.closed = machine, backing, False

    def _read(self) -> tuple[int, int, int]:
        recorded, reached, pid = _MARK.unpack_from(self.backing.pages)
        return recorded, reached, pid

    def _change(self, number: int = 0) -> int:
        """Take the next number, or store that a number was reached, under a lock between processes.

        Each process has opened the file itself, so its descriptor has a lock of its own.
        """
        import fcntl

        try:
            fcntl.flock(self.backing.fd, fcntl.LOCK_EX)
            recorded, reached, pid = self._read()
            if number:
                _MARK.pack_into(self.backing.pages, 0, recorded, max(reached, number), pid)
            else:
                number = recorded + 1
                _MARK.pack_into(self.backing.pages, 0, number, reached, os.getpid())
            fcntl.flock(self.backing.fd, fcntl.LOCK_UN)
        except BaseException:  # an interrupt
            fcntl.flock(self.backing.fd, fcntl.LOCK_UN)
            raise
        return number

    def record(self, work: Work) -> None:
        """Record the event: it is reached when this work is done."""
        queues = self.machine.queues
        queues.marks.append((work, self, self._change()))
        queues.publish()
        if queues.marks:
            _run_along(self.machine)

    def reach(self, number: int) -> None:
        """Store that the record with this number was reached; this may be repeated."""
        self._change(number)

    def close(self) -> None:
        """Close the file, at once or when all records of this process were reached: the event is destroyed."""
        self.closed = True
        if all(mark is not self for _, mark, _ in self.machine.queues.marks):
            self.backing.close(unmap=False)  # work may still wait for it

    @property
    def reached(self) -> bool:
        """Tell whether the last record was reached."""
        recorded, reached, _ = self._read()
        return reached >= recorded

    def orphaned(self) -> str:
        """Return a message if the recording process ended before its stream reached the event, else ""."""
        recorded, reached, pid = self._read()
        if reached >= recorded or alive(pid):
            return ""
        return f"process {pid}, which recorded this shared event, ended before its stream reached the event"

    def wait(self) -> Conditional:
        """Return a function for Queues.submit() that waits for the last record so far."""
        waiting = _Waiting(self, self._read()[0])
        return Conditional(waiting.run, waiting)


class _Waiting:
    """A wait for one record of a shared event."""

    __slots__ = ("mark", "number", "_next")
    elsewhere = True  # another process can end this wait

    def __init__(self, mark: SharedMark, number: int) -> None:
        self.mark, self.number, self._next = mark, number, 0.0

    def __call__(self) -> bool:
        if self.mark._read()[1] >= self.number:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + 0.1
        return bool(self.mark.orphaned())

    def run(self) -> None:
        """End the wait; if the record was not reached, the context becomes unusable."""
        if self.mark._read()[1] < self.number:
            raise Fault(719, self.mark.orphaned() or "the record of a shared event was not reached")


def _run_along(machine: Machine) -> None:
    """Start the thread that runs the work before shared events, unless it runs already."""
    if machine.queues.along:
        return
    machine.queues.along = True
    try:
        _thread.start_new_thread(_serve, (machine,))
    except RuntimeError:  # the interpreter is ending
        machine.queues.along = False


def _push_all(machine: Machine) -> None:
    queues: Any = machine.queues
    for work, _, _ in tuple(queues.marks):
        queues.push(work)
    queues.publish()


def _serve(machine: Machine) -> None:
    queues: Any = machine.queues
    while True:
        time.sleep(_EVERY)
        try:
            with machine.lock:
                machine.host_access.around(_push_all)(machine)
                if not queues.marks:
                    queues.along = False
                    return
        except BaseException as caught:  # for want of memory, for instance: the other processes still wait
            machine.keep(caught)
            recover(machine)
