"""The owner's side of sharing: a socket at which other processes of this user ask for what was shared.

What it is   `publish`, which offers bytes and file descriptors to processes that know a key; `Offer`, which knows the
             processes that have it open; `ask`, the receiver's side.
How          A thread answers at a Unix socket with an abstract address, so there is no file to leave behind. It runs
             while something is shared. The connection of a process that has opened something stays open as long as it
             uses it. The system closes it when that process ends, even by a crash, so the owner always knows its users.
Trust        Each side asks the system who is at the other end, before it sends anything: the owner answers only
             processes of its user, and the receiver sends its key only to the process that made the handle. So a
             process that takes over the address of one that has ended learns and gives nothing.
Lifetime     An offer keeps what it shares until the last of these processes has closed it, even if the owner does not
             wait for that.
What not     driver calls: shared_events.py and shared_memory.py.
Source       unix(7): abstract addresses, SCM_RIGHTS, SO_PEERCRED
Read next    shared_handles.py
"""

from __future__ import annotations

import _thread
import errno
import os
from time import monotonic, sleep

from ...errors import Closed, unsupported
from ...interpreter.cpython import watch_forks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any

__all__ = ["Answer", "Offer", "ask", "check_system", "publish", "withdraw"]

_MOST_DESCRIPTORS = 200  # the system passes at most 253 with a message
_LONGEST = 1 << 16
_FOREVER = 1e6  # seconds: the longest wait that the system takes
_running: list[Server] = []  # the server of this process, if there is one


