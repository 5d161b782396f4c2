"""Order between streams: which work must be done before other work begins.

What it is   `make_wait`, `wait_on_host` and others, for views and stream handles; all of them are for device-accessible
             memory.
What not     the meaning of a stream given from outside is decided by gpu/core/stream_arguments.py's handle_of and the
             protocols.
How          An event is recorded on the stream that has the work, and the other stream waits for it, on the device;
             nothing is done if both are the same stream. Only `wait_on_host` makes the CPU wait.
Source       CUDA Driver API, "Stream Management", "Event Management"; array API standard, `__dlpack__`, stream
Read next    copies/device_copy.py
"""

from __future__ import annotations

from ... import driver
from ...driver import as_argument
from ...errors import Closed, ContextLost, CudaError, ForkedAfterInit, InvalidUse, refusal
from ...headers.status import INVALID_HANDLE
from ...ownership import is_serving, unless_inside
from ...protocols.description import Description
from ...protocols.device_memory import gpu
from ..core.context import (
    ANY_CALLS,
    FOREIGN,
    PrimaryContext,
    active_contexts,
    context_of,
    held_contexts,
    some_context,
)
from ..core.handles import destroying
from ..core.points import (
    REACHED,
    Point,
    barred_end,
    beginning,
    capture_number,
    capturing,
    end_before,
    end_now,
    finish_context,
    is_barred,
    keep_in_graph,
    retain,
    retained,
    sweep,
    waiting,
)
from ..core.stream_arguments import (
    NO_SYNC,
    PER_THREAD,
    Foreign,
    StreamHandle,
    handle_of,
    home_of,
    is_lasting,
    is_of_another_thread,
    keep_ours,
    noted_form,
    order,
    queue_of,
    release_of,
    settled,
    work_handle,
)
from .memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...arrays.copying import Side

__all__ = [
    "contexts_of",
    "device_of",
    "end_work",
    "finish_given",
    "follow",
    "follow_default",
    "follow_each",
    "hold_back",
    "hold_back_default",
    "hold_captures",
    "keep",
    "keep_foreign",
    "make_ready",
    "make_wait",
    "note",
    "pending_handle",
    "check_host_work",
    "refuse_capture",
    "wait_on_host",
    "synchronize_contexts",
    "uncaptured",
    "wait_for",
    "PAGEABLE",
]

_LEGACY = 1
PAGEABLE = (  # why refuse_capture() refuses
    "a copy from or to pageable host memory is complete on return: use pinned memory, Device.allocate(nbytes, "
    "kind='pinned'), or add the copy with graph.copy()"
)
_AT_ONCE = (
    "the CPU copies and fills page-locked memory of other libraries at once, so that no launch of the graph would "
    "repeat it: use pinned memory, Device.allocate(nbytes, kind='pinned'), or do this outside of the capture"
)


def device_of(view: Description) -> PrimaryContext | None:
    """Return the context of the device that a view's memory belongs to, or None for host memory that is not ours."""
    if isinstance(view.owner, Memory):
        return view.owner._primary
    kind, ordinal = view._place.device or ("cpu", 0)
    if kind not in ("cuda", "cuda_managed") or ordinal is None:
        return None
    primary = context_of(ordinal)
    primary.hold(FOREIGN)
    return primary


def contexts_of(thing: Any) -> list[PrimaryContext]:
    """Return the contexts whose default streams may be meant by the one that a view, a Memory or an array names.

    Page-locked memory of others does not tell on which device it is used: on any.
    """
    primary = device_of(thing) if isinstance(thing, Description) else thing._primary
    return _every_context() if primary is None else [primary]


def _every_context() -> list[PrimaryContext]:
    """Return the contexts that are retained now, for work of other software; they stay retained."""
    homes = held_contexts()
    for home in homes:
        home.hold(FOREIGN)
    return homes


def synchronize_contexts() -> None:
    """Wait until every device has completed all work that this package queued, also after an error of one of them.

    calls   cuCtxSynchronize
    raises  CudaError  the first of these errors
    """
    errors = [error for error in map(_finish_held, held_contexts()) if error is not None]
    if retained:
        sweep(now=True)
    if errors:
        raise errors[0]


def _finish_held(primary: PrimaryContext, what: str = "synchronize()") -> CudaError | None:
    """Wait for all work of a context, which stays open meanwhile, and return the error that this raises."""
    primary.hold(user := object())
    try:
        finish_context(primary, what)
        return None
    except CudaError as error:
        return error
    finally:
        primary.let_go(user)


