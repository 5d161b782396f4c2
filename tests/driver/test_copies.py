"""What a copy or fill examines once, what it asks each time, and on which streams and devices it works."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import math
import mmap
import pickle
import sys
import threading
import types
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors, copying = module("errors"), module("arrays.copying")
STREAMS = ("own", "legacy", "per-thread", "none", "1", "2", "handle", "from_handle", "object")


class StreamObject:
    """An object that supports the CUDA stream protocol."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


class Foreign:
    """An exporter of memory on a device, as another library's array is."""

    def __init__(self, array, stream=None):
        self.array = array
        self.__cuda_array_interface__ = dict(
            shape=array.shape, typestr="|u1", data=(array.ptr, False), strides=None, version=3, stream=stream
        )


def given(stream, name):
    """Return a stream in the form that a name tells."""
    return {
        "own": stream,
        "legacy": rawcuda.Stream.legacy,
        "per-thread": rawcuda.Stream.per_thread,
        "none": None,
        "1": 1,
        "2": 2,
        "handle": stream.handle,
        "from_handle": rawcuda.Stream.from_handle(stream.handle),
        "object": StreamObject(stream.handle),
    }[name]


def things(device, kind, data):
    """Make what holds these bytes, in memory of a kind."""
    if kind == "bytearray":
        return bytearray(data)
    if kind == "foreign":
        return rawcuda.view(Foreign(device.upload(data)), stream=-1)
    if kind == "foreign, with a stream":
        return rawcuda.view(Foreign(device.upload(data), 2))
    memory = device.allocate(len(data), kind=kind.split()[0])
    memory.copy_from(bytes(data))
    return memory if kind.endswith("Memory") else memory.view()


OURS = ("device", "pinned", "managed", "device Memory", "pinned Memory")
KINDS = ("bytearray", "foreign", "foreign, with a stream", *OURS)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_every_kind_of_target_source_and_stream(device, name, target, source):
    data = bytes(range(1, 65))
    with device.stream() as stream:
        on = given(stream, name)
        to, of = things(device, target, bytes(64)), things(device, source, data)
        for _ in range(2):  # the second copy finds both sides examined
            rawcuda.copy(to, of, stream=on)
            rawcuda.synchronize()
            assert bytes(rawcuda.view(to).download().memoryview()) == data
            if not isinstance(to, bytearray):
                to.fill(7, stream=on)
                rawcuda.synchronize()
                assert bytes(rawcuda.view(to).download().memoryview()) == b"\7" * 64


@pytest.mark.parametrize("kind", OURS)
def test_closed_memory_is_refused_also_after_it_was_examined(device, kind):
    to, other = things(device, kind, bytes(64)), things(device, kind, bytes(64))
    rawcuda.copy(to, other)
    to.fill(1)
    rawcuda.synchronize()
    (to if kind.endswith("Memory") else to.owner).close()
    for refused in (
        lambda: rawcuda.copy(to, other),
        lambda: rawcuda.copy(other, to),
        lambda: rawcuda.copy(to, bytes(64)),
        lambda: rawcuda.copy(bytearray(64), to),
        lambda: to.fill(0),
    ):
        with pytest.raises(errors.Closed):
            refused()


def test_bytes_of_another_owner_are_refused_when_that_is_closed(device):
    owner = device.allocate(64)
    borrowed = rawcuda.Memory.borrow(device, owner.ptr, 64, owner=owner)
    view, other = borrowed.view(), device.empty(64, "uint8")
    for thing in (borrowed, view):
        rawcuda.copy(other, thing)
        thing.fill(0)
    rawcuda.synchronize()
    owner.close()
    for refused in (
        lambda: rawcuda.copy(other, borrowed),
        lambda: rawcuda.copy(borrowed, other),
        lambda: borrowed.fill(0),
        lambda: rawcuda.copy(other, view),
        lambda: rawcuda.copy(view, other),
        lambda: view.fill(0),
    ):
        with pytest.raises(errors.Closed):
            refused()


