"""trace(): listening to driver calls and protocol steps for the duration of a with block.

What it is   the public function, and the class of its result. It adds a listener when the block begins and removes
             it when the block ends, even by an exception.
What not     the events themselves (../tracing.py), and the text written for each (trace_forms.py).
Read next    trace_forms.py
"""

from __future__ import annotations

import _thread
import os

from .. import names
from ..errors import worded
from ..given import called_later
from ..owned import Held
from ..tracing import Call, Step, careful, listeners, observers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..tracing import Listener

__all__ = ["Trace", "trace"]

_stopping = _thread.allocate_lock()  # held while an entry is looked up and removed


def _tell_observers() -> None:
    """Call all observers when tracing begins, so that prepared calls are traced, too."""
    for observer in tuple(observers):
        observer()


def _remove(things: list[Any], one: object) -> None:
    """Remove one object from a list, if it is there; an == of its own is not called."""
    places = [place for place, each in enumerate(things) if each is one]
    if places:
        del things[places[0]]


def trace(
    to: names.Callable[[Call | Step], object] | names.TextIO | list[Call | Step] | str | os.PathLike[str] | None = None,
    *,
    form: str | None = None,
) -> Trace:
    """Listen to each driver call and protocol step, in a with block.

    to    None for standard error; a text file; a path; a list, which receives the events; or a function of one event
    form  "log" lines for people; "jsonl" one JSON object per line; "chrome" a file that Perfetto and chrome://tracing
          open; "svg" pictures. None: what the path's suffix says (.jsonl .json .svg), else the log
    """
    return Trace(to, form=form)


class Trace:
    """A listener for the length of a with block: it prints each event, writes it to a file, or gives it to a function.

    to      None for standard error; a text file; a path; a list, which receives the events; or a function of one event
    form    "log" lines for people; "jsonl" one JSON object per line; "chrome" a file that Perfetto and chrome://tracing
            open; "svg" pictures. None: what the path's suffix says (.jsonl .json .svg), else the log
    events  the given list, or else an empty one, which a notebook draws
    """

    def __init__(
        self,
        to: names.Callable[[Call | Step], object]
        | names.TextIO
        | list[Call | Step]
        | str
        | os.PathLike[str]
        | None = None,
        *,
        form: str | None = None,
    ) -> None:
        is_asked = callable(to) or isinstance(to, list)
        if form is not None and is_asked:
            raise ValueError(
                f"form={worded(form)} says how events are written, but a {type(to).__name__} receives the events "
                "themselves: leave form out"
            )
        if not (is_asked or to is None or isinstance(to, str) or hasattr(to, "write") or hasattr(to, "__fspath__")):
            raise TypeError(f"trace() takes a function, a text file, a path, a list or None, not {type(to).__name__}")
        if callable(to):
            called_later("trace()", to)
        self._to, self._form = to, ""
        if not is_asked:
            from .trace_forms import form_of

            self._form = form_of(to, form)
        self.events: list[Call | Step] = to if isinstance(to, list) else []
        self._writer: Any = None
        self._listener: Listener | None = None

    def __enter__(self) -> Trace:
        if self._listener is not None:
            raise RuntimeError("this trace is running already: make another one")
        try:
            if isinstance(self._to, list):
                self._listener = self.events.append
            elif callable(self._to):
                self._listener = self._to
            else:
                from .trace_forms import writer

                self._writer = writer(self._to, self._form)
                self._listener = self._writer.event
            careful.append(self._listener)  # nothing global refers to this object: see __del__()
            listeners.append(self._listener)
            _tell_observers()
        except BaseException:  # __exit__ is not called for a block that was never entered
            self._stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop()

    def __del__(self) -> None:
        """Stop, if an interrupt came between __enter__() and the block, or before __exit__() did anything."""
        if getattr(self, "_listener", None) is not None:
            self._stop()

    def _stop(self) -> None:
        """Remove the listener, and close the file if this trace opened it; do nothing if that was done already."""
        listener, writer = self._listener, self._writer
        with Held(_stopping):
            _remove(listeners, listener)
            _remove(careful, listener)
        self._listener = self._writer = None
        if writer is not None:
            writer.end()

    def __reduce_ex__(self, protocol: object) -> names.NoReturn:
        raise TypeError("a Trace belongs to one with block, and cannot be copied or pickled: copy trace.events")

    def _repr_svg_(self) -> str | None:
        from .trace_forms import picture

        drawn: str | None = picture(self.events)
        return drawn

    def _repr_html_(self) -> str:
        from .trace_forms import page

        written: str = page(self.events)
        return written
