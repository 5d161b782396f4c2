"""Pickling and copying of what lies on a device, and of objects with a handle."""

from __future__ import annotations

import array
import copy
import pickle
import sys

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

FLOATS = array.array("f", range(12))


def on(device, kind):
    return device.allocate(48, kind=kind).view("float32").reshape(3, 4).copy_from(rawcuda.view(FLOATS).reshape(3, 4))


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_view_of_a_device_arrives_on_the_current_device(device, kind, protocol):
    v = on(device, kind)
    for one in (v, v.T, v[:, ::2], v[1, 1], v[:0]):
        made = pickle.loads(pickle.dumps(one, protocol))
        expected = {"device": "cuda", "managed": "cuda_managed", "pinned": "cpu"}[kind]
        assert made.device[0] == expected and made.tolist() == one.tolist() and made.dtype is one.dtype
        assert made.is_f_contiguous or not one.is_f_contiguous
        with rawcuda.receive_on("host"):
            assert pickle.loads(pickle.dumps(one, protocol)).device[0] == "cpu"
    frozen = v.broadcast_to((2, 3, 4))
    assert pickle.loads(pickle.dumps(frozen, protocol)).readonly
    for order in (v, v.T):
        made = pickle.loads(pickle.dumps(rawcuda.view(order, writable=False), protocol))
        for write in (lambda: made.fill(1), lambda: made.copy_from(order), lambda: made.__setitem__(0, 1)):
            with pytest.raises(rawcuda.ProtocolError, match="must not be written"):
                write()
        assert made.readonly and made.tolist() == order.tolist()


def test_the_receivers_current_device_decides(device):
    data = pickle.dumps(on(device, "device"), 5)
    last = rawcuda.devices()[-1]
    with last.current():
        assert pickle.loads(data).device == ("cuda", last.ordinal)
    assert pickle.loads(data).device == ("cuda", 0)
    with rawcuda.receive_on(last.ordinal):
        assert pickle.loads(data).device == ("cuda", last.ordinal)
    with rawcuda.receive_on(99), pytest.raises(ValueError, match="device 99"):
        pickle.loads(data)


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_memory_is_pickled_by_its_bytes(device, kind):
    with device.allocate(48, kind=kind) as memory:
        memory.copy_from(FLOATS)
        for protocol in (2, 5):
            made = pickle.loads(pickle.dumps(memory, protocol))
            assert (made.kind, made.nbytes, bytes(made.view().download().memoryview())) == (kind, 48, FLOATS.tobytes())
            made.close()
        deep = copy.deepcopy(memory)
        assert (deep.kind, deep.nbytes) == (kind, 48) and deep.ptr != memory.ptr
        deep.close()
        with pytest.raises(TypeError, match="one owner"):
            copy.copy(memory)
        assert memory.__sizeof__() > 48
    with pytest.raises(rawcuda.Closed):
        pickle.dumps(memory)


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_a_deep_copy_of_a_view_is_in_the_same_kind_of_memory(device, kind):
    v = on(device, kind)
    for one in (v, v.T, v[:, ::2]):
        made = copy.deepcopy(one)
        assert made.device[0] == v.device[0] and made.tolist() == one.tolist() and made.ptr != one.ptr
    assert copy.deepcopy(v.T).strides == v.T.strides
    as_int = v.astype("int32")
    assert as_int.device[0] == v.device[0] and as_int.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_objects_with_a_handle_are_neither_copied_nor_pickled(device):
    stream, event, module = device.stream(), device.event(), device.load(kernels.GLOBALS)
    for owned in (stream, event, module, device):
        with pytest.raises(TypeError, match="one owner"):
            copy.copy(owned)
        with pytest.raises(TypeError, match="one owner"):
            copy.deepcopy(owned)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(owned)
    kernel = module["nothing"]
    for bound in (kernel, kernel.configure(grid=1, block=1)):
        with pytest.raises((TypeError, pickle.PicklingError)):
            pickle.dumps(bound)
    stream.synchronize()


def test_a_value_on_the_device_is_a_number(device):
    v = on(device, "device")
    assert v[0, 1] == 1 and float(v[2, 3]) == 11.0 and v[1, 1] > v[1, 0] and f"{v[0, 2]:.1f}" == "2.0"
    v[0] = [5, 6, 7, 8]
    v[1, :2] = 9
    assert v.tolist() == [[5, 6, 7, 8], [9, 9, 6, 7], [8, 9, 10, 11]] and v.item(0, 3) == 8 and v.flat[4] == 9
    assert v.T.tobytes() == v.T.download().tobytes() and ">" in repr(v) and "5.0" not in repr(v)
    with pytest.raises(TypeError, match="cupy"):
        v + 1


def test_numpy_makes_no_array_of_objects_of_memory(device):
    numpy = pytest.importorskip("numpy")
    with device.allocate(8) as memory, pytest.raises(TypeError, match="download"):
        numpy.asarray(memory)
    with device.allocate(8, kind="pinned") as memory:
        memory.fill(1)
        assert numpy.asarray(memory).tolist() == [1] * 8


class OnlyArray:
    """An exporter such as a pandas Series: it makes its array when it is asked."""

    def __init__(self, made):
        self.made = made

    def __array__(self, dtype=None, copy=None):
        return self.made


