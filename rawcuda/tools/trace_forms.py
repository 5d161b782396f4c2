"""The forms in which a trace is written: a log for people, JSON lines, a Chrome trace, pictures.

What it is   a writer class for each form; `picture` and `page` for notebooks.
What not     a GPU's clock: the row of a stream shows when work was submitted to it, not when it ran.
Source       "Trace Event Format" (Chromium), which ui.perfetto.dev and chrome://tracing open; no-color.org
Read next    tools/pictures/trace_pictures.py
"""

from __future__ import annotations

import _thread
import os
import sys
from contextlib import nullcontext
from io import TextIOWrapper

from ..errors import shown, worded
from ..interpreter.cpython import free_after_fork, watch_forks
from ..tracing import Call, Step
from .trace_effects import placed, stream_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union

    Event = Union[Call, Step]

__all__ = ["FORMS", "form_of", "is_colourful", "listed", "page", "picture", "writer"]

# Held while a writer writes to a text file of Python: before CPython 3.13, threads that write to one at once lose text,
# and write other memory of the process instead. Re-entrant: garbage collection may end a trace while it is held.
# It is not held while another object writes: that may wait for a lock whose holder makes a call that is traced.
_writing = free_after_fork(_thread.RLock())


def form_of(to: Any, form: str | None) -> str:
    """Return the form to write: the given one, else the one of the path's suffix, else "log".

    raises  ValueError  an unknown form
    """
    if form is None:
        if isinstance(to, str) or hasattr(to, "__fspath__"):
            path = os.fspath(to)
        else:
            path = ""
        return {".jsonl": "jsonl", ".json": "chrome", ".svg": "svg"}.get(os.path.splitext(path)[1].lower(), "log")
    if form not in FORMS:
        raise ValueError(f"form {form!r}: give one of {', '.join(map(repr, FORMS))}")
    return form


def writer(to: Any, form: str) -> _Writer:
    """Return a writer to a text file, to a path, or to standard error; its end() closes a file that it opened."""
    if to is None and sys.stderr is None:
        to = os.devnull  # as of pythonw: a text goes nowhere
    is_path = isinstance(to, str) or hasattr(to, "__fspath__")
    if not is_path and to is not None:
        try:
            to.write("")
        except (TypeError, ValueError) as error:
            wrong = f"trace() cannot write text to {worded(to)} ({error}): give a text file that is open"
            raise type(error)(wrong) from None
    watch_forks()
    if is_path:
        to = open(to, "w", 1, encoding="utf-8")  # line by line: a child of fork() gets no text that it would write, too
    made: _Writer = FORMS[form](sys.stderr if to is None else to)
    made.closes = is_path
    return made


class _Writer:
    """A writer of events to a text file, which numbers the threads in the order of their first events."""

    closes = False

    def __init__(self, file: Any) -> None:
        self.file = file
        self._threads: dict[int, int] = {}
        self._start: int | None = None
        self._has_ended, self._process = False, os.getpid()
        self._lock = _writing if isinstance(file, TextIOWrapper) else nullcontext()

    def thread(self, event: Event) -> int:
        return self._threads.setdefault(event.thread, len(self._threads) + 1)

    def since_start(self, event: Event) -> int:
        """Return the nanoseconds since the first event began."""
        if self._start is None:
            self._start = event.began_ns
        return event.began_ns - self._start

    def event(self, event: Event) -> None:
        """Write an event, unless another thread has ended the trace meanwhile."""
        with self._lock:
            if not self._has_ended:
                self._write(event)

    def end(self) -> None:
        """Write what comes after the last event, except in a child of fork(); close a file that was opened here."""
        with self._lock:
            self._has_ended = True
            if self._process == os.getpid():
                self._finish()
            if self.closes:
                self.file.close()

    def _write(self, event: Event) -> None: ...

    def _finish(self) -> None: ...


# -- for people


def is_colourful(file: Any) -> bool:
    """Tell whether to write colours to a file: to a terminal that supports them, if NO_COLOR is not set."""
    has = getattr(file, "isatty", None)
    if has is None or not has() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.platform != "win32" or "WT_SESSION" in os.environ


