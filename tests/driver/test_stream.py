"""Streams, events, and streams that come from outside."""

import ctypes
import threading

import pytest

from tests.subject import module, rawcuda

errors, streams = module("errors"), module("gpu.streams.stream")


def test_life(device):
    with device.stream() as stream:
        assert stream.device == device and stream.handle > 2 and not stream.borrowed
        assert stream.query() is True
        stream.synchronize()
        assert stream.__cuda_stream__() == (0, stream.handle)
    assert stream.closed and "closed" in repr(stream)
    for use in (stream.synchronize, stream.query, stream.record, stream.__cuda_stream__, lambda: stream.wait(None)):
        with pytest.raises(errors.Closed):
            use()


def test_priority(device):
    with device.stream(priority=-1) as stream:
        assert stream.priority in (-1, 0)  # a device may have only one priority


def test_the_default_streams_are_not_closed():
    for stream, handle in ((rawcuda.Stream.legacy, 1), (rawcuda.Stream.per_thread, 2)):
        stream.close()
        assert stream.handle == handle and stream.detach() == handle and not stream.closed and stream.borrowed


def test_borrowing(device):
    with device.stream() as stream:
        borrowed = rawcuda.Stream.from_handle(stream.handle)
        assert borrowed == stream and hash(borrowed) == hash(stream) and borrowed.borrowed
        assert rawcuda.Stream.from_handle(stream) == stream
        borrowed.close()
        assert stream.query()
        with pytest.raises(ValueError, match="give an event"):
            rawcuda.Stream.from_handle(stream.handle).record()


def test_events(device):
    with device.stream() as stream, device.event(timing=True) as start, device.event(timing=True) as end:
        assert start.query() is True  # never recorded: no wait is needed
        stream.record(start)
        assert end.record(stream) is end
        end.synchronize()
        assert end.query() is True and 0 <= end.elapsed_ms(start) < 60_000
        new = stream.record()
        new.synchronize()
        new.close()


def test_elapsed_needs_timing_and_records(device):
    with device.event() as plain, device.event(timing=True) as timed, device.event(timing=True) as other:
        with pytest.raises(ValueError, match="timing=True"):
            timed.elapsed_ms(plain)
        with pytest.raises(errors.InvalidUse, match=r"was not recorded, .*: record\(\) both events before"):
            timed.elapsed_ms(other)


def test_what_is_closed_is_still_a_key_of_a_dict(device):
    borrowed_from, graph_pool = device.stream(), device.memory_pool()
    things = [device.stream(), rawcuda.Stream.from_handle(borrowed_from), device.event(), graph_pool]
    table, numbers = dict.fromkeys(things, 1), [hash(thing) for thing in things]
    for thing, number in zip(things, numbers):
        thing.close()
        assert hash(thing) == number and thing == thing and table.pop(thing) == 1
    assert not table and device.stream() != things[0]


def test_waiting(device):
    with device.stream() as one, device.stream() as two, device.event() as event:
        one.record(event)
        two.wait(event)
        two.wait(one)
        two.wait(two)
        two.wait(None)
        rawcuda.Stream.legacy.wait(two)
        two.synchronize()
        with pytest.raises(ValueError, match="their device is not known"):
            rawcuda.Stream.legacy.wait(rawcuda.Stream.per_thread)
        one.close()
        with pytest.raises(errors.Closed):
            two.wait(one)


