"""Arrays of a device: created, viewed, closed, and exported."""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import mmap
import sys
import types
import weakref

import pytest

from tests.conftest import frees_classes
from tests.null.producers import Shows, interface
from tests.null.test_dlpack_export import fields
from tests.subject import module, rawcuda

errors, dtypes, stream_module = module("errors"), module("elements.dtypes"), module("gpu.streams.stream")
view, ProtocolError = rawcuda.view, errors.ProtocolError


@pytest.mark.parametrize(
    "shape, result", [((2, 3), (2, 3)), (5, (5,)), ((), ()), ([4, 1], (4, 1)), ((0, 3), (0, 3)), (0, (0,))]
)
def test_empty(device, shape, result):
    v = device.empty(shape, "float32")
    assert (
        v.shape == result and v.dtype == "float32" and v.is_c_contiguous and not v.readonly and v.protocol == "memory"
    )
    assert v.device == ("cuda", 0) and v.is_device_accessible and not v.is_host_accessible
    assert v.owner.nbytes == v.nbytes and (v.ptr == v.owner.ptr != 0 or not v.size)
    assert repr(v) == f"<StridedView float32 {result} strides {v.strides} on cuda:0, by memory>"


@pytest.mark.parametrize(
    "shape, dtype, error",
    [
        ((-1,), "f4", ValueError),
        ((2**40, 2**40), "f4", ValueError),
        ("3", "f4", TypeError),
        ((2.5,), "f4", TypeError),
        (3, "nonsense", TypeError),
        (3, ">f4", ProtocolError),
    ],
)
def test_empty_refuses(device, shape, dtype, error):
    with pytest.raises(error):
        device.empty(shape, dtype)


@pytest.mark.parametrize("name", [row[0] for row in dtypes._TABLE])
def test_upload_and_download_every_dtype(device, name):
    dtype = dtypes.of(name)
    data = bytearray(range(dtype.itemsize * 6))
    source = view(data).reinterpret(dtype).reshape(2, 3)
    there = device.upload(source)
    assert there.dtype is dtype and there.shape == (2, 3) and there.device == ("cuda", 0) and there.protocol == "memory"
    back = there.download()
    assert (
        back.device == ("cpu", 0)
        and back.dtype is dtype
        and bytes(back.memoryview()) == bytes(data)
        and back.ptr % 64 == 0
    )


def test_upload_takes_any_exporter_of_any_layout(device):
    values = array.array("i", range(24))
    for source in (
        values,
        view(values).reshape(2, 3, 4).T,
        view(values)[::-1],
        memoryview(values)[3:],
        view(values).reshape(4, 6)[:, ::2],
        view(values)[5],
        view(values)[:0],
        view(values)[:1].broadcast_to((3, 2)),
    ):
        there = device.upload(source)
        assert there.tolist() == view(source).tolist() and there.is_c_contiguous and not there.readonly
    with pytest.raises(TypeError):
        device.upload([1, 2, 3])


def test_an_error_message_calls_every_view_by_its_public_name(device):
    for v in (
        device.empty(3, "float32"),
        device.empty(3, "float32")[1:],
        view(interface(device.empty(3, "float32"), stream=1)),
        view(array.array("f", [1])),
    ):
        with pytest.raises(AttributeError, match="'StridedView' object has no attribute 'no_such_thing'"):
            v.no_such_thing
        assert type(v).__name__ == "StridedView"


def test_a_view_beyond_its_memorys_close(device):
    v = device.upload(array.array("f", range(6)))
    w = v[1:].reshape(5)
    v.owner.close()
    for use in (
        lambda: v.ptr,
        lambda: w.ptr,
        lambda: v.download(),
        lambda: v.fill(1),
        lambda: v.copy_from(v),
        lambda: w.copy_to(w),
        lambda: v.tolist(),
        lambda: v[0],
        lambda: v.T,
        lambda: v.__dlpack__(),
        lambda: v.__cuda_array_interface__,
        lambda: rawcuda.copy(array.array("f", range(6)), v),
    ):
        with pytest.raises(errors.Closed):
            use()
    assert "closed" in repr(v) or repr(v)  # repr never fails, and never calls the driver
    assert v.shape == (6,) and v.strides == (4,) and v.device == ("cuda", 0)