class _Calls(_Writer):
    """A writer of aligned lines: when a call began, how long it took, what it was, and its result if it failed."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._is_first, self._colourful = True, is_colourful(file)

    def _paint(self, code: str, text: str) -> str:
        text = shown(text)
        if self._colourful and text:
            return f"\033[{code}m{text}\033[0m"
        return text

    def head(self) -> None:
        """Write the line above the columns, once."""
        if self._is_first:
            self._is_first = False
            self.file.write(self._paint("2", f"{'at ms':>10}{'took us':>10}  what") + "\n")

    def _write(self, event: Event) -> None:
        self.head()
        took = result = ""
        if isinstance(event, Call):
            took, name, colour = f"{event.elapsed_ns / 1000:.1f}", event.name, "36"
            text = ", ".join(f"{key}={value}" for key, value in event.arguments.items())
            if event.result != "CUDA_SUCCESS":
                result = self._paint("33" if event.result == "CUDA_ERROR_NOT_READY" else "31;1", f"  -> {event.result}")
        else:
            name, colour, text = f"{event.protocol}: {event.what}", "32", event.details
            if event.tensor and "0x" not in name:
                text = f"tensor {event.tensor:#x}, {text}"
        number = self.thread(event)
        line = (
            self._paint("2", f"{self.since_start(event) / 1e6:10.3f}{took:>10}") + f"  {self._paint(colour, name)}"
            f"{' ' * max(30 - len(name), 1)}{shown(text)}{result}{f'  [thread {number}]' if number > 1 else ''}"
        )
        self.file.write(line.rstrip() + "\n")


# What nearly every operation calls: it asks which context is current, makes another one current, and asks whose memory
# an address is. The last question has no answer for memory of the host.
_USUAL = {
    "cuCtxGetCurrent": ("CUDA_SUCCESS",),
    "cuCtxPushCurrent_v2": ("CUDA_SUCCESS",),
    "cuCtxPopCurrent_v2": ("CUDA_SUCCESS",),
    "cuPointerGetAttribute": ("CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE"),
    "cuPointerGetAttributes": ("CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE"),
}
_PACKAGE = __name__.rpartition(".tools.")[0]


def _statement() -> str:
    """Return the place and the text of the statement of the program that is running, or ""."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            from linecache import getline

            path, line = frame.f_code.co_filename, frame.f_lineno or 0  # (some instructions have no line)
            return f"{os.path.basename(path)}:{line}  {getline(path, line).strip()[:90]}".strip()
        frame = frame.f_back
    return ""


