"""SharedHandle: the object that one process sends to another, which opens memory or an event with it.

What it is   a small object that can be pickled, or sent as bytes(handle). It contains the address of its owner's socket
             and a random key, but no address of memory.
What not     the bytes that the driver needs: the owner sends them when another process asks for them.
Source       none: the format is our own
Read next    opening.py
"""

from __future__ import annotations

import os
import struct
import sys

from ...errors import a_kind, worded
from ..core.context import uuid_text
from . import server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...gpu.devices.device import Device
    from .server import Offer

__all__ = ["SharedHandle", "checked_timeout", "handle_from"]

_FORM = struct.Struct(
    "<4sHBxIQ16s16s16s16s8sI"
)  # mark, version, kind, process, bytes; device, machine, address, key, nonce; crc
_MARK, _VERSION = b"\xd1SHR", 1
_KINDS = ("memory", "event")


class SharedHandle:
    """A handle by which another process opens shared memory or a shared event; it can be pickled.

    In the process that made it, close(), or the end of its with block, ends the sharing: it waits until no other
    process has it open.

    Memory.share() and Event.share() make one.

    >>> device = Device(0)
    >>> memory = device.allocate(64)
    >>> with memory.share() as handle:  # send it to another process, for example through a pipe
    ...     handle.kind, handle.nbytes
    ('memory', 64)

    kind    "memory" or "event"; nbytes: its size, if it is memory; device: the UUID of the GPU; pid: of its owner
    timeout the largest number of seconds that close() waits
    """

    __slots__ = (
        "kind",
        "nbytes",
        "device",
        "pid",
        "timeout",
        "_address",
        "_key",
        "_machine",
        "_nonce",
        "_offer",
        "__weakref__",
    )

    kind: str
    nbytes: int
    device: str
    pid: int
    timeout: float
    if TYPE_CHECKING:
        _address: str
        _key: bytes
        _machine: bytes
        _nonce: bytes
        _offer: Offer | None

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("a SharedHandle is made by Memory.share() or Event.share()")

    @classmethod
    def from_bytes(cls, data: object) -> SharedHandle:
        """Make a handle from bytes(handle).

        raises  ValueError  they are damaged, or not those of a handle
                TypeError   not bytes
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a handle is read from bytes, not from {a_kind(data)}")
        data = bytes(data)
        if len(data) != _FORM.size:
            raise ValueError(f"a damaged handle: it has {len(data)} bytes, and must have {_FORM.size}; send all of it")
        mark, version, kind, pid, nbytes, uuid, machine, address, key, nonce, checksum = _FORM.unpack(data)
        if mark != _MARK:
            raise ValueError("these bytes are not a handle that Memory.share() or Event.share() made")
        if checksum != _checksum(data):
            raise ValueError("a damaged handle: its checksum is wrong; send it unchanged")
        if version != _VERSION or kind >= len(_KINDS):
            raise ValueError(
                f"this handle has version {version} of the format, and this package knows {_VERSION}: use the "
                "sender's version of this package here"
            )
        made = cls.__new__(cls)
        made.kind, made.pid, made.nbytes, made.device = _KINDS[kind], pid, nbytes, uuid_text(uuid)
        made._machine, made._address, made._key, made._nonce = machine, address.hex(), key, nonce
        made.timeout, made._offer = 0.0, None
        return made

    @classmethod
    def _make(
        cls, kind: str, of: Device, nbytes: int, payload: bytes, descriptors: list[int], keeps: object, timeout: float
    ) -> SharedHandle:
        """Offer an object of a Device, and return the handle that ends the offer; an interrupt leaves none behind."""
        made = cls.__new__(cls)
        made._offer = None
        made.kind, made.pid, made.nbytes, made.device, made.timeout = kind, os.getpid(), nbytes, of.uuid, timeout
        made._machine, made._nonce = machine_id(), _process()
        try:
            made._offer = offer = server.publish(payload, descriptors, keeps)
            made._address, made._key = offer.server.address, offer.key
            of._primary.shared[offer] = timeout
            _forget_settled(of._primary.shared)
        except BaseException:
            server.withdraw(descriptors)
            raise
        return made

    def __bytes__(self) -> bytes:
        uuid, address = bytes.fromhex(self.device[4:].replace("-", "")), bytes.fromhex(self._address)
        form: tuple[object, ...] = (
            _MARK,
            _VERSION,
            _KINDS.index(self.kind),
            self.pid,
            self.nbytes,
            uuid,
            self._machine,
            address,
            self._key,
        )
        form += (self._nonce,)
        return _FORM.pack(*form, _checksum(_FORM.pack(*form, 0)))

    def __reduce__(self) -> tuple[object, ...]:
        return SharedHandle.from_bytes, (bytes(self),)

    @property
    def closed(self) -> bool:
        """Tell whether close() was called here; a handle that was received is never closed."""
        return self._offer is not None and bool(self._offer.ended)

    def close(self, timeout: float | None = None) -> None:
        """End the sharing: no process can open it any more; wait until none has it open.

        timeout  the largest number of seconds to wait; by default that of share()
        raises   TimeoutError  a process still has it open; the memory is kept until that closes it, or ends
        """
        if timeout is None:
            seconds = self.timeout
        else:
            seconds = checked_timeout(timeout)
        # When the interpreter ends, the thread that answers has stopped wherever it was, perhaps with a lock that end()
        # waits for. The system ends the sharing with the process.
        if self._offer is not None and self.pid == os.getpid() and not sys.is_finalizing():
            self._offer.end(seconds)

    def __enter__(self) -> SharedHandle:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close(0)
        except TimeoutError:  # the exception of the block is more important
            pass

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # as in close(); this module may have been cleared
            return
        offer = getattr(self, "_offer", None)
        if offer is not None and not offer.settled and self.pid == os.getpid():
            try:
                offer.end(0)
            except TimeoutError:
                pass

    def __repr__(self) -> str:
        size = f" of {self.nbytes} bytes" if self.kind == "memory" else ""
        return f"<SharedHandle: {self.kind}{size} of process {self.pid}{', closed' if self.closed else ''}>"


def _forget_settled(shared: dict[Any, float]) -> None:
    for offer in tuple(shared):
        if offer.settled:
            shared.pop(offer, None)


def _checksum(data: bytes) -> int:
    from zlib import crc32

    return crc32(data[:-4])


def machine_id() -> bytes:
    """Return 16 bytes that are the same in all processes of this machine until it starts again."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (FileNotFoundError, PermissionError, ValueError):  # (but not without a free descriptor)
        return bytes(16)