class Answer:
    """The answer of an owner: `payload`, `descriptors`, and the `connection`, which tells it that they are in use.

    ask() fills it in. Who made it closes it, also after an error.
    """

    __slots__ = ("payload", "descriptors", "connection")

    def __init__(self) -> None:
        self.payload, self.connection = b"", None  # type: tuple[bytes, socket | None]
        self.descriptors: list[int] = []

    def close_descriptors(self) -> None:
        """Close the descriptors, which the driver does not need any more."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def close(self) -> None:
        """Close the descriptors and the connection: so the owner learns that this process does not use it any more."""
        self.close_descriptors()
        if self.connection is not None:
            _asked.discard(self.connection)
            self.connection.close()


class Offer:
    """A shared object: the bytes and descriptors that open it, and the processes that have it open.

    keeps   the object that must live as long as a process has it open
    """

    __slots__ = ("server", "key", "payload", "descriptors", "keeps", "users", "ended", "settled")

    def __init__(self, server: Server, payload: bytes, descriptors: list[int], keeps: object) -> None:
        self.server, self.key, self.payload = server, os.urandom(16), payload
        self.descriptors, self.keeps = descriptors, keeps
        self.users: dict[object, int] = {}  # connection -> process
        self.ended = self.settled = False  # no process can open it; what it kept is released

    def end(self, timeout: float) -> None:
        """Offer it to no other process, and wait until no process has it open.

        raises  TimeoutError  one still has it open
        """
        self.server.end(self, timeout)


def check_system() -> None:
    """Raise Unsupported where processes cannot share memory in this way."""
    import sys

    if not sys.platform.startswith("linux"):
        raise unsupported(
            f"sharing between processes needs Linux, and this is {sys.platform}: send copies, which pickle makes",
        )


def publish(payload: bytes, descriptors: list[int], keeps: object) -> Offer:
    """Offer bytes and descriptors, which belong to the offer from now on.

    raises  ValueError  too many descriptors
    """
    if len(descriptors) > _MOST_DESCRIPTORS:
        raise ValueError(
            f"this memory consists of {len(descriptors)} mappings, and {_MOST_DESCRIPTORS} can be shared at once: map "
            "larger pieces"
        )
    watch_forks(_forked)
    while True:
        try:
            server = _running[-1]
        except IndexError:
            server = Server()
            _running.append(server)  # before it opens anything, so that withdraw() finds it after an interrupt
        offer = server.add(payload, descriptors, keeps)
        if offer is not None:
            return offer
        if server in _running:
            _running.remove(server)


def withdraw(descriptors: list[int]) -> None:
    """End the offer of these descriptors, if there is one: publish() was interrupted, and nobody has its key."""
    for server in tuple(_running):
        for offer in tuple(server.offers.values()):
            if offer.descriptors is descriptors:
                offer.end(0)


def _forked() -> None:
    """Close, in a child of fork(), the sockets of the parent: they would keep its connections open."""
    for server in _running:
        server.abandon()
    _running.clear()
    for connection in tuple(_asked):
        connection.close()


class Server:
    """The socket of this process, its offers, and the thread that answers; it ends with the last offer."""

    def __init__(self) -> None:
        self.address = os.urandom(16).hex()
        self.offers: dict[bytes, Offer] = {}
        # An interrupt may leave the lock of a threading.Condition held, whose methods are Python functions.
        self.lock = _thread.RLock()
        self.over = self._full = self._starting = False
        self._thread = 0  # the identifier of the thread that answers, while it runs
        self._socket: Any = None  # until the first offer
        self._new: dict[int, socket] = {}  # connections that have not sent their request
        self._used: dict[int, tuple[socket, Offer]] = {}

    def add(self, payload: bytes, descriptors: list[int], keeps: object) -> Offer | None:
        """Return a new offer, or None if this server has just ended."""
        offer = Offer(self, payload, descriptors, keeps)
        self.offers[offer.key] = offer  # before the lock: a finalizer or a signal handler may end another one here
        with self.lock:
            if self.over:
                del self.offers[offer.key]
                return None
            if not self._thread and not self._starting:  # a signal handler may come here while it starts
                try:
                    self._starting = True
                    self._start()
                except BaseException:
                    if not self._thread:
                        self._stop()  # the next offer starts it
                    offer.ended = True
                    self._settle(offer)
                    raise
                finally:
                    self._starting = False
            return offer

    def _start(self) -> None:
        """Listen, and start the thread that answers; it ends as soon as this server is over.

        A Thread would be waited for, and may need the lock that is held here: a collection in it may share or close.
        """
        import select
        import socket

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(_path(self.address))
        self._socket.listen(128)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._thread = _thread.start_new_thread(self._serve, ())

    def end(self, offer: Offer, timeout: float) -> None:
        """End an offer; see Offer.end."""
        until = monotonic() + min(timeout, _FOREVER)
        # A finalizer or a signal handler may come here where this thread has the lock, or is the one that answers: then
        # a wait would last to its end.
        if self.lock._is_owned() or self._thread == _thread.get_ident():  # type: ignore[attr-defined]
            timeout = until = 0
        with self.lock:
            offer.ended = True
            if not offer.settled:
                self._settle(offer)
        _wait(lambda: offer.settled, until)
        if not offer.settled:
            raise TimeoutError(
                f"after {timeout:g} seconds, what was shared is still open in process {_listed(offer)}: close it "
                "there, or wait longer; it is kept until then"
            )
        if timeout and self.over:
            _wait(lambda: not self._thread, until)  # it closes the socket

    def _settle(self, offer: Offer) -> None:
        """Release an offer that is over, and end with the last one. An interrupted call can be made again."""
        if not offer.ended or offer.users:
            return
        while offer.descriptors:
            os.close(offer.descriptors.pop())
        offer.keeps = None
        self.offers.pop(offer.key, None)
        self.over = self.over or not self.offers
        if self.over:
            self._stop()
        offer.settled = True

    def _stop(self) -> None:
        """Wake the thread, which closes the socket; close it here if its start failed."""
        if self._socket is None:
            return
        try:
            self._socket.shutdown(2)
        except OSError:
            pass
        if not self._thread:
            self._socket.close()

    def abandon(self) -> None:
        """Close everything in a child of fork(), without a message to other processes; the thread is not there."""
        self.over, self._thread = True, 0
        for offer in self.offers.values():
            while offer.descriptors:
                os.close(offer.descriptors.pop())
        for connection in (*self._new.values(), *(connection for connection, _ in self._used.values()), self._socket):
            if connection is not None:
                connection.close()

    def _serve(self) -> None:
        pid, self._thread = os.getpid(), _thread.get_ident()
        try:
            self._go_on(pid)
        finally:
            if pid == os.getpid():
                try:
                    self._close_new()
                finally:
                    self._thread = 0

    def _go_on(self, pid: int) -> None:
        while not self._is_over() and pid == os.getpid():
            try:
                self._answer_all(pid)
            except MemoryError:  # a connection of which something was not heard is reported again
                self._full = True

    def _close_new(self) -> None:
        for connection in (*self._new.values(), self._socket):
            connection.close()

    def _answer_all(self, pid: int) -> None:
        while not self._is_over():
            if self._full:  # too many files are open, or memory is short: what is not done would end each poll at once
                self._full = False
                sleep(0.05)
            for number, _ in self._poll.poll():
                if pid != os.getpid():
                    return
                with self.lock:
                    if self.over:
                        break
                    if number == self._socket.fileno():
                        self._accept()
                    else:
                        self._hear(number)

    def _is_over(self) -> bool:
        return self.over

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            self._full = error.errno in (errno.EMFILE, errno.ENFILE)
            return
        try:
            if _peer(connection)[1] == os.geteuid():
                connection.setblocking(False)
                self._new[connection.fileno()] = connection
                self._poll.register(connection, 1)
                return
        except MemoryError:
            pass
        connection.close()

    def _hear(self, number: int) -> None:
        """Answer a request on a connection, or handle its end."""
        import socket

        used = self._used.get(number)
        connection = self._new.get(number) if used is None else used[0]
        if connection is None:
            return
        try:
            said = connection.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        offer = self.offers.get(said) if used is None and said else None
        if offer is not None and not offer.ended:
            try:
                self._used[number] = used = connection, offer  # before it is told: from then on it may use it
                offer.users[connection] = _peer(connection)[0]
                socket.send_fds(connection, [b"+" + offer.payload], offer.descriptors)
                del self._new[number]
                return
            except OSError:
                said = b""
            except MemoryError:  # it may have been told: it is a user until it closes the connection
                connection.shutdown(socket.SHUT_WR)
                return
        if used is not None and said:
            return
        connection.close()
        if used is not None:
            used[1].users.pop(connection, None)
            self._settle(used[1])
        self._poll.unregister(number)  # after a MemoryError until here, its end is reported again
        self._new.pop(number, None)
        self._used.pop(number, None)


def _wait(is_done: Callable[[], object], until: float) -> None:
    """Wait until something is done, or until a time of the monotonic clock, without a lock."""
    pause = 0.0005  # seconds
    while not is_done() and monotonic() < until:
        sleep(pause)
        pause = min(2 * pause, 0.02)


def _listed(offer: Offer) -> str:
    return ", ".join(sorted({str(pid) for pid in offer.users.values()}))


def _path(address: str) -> str:
    return f"\0cuda-sharing-{address}"


def _peer(connection: socket) -> tuple[int, int]:
    """Return the process and the user at the other end: for the receiver, those of the process that listens."""
    import socket
    import struct

    pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


_asked: set[socket] = set()  # the connections to other processes


def _connect(connection: socket, address: str, timeout: float) -> None:
    end = monotonic() + timeout
    while True:
        connection.settimeout(max(end - monotonic(), 0.001))
        try:
            connection.connect(_path(address))
            return
        except BlockingIOError:  # too many processes ask at once
            if monotonic() > end:
                raise
            sleep(0.01)


def ask(answer: Answer, address: str, key: bytes, pid: int, timeout: float) -> None:
    """Ask the owner for what it shares under a key.

    raises  Closed        it is not shared any more, or the owner has ended; the key is sent to no other process
            TimeoutError  the owner does not answer
            ValueError    the answer is incomplete
    """
    import socket
    import struct

    watch_forks(_forked)
    connection = answer.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _asked.add(connection)
    try:
        _connect(connection, address, min(timeout, _FOREVER))
        if _peer(connection) != (pid, os.geteuid()):
            raise _taken_over(pid, *_peer(connection))
        connection.send(key)
        # (socket.recv_fds() does not use its flags, and a program that another thread starts would inherit them)
        said, others, flags, _ = connection.recvmsg(_LONGEST, socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)
    except (socket.timeout, BlockingIOError):
        raise _late(pid, timeout) from None
    except ConnectionError:
        raise _gone(pid) from None
    for level, kind, data in others:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            answer.descriptors += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    answer.payload = said[1:]
    if said[:1] != b"+":
        raise _gone(pid)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ValueError(
            f"the answer of process {pid} did not arrive as a whole: has this process too many open files?"
        )


def _gone(pid: int) -> Closed:
    return Closed(
        f"process {pid} does not share this any more, or has ended: keep its handle open until it is opened here"
    )


def _taken_over(pid: int, other: int, user: int) -> Closed:
    return Closed(
        f"process {pid} of user {os.geteuid()} does not share this any more, or has ended: process {other} of user "
        f"{user} listens at its address, and was sent nothing"
    )


def _late(pid: int, timeout: float) -> TimeoutError:
    return TimeoutError(
        f"process {pid} has not answered for {timeout:g} seconds: is it stopped, or in a call that keeps Python's "
        "lock? Give a longer timeout="
    )
