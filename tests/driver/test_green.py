"""Green contexts: parts of a device's multiprocessors."""

import array
import copy
import gc
import pickle
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def smallest(device):
    """Return the size of the smallest part, for tests that need two parts."""
    if not rawcuda.cu.has("cuGreenCtxStreamCreate"):
        pytest.skip("the driver has no green contexts")
    with device.split(1) as (part,):
        size = part.sm_count
    if device.attribute("MULTIPROCESSOR_COUNT") < 2 * size:
        pytest.skip("the device is too small")
    return size


def test_split(device, smallest):
    total = device.attribute("MULTIPROCESSOR_COUNT")
    with device.split(smallest, rest=True) as (small, rest):
        assert small.sm_count == smallest and small.sm_count + rest.sm_count <= total
        assert small.device == device and small.id != rest.id and not small.closed
        assert small.context and f"{smallest} multiprocessors" in repr(small)
    assert small.closed and rest.closed and "closed" in repr(small)
    with device.split(smallest, smallest) as parts:
        assert isinstance(parts, tuple) and len(parts) == 2
        first, second = parts
        assert {first.sm_count, second.sm_count} == {smallest}
    with device.split(total - 1 or 1) as (whole,):
        assert total - 1 <= whole.sm_count <= total
    with device.split(total) as (whole,):
        assert whole.sm_count == total


def test_work_in_green_contexts(device, smallest):
    n = 64
    with device.load(kernels.ADD) as loaded, device.split(smallest, rest=True) as (small, rest):
        ones = device.upload(array.array("f", [1.0] * n))
        out = device.empty(n, "float32")
        device.synchronize()
        one, two = small.stream(), rest.stream(priority=-1)
        assert one.device == device and two.priority in (-1, 0)
        loaded["add"].launch(ones, ones, out, n, grid=1, block=n, stream=one)
        two.wait(one)
        loaded["add"].launch(out, ones, out, n, grid=1, block=n, stream=two)
        event = two.record()
        one.wait(event)
        one.synchronize()
        assert out.tolist() == [3.0] * n
        with one.capture() as graph:
            loaded["add"].launch(out, ones, out, n, grid=1, block=n, stream=one)
        graph.launch(two)
        two.synchronize()
        assert out.tolist() == [4.0] * n
        with device.allocate(16, stream=one) as memory:
            memory.fill(1, stream=one)
            one.synchronize()
        graph.close()
        event.close()


def test_events_of_a_whole_green_context(device, smallest):
    seen = []
    with device.split(smallest, rest=True) as (small, rest):
        one, two, other = small.stream(), small.stream(), rest.stream()
        one.call(seen.append, 1)
        two.call(seen.append, 2)
        with small.record() as event:
            rest.wait(event)
            other.call(seen.append, 3)
            other.synchronize()
            assert set(seen[:2]) == {1, 2} and seen[2] == 3
        one.call(seen.append, 4)
        small.synchronize()
        assert seen[3] == 4
        for wrong in (None, 3, one):
            with pytest.raises(TypeError, match="needs an Event"):
                small.wait(wrong)
        with pytest.raises(TypeError, match="needs an Event"):
            small.record(3)


@pytest.mark.parametrize("joined", [True, False])
def test_a_capture_of_one_stream_goes_on(device, smallest, joined):
    with device.split(smallest)[0] as part, device.event() as event, device.stream() as other:
        stream, x = part.stream(), device.zeros(4, "int32")
        part.stream().close()
        with (other if joined else stream).capture() as graph:
            if joined:
                stream.wait(other)
            x.fill(3, stream=stream)
            uses = {"synchronize": part.synchronize, "record": part.record, "wait": lambda: part.wait(event)}
            for name, use in uses.items():
                with pytest.raises(errors.InvalidUse, match=rf"GreenContext\.{name}\(\): a stream of this green"):
                    use()
            if joined:
                other.wait(stream)
        graph.launch(other)
        other.synchronize()
        part.synchronize()
        assert x.tolist() == [3] * 4
        graph.close()


@pytest.mark.parametrize("stream_first", [True, False])
def test_closing_in_both_orders(device, smallest, stream_first):
    (part,) = device.split(smallest)
    stream = part.stream()
    stream.call(int)
    for thing in (stream, part) if stream_first else (part, stream):
        thing.close()
        thing.close()
    assert stream.closed and part.closed
    for use in (stream.synchronize, lambda: part.id, part.stream, part.record, lambda: part.context, part.synchronize):
        with pytest.raises(errors.Closed):
            use()


def test_a_stream_keeps_its_green_context(device, smallest):
    stream = device.split(smallest)[0].stream()
    gc.collect()
    device.stream().close()
    seen = []
    stream.call(seen.append, 1)
    stream.synchronize()
    assert seen == [1]
    del stream
    gc.collect()
    device.stream().close()
    device.synchronize()


