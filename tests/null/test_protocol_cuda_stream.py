"""Streams of other libraries: section 7 of docs/protocols.md; no driver is needed to read one."""

from __future__ import annotations

import collections
import ctypes
import gc
import weakref

import pytest

from tests.subject import module, rawcuda

cuda_stream, errors = module("protocols.cuda_stream"), module("errors")
handle_from = cuda_stream.handle_from


Pair = collections.namedtuple("Pair", "version handle")


class Offers:
    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def __cuda_stream__(self):
        self.asked += 1
        return self.answer


@pytest.mark.parametrize(
    "handle, result", [(0, 1), (1, 1), (2, 2), (0x7F0000001234, 0x7F0000001234), (2**64 - 1, 2**64 - 1)]
)
def test_7_1_7_3_a_method_or_an_attribute(handle, result):
    offers = Offers((0, handle))
    assert handle_from(offers) == result and offers.asked == 1
    assert handle_from(Offers(Pair(0, handle))) == result

    class Old:  # cuda.core 0.1
        __cuda_stream__ = (0, handle)

    assert handle_from(Old()) == result


@pytest.mark.parametrize("version", [1, 2, -1])
def test_7_2_another_version(version):
    with pytest.raises(errors.ProtocolError) as caught:
        handle_from(Offers((version, 5)))
    assert (caught.value.protocol, caught.value.field) == ("cuda_stream", "version") and str(version) in str(
        caught.value
    )


@pytest.mark.parametrize(
    "answer", [None, 5, (0,), (0, 1, 2), [0, 1], ("0", 1), (0, "1"), (0, None), (0, 1.0), (0, True), (False, 1), "01"]
)
def test_7_2_7_3_not_a_pair_of_ints(answer):
    with pytest.raises(TypeError, match="version, handle"):
        handle_from(Offers(answer))


@pytest.mark.parametrize("handle", [-1, 2**64])
def test_a_handle_that_cannot_be_one(handle):
    with pytest.raises(errors.ProtocolError, match=f"^cuda_stream: handle {handle}: "):
        handle_from(Offers((0, handle)))


def test_its_own_errors_pass():
    class Fails:
        def __cuda_stream__(self):
            raise RuntimeError("its context is gone")

    with pytest.raises(RuntimeError, match="gone"):
        handle_from(Fails())


def test_7_5_streams_older_than_the_protocol():
    class Stream:
        pass

    class ExternalStream(Stream):
        pass

    for name, value, result in (
        ("cuda_stream", 0, 1),
        ("cuda_stream", 77, 77),
        ("ptr", 78, 78),
        ("handle", 79, 79),
        ("handle", ctypes.c_void_p(80), 80),
        ("handle", ctypes.c_void_p(None), 1),
    ):
        stream = ExternalStream()
        setattr(stream, name, value)
        assert handle_from(stream) == result

    class Memory:  # any object may have a ptr or a handle; only stream objects are streams
        ptr = handle = cuda_stream = 5

    for thing in (Memory(), object(), "stream", 1.5, Stream()):
        with pytest.raises(TypeError, match="not a stream"):
            handle_from(thing)


def test_7_4_nothing_of_it_is_kept():
    offers = Offers((0, 5))
    gone = weakref.ref(offers)
    handle_from(offers)
    del offers
    gc.collect()
    assert gone() is None


def test_a_step_is_traced():
    seen = []
    with rawcuda.trace(seen.append):
        handle_from(Offers((0, 0x10)))
    assert [(step.protocol, step.what) for step in seen] == [
        ("cuda_stream", "Offers.__cuda_stream__()")
    ] and "0x10" in str(seen[0])


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 2**40, Offers((0, 0)), Offers((0, 99))])
def test_3_5_host_memory_takes_every_legal_stream_and_sends_none(stream):
    from tests.null.producers import Exporter, Tensor

    exporter = Exporter(Tensor())
    assert rawcuda.view(exporter, stream=stream).device == ("cpu", 0) and exporter.asked == [{"max_version": (1, 3)}]
    assert rawcuda.view(bytearray(3), stream=stream).shape == (3,)


@pytest.mark.parametrize(
    "stream, error",
    [
        (0, ValueError),
        (-2, ValueError),
        (2**64, ValueError),
        (True, TypeError),
        (False, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (object(), TypeError),
        (Offers((1, 5)), errors.ProtocolError),
        (Offers(5), TypeError),
    ],
)
def test_what_is_no_stream_is_refused_for_host_memory_too(stream, error):
    with pytest.raises(error):
        rawcuda.view(bytearray(3), stream=stream)


def test_the_label_cuda_asks_for_no_driver(python):
    result = python(
        """
        import sys
        from tests.subject import rawcuda, module, NAME
        from tests.null.producers import Exporter, Tensor
        for device, asked in (((2, 0), {"max_version": (1, 3), "stream": 1}),
                              ((13, 0), {"max_version": (1, 3), "stream": 1}),
                              ((3, 0), {"max_version": (1, 3)}), ((1, 0), {"max_version": (1, 3)})):
            exporter = Exporter(Tensor(device=device))
            v = rawcuda.view(exporter)
            assert exporter.asked == [asked], exporter.asked
            assert v.__dlpack_device__() == device
            w = rawcuda.view(v, protocol="dlpack")
            assert w.device == v.device and w.ptr == v.ptr
        assert not module("driver").is_loaded()
        print("no driver")
    """,
        env={"RAWCUDA_DRIVER": "/nonexistent/libcuda.so"},
    )
    assert result.stdout == "no driver\n", result.stderr