def test_a_kept_side_does_not_keep_its_memory(device):
    """A Memory that was copied is released as soon as it is dropped, without the garbage collector."""
    import gc
    import weakref

    gc.disable()
    try:
        memory, view = device.allocate(64), device.empty(64, "uint8")
        memory.copy_from(view)
        view.copy_from(memory)
        memory.fill(1)
        rawcuda.synchronize()
        gone = weakref.ref(memory), weakref.ref(view), weakref.ref(view.owner)
        del memory, view
        assert [ref() for ref in gone] == [None] * 3
    finally:
        gc.enable()


def test_a_closing_thread_leaves_no_side_that_can_be_used(device):
    memories = [device.allocate(64) for _ in range(50)]
    other = device.allocate(64)

    def copy():
        for memory in memories:
            try:
                memory.copy_from(other)
            except errors.Closed:
                pass

    thread = threading.Thread(target=copy)
    thread.start()
    rawcuda.synchronize()
    thread.join()
    for memory in memories:
        memory.close()
        with pytest.raises(errors.Closed):
            memory.copy_from(other)
    rawcuda.synchronize()


def test_a_stream_waits_for_what_was_assigned_on_another(device):
    """`a[key] = x` is done on the legacy stream, and later work on the array's own stream waits for it."""
    with device.stream() as stream:
        a, b = device.empty(8, "float32"), device.empty(8, "float32").fill(2.0)
        a.fill(1.0, stream=stream)
        assert a.stream is stream
        seen = []
        with rawcuda.trace(seen.append):
            a[:4] = 5.0
        assert [event.name for event in seen].count("cuStreamWaitEvent") == 1
        a[4:] = b[4:]
        assert a.stream == 1  # None means that nothing is pending
        rawcuda.synchronize()
        assert a.tolist() == [5.0] * 4 + [2.0] * 4


def test_a_closed_streams_work_is_waited_for(device):
    a, b = device.empty(8, "float32"), device.empty(8, "float32")
    with device.stream() as stream:
        b.fill(3.0, stream=stream)
    with device.stream() as stream:
        a.copy_from(b, stream=stream)
        assert b.stream is None
        ordered = device.allocate(32, stream=stream)
    for _ in range(2):
        ordered.copy_from(a)
        rawcuda.synchronize()
        assert ordered.view("float32").tolist() == [3.0] * 8


def test_no_ordering_cannot_do_work(device):
    a, b = device.empty(8, "float32"), device.empty(8, "float32")
    for refused in (
        lambda: a.copy_from(b, stream=-1),
        lambda: a.fill(0, stream=-1),
        lambda: a[::2].fill(0, stream=-1),
        lambda: a[::2].copy_from(b[::2], stream=-1),
        lambda: a.copy_from(array.array("f", range(8)), stream=-1),
    ):
        with pytest.raises(ValueError, match="NO_SYNC"):
            refused()
    for wrong in (0, True, "s", 2**64, -2):
        for refused in (lambda: a.copy_from(b, stream=wrong), lambda: a.fill(0, stream=wrong)):  # noqa: B023
            with pytest.raises((ValueError, TypeError)):
                refused()
        with pytest.raises((ValueError, TypeError)):  # although host memory needs no stream
            rawcuda.copy(bytearray(4), bytes(4), stream=wrong)


def test_the_same_copy_again_after_the_table_of_forms_was_emptied(device):
    a, b = device.empty((2, 3), "float32"), device.upload(rawcuda.view(array.array("f", range(6))).reshape(2, 3))
    a.copy_from(b)
    copying._forms.clear()
    a.copy_from(device.empty((2, 3), "float32").fill(1))
    assert a.tolist() == [[1.0] * 3] * 2
    assert a.copy_from(b).tolist() == b.tolist()


def test_a_copy_onto_itself_changes_nothing(device):
    memory = device.allocate(8).copy_from(bytes(range(8)))
    view, owner = memory.view(), memory.view()
    foreign = rawcuda.view(Foreign(owner), stream=-1)
    for to, of in ((view, view), (memory, memory), (view, foreign), (foreign, view), (foreign, foreign)):
        rawcuda.copy(to, of)
        rawcuda.synchronize()
        assert view.tolist() == list(range(8))