def test_prepared_waits_of_many_streams(device, monkeypatch):
    queue = module("gpu.core.stream_arguments")
    queue._ways.clear()
    with device.stream() as one, device.stream() as two:
        for _ in range(2):
            two.wait(one)
            two.wait(one.handle)
            rawcuda.Stream.legacy.wait(one)
        assert {key[1::2] for key in queue._ways.answers} == {(one.handle, two.handle), (one.handle, 1)}
        flag, seen = device.allocate(4, kind="pinned").view("uint32").memoryview(), []
        flag[0] = 0
        one.wait_value(rawcuda.view(flag).ptr, 1)
        one.call(seen.append, "first")
        two.wait(one)
        two.call(seen.append, "second")
        flag[0] = 1
        two.synchronize()
        assert seen == ["first", "second"]
        for wrong in (-1, 0, 2**64):
            with pytest.raises(ValueError):
                queue.record_and_wait(device._primary, wrong, two)
            with pytest.raises(ValueError):
                queue.record_and_wait(device._primary, one, wrong)
        queue._ways.answers.update({number: () for number in range(1000)})
        rawcuda.Stream.per_thread.wait(one)
        assert len(queue._ways) == 1
        for _ in range(2):  # not after it was closed
            one.close()
            with pytest.raises(errors.Closed):
                queue.record_and_wait(device._primary, one, two)


def test_a_default_stream_where_no_context_is_current(python):
    result = python(
        """
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        for attempt in range(3):
            try:
                rawcuda.Stream.legacy.synchronize()
                print(rawcuda.Stream.per_thread.query())
            except ValueError as error:
                print(error)
            if attempt == 0:
                memory = device.allocate(8)              # now there is one context, and it is clear which is meant
            elif len(rawcuda.devices()) > 1:
                rawcuda.Device(1).context                # and now there are two
            else:
                break
        with device.current():
            rawcuda.Stream.legacy.synchronize()
        if attempt == 1:
            print("with device.current()")               # one device only
    """,
        check=True,
    )
    first, second, *third = result.stdout.splitlines()
    assert "with device.current()" in first and second == "True" and "with device.current()" in third[0]


def test_waiting_for_streams_of_others(device):
    class Theirs:
        device = "cuda:0"  # as in torch's streams: not our Device

        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    with device.stream() as one, device.stream() as two:
        one.wait(Theirs(two.handle))
        with pytest.raises(ValueError, match="their device is not known"):
            rawcuda.Stream.legacy.wait(Theirs(two.handle))
        rawcuda.Stream.legacy.wait(None)  # itself


@pytest.mark.parametrize("kind", [rawcuda.Stream, rawcuda.Event])
def test_made_of_something_else_than_a_device(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} needs a Device, not an int"):
        kind(0)


def test_elapsed_since_something_else(device):
    with (
        device.event(timing=True) as event,
        pytest.raises(TypeError, match="needs the Event to measure from, not a float"),
    ):
        event.elapsed_ms(1.0)


class Foreign:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


class Index:
    def __index__(self):
        return 77


@pytest.mark.parametrize(
    "given, handle",
    [
        (None, 1),
        (-1, -1),
        (1, 1),
        (2, 2),
        (3, 3),
        (2**64 - 1, 2**64 - 1),
        (Index(), 77),
        (Foreign((0, 0)), 1),
        (Foreign((0, 1)), 1),
        (Foreign((0, 5)), 5),
    ],
)
def test_streams_from_outside(given, handle):
    assert streams.handle_of(given) == handle


@pytest.mark.parametrize(
    "given",
    [
        0,
        -2,
        2**64,
        True,
        False,
        1.0,
        "1",
        b"1",
        object(),
        Foreign((1, 5)),
        Foreign(5),
        Foreign((0, True)),
        Foreign((0, -5)),
        Foreign((0,)),
    ],
)
def test_what_is_no_stream(given):
    with pytest.raises((ValueError, TypeError, errors.ProtocolError)):
        streams.handle_of(given)


def test_no_sync_can_do_no_work(device):
    with pytest.raises(ValueError, match="NO_SYNC"):
        device.allocate(8, stream=rawcuda.NO_SYNC)


def test_dropped_streams_are_destroyed_later(device):
    device.stream(), device.event()
    module("ownership").drain()