def test_other_libraries_give_the_stream_of_a_green_context(device, smallest):
    """They know its handle, whose context is not the primary one unless it is asked for by version 2."""

    class Theirs:
        def __init__(self, stream):
            self.stream = stream

        def __cuda_stream__(self):
            return 0, self.stream.handle

    (part,) = device.split(smallest)
    with part, part.stream() as stream, device.stream() as other, device.allocate(64) as memory:
        if not rawcuda.cu.has("cuStreamGetCtx_v2"):
            pytest.skip("the driver is older than CUDA 12.5")
        for given in (stream.handle, Theirs(stream), rawcuda.Stream.from_handle(stream.handle)):
            memory.fill(7, stream=given)
            other.wait(given)
            view = memory.view()
            view.stream = stream.handle
            assert {*view.tolist()} == {7}


def test_a_stream_is_destroyed_before_its_green_context_where_both_are_in_a_cycle(device, smallest):
    class Engine:
        def __init__(self):
            self.me = self
            self.part = device.split(smallest)[0]
            self.stream = self.part.stream()

    for _ in range(3):
        Engine()
    heard = []
    with rawcuda.trace(heard):
        gc.collect()
        device.stream().close()
    ended = [call.name for call in heard if call.name in ("cuStreamDestroy_v2", "cuGreenCtxDestroy")]
    assert ended == ["cuStreamDestroy_v2"] * 3 + ["cuGreenCtxDestroy"] * 3 + ["cuStreamDestroy_v2"], ended


def test_a_dropped_stream_is_destroyed_before_its_green_context(device, smallest):
    (part,) = device.split(smallest)
    part.stream()
    gc.collect()
    part.close()


def test_close_closes_the_streams_that_two_threads_made(device, smallest, monkeypatch):
    green, other, made = module("gpu.devices.green"), [], []

    def slowly(*arguments):
        if not other:
            other.append(threading.Thread(target=lambda: made.append(part.stream())))
            other[0].start()
            other[0].join()
        return ref(*arguments)

    ref = green.ref
    monkeypatch.setattr(green, "ref", slowly)
    (part,) = device.split(smallest)
    made.append(part.stream())
    part.close()
    assert [each.closed for each in made] == [True, True]


@pytest.mark.parametrize("device_first", [True, False])
def test_the_device_may_be_closed_before(device_first, smallest):
    own = rawcuda.Device(0)
    (part,) = own.split(smallest)
    stream = part.stream()
    for thing in (own, stream, part) if device_first else (stream, part, own):
        thing.close()


def test_it_has_one_owner(device, smallest):
    with device.split(smallest) as (part,):
        for refused in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="GreenContext"):
                refused(part)
        with pytest.raises(TypeError, match="made by Device.split"):
            type(part)()
        handle = part.detach()
        assert part.closed and handle
        rawcuda.cu.cuGreenCtxDestroy(module("headers.cuda_h").CUgreenCtx(handle))


def test_bad_splits(device, smallest):
    total = device.attribute("MULTIPROCESSOR_COUNT")
    for wrong, error, words in (
        ((), ValueError, "needs the number"),
        ((0,), ValueError, "at least 1"),
        ((-1,), ValueError, "at least 1"),
        ((total + 1,), ValueError, "MULTIPROCESSOR_COUNT"),
        ((total, 1), ValueError, "MULTIPROCESSOR_COUNT"),
        ((2**63,), ValueError, "MULTIPROCESSOR_COUNT"),
        ((2**5000,), ValueError, "int of 5001 bits"),
        ((True,), TypeError, "must be an int"),
        ((1.0,), TypeError, "must be an int"),
        (("all",), TypeError, "must be an int"),
        ((None,), TypeError, "must be an int"),
    ):
        with pytest.raises(error, match=words):
            device.split(*wrong)
    with pytest.raises(ValueError, match="are needed|is left"):
        device.split(*[1] * total, rest=True)
    with pytest.raises(ValueError, match="is left"):
        device.split(total, rest=True)
    with device.split(smallest) as (part,):
        for wrong, error in (("x", TypeError), (True, TypeError), (2**40, ValueError)):
            with pytest.raises(error, match="priority"):
                part.stream(wrong)


def test_a_driver_without_green_contexts(device, monkeypatch):
    loaded = device._primary.driver
    real = type(loaded).has
    monkeypatch.setattr(type(loaded), "has", lambda self, name: "Green" not in name and real(self, name))
    with pytest.raises(rawcuda.Unsupported, match="need a driver of CUDA 12.5 or newer; the loaded one is of CUDA"):
        device.split(1)


def test_a_failure_in_the_middle_leaves_nothing(device, smallest, monkeypatch):
    green = module("gpu.devices.green")
    real, made = green.GreenContext._over.__func__, []

    def failing(cls, *arguments):
        if made:
            raise MemoryError("in the middle")
        made.append(real(cls, *arguments))
        return made[0]

    monkeypatch.setattr(green.GreenContext, "_over", classmethod(failing))
    with pytest.raises(MemoryError):
        device.split(smallest, rest=True)
    assert made[0].closed
