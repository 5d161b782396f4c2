"""Host functions: Python functions that a stream calls between two pieces of work.

What it is   `call`, which queues the call of a function; `raise_from` and others, which raise its exception later.
How          The driver calls one C function of ours, with a number, in a thread of its own. The number leads to the
             Python function, which a table keeps alive until it has run. A function in a graph is kept alive by the
             graph. The table has only a weak reference to it, because the function may refer to the graph. An exception
             cannot pass through the driver. It is put into the list `failed` of stream_arguments.py, together with an
             Origin, which represents the stream. The next synchronization of the stream or its device raises it. When
             the interpreter ends, we wait for the functions that have not returned yet, because Python code cannot
             run later, and print the exceptions that were not raised.
             While a function runs, calls of the driver in its thread are refused before the driver is asked, which may
             wait for ever instead of refusing them.
Source       CUDA Driver API, cuLaunchHostFunc: the function must not call the driver
Read next    gpu/streams/stream_values.py
"""

from __future__ import annotations

import ctypes
from _thread import get_ident
from _weakref import ref
from functools import partial
from itertools import count

from ...arguments import as_function
from ...driver import as_argument
from ...errors import CudaError
from ...interpreter.cpython import immortal
from ...ownership import forked, invalidate, serving
from ...tracing import careful
from .context import attempt, held_contexts
from .points import capture_number, capturing, own_stream
from .stream_arguments import PER_THREAD, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .stream_arguments import StreamHandle

__all__ = ["call", "calls_of", "for_graph", "forget_calls", "raise_from", "raise_from_device"]

_MANY = [64]  # streams, after which those that were closed are removed from the table
_ANY = -1  # the ordinal for an unknown device: the stream is borrowed, or any may launch the graph


class Origin:
    """The stream on which functions were queued; their exceptions are stored with it.

    stream  a weak reference to the Stream, or None for a stream that we do not own
    """

    __slots__ = ("ordinal", "stream")

    def __init__(self, ordinal: int, stream: Callable[[], StreamHandle | None] | None) -> None:
        self.ordinal, self.stream = ordinal, stream

    def is_stale(self) -> bool:
        """Tell whether the stream was closed, so that its handle may belong to another stream now."""
        if self.stream is None:
            return False
        stream = self.stream()
        return stream is None or stream.closed


class _Call:
    """A call that will be made."""

    __slots__ = ("function", "arguments", "origin", "__weakref__")

    def __init__(self, function: Callable[..., object], arguments: tuple[object, ...], origin: Origin) -> None:
        self.function, self.arguments, self.origin = function, arguments, origin


_OF_GRAPHS = Origin(_ANY, None)  # of all functions in graphs, which any stream of any device may launch
# By the number that the driver passes:
_calls: dict[int, _Call] = {}  # those that are made once, until they have returned
_graph_calls: dict[int, Callable[[], _Call | None]] = {}  # those of graphs, which may run several times
_forever: list[object] = []  # those of graphs of other software
_origins: dict[tuple[int, int], Origin] = {}  # by device and stream, except those of per-thread streams
_numbers = count(1)
_MOST_KEPT = 100  # exceptions that wait to be raised; an older one is printed
_thunk: list[object] = []  # the C function, as an argument, after it was first needed
_addresses: list[int] = []  # its address


def _run(given: int | None) -> None:
    """Make the call with a number; this runs in a thread of the driver."""
    number = given or 0
    made = _calls.get(number) or _graph_calls.get(number, _no_call)()
    if made is None:
        return
    ident = get_ident()
    serving.append(ident)
    careful.append(_run)
    invalidate()  # launches check no more than the token while it is valid
    try:
        made.function(*made.arguments)
    except BaseException as error:  # even SystemExit: there is no caller to end
        failed.append((made.origin, error))
        if len(failed) > _MOST_KEPT:  # nobody waits for their streams
            _print(failed.pop(0)[1])
    finally:
        _calls.pop(number, None)  # (until now, so that Python waits for the function before it ends)
        made = None  # what only the function refers to ends here: its finalizers may not call the driver either
        careful.remove(_run)
        serving.remove(ident)


def _no_call() -> None:
    """Return None, as the weak reference to the call of a destroyed graph does."""


def _in_graph(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[int, _Call]:
    """Return a number for a call by a graph, and an object: the call is made only while this exists."""
    made, number = _Call(function, arguments, _OF_GRAPHS), next(_numbers)
    # No Python code, in which an interrupt would be lost: pop() takes the reference as the default.
    _graph_calls[number] = ref(made, partial(_graph_calls.pop, number))
    return number, made


def _function() -> object:
    if not _thunk:
        import atexit

        thunk = immortal(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_run))
        atexit.register(_finish)
        address = ctypes.cast(thunk, ctypes.c_void_p).value or 0
        _addresses.append(address)
        _thunk.append(as_argument(address))
    return _thunk[0]