def test_bytes_of_a_memory_are_in_the_c_order_of_the_other_side(device):
    data = bytes(range(24))
    memory = device.allocate(24)
    turned = rawcuda.view(bytearray(24)).reshape(4, 6).T  # one run of bytes, but in the order of Fortran
    memory.copy_from(data)
    memory.copy_to(turned)
    assert [byte for row in turned.tolist() for byte in row] == list(data)
    there = device.empty((4, 6), "uint8").T
    memory.copy_to(there)
    assert there.tolist() == turned.tolist()
    assert memory.fill(0).copy_from(there).view().tolist() == list(data)
    with pytest.raises(errors.ProtocolError, match="readonly"):
        memory.copy_to(data)
    with pytest.raises(ValueError, match="cannot hold"):
        rawcuda.copy(memory, device.allocate(23))
    assert device.allocate(0).copy_from(device.allocate(0)).nbytes == 0


@pytest.mark.parametrize("place", ["host", "pinned", "device"])
def test_a_fill_keeps_the_sign_of_zero(device, place):
    v = rawcuda.view(bytearray(32)) if place == "host" else device.allocate(32, kind=place).view()
    for dtype in ("float16", "float32", "float64"):
        typed = v.reinterpret(dtype)
        for value in (0.0, -0.0, 0, 1.5, -1.5, math.inf):
            typed.fill(value)
            rawcuda.synchronize()
            assert {(each, math.copysign(1, each)) for each in typed.tolist()} == {(value, math.copysign(1, value))}
    assert v.reinterpret("complex64").fill(-0.0).tolist() == [complex(-0.0, 0.0)] * 4
    assert v.reinterpret("complex64").fill(2).tolist() == [2 + 0j] * 4
    assert v.reinterpret("complex128").fill(1 - 2j).tolist() == [1 - 2j] * 2


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "complex64", "bool"])
def test_a_fill_packs_what_encode_packs_and_refuses_what_it_refuses(device, dtype):
    encode, of = module("elements.scalars").encode, module("elements.dtypes").of
    v = device.empty(2, dtype)
    for value in (
        0,
        1,
        -1,
        True,
        255,
        256,
        2**31,
        2**70,
        1.0,
        0.1,
        1e300,
        math.inf,
        1j,
        b"\1",
        b"abcd",
        "1",
        None,
        [1],
    ):
        try:
            expected = encode(of(dtype), value)
        except (TypeError, ValueError) as refused:
            with pytest.raises(type(refused)):
                v.fill(value)
        else:
            assert bytes(v.fill(value).download().memoryview()) == expected * 2


def test_a_numpy_complex_number_is_not_cut_to_its_real_part(device):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="complex"):
        device.empty(2, "float32").fill(numpy.complex128(1 + 2j))
    assert device.empty(2, "complex64").fill(numpy.complex64(1 + 2j)).tolist() == [1 + 2j] * 2
    assert device.empty(2, "float32").fill(numpy.float32(1.5)).tolist() == [1.5] * 2


# -- several devices


@pytest.mark.parametrize("closed", [False, True])
def test_a_stream_that_is_noted_after_a_launch_is_waited_for_when_it_is_closed(device, closed):
    """`view.stream` may be any stream; it need not have made a copy or a fill."""
    with device.load(kernels.ADD) as loaded:
        x, stream = device.full(4, 3, "float32"), device.stream()
        device.synchronize()
        loaded["add"].launch(x, x, x, 4, grid=1, block=4, stream=stream)
        x.stream = stream
        if closed:
            stream.close()
        assert x.tolist() == [6] * 4
        stream.close()