def test_repr_asks_no_driver(device):
    v = device.empty((2, 3), "float32")
    seen = []
    with rawcuda.trace(seen.append):
        repr(v), str(v), v.shape, v.device, v.ptr, v.nbytes, v.is_c_contiguous
    assert not seen


@pytest.mark.parametrize(
    "kind, device_record, dl_device",
    [("device", ("cuda", 0), (2, 0)), ("pinned", ("cuda_host", 0), (3, 0)), ("managed", ("cuda_managed", 0), (13, 0))],
)
def test_2_15_one_device_record_feeds_all(device, kind, device_record, dl_device):
    with device.allocate(24, kind=kind) as memory:
        v = memory.view()
        assert v.device == device_record and v.__dlpack_device__() == dl_device == memory.__dlpack_device__()
        assert (
            fields(v.__dlpack__(max_version=(1, 0)))["device"] == dl_device
            and fields(memory.__dlpack__())["device"] == dl_device
        )
        assert (
            v.is_host_accessible
            == (kind != "device")
            == hasattr(v, "__array_interface__")
            == hasattr(memory, "__array_interface__")
        )
        assert v.is_device_accessible and v.__cuda_array_interface__["data"] == (memory.ptr, False)
        w = view(v, protocol="dlpack")
        assert w.device == device_record and w.ptr == v.ptr
        w = view(v, protocol="cuda_array_interface")
        assert w.device == device_record and w.ptr == v.ptr
        if kind == "device":
            for export in (v.memoryview, lambda: v.__buffer__(0), lambda: v.__array_interface__):
                with pytest.raises((BufferError, AttributeError), match="access"):
                    export()
        else:
            v.fill(7)
            assert bytes(v.memoryview()) == bytes([7]) * 24 == bytes(view(v, protocol="array_interface").memoryview())


def test_numpy_gets_no_device_memory_silently(device):
    numpy = pytest.importorskip("numpy")
    v = device.upload(array.array("f", range(6)))
    for silent in (lambda: numpy.asarray(v), lambda: numpy.array([v, v]), lambda: numpy.sum(v), lambda: v.__array__()):
        with pytest.raises((TypeError, BufferError), match="download"):
            silent()
    assert numpy.asarray(v.download()).tolist() == list(range(6))
    with device.allocate(24, kind="managed") as memory:
        w = memory.view().fill(1)
        assert numpy.asarray(w).tolist() == [1] * 24
        del w


def test_memory_is_an_exporter(device):
    with device.allocate(16) as memory:
        memory.copy_from(bytes(range(16)))
        v = view(memory)
        assert v.shape == (16,) and v.dtype == "uint8" and v.device == ("cuda", 0) and v.tolist() == list(range(16))
        assert v.reinterpret("float32").shape == (4,)
        del v


def test_exports_of_a_second_device():
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    second = rawcuda.Device(1)
    v = second.upload(array.array("i", range(6)))
    assert (
        v.device == ("cuda", 1) and v.__dlpack_device__() == (2, 1) and view(v, protocol="dlpack").device == ("cuda", 1)
    )
    assert view(v, protocol="cuda_array_interface").device == ("cuda", 1)  # 5.5: the driver is asked
    first = rawcuda.Device(0).empty(6, "int32")
    first.copy_from(v)
    assert first.tolist() == list(range(6))
    first.copy_from(v[::-1])
    assert first.tolist() == list(range(6))[::-1]
    strided = rawcuda.Device(0).empty((6, 2), "int32")[:, 1]
    strided.copy_from(v)
    assert strided.tolist() == list(range(6))
    both = []
    with rawcuda.trace(both.append):  # no kernel of one device accesses the memory of the other
        strided.copy_from(v[::-1])
    assert any(getattr(event, "name", "") == "cuMemcpyPeerAsync" for event in both)
    assert strided.tolist() == list(range(6))[::-1]