def call(stream: StreamHandle, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Queue the call of a function on a stream; it runs when the work before it is done, and later work waits for it.

    calls   cuLaunchHostFunc, cuStreamGetCaptureInfo
    raises  TypeError   not a function, or a coroutine or generator function
            Closed      the stream is closed
    """
    as_function("call()", function)
    queue = stream._argument or stream._prepare()
    if stream._primary is None:
        ordinal = _ANY
    else:
        ordinal = stream._primary.ordinal
    captured = capture_number(stream._calls, queue)
    if captured is None:
        number = next(_numbers)
        made = _calls[number] = _Call(function, arguments, _origin_of(stream, ordinal))
    else:  # (in a capture of other software, we are not told when the graph is destroyed)
        number, made = _in_graph(function, arguments)
        noted = capturing.get(captured)
        kept = _forever if noted is None else noted.kept
        kept.append(made)
    try:
        stream._calls.cuLaunchHostFunc(queue, _function(), as_argument(number))
    except (CudaError, ValueError):  # after an interrupt, the function may be queued
        _calls.pop(number, None)
        made.function, made.arguments = _no_call, ()  # (to remove it from `kept` would call the == of others there)
        raise


def calls_of(ordinal: int) -> list[int]:
    """Return the numbers of the calls that have not returned on the streams of a device.

    Those of streams that we do not own are included if no other device is in use.
    """
    ours = {ordinal, _ANY} if all(primary.ordinal == ordinal for primary in held_contexts()) else {ordinal}
    return [number for number, made in list(_calls.items()) if made.origin.ordinal in ours]


def forget_calls(numbers: list[int]) -> None:
    """Keep no longer what these calls refer to: their context has ended, so that they will not be made."""
    for number in numbers:
        _calls.pop(number, None)


def for_graph(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[int, int, object]:
    """Prepare the call of a function by a node of a graph.

    returns  the address of the C function, its argument, and an object to keep as long as the node may run
    raises   TypeError  not a function, or a coroutine or generator function
    """
    as_function("callback()", function)
    number, made = _in_graph(function, arguments)
    _function()
    return _addresses[0], number, made


def _origin_of(stream: StreamHandle, ordinal: int) -> Origin:
    key = ordinal, stream.handle
    if key[1] == PER_THREAD:  # the table would have an entry for each thread that has ended
        own = own_stream()
        own.origin = own.origin or Origin(_ANY, None)
        return own.origin  # type: ignore[no-any-return]
    found = _origins.get(key)
    if found is None or found.is_stale():
        if len(_origins) > _MANY[0]:
            for old in [key for key, origin in list(_origins.items()) if origin.is_stale()]:
                _origins.pop(old, None)
            _MANY[0] = max(64, 2 * len(_origins))  # so that a search among open streams comes ever more seldom
        found = _origins[key] = Origin(ordinal, None if stream._primary is None else ref(stream))
    return found


# -- raising the exceptions of functions


def raise_from(stream: StreamHandle) -> None:
    """Raise the oldest exception of a function of a stream, or of any graph."""
    handle = stream.handle
    if stream._primary is None:
        ours = {id(found) for key, found in list(_origins.items()) if key[1] == handle}
        if handle == PER_THREAD:
            ours.add(id(own_stream().origin))
    else:
        ours = {id(_origins.get((place, handle))) for place in (stream._primary.ordinal, _ANY)}
    _raise_first(lambda origin: origin is _OF_GRAPHS or id(origin) in ours and not origin.is_stale())


def raise_from_device(ordinal: int | None) -> None:
    """Raise the oldest exception of a function of any stream of a device, or of any graph; None is any device."""
    _raise_first(lambda origin: ordinal is None or origin.ordinal in (ordinal, _ANY))


def _raise_first(chosen: Callable[[Origin], bool]) -> None:
    for entry in tuple(failed):
        if chosen(entry[0]):
            try:
                failed.remove(entry)
            except ValueError:  # another thread raises it
                continue
            raise entry[1]


def _finish() -> None:
    """Wait for functions that have not returned yet, and print exceptions that were not raised, when Python ends."""
    if forked:
        return
    elsewhere = bool(_graph_calls)  # whether functions may run on streams that we do not know
    for made in [*_calls.values()]:
        stream = made.origin.stream and made.origin.stream()
        queue = stream and stream.queue()
        if stream and queue:
            attempt(stream._calls.cuStreamSynchronize, queue)
        else:
            elsewhere = True
    for primary in held_contexts() if elsewhere else ():  # (other work may wait for something that will not come)
        attempt(primary.calls.cuCtxSynchronize)
    while failed:
        _print(failed.pop(0)[1])


def _print(error: BaseException) -> None:
    """Print an exception that will not be raised."""
    import sys

    sys.excepthook(type(error), error, error.__traceback__)