@pytest.mark.parametrize("layout", ["one run", "rows", "gaps", "long elements", "Memory"])
def test_a_fill_refuses_a_stream_whose_device_cannot_access_the_memory(device, second, layout):
    memory = second.allocate(64)
    target, value = {
        "one run": (memory.view("float32"), 2),
        "rows": (memory.view("float32").reshape(4, 4)[:, :2], 2),
        "gaps": (memory.view("float32").reshape(4, 4)[::2, ::2], 2),
        "long elements": (memory.view("float64"), 1.5),
        "Memory": (memory, 2),
    }[layout]
    with device.stream() as wrong, second.stream() as right:
        with pytest.raises(
            ValueError, match=r"belongs to device 0, which cannot access memory of device 1: give a stream"
        ):
            target.fill(value, stream=wrong)
        target.fill(value, stream=right)
        right.synchronize()
    target.fill(value)
    second.synchronize()
    assert (
        set(memory.view("float64" if layout == "long elements" else "uint8").tolist()) >= {1.5}
        or layout != "long elements"
    )


def test_memory_of_the_second_device_is_filled_and_copied_there(device, second):
    a, b = second.empty(8, "float32"), second.empty(8, "float32")
    with second.stream() as stream:
        for on in (stream, None, 2):
            b.fill(3, stream=on)
            a.copy_from(b, stream=on)
            second.synchronize()
            assert a.tolist() == [3.0] * 8
    there = device.empty(8, "float32").fill(1)
    there.copy_from(a)
    rawcuda.synchronize()
    assert there.tolist() == [3.0] * 8


def test_pinned_memory_of_one_device_and_memory_of_another(device, second):
    pinned, there = device.allocate(32, kind="pinned"), second.empty(8, "float32").fill(4)
    pinned.copy_from(there)
    rawcuda.synchronize()
    assert pinned.view("float32").tolist() == [4.0] * 8
    pinned.view("float32").fill(5)
    there.copy_from(pinned.view("float32"))
    rawcuda.synchronize()
    assert there.tolist() == [5.0] * 8


def test_device_around_makes_the_device_of_a_tensor_current(device, second):
    """What an exporter is asked inside the with block happens on the device that it names."""
    around = module("gpu.for_arrays").device_around

    def context():
        return module("driver").current().current_context()

    before = context()
    for ordinal, one in enumerate((device, second)):
        with around(ordinal):
            assert context() == one.context
        assert context() == before
    with pytest.raises(ValueError, match="no device"):
        around(len(rawcuda.devices()))


def symbols(action):
    """Return the names of the driver calls that an action makes."""
    made = []
    with rawcuda.trace(lambda event: made.append(getattr(event, "name", ""))):
        action()
    return [name for name in made if name.startswith(("cuMem", "cuStreamWait"))]


@pytest.mark.parametrize("name", STREAMS)
def test_the_same_copy_and_fill_again_do_what_the_first_ones_did(device, name):
    with device.stream() as stream, device.stream() as other, device.allocate(8) as memory:
        where = given(stream, name)
        a, b = device.empty((8,), "uint8"), device.upload(bytes(range(8)))
        for _ in range(4):
            a.fill(7, stream=where)
            rawcuda.synchronize()
            assert a.tolist() == [7] * 8
            a.copy_from(b, stream=where)
            memory.copy_from(b, stream=where)
            rawcuda.synchronize()
            assert a.tolist() == memory.view().tolist() == list(range(8))
            assert a.stream is where or a.stream == getattr(where, "handle", where or 1)
        assert "cuStreamWaitEvent" not in symbols(lambda: (a.copy_from(b, stream=where), a.fill(7, stream=where)))
        a.fill(3, stream=other)  # what is pending on another stream comes first, at the target and at the source
        assert symbols(lambda: a.copy_from(b, stream=where)) == ["cuStreamWaitEvent", "cuMemcpyAsync"]
        a.copy_from(b[::-1], stream=other)
        assert symbols(lambda: a.copy_from(b, stream=where)) == ["cuStreamWaitEvent", "cuMemcpyAsync"]
        b.fill(5, stream=other)
        assert symbols(lambda: a.copy_from(b, stream=where)) == ["cuStreamWaitEvent", "cuMemcpyAsync"]
        a.fill(3, stream=other)
        assert symbols(lambda: a.fill(7, stream=where)) == ["cuStreamWaitEvent", "cuMemsetD8Async"]
        rawcuda.synchronize()
        assert a.tolist() == [7] * 8


