"""Who listens to driver calls and protocol steps.

What it is   a list of listeners, the two kinds of event that they receive, and `Trace`, which adds one for a while.
             While the list is empty no event is made: every caller looks at `listeners` first.
Read next    driver.py (calls), protocols/choosing.py (steps), tools/trace_forms.py
"""

from __future__ import annotations

import _thread  # (threading takes 1 ms to import)
import sys
from time import perf_counter_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Callable, TextIO, Union

    Event = Union["Call", "Step"]
    Listener = Callable[[Event], object]
    Target = Union[Listener, TextIO, list[Event], str, os.PathLike[str], None]

__all__ = ["Call", "Step", "Trace", "careful", "listeners", "emit", "observers"]

listeners: list[Listener] = []
careful: list[
    object
] = []  # not empty while each driver call must be looked at: something listens, or this is a fork()ed child
observers: list[Callable[[], object]] = []  # what is called when a trace begins; owned.py joins it
_telling = _thread._local()  # .now exists while this thread tells its listeners


class Call:
    """One driver call: `name`, `arguments` (name -> text), `result` (CUresult name), `elapsed_ns`, `began_ns`, `thread`."""

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
    """One step of a protocol: `protocol`, `what` happened, `details`, `tensor` (a DLPack struct's address, or 0), `began_ns`, `thread`."""

    __slots__ = ("protocol", "what", "details", "tensor", "began_ns", "thread")

    def __init__(self, protocol: str, what: str, details: str = "", tensor: int = 0) -> None:
        self.protocol, self.what, self.details, self.tensor = protocol, what, details, tensor
        self.began_ns, self.thread = perf_counter_ns(), _thread.get_ident()

    def __str__(self) -> str:
        return f"{'':12}  {self.protocol}: {self.what}" + (f" {self.details}" if self.details else "")


def emit(event: Event) -> None:
    """Tell every listener; one that fails is reported on standard error and does not disturb the call it listens to.

    The calls that a listener itself makes are not told: that would never end.
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
    """Listen between `with` and its end: print each event, write it to a file, or give it to a function.

    to      None for standard error; a text file; a path; a list, which gets the events; or a function of one event
    form    "log" lines for people; "jsonl" an object a line; "chrome" a file that Perfetto and chrome://tracing open;
            "svg" pictures. None: what the path's suffix says (.jsonl .json .svg), else the log
    events  the list that was given, else an empty one: what a notebook draws
    """

    def __init__(self, to: Target = None, *, form: str | None = None) -> None:
        is_asked = callable(to) or isinstance(to, list)
        if form is not None and is_asked:
            raise ValueError(
                f"form={form!r} is for what is written, and {type(to).__name__} takes the events themselves"
            )
        if not (is_asked or to is None or isinstance(to, str) or hasattr(to, "write") or hasattr(to, "__fspath__")):
            raise TypeError(f"trace() takes a function, a text file, a path, a list or None, not {type(to).__name__}")
        self._to, self._form = to, ""
        if not is_asked:
            from .tools.trace_forms import form_of

            self._form = form_of(to, form)
        self.events: list[Event] = to if isinstance(to, list) else []
        self._writer: Any = None
        self._listener: Listener | None = None

    def __enter__(self) -> Trace:
        if self._listener is not None:
            raise RuntimeError("this trace runs already: make another one")
        if isinstance(self._to, list):
            self._listener = self.events.append
        elif callable(self._to):
            self._listener = self._to
        else:
            from .tools.trace_forms import writer

            self._writer = writer(self._to, self._form)
            self._listener = self._writer.event
        careful.append(self)
        listeners.append(self._listener)
        for observer in observers:
            observer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._listener is not None:
            listeners.remove(self._listener)
            careful.remove(self)
            self._listener = None
            ending, self._writer = self._writer, None
            if ending is not None:
                ending.end()

    def _repr_svg_(self) -> str | None:
        from .tools.trace_forms import picture

        return picture(self.events)

    def _repr_html_(self) -> str:
        from .tools.trace_forms import page

        return page(self.events)