def pending_handle(view: Description) -> int | None:
    """Return the stream with the pending work on a view's memory, or None if it was viewed without ordering."""
    theirs = _stream_of(view)
    handle = _handle_now(theirs)
    if handle is None:
        _forget_closed(view, theirs)
        return _LEGACY
    if handle == NO_SYNC:
        return None
    return handle


def _stream_of(thing: Any) -> Any:
    """Return the stream that a view, a Memory or an array notes; None, after a wait, for what its object names no more.

    No lock may be held: the object's method is code of the user.
    """
    theirs = thing.stream
    if type(theirs) is Foreign and not theirs.is_named():
        _forget_closed(thing, theirs)
        return thing.stream
    if theirs is None or isinstance(theirs, (int, StreamHandle)):
        return theirs
    return settled(theirs)  # the user has stored an object of other software there


def _handle_now(stream: object) -> int | None:
    """Return the handle of a stream, or None if it was closed.

    Another thread may close a stream at any time, but does not destroy it while `destroying` is held. The per-thread
    stream of another thread has no handle here; the legacy default stream waits for it.
    """
    if is_of_another_thread(stream):
        return _LEGACY
    if isinstance(stream, StreamHandle):
        return stream._handle
    return handle_of(stream)


def _forget_closed(thing: Any, stream: Any) -> None:
    """Wait for the work of a closed stream that was noted in a view, a Memory or an array, which is ready then."""
    _finish_closed(stream)
    if thing.stream is stream:  # (another thread may have written there meanwhile)
        thing.stream = None


def _finish_closed(stream: StreamHandle | Foreign) -> None:
    """Wait on the CPU until the work of a closed stream is done; this does not break a capture.

    calls   cuEventSynchronize
    """
    end = stream.last() if isinstance(stream, StreamHandle) else None
    if end is None:
        synchronize_contexts()
    else:
        end.wait()


def refuse_capture(primary: PrimaryContext, stream: object, why: str) -> None:
    """Refuse work that cannot be captured if the stream takes part in one of our captures; the capture stays valid.

    why     the work, why it cannot be captured, and the remedy
    raises  InvalidUse  the stream is being captured
    """
    if capturing and capture_number(primary.calls, work_handle(stream)) is not None:
        raise InvalidUse(f"the stream is being captured, and {why}")


def check_host_work(stream: object, nbytes: int) -> None:
    """Check a stream that is given for work that the CPU does at once: it must be one, and not be captured.

    nbytes  0: there is no work, so the stream may be captured
    raises  TypeError, ValueError, Closed  as for handle_of()
            InvalidUse  the stream is being captured
    """
    handle = handle_of(stream)
    if not capturing or not nbytes or handle == NO_SYNC:
        return
    try:
        number = capture_number(ANY_CALLS[handle <= PER_THREAD], handle)
    except ValueError:  # no device is current, so that it is not known whose default stream this is
        return
    if number is not None:
        raise InvalidUse(
            "the stream is being captured, and work on pageable host memory is done at once, so that no launch of the "
            "graph would repeat it: use pinned memory, or do this outside of the capture"
        )