@pytest.mark.parametrize("closed", ["target", "source", "stream"])
@pytest.mark.parametrize("whole", [True, False], ids=["Memory", "view"])
def test_the_same_copy_again_is_refused_when_something_was_closed(device, closed, whole):
    stream, target, source = device.stream(), device.allocate(8), device.allocate(8)
    a, b = (target, source) if whole else (target.view(), source.view())
    for _ in range(4):
        a.copy_from(b, stream=stream).fill(1, stream=stream)
    {"target": target, "source": source, "stream": stream}[closed].close()
    for refused in (lambda: a.copy_from(b, stream=stream), lambda: a.fill(1, stream=stream)):
        if closed == "source" and refused.__code__.co_names == ("fill",):
            continue
        with pytest.raises(errors.Closed):
            refused()
    for thing in (stream, target, source):
        thing.close()


def test_the_same_fill_again_tells_values_apart(device):
    for dtype, values in (
        ("float32", (0, 0.0, -0.0, 1, 1.0, True, math.inf, -1)),
        ("int32", (0, 1, True, -1, 2**31 - 1)),
    ):
        a = device.empty((4,), dtype)
        for value in values * 4:
            (got,) = set(map(str, a.fill(value).tolist()))
            assert float(got) == value and got.startswith("-") == (math.copysign(1, value) < 0)
    for refused in (2**31, 0.5):
        with pytest.raises((ValueError, TypeError)):
            a.fill(refused)
    for value in range(300):  # more than are kept
        assert a.fill(value).tolist() == [value] * 4


def test_the_same_copy_again_tells_sources_apart_and_keeps_none(device):
    a = device.empty((4,), "int32")
    sources = [device.empty((4,), "int32").fill(number) for number in range(80)]
    for _ in range(6):
        for number, source in enumerate(sources):
            assert a.copy_from(source).tolist() == [number] * 4
    memory = device.allocate(16)
    views = [memory.view("int32") for _ in range(3)]
    for view in views * 3:
        a.copy_from(view)
    kept = weakref.ref(memory)
    del memory, view, views
    gc.collect()
    assert kept() is None
    swapped = sources[0].reinterpret("float32")
    for _ in range(3):
        with pytest.raises(TypeError, match="converts nothing"):
            a.copy_from(swapped)
        with pytest.raises(errors.ProtocolError, match="readonly"):
            rawcuda.copy(rawcuda.view(a, writable=False), sources[0])


def test_the_same_copy_again_in_a_capture(device):
    with device.stream() as stream:
        a, b = device.empty((4,), "int32"), device.upload(array.array("i", range(4)))
        for _ in range(4):
            a.copy_from(b, stream=stream).fill(9, stream=stream)
        stream.synchronize()
        with stream.capture() as graph:
            a.copy_from(b, stream=stream)
        stream.synchronize()
        assert a.tolist() == [9] * 4
        graph.launch(stream)
        stream.synchronize()
        assert a.tolist() == [0, 1, 2, 3]


def test_the_cpu_fills_pinned_memory_again_after_a_capture(device):
    with device.stream() as stream, device.allocate(8, kind="pinned") as pinned:
        for _ in range(4):
            with stream.capture():
                pinned.fill(3, stream=stream)
            assert symbols(lambda: pinned.fill(4, stream=stream)) == []
            assert pinned.view().tolist() == [4] * 8


def test_the_same_copy_again_on_a_default_stream_is_made_in_its_own_context(device):
    a, b = device.empty((8,), "uint8"), device.upload(bytes(range(8)))
    for _ in range(4):
        a.fill(1).copy_from(b)
        with device.current():
            a.fill(1).copy_from(b)
            assert a.tolist() == list(range(8))


@pytest.mark.parametrize("name", ["handle", "from_handle", "object"])
def test_a_handle_may_belong_to_another_device_later(device, monkeypatch, name):
    """With several devices, the driver is asked each time whose stream a handle is; nothing may be repeated."""
    with device.stream() as stream:
        a, b = device.empty((8,), "uint8"), device.upload(bytes(range(8)))
        a._owner._primary.attributes[("alone",)] = False
        try:
            for _ in range(4):
                a.copy_from(b, stream=given(stream, name))
        finally:
            del a._owner._primary.attributes[("alone",)]