def test_what_is_retained_goes_when_the_work_is_done(device):
    retention = module("gpu.core.points")
    rawcuda.synchronize()
    assert not retention.retained

    class Thing:
        alive = 0

        def __init__(self):
            Thing.alive += 1

        def __del__(self):
            Thing.alive -= 1

    with device.stream() as stream:
        for handle in (stream.handle, 1, 2):
            for _ in range(40):
                retention.sweep()
                retention.retain(device, handle, Thing())
            assert Thing.alive <= 40 and len(retention.retained) <= 8
            rawcuda.synchronize()
            assert Thing.alive == 0 and not retention.retained


@pytest.mark.parametrize("wrong", [b"", 5, "x"])
def test_record_wants_an_event(device, wrong):
    with device.stream() as stream, pytest.raises(TypeError, match="needs an Event"):
        stream.record(wrong)


@pytest.mark.parametrize("wrong, error", [(1.5, TypeError), (True, TypeError), ("1", TypeError), (2**40, ValueError)])
def test_priorities_that_are_none(device, wrong, error):
    with pytest.raises(error, match="priority"):
        device.stream(priority=wrong)


# -- more about streams and events


def test_every_stream_has_its_own_id(device):
    seen = {rawcuda.Stream.from_handle(device.stream().handle).id for _ in range(3)}
    with device.stream() as stream, device.current():
        seen |= {stream.id, rawcuda.Stream.legacy.id, rawcuda.Stream.per_thread.id}
        assert stream.id == rawcuda.Stream.from_handle(stream.handle).id
    assert len(seen) == 6
    with pytest.raises(errors.Closed):
        stream.id


def test_blocking_streams_wait_for_the_legacy_stream(device):
    with device.stream() as free, device.stream(nonblocking=False) as tied, rawcuda.Stream(device, priority=-1) as high:
        assert free.is_nonblocking and high.is_nonblocking and not tied.is_nonblocking
        flag, seen = device.allocate(4, kind="pinned").view("uint32").memoryview(), []
        flag[0] = 0
        tied.wait_value(rawcuda.view(flag).ptr, 1)
        tied.call(seen.append, "tied")
        with device.current():
            rawcuda.Stream.legacy.call(seen.append, "legacy")
            free.call(seen.append, "free")
            free.synchronize()
            assert seen == ["free"]
            flag[0] = 1
            rawcuda.Stream.legacy.synchronize()
        assert seen == ["free", "tied", "legacy"]


def test_the_default_stream_of_each_thread_is_its_own(device):
    flag, seen = device.allocate(4, kind="pinned").view("uint32").memoryview(), []
    flag[0] = 0

    def work():
        with device.current():
            rawcuda.Stream.per_thread.call(seen.append, "other thread")
            rawcuda.Stream.per_thread.synchronize()

    with device.current():
        rawcuda.Stream.per_thread.wait_value(rawcuda.view(flag).ptr, 1)
        rawcuda.Stream.per_thread.call(seen.append, "this thread")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == ["other thread"]
        flag[0] = 1
        rawcuda.Stream.per_thread.synchronize()
        assert seen == ["other thread", "this thread"]


def test_blocking_events(device):
    with device.event(blocking=True) as plain, device.event(True, blocking=True) as timed, device.stream() as stream:
        assert plain.blocking and timed.blocking and timed.timing and not plain.timing and not device.event().blocking
        for event in (plain, timed):
            stream.record(event)
            event.synchronize()
            assert event.query()
        again = device.event(timing=True).record(stream)
        again.synchronize()
        assert again.elapsed_ms(timed) >= 0