def uncaptured(primary: PrimaryContext, stream: object, why: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that does work which cannot be captured; no capture of ours begins until it returns.

    why     as for refuse_capture(), which it calls first
    raises  InvalidUse  the stream is being captured
    """
    wait = object()
    try:
        hold_captures(wait, primary, stream, why)
        return work(*arguments)
    finally:
        try:
            waiting.discard(wait)
        except BaseException:  # before Python 3.11, an interrupt may come here before the call, too
            waiting.discard(wait)
            raise


def hold_captures(wait: object, primary: PrimaryContext, stream: object, why: str) -> None:
    """Let no capture of ours begin until `wait` is discarded from `waiting`; a capture that begins waits for that.

    why     as for refuse_capture()
    raises  InvalidUse  the stream is being captured
    """
    waiting.add(wait)
    if capturing:  # tested afterwards: a capture that begins is in `capturing` before it looks at `waiting`
        waiting.discard(wait)
        with unless_inside(beginning):
            refuse_capture(primary, stream, why)
            waiting.add(wait)


def make_ready(primary: PrimaryContext, stream: object, thing: Any) -> None:
    """Make a stream wait until a view, a Memory or a CUDA array is ready in the order of its own stream.

    stream  as for stream_arguments.work_handle
    """
    theirs = _stream_of(thing)
    if theirs is None or isinstance(thing, Description) and thing._place.is_host:
        return
    if theirs is stream and isinstance(stream, StreamHandle):  # (a number may be the default stream of another device)
        return
    using = work_handle(stream)
    with unless_inside(destroying):
        working, end = _handle_now(theirs), None
        if working is not None and working > PER_THREAD and working != using:
            end = wait_in_order(primary, using, home_of(theirs, primary), working)
    if working is None:
        _forget_closed(thing, theirs)
    elif end is not None:
        end.wait()
    elif 0 < working <= PER_THREAD:
        for home in contexts_of(thing):
            if working != using or home is not primary:
                follow(primary, using, home, working)


def wait_in_order(primary: PrimaryContext, using: int, home: PrimaryContext, working: int) -> Point | None:
    """Make one stream wait for another, and break no capture that either takes part in.

    primary, using  the context and the stream that waits
    home, working   the context and the stream that is waited for
    returns  the Point for which the CPU has to wait, where the stream cannot; None also if other software began the
             capture, so that nothing is known of the work before it
    """
    if working == _LEGACY:
        if is_barred(home.calls):
            return barred_end(home)
        other = None
    else:
        other = capture_number(home.calls, working)
    mine = capture_number(primary.calls, using)
    if mine == other:
        order(home, working, primary, using)
        return None if other is None else end_before(other, working)
    if other is None:  # a graph cannot wait for work outside of it
        return end_now(home, as_argument(working))
    # What was captured is not pending; only what was queued before is.
    return end_before(other, working)


def follow(primary: PrimaryContext, using: int, home: PrimaryContext, working: int) -> None:
    """Make one stream wait for another as wait_in_order(), and wait on the CPU where it cannot."""
    end = wait_in_order(primary, using, home, working)
    if end is not None:
        end.wait()


def follow_default(primary: PrimaryContext, using: int, other: PrimaryContext | None) -> None:
    """Make a default stream wait for the same one of another device, whose memory takes part in a copy.

    using   the handle; for a stream that is no default one, nothing is done
    other   None: memory of other software, which belongs to no device
    """
    if using <= PER_THREAD and other is not None and other is not primary:
        other.open()
        follow(primary, using, other, using)


def hold_back_default(primary: PrimaryContext, using: int, other: PrimaryContext | None) -> None:
    """Make the same default stream of another device wait for a default stream: the opposite of follow_default()."""
    if using <= PER_THREAD and other is not None and other is not primary:
        _hold_back(primary, using, other, using)


def follow_each(homes: list[PrimaryContext], using: int, working: int) -> None:
    """Make one stream wait for another; if it is a default one, or the other is, that of each of these contexts."""
    for primary in homes if using <= PER_THREAD else homes[:1]:
        for home in homes if working <= PER_THREAD else homes[:1]:
            if using != working or using <= PER_THREAD and primary is not home:
                follow(primary, using, home_of(working, home), working)


def note(thing: Any, stream: object) -> None:
    """Note in a view, a Memory or a CUDA array on which stream it was written.

    A Memory and a CUDA array may outlive the streams of other software, and do not note these.
    """
    if isinstance(thing, Description) or is_lasting(stream):
        thing.stream = noted_form(stream)


def keep_foreign(primary: PrimaryContext, stream: object, view: Any) -> None:
    """Keep foreign memory until a stream has completed its work, and make its exporter's stream wait for that."""
    handle, home = work_handle(stream), home_of(stream, primary)
    if type(view) is view._streamed:
        hold_back((view,), handle, primary)
    retain(home, handle, view._owner, release_of(stream))


def keep(primary: PrimaryContext, stream: object, thing: Description | Memory, side: Side) -> None:
    """Keep the memory of a side until a stream has completed its work, if its close() would not wait for that.

    The close() of our memory waits for the work of its own device, and for the work that this waits for; a copy on a
    default stream makes the default streams of both devices wait. A stream of another device needs a lease. Memory that
    was allocated on a stream is freed in the order of that stream: who uses it on another one orders the two.
    """
    if not side.ours:
        keep_foreign(primary, stream, thing)
        return
    is_of_device = side.primary is primary and getattr(stream, "_primary", None) is primary
    if not side.waits or work_handle(stream) > PER_THREAD and not is_of_device:
        keep_ours(primary, stream, thing)


_unfinished: dict[int, object] = {}


def end_work(error: BaseException, primary: PrimaryContext, queue: Any, *things: object) -> None:
    """Wait for the work that a call may have queued before an exception was raised: nothing keeps its memory.

    After an error of the driver in a capture, there is nothing to wait for, and waiting would invalidate the capture.
    In a host function, nothing can have been queued. If the driver refuses the wait, these objects are kept until the
    work is done; if that fails, forever.

    queue   the stream as an argument
    things  the views or Memories whose memory the work uses
    calls   cuStreamSynchronize
    """
    if capturing and isinstance(error, CudaError) or is_serving():
        return
    if capturing and keep_in_graph(primary, queue, things):  # a wait would invalidate the capture
        return
    key = id(things)
    _unfinished[key] = things
    try:
        primary.calls.cuStreamSynchronize(queue)
    except (ContextLost, Closed, ForkedAfterInit):
        pass  # the work ends
    except CudaError as refused:  # for example, in a __del__ inside an emulated kernel
        if refused.code != INVALID_HANDLE:  # (otherwise there is no such stream, and nothing is queued on it)
            try:
                retain(primary, queue, things)
            except CudaError:
                return
    _unfinished.pop(key, None)


def wait_for(thing: Any, side: Side, stream: object) -> bool:
    """Wait on the CPU until a stream has completed its work, and the work that is pending on pinned memory is done.

    returns  False if the stream is being captured, so that nothing can wait for it
    """
    primary, given = side.primary, stream
    if primary is None:  # it is not ours
        finish_given(stream, thing)
        return True
    stream = settled(stream)
    if capture_number(primary.calls, work_handle(stream)) is not None:
        return False
    before = thing.stream
    if before is not None and before is not stream:
        make_ready(primary, stream, thing)
    calls, queue = primary.calls, queue_of(stream)
    if stream is not given or before is not None and before is not stream:
        thing.ptr  # raises Closed: their code may have closed it
    calls.cuStreamSynchronize(queue)
    return True


def make_wait(consumer: int, view: Description) -> None:
    """Make a consumer's stream wait for the pending work on a view's memory.

    consumer   a handle, or -1: no ordering
    """
    if consumer == NO_SYNC or 0 in view.shape or not driver.is_loaded():
        return  # (if no driver is in use, no work of ours can be pending)
    theirs, device, end = _stream_of(view), device_of(view), None
    if device is None:
        _wait_everywhere(consumer, view)
        return
    with unless_inside(destroying):
        working = _handle_now(theirs)
        if working is not None and working != NO_SYNC and working != consumer:
            captured = None
            if working > PER_THREAD:
                captured = capture_number(device.calls, working)
            if captured is not None and captured != capture_number(device.calls, consumer):
                raise refusal(
                    "dlpack",
                    "stream",
                    consumer,
                    f"cannot wait for the view's stream {working:#x} while that is being captured; export "
                    "before the capture, or request it with stream=-1",
                )
            end = wait_in_order(device, consumer, home_of(theirs, device), working)
    if working is None:
        _forget_closed(view, theirs)
    elif end is not None:
        end.wait()


def _wait_everywhere(consumer: int, view: Description) -> None:
    """Make a consumer's stream wait for the work on page-locked memory of others, which belongs to no device.

    A default stream is that of each device. A view without a stream is in the order of the legacy one.
    """
    homes = contexts_of(view)
    if view.stream is None:
        follow_each(homes, consumer, _LEGACY)
        return
    for primary in homes if consumer <= PER_THREAD else homes[:1]:
        make_ready(primary, consumer, view)


def hold_back(views: Iterable[Any], using: int, device: Any) -> None:
    """Make the streams that exporters named wait for our use of their memory.

    Where such a stream cannot wait because of a capture, the CPU does. What is captured runs in the launches of the
    graph, and is waited for by no stream outside of it.

    using    the stream that the use was queued on
    source   CUDA Array Interface (Version 3), "Synchronization": the duty of a consumer that does not use the given
             stream
    """
    primary = getattr(device, "_primary", device)
    for view in views:
        theirs = getattr(view, "exporting_stream", None)
        if theirs is None:
            continue
        homes, home = contexts_of(view), home_of(using, primary)
        for there in homes if theirs <= PER_THREAD else homes[:1]:
            if theirs != using or using <= PER_THREAD and there is not home:
                _hold_back(home, using, there, theirs)


def _hold_back(home: PrimaryContext, using: int, there: PrimaryContext, theirs: int) -> None:
    """Make a stream wait for the work of another one that uses its memory, and wait on the CPU where it cannot."""
    other, mine, barred = capture_number(home.calls, using), None, False
    if theirs == _LEGACY:
        barred = is_barred(there.calls)
    else:
        mine = capture_number(there.calls, theirs)
    if mine == other and not barred:
        order(home, using, there, theirs)
    elif other is None:
        end_now(home, as_argument(using)).wait()


def wait_on_host(view: Description) -> None:
    """Wait on the CPU until the pending work on a view's memory is done.

    Managed memory of a device without concurrent access may be used by the host only while no work at all is pending.

    calls   cuStreamSynchronize, cuCtxSynchronize, cuDeviceGetAttribute, cuDevicePrimaryCtxGetState
    """
    if not driver.is_loaded():
        return
    device = view._place.device
    if device is not None and device[0] == "cuda_managed":
        ordinal = device[1] or 0
        if not gpu.Device(ordinal).attribute("CONCURRENT_MANAGED_ACCESS"):
            _finish_devices(context_of(ordinal))
            return
    finish(view)


def finish(thing: Any) -> None:
    """Wait on the CPU until the copy or fill that wrote a view or a Memory last is done."""
    if isinstance(thing, Description) and thing._place.is_host:
        return
    theirs = _stream_of(thing)
    primary = device_of(thing) if isinstance(thing, Description) else thing._primary
    if not _finish_stream(theirs, primary):
        _forget_closed(thing, theirs)


def _finish_stream(stream: Any, primary: PrimaryContext | None) -> bool:
    """Wait on the CPU until the work of a stream is done; return False, without a wait, if the stream was closed.

    primary  the context of a default stream; None: any stream of all contexts may have worked
    calls    cuStreamSynchronize
    """
    end = None
    with unless_inside(destroying):
        working = _handle_now(stream)
        if primary is None or working is None:
            pass
        elif working == _LEGACY and is_barred(primary.calls):
            end = barred_end(primary) or REACHED
        elif working > _LEGACY or is_of_another_thread(stream):
            home = home_of(stream, primary)
            number = capture_number(home.calls, working)
            if number is None:
                end = end_now(home, as_argument(working))
            else:  # only what was queued before is pending, as for make_ready()
                end = end_before(number, working) or REACHED
    if working is None or working == NO_SYNC:
        return working is not None
    if primary is None:
        synchronize_contexts()
    elif end is not None:
        end.wait()
    else:
        primary.calls.cuStreamSynchronize(as_argument(working))
    return True


def finish_given(stream: object, *things: Any) -> None:
    """Wait on the CPU until a stream has completed its work, and views of host memory of others are ready.

    stream  the one that was given for work that the CPU does; a default stream is that of each device
    raises  ValueError  NO_SYNC
            InvalidUse  the stream is being captured
    """
    handle = work_handle(stream)
    if not driver.is_loaded():
        return
    homes = _every_context()
    if handle > PER_THREAD:
        homes = [home_of(handle, some_context())]  # (an object may name another one if asked again)
    for home in homes:
        refuse_capture(home, handle, _AT_ONCE)
    for thing in things:
        wait_on_host(thing)
    for home in homes:
        _finish_stream(noted_form(handle), home)


_told: list[int] = []  # the devices about which the user was told


def _finish_devices(primary: PrimaryContext) -> None:
    """Wait for all work of every device before the host uses managed memory of one of them, and tell the user once.

    Work of other software counts, too. What an error has ended on another device is not pending.

    calls   cuCtxSynchronize, cuDevicePrimaryCtxGetState
    source  CUDA Programming Guide, "Unified Memory": no access of the CPU to any managed memory while any GPU is active
    """
    if primary.ordinal not in _told:
        import warnings

        _told.append(primary.ordinal)
        warnings.warn(
            f"device {primary.ordinal} has the attribute CONCURRENT_MANAGED_ACCESS 0, so the host may not use managed "
            "memory while any work is pending: all work is waited for before such memory is given to the host; "
            "do the same before each later use, or use pinned memory",
            RuntimeWarning,
            stacklevel=2,
        )
    primary.open()
    for other in active_contexts():
        error = _finish_held(other, "host access to managed memory")
        if error is not None and (other is primary or not isinstance(error, ContextLost)):
            raise error