FIRST = {  # what makes the eight numbers of an array 5 on the default stream
    "fill": lambda a, five, other: a.fill(5),
    "copy": lambda a, five, other: a.copy_from(five),
    "strided copy": lambda a, five, other: a[::-1].copy_from(five),
    "strided fill": lambda a, five, other: a[::-1].fill(5),
    "batch": lambda a, five, other: (rawcuda.copy_batch([(a, five)]), a)[1],
    "full": lambda a, five, other: a.owner.device.full((8,), 5, "uint8"),
    "view": lambda a, five, other: rawcuda.view(Foreign(a.fill(5, stream=other), other.handle)),
}
THEN = {
    "copy": lambda a, b, stream: b.copy_from(a, stream=stream),
    "fill": lambda a, b, stream: a.fill(5, stream=stream),
    "batch": lambda a, b, stream: rawcuda.copy_batch([(b, a)], stream=stream),
    "strided copy": lambda a, b, stream: b[::-1].copy_from(a, stream=stream),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("then", THEN)
def test_work_on_a_stream_waits_for_that_on_the_default_stream(device, first, then):
    """Streams of Device.stream() and the default stream do not wait for each other."""
    a, b, five = device.empty(8, "uint8"), device.empty(8, "uint8"), device.upload(bytes([5] * 8))
    with device.stream() as stream, device.stream() as other:
        a = FIRST[first](a, five, other)
        assert symbols(lambda: THEN[then](a, b, stream))[0] == "cuStreamWaitEvent"
        stream.synchronize()
        assert (a if then == "fill" else b).tolist() == [5] * 8


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect")
def test_what_lies_between_the_rows_of_a_host_array_is_not_read(device):
    memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[:4], memory[2 * mmap.PAGESIZE : 2 * mmap.PAGESIZE + 4] = b"abcd", b"efgh"
    protect = ctypes.CDLL(None).mprotect
    assert not protect(ctypes.c_void_p(begin + mmap.PAGESIZE), mmap.PAGESIZE, 0)
    described = {"shape": (2, 4), "typestr": "|u1", "data": (begin, False), "strides": (2 * mmap.PAGESIZE, 1)}
    rows = types.SimpleNamespace(__array_interface__={**described, "version": 3})
    try:
        assert device.upload(rawcuda.view(rows)).tolist() == [[*b"abcd"], [*b"efgh"]]
        with device.stream() as stream:
            made = device.empty((2, 4), "uint8").copy_from(rawcuda.view(rows), stream=stream)
            assert made.tolist() == [[*b"abcd"], [*b"efgh"]]
    finally:
        protect(ctypes.c_void_p(begin + mmap.PAGESIZE), mmap.PAGESIZE, 3)


def test_what_is_new_is_ready(device):
    """Nothing is pending on memory that is new, or that a copy from pageable memory was waited for."""
    a, b = device.empty(8, "uint8"), device.upload(bytes(8))
    assert a.stream is b.stream is None
    with device.stream() as stream:
        assert symbols(lambda: a.copy_from(b, stream=stream)) == ["cuMemcpyAsync"]
        stream.synchronize()


def test_zeros_are_ready_in_the_order_of_their_fill(device):
    with device.stream() as stream:
        a, b = device.zeros(8, "float32", stream=stream), device.zeros(8, "float32")
        assert a.stream is stream and b.stream == 1
        copied = device.empty(8, "float32")
        assert symbols(lambda: copied.copy_from(b, stream=stream)) == ["cuStreamWaitEvent", "cuMemcpyAsync"]
        assert a.tolist() == [0.0] * 8  # waits for the stream
        stream.synchronize()
        assert copied.tolist() == [0.0] * 8
        assert device.zeros((0, 3), "float32", stream=stream).tolist() == []
        for other in (stream.handle, rawcuda.Stream.from_handle(stream.handle)):  # as one of another library
            assert device.zeros(8, "float32", stream=other).stream is other


WRITES = {
    "fill": lambda memory, five, stream: memory.fill(5, stream=stream),
    "copy": lambda memory, five, stream: memory.copy_from(five, stream=stream),
    "copies": lambda memory, five, stream: rawcuda.copy_batch(
        [(memory, five), (memory.device.allocate(8), five)], stream=stream
    ),
    "strided copy": lambda memory, five, stream: memory.copy_from(five[::-1], stream=stream),
}
READS = {
    "view": lambda memory: memory.view().tolist(),
    "part": lambda memory: memory.view("uint16")[1:].reinterpret("uint8").tolist() + [5, 5],
    "copy": lambda memory: memory.copy_to(rawcuda.view(bytearray(8))).tolist(),
    "fill": lambda memory: memory.fill(5).view().tolist(),
    "pickle": lambda memory: pickle.loads(pickle.dumps(memory)).view().tolist(),
    "deepcopy": lambda memory: copy.deepcopy(memory).view().tolist(),
    "upload": lambda memory: memory.device.upload(memory).tolist(),
    "DLPack": lambda memory: rawcuda.view(memory.__dlpack__(stream=1, max_version=(1, 0)), stream=1).tolist(),
    "array interface": lambda memory: rawcuda.view(CudaArray(memory.__cuda_array_interface__)).tolist(),
    "array": lambda memory: memory.device.array(memory.view()).tolist(),
}


class CudaArray:
    def __init__(self, interface):
        self.__cuda_array_interface__ = interface


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", READS)
def test_what_uses_a_memory_waits_for_its_last_copy_or_fill(device, write, read):
    five = device.upload(bytes([5] * 8))
    with device.stream() as stream, device.stream() as other, device.allocate(8) as memory:
        memory.fill(3, stream=other)
        memory.copy_from(five, stream=other)
        WRITES[write](memory, five, stream)
        assert memory.stream is stream and memory.view().stream is stream
        assert READS[read](memory) == [5] * 8


USES = {
    "copy": lambda x, y, stream: y.copy_from(x, stream=stream),
    "download": lambda x, y, stream: y.copy_from(x.download(stream=stream)),
    "tolist": lambda x, y, stream: y.copy_from(array.array("i", x.tolist())),
    "fill": lambda x, y, stream: y.copy_from(x.fill(7, stream=stream)),
    "interface": lambda x, y, stream: y.copy_from(
        rawcuda.view(types.SimpleNamespace(__cuda_array_interface__=x.__cuda_array_interface__), stream=stream),
        stream=stream,
    ),
    "dlpack": lambda x, y, stream: y.copy_from(
        rawcuda.view(
            types.SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=x.__dlpack_device__), stream=stream
        ),
        stream=stream,
    ),
    "pinned": lambda x, y, stream: y.copy_from(x, stream=stream),
}


