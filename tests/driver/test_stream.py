"""Streams, events, and streams that come from outside."""

import pytest

from tests.subject import module, rawcuda

errors, streams = module("errors"), module("gpu.stream")


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
        with pytest.raises(errors.InvalidUse):
            timed.elapsed_ms(other)


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
    module("owned").drain()


def test_what_is_retained_goes_when_the_work_is_done(device):
    retention = module("gpu.retention")
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