def test_external_events_belong_to_the_graph(device):
    seen = []
    with device.stream() as stream, device.stream() as other, device.event() as event, device.event() as inner:
        with stream.capture() as graph:
            stream.call(seen.append, "before")
            event.record(stream, external=True)
        assert event.query() is True, "nothing was recorded yet"
        with other.capture() as waiting:
            other.wait(event, external=True)
            other.call(seen.append, "after")
        for _ in range(2):
            graph.launch(stream)
            waiting.launch(other)
            other.synchronize()
            stream.synchronize()
        assert seen == ["before", "after"] * 2
        event.synchronize()
        for refused in (lambda: inner.record(stream, external=True), lambda: stream.wait(inner, external=True)):
            with pytest.raises(errors.InvalidUse):
                refused()
        with pytest.raises(TypeError, match="external=True is for an Event"):
            stream.wait(other, external=True)
        graph.close()
        waiting.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize(
    "mode, elsewhere, here", [("global", True, True), ("thread_local", False, True), ("relaxed", False, False)]
)
def test_capture_modes(device, mode, elsewhere, here):
    """Which threads are refused a call that could wait for the device, such as an allocation by the C function."""
    refused = []

    def allocate(where):
        pointer = ctypes.c_uint64()
        with device.current():
            try:
                rawcuda.cu.cuMemAlloc_v2(ctypes.byref(pointer), 64)
            except errors.InvalidUse:
                refused.append(where)
            else:
                freed.append(pointer.value)

    for where in ("elsewhere", "here"):
        freed = []
        with device.stream() as stream:
            graph = stream.capture(mode)
            try:
                with graph:
                    if where == "here":
                        allocate(where)
                    else:
                        thread = threading.Thread(target=allocate, args=(where,))
                        thread.start()
                        thread.join()
            except errors.InvalidUse:  # the refusal invalidated the capture
                assert refused
            graph.close()
        with device.current():
            for address in freed:
                rawcuda.cu.cuMemFree_v2(address)
    assert ("elsewhere" in refused, "here" in refused) == (elsewhere, here)


def test_memory_is_not_freed_before_the_work_that_is_queued_after_detach(device):
    """The stream exists after detach(), and others use it."""
    stream, result = device.stream(), device.allocate(1 << 20, kind="pinned").fill(0)
    memory = device.allocate(1 << 20, stream=stream)
    handle = stream.detach()
    with pytest.raises(errors.Closed):
        stream.detach()
    other = rawcuda.Stream.from_handle(handle)
    memory.fill(7, stream=other)
    result.copy_from(memory, stream=other)
    heard = []
    with rawcuda.trace(heard):
        memory.close()
    made = [event.name for event in heard if hasattr(event, "name")]
    assert made.index("cuCtxSynchronize") < made.index("cuMemFree_v2")
    other.synchronize()
    assert set(result.view().tolist()) == {7}
    with device.current():
        rawcuda.cu.cuStreamDestroy_v2(rawcuda.cu.CUstream(handle))


def test_what_was_written_before_detach_is_waited_for_in_a_capture(device):
    """A wait for the device would break the capture; the end of that work is known."""
    stream, other = device.stream(), device.stream()
    memory, target = device.allocate(64).fill(7, stream=stream), device.zeros(64, "uint8")
    device.synchronize()
    memory.fill(8, stream=stream)
    handle = stream.detach()
    with other.capture() as graph:
        target.copy_from(memory, stream=other)
    graph.launch(other)
    other.synchronize()
    assert set(target.tolist()) == {8}
    with device.current():
        rawcuda.cu.cuStreamDestroy_v2(rawcuda.cu.CUstream(handle))


@pytest.mark.parametrize("wait", ["stream", "point"])
def test_an_error_of_a_new_event_is_shown_alone(device, monkeypatch, wait):
    """An event is made where none is left over; its error was shown below the IndexError of the look-up."""
    primary, refused = device._primary, rawcuda.CudaError("refused", code=999)

    def refuse(*arguments):
        raise refused

    with device.stream() as stream, device.stream() as other:
        spare, primary.pool[:] = list(primary.pool), []
        monkeypatch.setitem(primary.calls.__dict__, "cuEventCreate", refuse)
        with pytest.raises(rawcuda.CudaError) as caught:
            stream.wait(other) if wait == "stream" else module("gpu.core.points").end_now(primary, stream)
        monkeypatch.undo()
        primary.pool.extend(spare)
    assert caught.value is refused and refused.__context__ is None