def test_1_11_managed_memory_of_a_second_device(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with rawcuda.Device(1).allocate(8, kind="managed") as memory:
        w = view(memory.view(), protocol="dlpack")  # DLPack says 0 for all managed memory
        assert w.device == ("cuda_managed", 1)
        del w


# -- the CUDA array interface, read


def test_5_5_the_device_is_the_drivers_to_say(device):
    v = device.upload(array.array("f", range(6)))
    w = view(interface(v))
    assert w.device == ("cuda", 0) and w.tolist() == v.tolist() and w.protocol == "cuda_array_interface"
    assert view(interface(v, shape=(2,), strides=(8,))).tolist() == [0.0, 2.0]
    assert view(interface(v, data=(v.ptr + 8, True), shape=(2,))).readonly
    host = array.array("f", range(6))
    with pytest.raises(ProtocolError, match="not an address that this driver knows") as caught:
        view(interface(v, data=(host.buffer_info()[0], False)))
    assert caught.value.field == "data"


@pytest.mark.parametrize("is_current", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stream": 1},
        {"version": 2},
        {"shape": (2,)},
        {"descr": [("", "<f4")]},
        {"data": None},
        {"strides": (8,), "shape": (3,)},
    ],
)
def test_5_1_the_attribute_is_read_once_also_when_the_class_is_known(device, changes, is_current):
    """Each access may put an event into a stream."""
    v, Known = device.upload(array.array("f", range(6))), type("Known", (Shows,), {})
    said = {"shape": (6,), "typestr": "<f4", "data": (v.ptr, False), "strides": None, "version": 3, "stream": None}
    with device.current() if is_current else contextlib.nullcontext():
        for turn in range(4):
            shows = Known(cuda={**said, **(changes if turn else {})})
            try:
                w = view(shows)
            except ProtocolError:
                assert "data" in changes
            else:
                assert w.ptr == v.ptr and w.owner is shows and w.shape == shows.cuda["shape"]
            assert shows.reads == 1
    gone = weakref.ref(shows)
    del shows
    w = None  # noqa: F841
    gc.collect()
    assert gone() is None  # and nothing is kept


@pytest.mark.parametrize("stream", [None, -1])
def test_a_class_that_is_known_is_refused_as_a_new_one(device, stream):
    v = device.upload(array.array("f", range(6)))
    said = {"shape": (6,), "typestr": "<f4", "data": (v.ptr, False), "strides": (4,), "version": 3, "stream": None}

    def outcome(kind, **changes):
        cuda = {**said, **changes}
        try:
            w = view(kind(cuda=cuda.pop("mapping", dict)(cuda)), stream=stream)
        except Exception as error:
            return type(error), str(error)
        return w.ptr, w.shape, w.strides, w.dtype, w.device, w.readonly, w.stream

    class Text(str):
        pass

    with device.current():
        Known, new = type("Known", (Shows,), {}), lambda: type("Known", (Shows,), {})
        assert outcome(Known) == outcome(Known) == outcome(Known) == outcome(new())
        for changes in [
            {"shape": (True,)},
            {"shape": (6.0,)},
            {"shape": [6]},
            {"shape": 6},
            {"shape": (2**70,)},
            {"shape": (-6,)},
            {"shape": (6, 1)},
            {"shape": None},
            {"strides": (True,)},
            {"strides": (4.0,)},
            {"strides": (2**62,)},
            {"strides": (1, 2)},
            {"strides": None},
            {"strides": (-4,)},
            {"version": True},
            {"version": 3.0},
            {"version": 2},
            {"version": -1},
            {"version": None},
            {"version": 4},
            {"stream": 0},
            {"stream": True},
            {"stream": -1},
            {"stream": "1"},
            {"data": (True, False)},
            {"data": (-1, False)},
            {"data": (0, False)},
            {"data": (2**64 - 4, False)},
            {"data": (2**64, False)},
            {"data": (v.ptr, 1)},
            {"data": (v.ptr, None)},
            {"data": (v.ptr, True)},
            {"data": (float(v.ptr), False)},
            {"data": [v.ptr, False]},
            {"data": 7},
            {"data": (16, False)},
            {"typestr": "<x9"},
            {"typestr": ["<f4"]},
            {"typestr": Text("<f4")},
            {"typestr": ">f4"},
            {"mask": 1},
            {"descr": [("a", "<f4")]},
            {"mapping": types.MappingProxyType},
            {"mapping": lambda cuda: list(cuda)},
        ]:
            for _ in range(2):
                assert outcome(Known, **changes) == outcome(new(), **changes), changes
            assert outcome(Known) == outcome(new())