class _Log(_Calls):
    """The same, below the statements of the program that made the calls, and without what every operation calls."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._where, self._left_out = "", 0

    def _write(self, event: Event) -> None:
        if isinstance(event, Call) and event.result in _USUAL.get(event.name, ()):
            self._left_out += 1
            self.since_start(event)
            return
        where = _statement()
        if where and where != self._where:
            self.head()
            self._where = where
            self.file.write(self._paint("1", where) + "\n")
        super()._write(event)

    def _finish(self) -> None:
        if self._left_out:
            what = f'{self._left_out} calls about contexts and addresses are not shown: form="calls" shows every call'
            self.file.write(self._paint("2", what) + "\n")


# -- for programs


class _JsonLines(_Writer):
    """A writer of one JSON object per line."""

    def _write(self, event: Event) -> None:
        import json

        said = {name: getattr(event, name) for name in event.__slots__}
        del said["began_ns"]
        said.update(kind=type(event).__name__.lower(), at_ns=self.since_start(event), thread=self.thread(event))
        self.file.write(json.dumps(said, default=dict) + "\n")


class _Chrome(_Writer):
    """A writer of the Trace Event Format: a row for each thread, one for each stream, arrows from records to waits.

    It writes the array form, in which a truncated file can still be read.
    """

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._separator, self._arrows = "[\n", 0
        self._rows: dict[tuple[int, object], int] = {}
        self._ends: dict[int, float] = {}
        self._recorded: dict[str, int] = {}  # event -> the arrow that its last record began
        for process, name in ((1, "host threads"), (2, "streams (when work was submitted to them)")):
            self._put("M", "process_name", process, 0, args={"name": name})

    def _put(self, kind: str, name: str, process: int, row: int, **more: Any) -> None:
        import json

        self.file.write(self._separator + json.dumps({"ph": kind, "name": name, "pid": process, "tid": row, **more}))
        self._separator = ",\n"

    def _row(self, process: int, key: object, name: str) -> int:
        row = self._rows.get((process, key))
        if row is None:
            row = self._rows[process, key] = len(self._rows) + 1
            self._put("M", "thread_name", process, row, args={"name": name})
        return row

    def _write(self, event: Event) -> None:
        at, number = (
            event.began_ns / 1000,
            self.thread(event),
        )  # microseconds; from the clock's own zero, so that none is negative
        row = self._row(1, number, f"thread {number}")
        if isinstance(event, Step):
            if event.protocol == "range":
                begins = event.what == "begin"
                if begins:
                    name = event.details
                else:
                    name = event.details.rpartition(" after ")[0]
                self._put("B" if begins else "E", name, 1, row, ts=at, cat="range")
                return
            self._put(
                "i",
                f"{event.protocol}: {event.what}",
                1,
                row,
                ts=at,
                s="t",
                args={"details": event.details, "tensor": hex(event.tensor)},
            )
            return
        took = event.elapsed_ns / 1000
        self._put("X", event.name, 1, row, ts=at, dur=took, args={**event.arguments, "result": event.result})
        work = placed(event)
        if work is None or not work.stream:
            return
        lane = self._row(2, work.stream, stream_name(work.stream))
        begin = max(
            at, self._ends.get(lane, 0)
        )  # two threads may use a stream at once, but slices in a row may not cross
        took = max(at + took - begin, 0)
        at, self._ends[lane] = begin, begin + took
        self._put("X", work.label, 2, lane, ts=at, dur=took, cat=work.kind, args=dict(event.arguments))
        if work.kind == "record":  # an arrow belongs to the slice that it lies in
            self._arrows += 1
            self._recorded[work.event] = self._arrows
            self._put("s", "event", 2, lane, ts=at + took / 2, id=self._arrows, cat="event")
        elif work.kind == "wait" and work.event in self._recorded:
            self._put("f", "event", 2, lane, ts=at + took / 2, id=self._recorded[work.event], cat="event", bp="e")

    def _finish(self) -> None:
        self.file.write("\n]\n")


class _Pictures(_Writer):
    """A writer that keeps the events, and draws them at the end."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._events: list[Event] = []

    def _write(self, event: Event) -> None:
        self._events.append(event)

    def _finish(self) -> None:
        self.file.write(picture(self._events) or "")


FORMS: dict[str, Any] = {"log": _Log, "calls": _Calls, "jsonl": _JsonLines, "chrome": _Chrome, "svg": _Pictures}


def picture(events: Sequence[Event]) -> str | None:
    """Draw events as SVG; return None in a vendored part without pictures."""
    try:
        from .pictures import trace_picture
    except (ImportError, NotImplementedError):
        return None
    drawn: str = trace_picture(events)
    return drawn


def listed(events: Sequence[Event]) -> str:
    """Return the lines of the form "calls" for recorded events."""
    from io import StringIO

    file = StringIO()
    made = _Calls(file)
    for event in events:
        made.event(event)
    return file.getvalue().rstrip()


def page(events: Sequence[Event]) -> str:
    """Return HTML that shows events in a notebook: the pictures, and a list of the calls and steps to unfold."""
    lines = "\n".join(map(str, events))
    try:
        from .pictures import page as html
    except (ImportError, NotImplementedError):
        from html import escape

        return f"<details><summary>{len(events)} events</summary><pre>{escape(shown(lines))}</pre></details>"
    unfolded = f"<details><summary>{len(events)} events</summary>{html.text_block(lines)}</details>"
    whole: str = html.shown("", picture(events), below=unfolded)
    return whole
