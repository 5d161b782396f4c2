"""Listeners for driver calls and protocol steps.

What it is   a list of listeners, and the two kinds of event that they receive. While the list is empty no event is
             made: every caller checks `listeners` first.
What not     the class `Trace`, which adds a listener for the duration of a with block, is in tools/traces.py.
Read next    driver.py (calls), protocols/dlpack_capsule.py (steps), tools/traces.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import sys
from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Union

    Event = Union["Call", "Step"]
    Listener = Callable[[Event], object]

__all__ = ["Call", "Step", "careful", "in_use", "listeners", "emit", "observers"]

listeners: list[Listener] = []
# not empty while each driver call must be checked or reported: there is a listener, this is a forked child, or a host
# function runs
careful: list[object] = []
in_use: list[Any] = []  # the driver in use, if any; driver.py adds it
observers: list[Callable[[], object]] = []  # functions to call when a trace begins; ownership.py adds one
_telling = _thread._local()  # .now exists while this thread calls its listeners


class Call:
    """A driver call: `name`, `arguments` (name -> text), `result` (a CUresult), `elapsed_ns`, `began_ns`, `thread`."""

    __slots__ = ("name", "arguments", "result", "elapsed_ns", "began_ns", "thread")

    def __init__(
        self, name: str, arguments: Mapping[str, str], result: str, elapsed_ns: int, began_ns: int = 0
    ) -> None:
        self.name, self.arguments, self.result, self.elapsed_ns = name, arguments, result, elapsed_ns
        self.began_ns, self.thread = began_ns or perf_counter_ns() - elapsed_ns, _thread.get_ident()

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.elapsed_ns / 1000:9.1f} us  {self.name}({inside}) -> {self.result}"


class Step:
    """A step of a protocol: `protocol`, `what`, `details`, `tensor` (a DLPack address or 0), `began_ns`, `thread`."""

    __slots__ = ("protocol", "what", "details", "tensor", "began_ns", "thread")

    def __init__(self, protocol: str, what: str, details: str = "", tensor: int = 0) -> None:
        self.protocol, self.what, self.details, self.tensor = protocol, what, details, tensor
        self.began_ns, self.thread = perf_counter_ns(), _thread.get_ident()

    def __str__(self) -> str:
        return f"{'':12}  {self.protocol}: {self.what}" + (f" {self.details}" if self.details else "")


def emit(event: Event) -> None:
    """Pass an event to every listener; an exception in a listener is reported on standard error and not passed on.

    Driver calls and steps within a listener are not reported, which would recurse without end.
    """
    if hasattr(_telling, "now"):
        return
    _telling.now = True
    try:
        _tell_all(event)
    finally:
        del _telling.now


def _tell_all(event: Event) -> None:
    for listener in tuple(listeners):
        try:
            listener(event)
        except Exception:
            sys.excepthook(*sys.exc_info())