@frees_classes
def test_a_protocol_that_a_class_gets_later_comes_first(device):
    v = device.empty((3,), "float32")

    class Changes:
        __cuda_array_interface__ = property(lambda self: v.__cuda_array_interface__)

    for _ in range(2):
        assert view(Changes()).protocol == "cuda_array_interface"
    Changes.__dlpack__ = lambda self, **options: v.__dlpack__(**options)
    Changes.__dlpack_device__ = lambda self: v.__dlpack_device__()
    assert view(Changes()).protocol == "dlpack"


def test_5_5_no_elements_no_question(device):
    v = device.empty(3, "float32")
    for pointer in (0, None, 0xDEAD):
        seen = []
        with rawcuda.trace(seen.append):
            w = view(interface(v, shape=(0, 3), data=(pointer, False)))
        assert w.size == 0 and not [event for event in seen if hasattr(event, "name")]
        assert w.device == ("cuda", None) and w.is_device_accessible and w.tolist() == []
    assert w.__dlpack_device__() == (2, device.ordinal)  # the current one, as in CuPy


def test_2_17_memory_is_classified_by_its_address(device, driver):
    """The driver's attributes of the address decide, not the way in which the memory was allocated."""
    with device.stream() as stream:
        memories = [
            (device.allocate(24), "cuda"),
            (device.allocate(24, stream=stream), "cuda"),
            (device.allocate(24, kind="pinned"), "cuda_host"),
            (device.allocate(24, kind="managed"), "cuda_managed"),
        ]
        stream.synchronize()
        for memory, kind in memories:
            shows = Shows(
                cuda={"shape": (2,), "typestr": "<f4", "data": (memory.ptr + 8, False), "version": 3}
            )  # in the middle of it
            assert view(shows).device[0] == kind, kind
            assert view(shows).is_host_accessible == (kind != "cuda")
            memory.close()
    page = mmap.mmap(-1, 4096)  # memory of another owner, registered with the driver
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    shows = Shows(cuda={"shape": (2,), "typestr": "<f4", "data": (address, False), "version": 3})
    with pytest.raises(ProtocolError):
        view(shows)
    with device.current():
        driver.cuMemHostRegister_v2(address, 4096, 0)
        try:
            assert view(shows).device == ("cuda_host", 0) and view(shows).tolist() == [0.0, 0.0]
        finally:
            driver.cuMemHostUnregister(address)


def test_5_13_the_exporter_is_held(device):
    shows = interface(device.upload(array.array("f", range(6))))
    shows.kept = view(shows).owner is shows
    assert shows.kept


def test_a_cuda_array_interface_with_everything(device):
    v = device.upload(array.array("f", range(24))).reshape(2, 3, 4)
    for w in (v, v.T, v[:, ::-1], v[0, 1], v[:, :0], v[..., ::2], v[1, 2, 3], v.broadcast_to((2, 2, 3, 4))):
        said = w.__cuda_array_interface__
        assert (
            set(said) == {"version", "shape", "typestr", "data", "strides", "descr", "mask", "stream"}
            and said["version"] == 3
        )
        assert said["shape"] == w.shape and all(type(n) is int for n in said["shape"]) and said["mask"] is None
        assert said["strides"] == (None if w.is_c_contiguous else w.strides) and said["data"] == (
            w.ptr if w.size else 0,
            w.readonly,
        )
        assert said["stream"] == 1  # never 0, and never None while work may be pending
        again = view(w, protocol="cuda_array_interface")
        assert again.tolist() == w.tolist() and again.readonly == w.readonly


def test_views_and_their_owners_go_in_any_order(device):
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        v = device.upload(array.array("f", range(6)))
        things = [v, view(v, protocol="dlpack"), v[2:].T]
        del v
        for i in order:
            things[i] = None
            gc.collect()


