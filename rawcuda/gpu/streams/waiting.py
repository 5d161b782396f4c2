"""Waits in asyncio, and waits with a time limit: `await stream`, `await event`, `synchronize(timeout=)`.

What it is   `awaited`, a coroutine, and `wait_until`, a loop. Both poll, at intervals that grow from 50 microseconds to
             10 milliseconds. No thread is needed, and a wait that is cancelled or interrupted leaves nothing behind.
             After the query that says so, nothing waits any more: another thread may have queued work since.
Source       CUDA Driver API, cuStreamQuery, cuEventQuery: they raise what the device raised
Read next    stream.py
"""

from __future__ import annotations

from ...arguments import as_float
from ...errors import worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...gpu.streams.stream import Event, Stream

__all__ = ["awaited", "wait_until"]

_SHORTEST, _LONGEST = 5e-5, 1e-2  # seconds between two queries


async def awaited(thing: Stream | Event) -> None:
    """Wait for a stream or an event in an event loop of asyncio."""
    from asyncio import sleep

    delay = 0.0
    while not thing.query():
        await sleep(delay)
        delay = min(2 * delay or _SHORTEST, _LONGEST)


def wait_until(thing: Stream | Event, timeout: object) -> None:
    """Wait for a stream or an event, at most for some seconds.

    raises  TimeoutError  the time is over; the work continues
            TypeError     timeout is not a number
            ValueError    timeout is negative or not a number of seconds
    """
    from time import monotonic, sleep

    seconds = as_float("timeout", timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout={worded(timeout)}: give a number of seconds that is not negative, or None")
    end, delay = monotonic() + seconds, 0.0
    while not thing.query():
        left = end - monotonic()
        if left <= 0:
            raise TimeoutError(
                f"{thing!r} still has work after {seconds:g} seconds: wait longer, or find the kernel that does not end"
            )
        sleep(min(delay, left))
        delay = min(2 * delay or _SHORTEST, _LONGEST)
