"""Exporters as kernel arguments: viewed in stream order, checked, and kept until the stream has completed the work."""

from __future__ import annotations

import array
import gc
import weakref

import pytest

from tests.driver.kernels import ADD
from tests.null.producers import Exporter, Shows, Tensor
from tests.null.test_dlpack_exchange import Table, kind_of
from tests.subject import module, rawcuda

errors = module("errors")
view, ProtocolError = rawcuda.view, errors.ProtocolError


@pytest.fixture
def add(device):
    with device.load(ADD) as loaded:
        yield loaded["add"]
        rawcuda.synchronize()


def floats(device, *values):
    return device.upload(array.array("f", values))


def by_dlpack(v):
    tensor = Tensor(v.ptr, shape=v.shape, device=v.__dlpack_device__())
    return Exporter(tensor)


def by_legacy_dlpack(v):
    return Exporter(Tensor(v.ptr, shape=v.shape, device=v.__dlpack_device__(), version=None))


def by_interface(v):
    return Shows(cuda={"shape": v.shape, "typestr": "<f4", "data": (v.ptr, False), "version": 3, "stream": 1})


@pytest.mark.parametrize(
    "wrap",
    [lambda v: v, lambda v: v.owner, by_dlpack, by_interface, lambda v: rawcuda.In(by_legacy_dlpack(v))],
    ids=["view", "memory", "dlpack", "interface", "legacy, In"],
)
def test_anything_that_exports_goes_into_a_kernel(device, add, wrap):
    a, b, c = floats(device, 1, 2, 3), floats(device, 10, 20, 30), device.empty(3, "float32")
    with device.stream() as stream:
        add.launch(wrap(a), rawcuda.In(wrap(b)), c, 3, grid=1, block=32, stream=stream)
        stream.synchronize()
    assert c.tolist() == [11.0, 22.0, 33.0]


def test_three_libraries_arrays_in_one_kernel(device, add):
    """The example of the README: one kernel gets views of arrays of three libraries."""
    numpy = pytest.importorskip("numpy")
    from_numpy = device.upload(numpy.arange(4, dtype="f4"))
    by_hand = floats(device, 1, 1, 1, 1)
    result = device.empty(4, "float32")
    add.launch(from_numpy, by_interface(by_hand), result, 4, grid=1, block=4)
    assert numpy.asarray(result.download()).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_the_stream_is_the_launchs(device, add):
    a, b, c = floats(device, 1), floats(device, 2), device.empty(1, "float32")
    exporter = by_dlpack(a)
    with device.stream() as stream:
        add.launch(exporter, b, c, 1, grid=1, block=1, stream=stream)
        assert exporter.asked == [{"max_version": (1, 3), "stream": stream.handle}]
        stream.synchronize()
    exporter = by_dlpack(a)
    add.launch(exporter, b, c, 1, grid=1, block=1)
    assert exporter.asked == [{"max_version": (1, 3), "stream": 1}]
    rawcuda.synchronize()


def test_read_only_needs_in(device, add):
    a, b, c = floats(device, 1), floats(device, 2), device.empty(1, "float32")
    for make in (
        lambda: Exporter(Tensor(a.ptr, shape=(1,), device=(2, 0), flags=1)),
        lambda: view(a, writable=False),
        lambda: by_legacy_dlpack(a),
        lambda: a.broadcast_to((2, 1)),
        lambda: Shows(cuda={"shape": (1,), "typestr": "<f4", "data": (a.ptr, True), "version": 3}),
    ):
        with pytest.raises(ValueError, match="read-only"):
            add.launch(make(), b, c, 1, grid=1, block=1)
        add.launch(rawcuda.In(make()), b, c, 1, grid=1, block=1)
    rawcuda.synchronize()
    assert c.tolist() == [3.0]
    add.launch(view(by_legacy_dlpack(a), writable=True), b, c, 1, grid=1, block=1)  # on purpose
    rawcuda.synchronize()


def test_memory_that_the_device_cannot_reach(device, add):
    a, c = floats(device, 1), device.empty(1, "float32")
    host = array.array("f", [1])
    if not device.attribute("PAGEABLE_MEMORY_ACCESS"):
        for argument in (host, view(host), Exporter(Tensor(shape=(1,))), bytearray(4)):
            with pytest.raises(ValueError, match="host memory"):
                add.launch(argument, a, c, 1, grid=1, block=1)
    with pytest.raises(ProtocolError, match="the driver says"):
        add.launch(Exporter(Tensor(shape=(1,), device=(2, 0))), a, c, 1, grid=1, block=1)  # not really there
    with device.allocate(4, kind="pinned") as pinned:
        pinned.copy_from(host)
        add.launch(pinned, a, c, 1, grid=1, block=1)
        add.launch(Exporter(Tensor(pinned.ptr, shape=(1,), device=(3, 0))), a, c, 1, grid=1, block=1)
        rawcuda.synchronize()
        assert c.tolist() == [2.0]


def test_an_exporter_is_kept_until_the_stream_has_passed(device, add):
    a, b, c = floats(device, 1), floats(device, 2), device.empty(1, "float32")
    exporter = by_interface(a)
    gone = weakref.ref(exporter)
    with device.stream() as stream:
        add.launch(exporter, b, c, 1, grid=1, block=1, stream=stream)
        del exporter
        gc.collect()
        assert gone() is not None or stream.query()
        stream.synchronize()
    rawcuda.synchronize()
    gc.collect()
    assert gone() is None


def test_a_tensor_is_deleted_once_after_the_launch(device, add):
    a, b, c = floats(device, 1), floats(device, 2), device.empty(1, "float32")
    tensors = [Tensor(a.ptr, shape=(1,), device=(2, 0)) for _ in range(3)]
    for tensor in tensors:
        add.launch(Exporter(tensor), b, c, 1, grid=1, block=1)
    rawcuda.synchronize()
    gc.collect()
    assert [tensor.freed for tensor in tensors] == [1, 1, 1]


def test_an_exporters_own_error_reaches_the_caller(device, add):
    b, c = floats(device, 2), device.empty(1, "float32")
    error = RuntimeError("requires grad")
    with pytest.raises(RuntimeError) as caught:
        add.launch(Exporter(Tensor(device=(2, 0)), raises={True: error, False: error}), b, c, 1, grid=1, block=1)
    assert caught.value is error


def test_by_the_exchange_table_too(device, add):
    a, b, c = floats(device, *range(6)), floats(device, *[1] * 6), device.empty(6, "float32")
    import ctypes

    table = Table(device=(2, 0), stream=0)
    table.values = ctypes.c_float.from_address(ctypes.addressof(ctypes.c_float()))  # not read: the address is replaced
    table.tensor = lambda plain=table.tensor: a.ptr.to_bytes(8, "little") + plain()[8:]
    v = view(kind_of(table)(), protocol="dlpack_c_exchange")
    assert v.device == ("cuda", 0) and v.readonly
    add.launch(rawcuda.In(v), b, c, 6, grid=1, block=6)
    assert c.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    del v
    rawcuda.synchronize()  # until then, the view is kept: the stream that its exporter named waits for the launch
    assert table.freed == 1
    del table.tensor  # it refers to the memory; CPython 3.13 without the GIL never frees the class, nor the table
