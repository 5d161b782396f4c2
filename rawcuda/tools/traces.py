"""trace(): listening to driver calls and protocol steps for the duration of a with block.

What it is   the public function, and the class of its result. It adds a listener when the block begins and removes
             it when the block ends, even by an exception.
What not     the events themselves (../tracing.py), and the text written for each (trace_forms.py).
Read next    trace_forms.py
"""

from __future__ import annotations

import os
from functools import partial
from warnings import warn

from ..arguments import as_function
from ..errors import worded
from ..tracing import Call, Step, careful, listeners, observers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, TextIO

    from ..tracing import Listener

__all__ = ["Trace", "trace"]

_NO_BLOCK = "a trace that hears nothing, because no block began it: write `with trace():` around what it shall hear"


def _tell_observers() -> None:
    """Call all observers when tracing begins, so that prepared calls are traced, too."""
    for observer in tuple(observers):
        observer()


def _remove(things: list[Any], one: object) -> None:
    """Remove one object from a list, if it is there: one step, so that several threads may do it."""
    try:
        things.remove(one)
    except ValueError:
        pass


def trace(
    to: Callable[[Call | Step], object] | TextIO | list[Call | Step] | str | os.PathLike[str] | None = None,
    *,
    form: str | None = None,
) -> Trace:
    """Listen to each driver call and protocol step, in a with block.

    to    None for standard error; a text file; a path; a list, which receives the events; or a function of one event
    form  "log" for people: each statement of the program, and the calls that it made, without those that every
          operation makes; "calls" every call; "jsonl" one JSON object per line; "chrome" a file that Perfetto and
          chrome://tracing open; "svg" pictures. None: what the path's suffix says (.jsonl .json .svg), else "log"
    """
    return Trace(to, form=form)


class Trace:
    """A listener for the length of a with block: it prints each event, writes it to a file, or gives it to a function.

    to      None for standard error; a text file; a path; a list, which receives the events; or a function of one event
    str() of a trace is the list of the events that it keeps.

    form    as in trace()
    events  the given list, or else an empty one, which a notebook draws
    """

    def __init__(
        self,
        to: Callable[[Call | Step], object] | TextIO | list[Call | Step] | str | os.PathLike[str] | None = None,
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
            as_function("trace()", to)
        self._to, self._form = to, ""
        if not is_asked:
            from .trace_forms import form_of

            self._form = form_of(to, form)
        self.events: list[Call | Step] = to if isinstance(to, list) else []
        self._writer: Any = None
        self._listener: Listener | None = None
        self._begun = False

    def __enter__(self) -> Trace:
        if self._listener is not None:
            raise RuntimeError("this trace is running already: make another one")
        self._begun = True
        try:
            if isinstance(self._to, list):
                self._listener = self.events.append
            elif callable(self._to):
                self._listener = partial(self._to)  # which has no == of its own, that remove() would call
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
        """Stop, if an interrupt came between __enter__() and the block, or before __exit__() did anything.

        Warn of a trace without a with block, which heard nothing.
        """
        if getattr(self, "_listener", None) is not None:
            self._stop()
        if not getattr(self, "_begun", True):
            warn(_NO_BLOCK, RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        if not self._begun:
            return f"<{_NO_BLOCK}>"
        if self._listener is not None:
            state = "running"
        else:
            state = "ended"
        if not isinstance(self._to, list):
            return f"<trace, {state}; it keeps no events: trace([]) keeps them>"
        calls = sum(isinstance(event, Call) for event in self.events)
        steps = len(self.events) - calls
        return f"<trace, {state}: {calls} driver calls and {steps} protocol steps; print() lists them>"

    def __str__(self) -> str:
        if not self.events:
            return repr(self)
        from .trace_forms import listed

        lines: str = listed(self.events)
        return lines

    def _stop(self) -> None:
        """Remove the listener, and close the file if this trace opened it; do nothing if that was done already."""
        listener, writer = self._listener, self._writer
        _remove(listeners, listener)
        _remove(careful, listener)
        self._listener = self._writer = None
        if writer is not None:
            writer.end()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Trace belongs to one with block, and cannot be copied or pickled: copy trace.events")

    def _repr_svg_(self) -> str | None:
        from .trace_forms import picture

        drawn: str | None = picture(self.events)
        return drawn

    def _repr_html_(self) -> str:
        from .trace_forms import page

        written: str = page(self.events)
        return written
