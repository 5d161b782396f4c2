"""Copies and fills of runs of bytes in any kind of memory, on any stream: each is one call of the driver.

What it is   `copy_run` and `fill_run`; most copies and fills are one of these. And `Route`, which repeats their calls.
How          Unified addressing: cuMemcpyAsync finds out from the addresses what kind of memory they are.
What not     other layouts, overlapping sides and copies between devices: copies/device_copy.py does them, where these
             functions return False.
Source       CUDA Driver API, "Memory Management", "Unified Addressing"
Read next    ordering.py, copies/device_copy.py
"""

from __future__ import annotations

from functools import partial
from sys import byteorder

from ..arrays.copying import widest
from ..driver import as_argument
from ..owned import drain, dropped
from ..remembered import Remembered
from ..tracing import careful
from .calls import UNTRIED
from .context import reaches
from .handles import capturing
from .memory import Memory
from .ordering import PAGEABLE, end_work, keep, make_ready, refuse_capture
from .queue import StreamHandle, calls_on, home_of, work_handle
from .retention import retained, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..arrays.copying import Form, Side
    from .context import PrimaryContext

__all__ = ["FILLS_OF_ROWS", "LARGEST_PITCH", "copy_run", "fill_run"]

LARGEST_PITCH = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices so far


class Route:
    """A stream, and the calls on it that copied to one target or filled it; the same again only repeats the call.

    The calls depend on nothing but the two sides and the stream, which never change. repeat() checks what can change.

    stream   as it was given; a handle instead of an object of another library
    queue    the stream as an argument
    using    what must be open: the Stream, or else the context
    context  of the calls, and of the target; inside: whether it must be current during the calls
    finish   makes a call that was not made yet, or that failed
    missed   the copies that were not kept since the table is full
    ready    the calls without their last arguments; of a copy by the argument of the source's Side, which the call
             keeps, of a fill by the name of the function
    """

    __slots__ = ("stream", "queue", "using", "context", "inside", "finish", "missed", "ready")

    def __init__(self, stream: Any, queue: Any, primary: PrimaryContext, calls: Any) -> None:
        self.stream, self.queue, self.context = stream, queue, primary
        self.using = stream if isinstance(stream, StreamHandle) else primary
        self.inside, self.finish, self.missed = calls is primary.inside, calls.finish, 0
        self.ready: Remembered[Any, Any] = Remembered(_MOST)

    def repeat(self, key: Any, words: tuple[Any, ...], dst: Any, src: Any, to: Side, of: Side, stream: Any) -> bool:
        """Repeat a copy or a fill of two open things of our own by its call, and tell whether that was possible.

        key       `argument` of the source's Side, or the name of the function that fills
        words     the call's arguments before the stream that a fill gives anew
        dst, src  the views or Memories, whose Sides are `to` and `of`; for a fill, both are the target
        order     when the stream reaches it
        """
        call, context = self.ready.answers.get(key), self.context
        if call is None or self.stream is not stream and not self._is_on(stream):
            return False
        if self.using._handle is None or context._handle is None:
            return False
        before, theirs = dst.stream, src.stream
        if before is not None and before is not stream:
            make_ready(context, self.stream, dst)
        if theirs is not None and theirs is not stream and theirs is not before:
            make_ready(context, self.stream, src)
        code = UNTRIED
        if not careful and (not self.inside or context.current_context() == context._handle):
            code = call(*words, self.queue) if words else call(self.queue)
        if code:
            self.finish(call.func, code, (*call.args, *words, self.queue))
        if to.owner is not None:  # (the stream of a Memory is that of its allocation)
            dst.stream = stream  # its elements will be ready in this stream's order
        if retained:
            sweep()
        if dropped:
            drain()
        return True

    def _is_on(self, stream: Any) -> bool:
        """Tell whether a handle or an object of another library is the stream of this Route."""
        given = self.stream
        if type(given) is not int or stream is None or isinstance(stream, StreamHandle):
            return False
        return given == (stream if type(stream) is int else work_handle(stream))

    @staticmethod
    def words_of(form: Form, pattern: bytes, key: Any) -> tuple[str, tuple[Any, ...]]:
        """Find out which words fill the elements of a form with a pattern, and keep it in form.words.

        key      for the table: the pattern, or the int that was given
        returns  the name of the function, and its arguments after the address (and the pitch); no name if the driver
                 cannot repeat the pattern, or if the elements are neither one run nor rows of words
        """
        word = pattern if len(pattern) in _FILLS else widest(pattern)
        value, width = as_argument(int.from_bytes(word, byteorder)), len(word)
        made: tuple[str, tuple[Any, ...]] = "", ()
        if width and form.size is not None:
            made = _FILLS[width], (value, as_argument(form.nbytes // width))
        elif width:
            row, pitch, rows = form.rows or (1, 0, 0)
            if row <= pitch <= LARGEST_PITCH and not pitch % width:
                made = FILLS_OF_ROWS[width], (value, as_argument(row // width), as_argument(rows))
        form.words.keep(key, made)
        return made


_FILLS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}
FILLS_OF_ROWS = {1: "cuMemsetD2D8Async", 2: "cuMemsetD2D16Async", 4: "cuMemsetD2D32Async"}
_WIDTHS = {name: width for names in (_FILLS, FILLS_OF_ROWS) for width, name in names.items()}
_MOST, _PATIENCE = 32, 256  # entries of a table; copies that a Route does not keep before it begins anew
_once: Any = Route.__new__(Route)  # of a side to which one call was made: most slices are used once
_once.context, _once.ready = None, Remembered(0)


def _note(
    to: Side, key: Any, stream: Any, queue: Any, primary: PrimaryContext, calls: Any, function: str, *arguments: Any
) -> None:
    """Keep a call between things of our own for Route.repeat(), if the stream is of this context for good.

    stream     None, a StreamHandle or a handle
    arguments  the first ones of the function
    """
    route = to.route
    if route is _once or route.stream is not stream and not route._is_on(stream):
        if calls is not primary.inside and getattr(stream, "_primary", None) is not primary and not primary.is_alone:
            return  # the driver is asked each time whose stream it is
        route = Route(stream, queue, primary, calls)
    elif len(route.ready.answers) >= _MOST:  # where each source is new, keeping it would only cost time
        route.missed += 1
        if route.missed < _PATIENCE:
            return
        route.ready.answers.clear()
        route.missed = 0
    route.ready.keep(key, partial(primary.functions[function], *arguments))
    to.route = route


def copy_run(dst: Any, src: Any, to: Side, of: Side, stream: Any) -> bool:
    """Copy one run of bytes to another, and tell whether that was possible.

    dst, src  views or Memories, whose Sides are `to` and `of`; both are open, and at least one has a context
    stream    as for queue.calls_on
    calls     cuMemcpyAsync, cuStreamSynchronize
    order     done on return if either side is pageable, else when the stream reaches it
    """
    primary: Any = to.primary
    if primary is not of.primary:
        if primary is None:
            primary = of.primary
        elif of.primary is not None:
            return False
    if to.address < of.end and of.address < to.end and to.address != of.address:
        return False
    calls, queue, given = _queue_on(stream, primary)
    if calls is None:
        return False
    if capturing and "host" in (to.kind, of.kind):
        refuse_capture(primary, given, PAGEABLE)
    before, theirs = dst.stream, src.stream
    if before is not None and before is not stream:
        make_ready(primary, given, dst)
    if theirs is not None and theirs is not stream and theirs is not before:
        make_ready(primary, given, src)
    try:
        calls.cuMemcpyAsync(to.argument, of.argument, to.form.size, queue)
        if to.ours and of.ours:
            if to.form.dtype is not None:  # (the stream of a Memory is that of its allocation)
                dst.stream = stream  # its elements will be ready in this stream's order
        else:
            _finish(primary, calls, queue, (dst, to), (src, of), given)
    except BaseException as error:
        if not to.ours or not of.ours:  # (the close() of our memory waits for its work)
            end_work(error, primary, queue, dst, src)
        raise
    if to.route is None:
        to.route = _once
    elif to.ours and of.ours:
        arguments = to.argument, of.argument, to.form.size
        _note(to, of.argument, given, queue, primary, calls, "cuMemcpyAsync", *arguments)
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def _queue_on(stream: Any, primary: PrimaryContext) -> tuple[Any, Any, Any]:
    """Return the calls that queue work on a stream, and the stream as their argument, as queue.calls_on() does.

    returns  also the stream in a form that need not be asked for its handle again. For a stream of another device, for
             which close() would not wait, the calls are None
    """
    if primary._handle is None:
        primary.open()
    if isinstance(stream, StreamHandle) and stream._primary is primary:  # saves 130 ns
        return primary.direct, stream._argument or stream._prepare(), stream
    given = stream
    if stream is not None and type(stream) is not int and not isinstance(stream, StreamHandle):
        given = work_handle(stream)
    if given is None or home_of(given, primary) is primary:
        return (*calls_on(given, primary), given)
    return None, None, given


def _finish(
    primary: Any, calls: Any, queue: Any, target: tuple[Any, Side], source: tuple[Any, Side], stream: Any
) -> None:
    """Wait if a side is pageable: nothing keeps it alive, and its owner may use it immediately. Keep other memory."""
    if target[1].kind == "host" or source[1].kind == "host":
        calls.cuStreamSynchronize(queue)
        return
    for thing, side in (target, source):
        keep(primary, stream, thing, side)
    if target[1].form.dtype is not None:
        target[0].stream = stream


def fill_run(target: Any, to: Side, pattern: bytes, key: Any, stream: Any) -> bool:
    """Fill a run of bytes, or rows of them at a pitch, with an element's bytes; tell whether that was possible.

    target  a view or a Memory, whose Side is `to`; it is open, and has a context
    key     the int that was given, or the pattern
    stream  as for queue.calls_on
    calls   cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async, cuMemsetD2D8Async, cuMemsetD2D16Async,
            cuMemsetD2D32Async
    raises  ValueError  the stream is of a device that cannot access the memory
    order   returns at once; done when the stream reaches it
    """
    form, primary, address = to.form, to.primary, to.address + to.form.offset
    function, words = form.words.answers.get(key) or Route.words_of(form, pattern, key)
    if isinstance(stream, StreamHandle) and stream._primary is not primary:
        _check_reach(stream, target, to)
    if not function or address % _WIDTHS[function]:
        return False
    calls, queue, given = _queue_on(stream, primary)
    if calls is None:
        return False
    first: Any = (to.argument,)
    if form.size is None and form.rows is not None:
        first = as_argument(address), as_argument(form.rows[1])
    before = target.stream
    if before is not None and before is not stream:
        make_ready(primary, given, target)
    try:
        getattr(calls, function)(*first, *words, queue)
        if not to.ours:
            keep(primary, given, target, to)
    except BaseException as error:
        if not to.ours:
            end_work(error, primary, queue, target)
        raise
    if form.dtype is not None:
        target.stream = stream
    if to.route is None:
        to.route = _once
    elif to.ours and to.kind != "pinned":  # (outside a capture, the CPU fills that)
        _note(to, function, given, queue, primary, calls, function, *first)
    if retained:
        sweep()
    if dropped:
        drain()
    return True


def _check_reach(stream: StreamHandle, target: Any, to: Side) -> None:
    """Check that the device of a stream can access memory that it is to fill."""
    working, there = stream._primary, to.primary.ordinal
    if working is None or to.kind != "device":
        return
    owner = target if isinstance(target, Memory) else target._owner
    ours = isinstance(owner, Memory)
    if owner.is_accessible_from(working.ordinal) if ours else reaches(working.ordinal, there):
        return
    remedy = f"Device({working.ordinal}).enable_peer_access(Device({there}))"
    raise ValueError(
        f"{stream!r} belongs to device {working.ordinal}, which cannot access memory of device {there}: give a "
        f"stream of device {there}, or call {owner._remedy(working.ordinal) if ours else remedy} first"
    )
