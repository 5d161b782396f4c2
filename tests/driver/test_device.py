"""Devices, primary contexts, and the current context afterwards."""

import contextlib
import ctypes
import re
import threading

import pytest

from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")


def current():
    context = cuda_h.CUcontext()
    rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
    return context.value


def test_facts(device):
    assert device.name and device.total_memory >= device.free_memory > 0
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", device.uuid)
    major, minor = device.compute_capability
    assert major >= 3 and minor >= 0
    assert (
        device.attribute("MAX_THREADS_PER_BLOCK")
        == device.attribute("cu_device_attribute_max_threads_per_block")
        == device.attribute(1)
        >= 512
    )
    assert device in rawcuda.devices() and device == rawcuda.Device(0) and hash(device) == hash(rawcuda.Device(0))


def test_an_unknown_attribute_suggests_names(device):
    with pytest.raises(ValueError, match="MAX_THREADS_PER_BLOCK"):
        device.attribute("MAX_THREAD_PER_BLOCKS")


def test_ordinals_that_do_not_exist():
    for ordinal in (-1, len(rawcuda.devices()), 2**40):
        with pytest.raises(ValueError, match="this driver sees"):
            rawcuda.Device(ordinal)
    for ordinal in ("0", 0.0, None, True):
        with pytest.raises(TypeError):
            rawcuda.Device(ordinal)


def test_nothing_is_left_pushed(device):
    before = current()
    memory = device.allocate(16)
    with device.stream() as stream, device.event() as event:
        stream.record(event)
        stream.synchronize()
    memory.close()
    device.synchronize()
    rawcuda.synchronize()
    assert current() == before


def test_a_foreign_current_context_is_put_back(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    other = rawcuda.Device(1)
    with other.current():
        theirs = current()
        assert theirs == other.context
        device.allocate(16).close()
        with device.current():
            assert current() == device.context
        assert current() == theirs


def test_current_pushes_nothing_when_it_is_current(device):
    calls = []
    with device.current():
        with rawcuda.trace(lambda event: calls.append(event.name)):
            with device.current():
                pass
    assert "cuCtxPushCurrent_v2" not in calls and "cuCtxPopCurrent_v2" not in calls


@pytest.mark.parametrize("outside", [False, True], ids=["pushed", "current already"])
def test_what_current_returns_is_for_one_block_at_a_time(device, outside):
    """It knows of one push, so a second block would pop the context of the first one, or of another thread."""
    once, seen = device.current(), []

    def work():
        with pytest.raises(ValueError, match=r"call current\(\) again"):
            with once:
                pass
        seen.append(current())

    with device.current() if outside else contextlib.nullcontext():
        for _ in range(2):  # one after the other
            with once:
                with pytest.raises(ValueError, match="has not ended"):
                    with once:
                        pass
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
                assert current() == device.context
        assert current() == (device.context if outside else None)
    assert seen == [None, None] and current() is None


def test_a_block_that_could_not_begin_can_begin_later(device, monkeypatch):
    once = device.current()
    with monkeypatch.context() as patched:
        patched.setattr(device._primary, "_handle", None)
        with pytest.raises(errors.Closed):
            once.__enter__()
    with once:
        assert current() == device.context


def test_each_thread_has_its_own(device):
    seen = []

    def work():
        with device.allocate(64) as memory:
            seen.append((memory.nbytes, current()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(64, None)] * 8


def test_closing_a_device_while_its_memory_lives(device):
    other = rawcuda.devices()[-1]
    memory, stream = other.allocate(64), other.stream()
    other.close()
    other.close()
    with pytest.raises(errors.Closed):
        other.context
    assert memory.ptr and stream.query()
    memory.close()
    stream.close()
    again = rawcuda.devices()[-1]
    again.allocate(8).close()
    again.synchronize()


@pytest.mark.parametrize("device_first", [True, False])
def test_close_in_both_orders(device_first):
    own = rawcuda.devices()[-1]
    things = [
        own.allocate(8),
        own.allocate(8, kind="pinned"),
        own.allocate(8, kind="managed"),
        own.stream(),
        own.event(),
        own.load(".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }"),
    ]
    for thing in [own, *things] if device_first else [*reversed(things), own]:
        thing.close()
        thing.close()
        assert thing.closed


def test_a_stream_makes_sense_only_on_its_own_devices_kernels(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with (
        rawcuda.Device(1).stream() as stream,
        device.load(".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }") as loaded,
    ):
        with pytest.raises(ValueError, match="on device 1, the kernel on device 0"):
            loaded["k"].launch(grid=1, block=1, stream=stream)
