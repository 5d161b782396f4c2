"""Who listens to driver calls and protocol steps.

What it is   a list of listeners, and the two kinds of thing they hear. When the list is empty, nothing is made for them:
             every caller looks at `listeners` first.
What not     it prints nothing: `Trace` does, and only when somebody started one.
Read next    driver.py (calls), the protocols (steps)
"""
from __future__ import annotations

import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable, Mapping, Optional, TextIO, Union

    Listener = Callable[["Union[Call, Step]"], object]

__all__ = ["Call", "Step", "Trace", "listeners", "emit"]

listeners: "list[Listener]" = []
_telling = threading.local()                # .now is there while this thread tells its listeners


class Call:
    """One driver call: `name`, `arguments` (name -> text), `result` (CUresult name) and `elapsed_ns`."""

    __slots__ = ("name", "arguments", "result", "elapsed_ns")

    def __init__(self, name: str, arguments: Mapping[str, str], result: str, elapsed_ns: int) -> None:
        self.name, self.arguments, self.result, self.elapsed_ns = name, arguments, result, elapsed_ns

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.elapsed_ns / 1000:9.1f} us  {self.name}({inside}) -> {self.result}"


class Step:
    """One step of a protocol: `protocol`, `what` was asked or happened, and `details`."""

    __slots__ = ("protocol", "what", "details")

    def __init__(self, protocol: str, what: str, details: str = "") -> None:
        self.protocol, self.what, self.details = protocol, what, details

    def __str__(self) -> str:
        return f"{'':12}  {self.protocol}: {self.what}" + (f" {self.details}" if self.details else "")


def emit(event: "Union[Call, Step]") -> None:
    """Tell every listener; one that fails is reported on standard error and does not disturb the call it listens to.

    What a listener itself calls is not told: it would never end.
    """
    if hasattr(_telling, "now"):
        return
    _telling.now = True
    try:
        for listener in tuple(listeners):
            try:
                listener(event)
            except Exception:
                sys.excepthook(*sys.exc_info())
    finally:
        del _telling.now


class Trace:
    """Listen between `with` and its end; print each event, or give it to a function.

    to      a function of one event (Call or Step), a text file, or None for standard error
    """

    def __init__(self, to: "Union[Listener, TextIO, None]" = None) -> None:
        self._to = to
        self._listener: "Optional[Listener]" = None

    def _print(self, event: "Union[Call, Step]") -> None:
        stream = self._to if self._to is not None else sys.stderr
        stream.write(f"{event}\n")          # type: ignore[union-attr]

    def __enter__(self) -> "Trace":
        if self._listener is not None:
            raise RuntimeError("this trace runs already: make another one")
        if self._to is None or hasattr(self._to, "write"):
            self._listener = self._print
        elif callable(self._to):
            self._listener = self._to
        else:
            raise TypeError(f"trace() takes a function, a text file or None, not {type(self._to).__name__}")
        listeners.append(self._listener)
        return self

    def __exit__(self, kind: "Optional[type[BaseException]]", value: "Optional[BaseException]",
                 traceback: "Optional[TracebackType]") -> None:
        if self._listener is not None:
            listeners.remove(self._listener)
            self._listener = None