def test_what_has_only_an_array_method_can_be_copied_from(device):
    numpy = pytest.importorskip("numpy")
    source = OnlyArray(numpy.arange(3, dtype="f4"))
    there = device.upload(source)
    assert there.tolist() == [0, 1, 2]
    host = numpy.zeros(3, "f4")
    rawcuda.copy(host, source)
    there[1:] = OnlyArray(numpy.ones(2, "f4"))
    with device.allocate(12) as memory:
        assert memory.copy_from(source).view("float32").tolist() == host.tolist() == [0, 1, 2]
    assert there.tolist() == [0, 1, 1]
    for use in (lambda: rawcuda.view(source), lambda: rawcuda.copy(source, host)):
        with pytest.raises(TypeError, match=r"numpy\.asarray\(object\)"):
            use()
    with pytest.raises(TypeError, match="not an exporter"):
        device.upload(OnlyArray([1, 2]))


# -- all public classes

OWNERS = "one owner"


def every_public_object(device):
    """Return an object of each public class, by the name of the class."""
    module = device.load(kernels.ADD)
    kernel = module[module.names[0]]
    memory = device.allocate(48)
    array = device.array((4, 4), "float32", surface=True)
    mipmapped = device.mipmapped_array((4, 4), "float32")
    made = {
        "Device": device,
        "Event": device.event(),
        "Graph": device.graph(),
        "In": rawcuda.In(memory.view()),
        "Kernel": kernel,
        "Launch": kernel.configure(grid=1, block=1),
        "Library": rawcuda.Library(kernels.ADD),
        "ManagedMemory": device.allocate(48, kind="managed"),
        "Memory": memory,
        "MemoryPool": device.memory_pool(),
        "MipmappedArray": mipmapped,
        "Module": module,
        "OpaqueArray": array,
        "Stream": device.stream(),
        "StridedView": memory.view("float32"),
        "SurfaceObject": device.surface(array),
        "TextureObject": device.texture(device.array((4, 4), "float32")),
        "TensorMap": None,  # made below, where the device has them
        "VirtualMemory": device.virtual_memory(1),
        "SharedHandle": None,  # made below, on Linux
        "profile": rawcuda.profile(),
        "progress": rawcuda.progress([]),
        "range": rawcuda.range("name"),
        "receive_on": rawcuda.receive_on(None),
    }
    if device.compute_capability >= (9, 0):
        made["TensorMap"] = rawcuda.TensorMap.tiled(device.empty((64, 64), "float32"), box=(8, 8))
    if sys.platform.startswith("linux"):
        made["SharedHandle"] = memory.share()
    return made


def test_no_public_object_gets_a_second_owner(device):
    """Take all public classes through copy, deepcopy and pickle: whatever arrives, closing it leaves the original."""
    objects = every_public_object(device)
    classes = {
        name
        for name in {*rawcuda.__all__, "range"}
        if isinstance(getattr(rawcuda, name), type) and not issubclass(getattr(rawcuda, name), BaseException)
    }
    assert set(objects) == classes, "add the new public class to this test"
    ways = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        **{
            f"pickle {number}": lambda it, number=number: pickle.loads(pickle.dumps(it, number)) for number in (2, 4, 5)
        },
    }
    went = {}
    for name, original in objects.items():
        if original is None:
            continue
        for way, take in ways.items():
            try:
                taken = take(original)
            except (TypeError, ValueError, pickle.PicklingError) as error:
                assert not isinstance(original, module("ownership").Owned) or name in str(error), f"{way}: {error}"
                continue
            went.setdefault(name, []).append(way)
            if taken is not original and hasattr(taken, "close"):
                handle = getattr(taken, "handle", None)
                assert handle is None or handle != original.handle, f"{way} of {name} has the same handle"
                taken.close()
            del taken
            if hasattr(original, "closed"):
                assert not original.closed, f"{way} of {name} closed the original"
    copied = {"ManagedMemory", "Memory", "StridedView", "VirtualMemory", "SharedHandle"}
    assert set(went) - copied <= {"In", "receive_on", "profile", "progress", "range", "TensorMap"}, went
    assert "copy" not in went["Memory"] and "copy" not in went["VirtualMemory"]
    objects["Stream"].synchronize()
    assert objects["Event"].query() and objects["Memory"].view()[:1].fill(1)
    for each in objects.values():
        if hasattr(each, "close"):
            each.close()


def test_a_process_that_never_used_a_view_unpickles_one(device, python):
    """What arrives first in a process may be a pickle."""
    v = on(device, "device")
    with device.allocate(4) as memory:
        memory.fill(7)
        data = pickle.dumps((rawcuda.view(FLOATS), v, v.T, memory), 5).hex()
    result = python(f"""
        import pickle
        host, there, turned, memory = pickle.loads(bytes.fromhex("{data}"))
        print(host.tolist()[:2], there.tolist()[1], turned.shape, memory.view().tolist())
    """)
    assert result.stdout == "[0.0, 1.0] [4.0, 5.0, 6.0, 7.0] (4, 3) [7, 7, 7, 7]\n", result.stderr


def test_the_class_of_each_view_can_be_pickled(device):
    """Software such as Dask sends the class of an object, too."""
    for each in (rawcuda.view(FLOATS), on(device, "device"), device.virtual_memory(1).view()):
        assert pickle.loads(pickle.dumps(type(each))) is type(each) and type(each).__name__ == "StridedView"