def handle_from(given: object, kind: str) -> SharedHandle:
    """Check a handle that is to be opened here.

    raises  TypeError   neither a handle nor its bytes
            ValueError  of another kind, of another machine, or made by this process
    """
    if isinstance(given, SharedHandle):
        handle = given
    else:
        handle = SharedHandle.from_bytes(given)
    if handle._machine != machine_id():
        raise ValueError(f"{handle!r} was made on another machine: only processes of one machine can share {kind}")
    if handle.kind != kind:
        raise ValueError(f"{handle!r} cannot be opened as {kind}: use {_OPENED_BY[handle.kind]}.from_handle()")
    if handle.pid == os.getpid() and handle._nonce == _process():
        raise ValueError(f"{handle!r} was made by this process: use the object that was shared, or send the handle")
    return handle


_processes: dict[int, bytes] = {}


def _process() -> bytes:
    """Return a random number that identifies this process; processes in two containers may have the same id."""
    return _processes.get(os.getpid()) or _processes.setdefault(os.getpid(), os.urandom(8))


_OPENED_BY = {"memory": "Memory", "event": "Event"}


def checked_timeout(timeout: Any) -> float:
    """Check a time limit in seconds.

    raises  TypeError   not a number
            ValueError  negative, or not a number of seconds
    """
    if isinstance(timeout, (str, bytes)) or timeout is None:
        raise TypeError(f"timeout must be a number of seconds, not {worded(timeout)}")
    try:
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"timeout must be a number of seconds, not {worded(timeout)}") from None
    if not seconds >= 0:
        raise ValueError(f"timeout={worded(timeout)}: give a number of seconds that is not negative")
    return seconds