def test_interpreter_exit_with_views_alive(python):
    result = python("""
        import builtins, array
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        builtins.kept = device.upload(array.array("f", range(6)))
        builtins.capsule = builtins.kept.__dlpack__(max_version=(1, 0))
        builtins.other = rawcuda.view(builtins.kept, protocol="dlpack")
        builtins.strided = device.empty((2, 3, 4), "float32").T
        builtins.strided.fill(1)
        print("done")
    """)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    "read",
    [
        lambda v: v.tolist(),
        lambda v: v.memoryview(),
        lambda v: v.__array_interface__,
        pytest.param(
            lambda v: v.__arrow_c_array__(),
            marks=pytest.mark.skipif(sys.platform == "emscripten", reason="in a browser a view is no Arrow array"),
        ),
    ],
)
def test_a_device_address_that_is_called_host_memory_is_refused_by_any_protocol(device, read):
    with device.allocate(16) as memory:

        class Wrong:
            __array_interface__ = {"version": 3, "shape": (4,), "typestr": "<i4", "data": (memory.ptr, False)}

        v = view(Wrong())
        assert v.device == ("cpu", 0)
        with pytest.raises(ProtocolError, match="the driver says"):
            read(v)


@frees_classes
def test_strides_may_be_an_array_of_numpy(device):
    numpy = pytest.importorskip("numpy")
    there = device.upload(numpy.arange(4, dtype="i4").reshape(2, 2))

    class Exporter:
        __cuda_array_interface__ = {**there.__cuda_array_interface__, "strides": numpy.array([4, 8])}

    assert view(Exporter()).tolist() == [[0, 2], [1, 3]]
    assert view(Exporter()).tolist() == [[0, 2], [1, 3]]  # (the second time by what was learned)


class _Empty:
    """An array without elements that names no device, as the CUDA Array Interface wants it."""

    def __init__(self, **changed):
        self.__cuda_array_interface__ = {
            "shape": (0, 3), "typestr": "<i8", "data": (0, False), "version": 3, **changed,
        }  # fmt: skip


class _ByDLPack:
    def __init__(self, exporter):
        self.__dlpack__, self.__dlpack_device__ = exporter.__dlpack__, exporter.__dlpack_device__


def test_an_empty_array_that_names_no_device_is_on_the_current_one(device):
    v = view(_Empty())
    for part in v, v.T, v[:, 1:2], v.reshape(3, 0), v.reinterpret("int32"), v.ravel(), view(v):
        assert part.__dlpack_device__() == (2, device.ordinal)
        for keywords in {}, {"stream": 1}, {"stream": -1}, {"copy": True}, {"copy": False}:
            again = view(part.__dlpack__(max_version=(1, 0), **keywords))
            assert again.shape == part.shape and again.dtype == part.dtype and again.device == ("cuda", device.ordinal)
        assert view(part.__dlpack__()).shape == part.shape
        assert view(_ByDLPack(part)).device == ("cuda", device.ordinal)
        assert view(part, protocol="dlpack_c_exchange").device == ("cuda", device.ordinal)
        assert view(part.__dlpack__(dl_device=(1, 0), max_version=(1, 0))).device == ("cpu", 0)
        assert part.__cuda_array_interface__["data"] == (0, False) and part.tobytes() == b""
        assert part.copy().device == part.astype("float32").device == ("cuda", device.ordinal)
        assert device.upload(part).shape == part.download().shape == part.shape
        part.fill(3)
    v.copy_from(device.empty((0, 3), "int64"))
    rawcuda.copy(device.empty((0, 3), "int64"), v)
    frozen = view(_Empty(data=(0, True)))
    assert view(frozen.__dlpack__(max_version=(1, 0))).readonly
    with pytest.raises(ProtocolError, match="read-only"):
        frozen.__dlpack__()


def test_an_empty_array_follows_the_current_device(device):
    """What was exported from one device says nothing about the next export."""
    v = view(_Empty())
    for ordinal in range(len(rawcuda.devices())):
        with rawcuda.Device(ordinal).current():
            assert v.__dlpack_device__() == (2, ordinal)
            assert view(v.__dlpack__(max_version=(1, 0))).device == ("cuda", ordinal)
            assert v.copy().device == ("cuda", ordinal)


def test_a_launch_takes_an_empty_array_that_names_no_device(device):
    kernel = device.load(".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }")[
        "k"
    ]
    for argument in _Empty(), view(_Empty()), rawcuda.In(view(_Empty(data=(0, True)))), device.empty(0, "int8"):
        kernel.launch(argument, grid=1, block=1)
        kernel.configure(grid=1, block=1)(argument)
    with pytest.raises(ValueError, match="read-only"):
        kernel.launch(view(_Empty(data=(0, True))), grid=1, block=1)