@pytest.mark.parametrize("where", ["per-thread", "own", "legacy"])
@pytest.mark.parametrize("use", USES)
def test_another_thread_waits_for_the_per_thread_stream_that_wrote_an_array(device, use, where):
    kind = "pinned" if use == "pinned" else "device"
    x, y = (device.allocate(16, kind=kind).view("int32") for _ in range(2))
    sevens, written, end = device.full(4, 7, "int32"), threading.Event(), threading.Event()
    x.fill(0), y.fill(0)
    device.synchronize()
    x.stream = y.stream = sevens.stream = None  # or the default stream, which waits for every other one, would be used

    def write():
        x.copy_from(sevens, stream=rawcuda.Stream.per_thread)
        written.set()
        end.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        written.wait(60)
        with device.stream() as stream, device.current():
            USES[use](x, y, given(stream, where))
            stream.synchronize()
            rawcuda.Stream.per_thread.synchronize()
        assert y.tolist() == [7] * 4
    finally:
        end.set()
        thread.join()


def test_memory_notes_no_stream_of_other_software(device):
    """Its handle means nothing any more, or its owner raises, when that has destroyed the stream."""

    class Theirs:
        closed = False

        @property
        def __cuda_stream__(self):
            if self.closed:
                raise RuntimeError("this stream is closed")
            return lambda: (0, handle)

    made = device.stream()
    handle, theirs = made.handle, Theirs()
    with device.allocate(8) as memory, device.array(8, "uint8") as array:
        five = device.upload(bytes([5] * 8))
        for stream in (handle, theirs, rawcuda.Stream.from_handle(handle)):
            memory.fill(3, stream=stream).copy_from(five, stream=stream)
            rawcuda.copy_batch([(memory, five), (device.allocate(8), five)], stream=stream)
            memory.copy_from(five[::-1], stream=stream)
            array.copy_from(memory, stream=stream)
            assert memory.stream is array.stream is None
        device.synchronize()
        made.close()
        theirs.closed = True
        assert memory.fill(4).view().tolist() == [4] * 8 and array.tolist() == [5] * 8
        for stream in (rawcuda.Stream.legacy, rawcuda.Stream.per_thread, 1, 2):
            assert memory.fill(3, stream=stream).stream in (1, 2)  # (2: of this thread)
        device.synchronize()


@pytest.mark.parametrize("mode", ["global", "relaxed"])
def test_what_was_captured_is_not_pending(device, mode):
    """Other streams use the memory meanwhile; they wait only for what its stream had to do before the capture."""
    five, go = device.upload(bytes([5] * 8)), threading.Event()
    with device.stream() as stream, device.stream() as other, device.allocate(8, kind="pinned") as memory:
        target = device.allocate(8)
        threading.Timer(0.05, go.set).start()
        stream.call(go.wait)
        memory.fill(2, stream=stream)
        with stream.capture(mode) as graph:
            with other.capture(mode) as second:
                memory.fill(4, stream=other)
            target.copy_from(memory, stream=device.stream())
            memory.fill(3, stream=stream)
            memory.copy_to(target, stream=other)
            assert memory.view().memoryview().tolist() == [2] * 8
            memory.copy_from(five, stream=other)
        other.synchronize()
        assert memory.view().tolist() == [5] * 8 and target.view().tolist() == [2] * 8
        for each, value in ((graph, 3), (second, 4)):
            each.launch(stream)
            stream.synchronize()
            assert memory.view().tolist() == [value] * 8
        device.synchronize()


def test_what_a_stream_had_to_do_before_a_capture_is_waited_for(device):
    go, calls = threading.Event(), []
    with device.stream() as stream, device.stream() as other, device.allocate(8) as memory:
        target = device.allocate(8)
        stream.call(go.wait)
        memory.fill(2, stream=stream)
        threading.Timer(0.3, go.set).start()
        with stream.capture():
            with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
                memory.copy_to(target, stream=other)
            memory.fill(3, stream=stream)
        assert "cuEventSynchronize" in calls
        other.synchronize()
        assert target.view().tolist() == [2] * 8
        device.synchronize()


def test_memory_knows_its_stream(device):
    with device.stream() as stream, device.stream() as other:
        with device.allocate(8, stream=stream) as memory:
            assert memory.stream is stream
            assert symbols(lambda: memory.fill(1, stream=other)) == ["cuStreamWaitEvent", "cuMemsetD8Async"]
            assert memory.stream is other
            assert symbols(lambda: memory.fill(2)) == ["cuStreamWaitEvent", "cuMemsetD8Async"]
            assert memory.stream == 1
            device.synchronize()
            memory.stream = None  # nothing is pending
            assert symbols(lambda: memory.fill(3, stream=other)) == ["cuMemsetD8Async"]
            other.synchronize()
        memory = device.allocate(8).fill(4, stream=other)
        other.close()
        assert symbols(lambda: memory.fill(5, stream=stream)) == ["cuMemsetD8Async"] and memory.stream is stream


def test_an_element_that_is_set_by_flat_is_ready_in_its_order(device):
    with device.stream() as stream:
        a, b = device.empty(8, "uint8"), device.empty(8, "uint8")
        a.fill(1, stream=stream)
        a.flat[0] = 9
        assert a.stream == 1
        b.copy_from(a, stream=stream)
        stream.synchronize()
        assert b.tolist() == [9] + [1] * 7
