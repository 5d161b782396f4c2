"""CUDA arrays: how they are made, and copies between them and any memory; pitched memory."""

from __future__ import annotations

import array
import copy
import gc
import itertools
import pickle
from typing import Any

import pytest

from tests.subject import module, rawcuda

np = pytest.importorskip("numpy")
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")
KINDS = {
    "1-D": ((7,), {}),
    "2-D": ((4, 7), {}),
    "3-D": ((3, 4, 7), {}),
    "layered 1-D": ((3, 7), {"layered": True}),
    "layered 2-D": ((3, 4, 7), {"layered": True}),
    "cubemap": ((6, 4, 4), {"cubemap": True}),
    "layered cubemap": ((12, 4, 4), {"cubemap": True, "layered": True}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def numbers(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    count = int(np.prod(shape))
    return (np.arange(count) % 251).astype(dtype).reshape(shape)


# -- making arrays


@every_kind
@pytest.mark.parametrize("channels", (1, 2, 4))
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_goes_in_comes_out(device, kind, dtype, channels):
    shape, options = KINDS[kind]
    data = numbers((*shape, channels) if channels > 1 else shape, dtype)
    with device.array(shape, dtype, channels=channels, **options) as made:
        assert (made.shape, str(made.dtype), made.channels) == (shape, dtype, channels)
        assert made.ndim == len(shape) and made.nbytes == data.nbytes and len(made) == shape[0]
        assert made.cubemap is ("cubemap" in kind) and made.layered is ("layered" in kind)
        assert not made.surface and not made.gather and made.device is device
        assert made.copy_from(data) is made
        back = made.download()
        assert (np.asarray(back) == data).all() and back.shape == data.shape
        assert made.tolist() == data.tolist()


@every_kind
def test_an_exporter_is_copied(device, kind):
    shape, options = KINDS[kind]
    data = numbers(shape)
    for exporter in (data, device.upload(data), np.asfortranarray(data)):
        with device.array(exporter, **options) as made:
            assert made.shape == shape and (np.asarray(made.download()) == data).all()
    data = numbers((*shape, 4), "uint8")
    with device.array(data, channels=4, surface=True, **options) as made:
        assert made.shape == shape and made.surface and (np.asarray(made.download()) == data).all()


def test_other_exporters(device):
    with device.array(array.array("f", [1, 2, 3])) as made:
        assert made.tolist() == [1, 2, 3]
    with device.array(b"bytes") as made:
        assert made.shape == (5,) and made.tolist() == list(b"bytes")
    complex_numbers = np.array([1 + 2j, 3 - 4j], np.complex64)
    with device.array(complex_numbers) as made:
        assert made.channels == 2 and made.tolist() == [[1, 2], [3, -4]]
        target = np.zeros(2, np.complex64)
        made.copy_to(target)
        assert (target == complex_numbers).all()
        target.flags.writeable = False
        with pytest.raises(rawcuda.ProtocolError, match="readonly True: the memory must not be written to"):
            made.copy_to(target)
    with device.array(5, "float32x4") as made:
        assert made.shape == (5,) and made.channels == 4
    with device.array(np.int64(5), np.float16) as made:
        assert made.shape == (5,)


@pytest.mark.parametrize(
    "arguments, options, error, words",
    [
        (((4, 4),), {}, TypeError, "dtype"),
        (((4, 4), "float64"), {}, ValueError, "float64"),
        (((4, 4), "int64"), {}, ValueError, "int64"),
        (((4, 4), "bool"), {}, ValueError, "reinterpret"),
        (((4, 4), "bfloat16"), {}, ValueError, "bfloat16"),
        (((4, 4), "nonsense"), {}, Exception, "nonsense"),
        (((4, 4), "uint8"), {"channels": 3}, ValueError, "RGBA"),
        (((4, 4), "uint8"), {"channels": 0}, ValueError, "channels=0"),
        (((4, 4), "uint8"), {"channels": True}, TypeError, "channels"),
        (((4, 4), "uint8"), {"channels": 2**80}, ValueError, "1, 2 or 4"),
        (((), "uint8"), {}, ValueError, "dimensions"),
        (((2, 2, 2, 2), "uint8"), {}, ValueError, "1 to 3 dimensions"),
        (((4, 0), "uint8"), {}, ValueError, "at least 1"),
        (((4, -1), "uint8"), {}, ValueError, "extent"),
        (((2**63, 1), "uint8"), {}, ValueError, "extent"),
        (((10**30,), "uint8"), {}, ValueError, "extent"),
        (((2.5, 1), "uint8"), {}, TypeError, "float"),
        (((True, 1), "uint8"), {}, TypeError, "bool"),
        (((8,), "uint8"), {"layered": True}, ValueError, "2 to 3 dimensions"),
        (((6, 4, 5), "uint8"), {"cubemap": True}, ValueError, "squares"),
        (((5, 4, 4), "uint8"), {"cubemap": True}, ValueError, "6 faces"),
        (((12, 4, 4), "uint8"), {"cubemap": True}, ValueError, "layered=True"),
        (((4, 4), "uint8"), {"cubemap": True}, ValueError, "3 to 3"),
        (((4, 4, 4), "uint8"), {"gather": True}, ValueError, "gather"),
        (((4, 4), "uint8"), {"surface": 2}, TypeError, "True or False"),
        (((2**20, 2**20), "uint8"), {}, ValueError, "MAXIMUM_TEXTURE2D_HEIGHT"),
        (((2**21, 4), "uint8"), {}, ValueError, "MAXIMUM_TEXTURE2D_HEIGHT"),
        ((2**30, "uint8"), {}, ValueError, "MAXIMUM_TEXTURE1D_WIDTH"),
        (((100000, 4, 4), "uint8"), {}, ValueError, "MAXIMUM_TEXTURE3D_DEPTH"),
        (((5000, 4, 4), "uint8"), {"layered": True}, ValueError, "MAXIMUM_TEXTURE2D_LAYERED_LAYERS"),
        (((4, 100000), "uint8"), {"layered": True}, ValueError, "MAXIMUM_TEXTURE1D_LAYERED_WIDTH"),
        (((6, 100000, 100000), "uint8"), {"cubemap": True}, ValueError, "MAXIMUM_TEXTURECUBEMAP_WIDTH"),
        ((60000, "uint8"), {"surface": True}, ValueError, "MAXIMUM_SURFACE1D_WIDTH"),
        (((60000, 60000), "uint8"), {"gather": True}, ValueError, "MAXIMUM_TEXTURE2D_GATHER"),
        ((object(),), {}, TypeError, "object"),
        (("text", "uint8"), {}, TypeError, "str"),
        (([1, 2.5], "uint8"), {}, TypeError, "float"),
    ],
)
def test_what_no_array_can_be(device, arguments, options, error, words):
    with pytest.raises(error, match=words):
        device.array(*arguments, **options)


def test_a_device_that_cannot_gather(device, monkeypatch):
    device.attribute("CAN_TEX2D_GATHER")
    monkeypatch.setitem(device._primary.attributes, "CAN_TEX2D_GATHER", 0)
    with pytest.raises(rawcuda.Unsupported, match="CAN_TEX2D_GATHER"):
        device.array((4, 7), "float32", gather=True)


def test_data_and_another_dtype(device):
    with pytest.raises(TypeError, match="leave dtype out"):
        device.array(np.zeros(4, np.float32), "uint8")
    with pytest.raises(ValueError, match="last dimension"):
        device.array(np.zeros((4, 3), np.float32), channels=4)
    with pytest.raises(ValueError, match="2 channels"):
        device.array(np.zeros(4, np.complex64), channels=4)


@pytest.mark.emulator_only("a GPU has other amounts of memory")
def test_more_than_there_is(device):
    free = device.free_memory
    with pytest.raises(rawcuda.OutOfMemory, match="cuArray3DCreate_v2"):
        device.array((2**14, 2**14, 2**10), "float32")
    assert device.free_memory == free
    with device.array((64, 64), "float32"):
        assert device.free_memory < free
    with device.mipmapped_array((64, 64), "float32"):
        assert device.free_memory < free
    assert device.free_memory == free


# -- copies


def memories(device: Any, data: Any) -> Any:
    """Yield views of memory of each kind and layout with this content."""
    yield "host", rawcuda.view(data.copy())
    for kind in ("device", "pinned", "managed"):
        memory = device.allocate(data.nbytes, kind=kind)
        whole = memory.view(str(data.dtype)).reshape(data.shape)
        yield kind, whole.copy_from(data)
    padded = np.zeros((*data.shape[:-1], data.shape[-1] + 3), data.dtype)
    yield "host, pitched", rawcuda.view(padded)[..., : data.shape[-1]].copy_from(data)
    yield "device, pitched", device.empty_pitched(data.shape, str(data.dtype)).copy_from(data)
    yield "host, transposed", rawcuda.view(np.asfortranarray(data))
    turned = device.upload(np.ascontiguousarray(data.T))
    yield "device, transposed", turned.T
    yield "host, backwards", rawcuda.view(data[..., ::-1].copy())[..., ::-1]
    yield "device, backwards", device.upload(data[..., ::-1].copy())[..., ::-1]
    yield (
        "device, gaps",
        device.empty((*data.shape[:-1], 2 * data.shape[-1]), str(data.dtype))[..., ::2].copy_from(data),
    )


@every_kind
@pytest.mark.parametrize("channels", (1, 2))
@pytest.mark.parametrize("own_stream", (False, True))
def test_copies_from_and_to_memory_of_each_kind_and_layout(device, kind, channels, own_stream):
    shape, options = KINDS[kind]
    data = numbers((*shape, channels) if channels > 1 else shape, "int16")
    stream = device.stream() if own_stream else None
    with device.array(shape, "int16", channels=channels, **options) as made:
        for name, view in memories(device, data):
            view_of_zeros = np.zeros_like(data)
            made.copy_from(view_of_zeros, stream=stream)
            made.copy_from(view, stream=stream)
            device.synchronize()
            assert (np.asarray(made.download()) == data).all(), name
            if not view.readonly:
                view.copy_from(view_of_zeros)
                assert made.copy_to(view, stream=stream) is view
                device.synchronize()
                assert (np.asarray(view.download()) == data).all(), name


@every_kind
def test_parts(device, kind):
    shape, options = KINDS[kind]
    data = numbers(shape)
    choices = [
        ([slice(None), slice(1, 3), slice(-2, None), 0, -1] if extent > 2 else [slice(None), 1]) for extent in shape
    ]
    with device.array(data, **options) as made, device.array(shape, "float32", **options) as other:
        for key in itertools.product(*choices):
            assert (np.asarray(made[key].download()) == data[key]).all() and made[key].shape == data[key].shape
            expected = np.zeros(shape, np.float32)
            other.copy_from(expected)
            expected[key] = data[key]
            other[key].copy_from(device.upload(data[key].copy()) if data[key].shape else data[key])
            assert (np.asarray(other.download()) == expected).all(), key
            other.copy_from(np.zeros(shape, np.float32))
            assert other[key].copy_from(made[key]) is not None
            assert (np.asarray(other.download()) == expected).all(), key
        assert (np.asarray(made[..., 1].download()) == data[..., 1]).all()
        assert made[()].shape == shape and made[...].shape == shape
        assert made[0:0].shape == (0, *shape[1:]) and made[0:0].tolist() == []


def test_parts_of_parts_and_assignments(device):
    data = numbers((3, 4, 7))
    with device.array(data) as made:
        for one, other in (
            (1, 2),
            (slice(1, 3), (0, 2)),
            ((slice(None), 1), slice(1, 2)),
            ((..., 3), (2, slice(1, 3))),
        ):
            assert (np.asarray(made[one][other].download()) == data[one][other]).all()
        made[1:, 2] = data[:2, 0]
        made[0][1][2:4] = np.array([100, 200], np.float32)
        data[1:, 2] = data[:2, 0].copy()
        data[0][1][2:4] = 100, 200
        assert made.tolist() == data.tolist() and len(made[1:]) == 2 and made[0, 0, 0:0]
        for wrong in ((0, 0, 0), (4, 0), (0, 7)):
            with pytest.raises(IndexError):
                made[0][wrong]
        with pytest.raises(TypeError, match="len"):
            len(made[0, 0, 0])
        with pytest.raises(TypeError):
            iter(made[0])


def test_parts_have_the_errors_of_indexing(device):
    with device.array((4, 7), "float32") as made:
        for key, words in (
            ((slice(None, None, 2),), "step"),
            ((slice(None, None, -1),), "step"),
            ((4,), "out of bounds"),
            ((0, -8), "out of bounds"),
            ((0, 0, 0), "too many"),
            ((..., ...), "ellipsis"),
            (("x",), "str"),
            ((None,), "NoneType"),
            ((1.5,), "float"),
            ((True,), "bool"),
        ):
            with pytest.raises(IndexError, match=words):
                made[key]
        with pytest.raises(TypeError):
            iter(made)
        assert "1:3, 2" in repr(made[1:3, 2])


def test_a_source_is_broadcast(device):
    with device.array((3, 4), "float32") as made:
        made.copy_from(np.arange(4, dtype=np.float32))
        assert made.tolist() == [[0, 1, 2, 3]] * 3
        made[:, 1].copy_from(np.float32(7))
        assert [row[1] for row in made.tolist()] == [7, 7, 7]
        made.copy_from(device.upload(np.array([[1], [2], [3]], np.float32)))
        assert made.tolist() == [[1] * 4, [2] * 4, [3] * 4]


def test_copies_that_begin_on_the_other_side(device):
    data = numbers((4, 7))
    with device.array((4, 7), "float32") as made, device.allocate(112) as memory:
        rawcuda.copy(made, data)
        rawcuda.copy(made[0], device.upload(data[1]))
        expected = np.concatenate((data[1:2], data[1:]))
        there, here = device.empty((4, 7), "float32"), np.zeros((4, 7), np.float32)
        there.copy_from(made)
        rawcuda.copy(here, made)
        memory.copy_from(made)
        assert there.tolist() == here.tolist() == expected.tolist()
        assert np.asarray(memory.view().download()).tobytes() == expected.tobytes()
        there[1:3] = made[2:]
        assert there.tolist()[1:3] == expected.tolist()[2:]
        with pytest.raises(ValueError, match="shape"):
            there[:2].copy_from(made)
        with pytest.raises(TypeError, match="not an exporter"):
            rawcuda.copy(there, object())


def test_an_object_with_only_an_array_is_read(device):
    class Series:
        def __array__(self, *_: Any, **__: Any) -> Any:
            return numbers((4, 7))

    with device.array(Series()) as made:
        assert made.tolist() == numbers((4, 7)).tolist()
        assert made.copy_from(np.zeros((4, 7), np.float32)).copy_from(Series()).tolist() == numbers((4, 7)).tolist()


def test_copies_between_arrays(device):
    data = numbers((4, 7, 2), "uint8")
    with device.array(data, channels=2) as one, device.array((4, 7), "uint8", channels=2) as other:
        stream = device.stream()
        one.copy_to(other, stream=stream)
        stream.synchronize()
        assert other.tolist() == data.tolist()
        one[0:2].copy_to(one[2:4])
        assert one.tolist()[2:] == data.tolist()[:2]
        with pytest.raises(ValueError, match="overlap"):
            one[0:2].copy_to(one[1:3])
        with pytest.raises(ValueError, match="shape"):
            one.copy_to(other[1:])
        with device.array((4, 7), "int8", channels=2) as third, pytest.raises(TypeError, match="converts nothing"):
            one.copy_to(third)
        with device.array((4, 7), "uint8") as third, pytest.raises(TypeError, match="uint8x2"):
            third.copy_from(one)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4)])
def test_parts_without_elements(device, shape):
    """Nothing is copied, whatever the strides of the other side are."""
    with device.array(shape, "float32") as made:
        for part in (made[..., 0:0], made[1:1]):
            empty = device.empty(part.shape, "float32")
            assert part.copy_from(empty).copy_to(empty) is empty
            other = rawcuda.view(memoryview(b"")).reinterpret("float32").reshape(part.shape)
            assert part.copy_from(other).tolist() == part.download().tolist()


def test_overlapping_parts_of_one_array_are_refused(device):
    """Also through other objects for the same array."""
    with device.mipmapped_array(8, "uint8", levels=2) as levels, device.array(8, "uint8") as one:
        one.copy_from(bytes(range(8)))
        borrowed = rawcuda.OpaqueArray.borrow(device, one.handle, owner=one)
        for to, of in ((one, one), (one, borrowed), (levels[0], levels[0])):
            with pytest.raises(ValueError, match="^the two parts of the array overlap"):
                to[0:4].copy_from(of[2:6])
        one[0:4].copy_from(borrowed[4:8])
        assert one.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]
        levels[0].copy_from(one)
        levels[1].copy_from(levels[0][0:4])
        assert levels[1].tolist() == [4, 5, 6, 7]


def test_copies_between_kinds_of_arrays(device):
    data = numbers((3, 4, 7))
    with device.array(data) as volume, device.array((3, 4, 7), "float32", layered=True) as layers:
        layers.copy_from(volume)
        assert layers.tolist() == data.tolist()
        with device.array((4, 7), "float32") as image, device.array((3, 7), "float32", layered=True) as lines:
            image.copy_from(layers[1])
            assert image.tolist() == data[1].tolist()
            lines.copy_from(volume[:, 2])
            assert lines.tolist() == data[:, 2].tolist()


PARTS = (
    [(slice(None),) * 3]
    + [(1, ...), (slice(None), 1), (..., 1)]
    + [(1, 2), (1, slice(None), 2), (slice(None), 1, 2), (1, 2, slice(0, 1)), (slice(0, 1), 1, 2)]
)


@pytest.mark.parametrize("own_stream", [False, True])
@pytest.mark.parametrize("layered", [False, True])
def test_parts_along_any_axes_are_copied(device, layered, own_stream):
    """A row, a column and a part of each layer may have the same shape; the driver copies equal boxes only."""
    data = numbers((3, 3, 3))
    with device.array(data) as source, device.stream() as own:
        for of, to in itertools.product(PARTS, PARTS):
            if data[of].shape != data[to].shape:
                continue
            expected = np.zeros((3, 3, 3), "float32")
            with device.array(expected, layered=layered) as target:
                target[to].copy_from(source[of], stream=own if own_stream else None)
                expected[to] = data[of]
                assert target.tolist() == expected.tolist(), (of, to)
        with device.array((3, 3), "float32") as image, own.capture() as graph:
            with pytest.raises(rawcuda.InvalidUse, match="being captured, and this copy needs temporary memory"):
                image.copy_from(source[:, 1], stream=own)
            image.copy_from(source[1], stream=own)
        graph.close()


def test_arrays_of_one_shape_and_other_extents_are_copied(device):
    data = numbers((3, 4))
    with device.array(data) as image, device.array((3, 4), "float32", layered=True) as lines:
        assert lines.copy_from(image).tolist() == data.tolist()
        assert image.copy_from(np.zeros((3, 4), "float32")).copy_from(lines).tolist() == data.tolist()


def test_copies_across_devices(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is one device")
    there = rawcuda.Device(1)
    data = numbers((4, 7))
    with device.array((4, 7), "float32") as here, there.array(data) as other:
        here.copy_from(other)
        assert here.tolist() == data.tolist()
        far = there.empty((4, 7), "float32")
        here.copy_to(far)
        assert far.tolist() == data.tolist()
        here.copy_from(np.zeros((4, 7), np.float32)).copy_from(far)
        for copy_it in (here.copy_to, here.copy_from):
            far_stream = there.stream()
            for given in (far_stream, far_stream.handle, rawcuda.Stream.from_handle(far_stream.handle)):
                with pytest.raises(ValueError, match="not on device 0"):
                    copy_it(data.copy(), stream=given)
        assert here.tolist() == data.tolist()


def test_a_memory_holds_all_bytes(device):
    data = numbers((4, 7, 2), "uint16")
    with device.array(data, channels=2) as made, device.allocate(data.nbytes) as memory:
        made.copy_to(memory)
        assert np.asarray(memory.view().download()).tobytes() == data.tobytes()
        made.copy_from(memory.fill(0))
        assert not np.asarray(made.download()).any()
        with device.allocate(4) as small, pytest.raises(ValueError, match="cannot hold 112"):
            made.copy_to(small)


@pytest.mark.parametrize(
    "other, error, words",
    [
        (lambda device: np.zeros((4, 7), np.int32), TypeError, "converts nothing"),
        (lambda device: np.zeros((4, 7), np.float64), TypeError, "float64"),
        (lambda device: np.zeros((4, 8), np.float32), ValueError, "shape"),
        (lambda device: np.zeros((2, 4, 7), np.float32), ValueError, "shape"),
        (lambda device: np.zeros((4, 7, 2), np.float32), ValueError, "shape"),
        (lambda device: device.empty((7, 4), "float32"), ValueError, "shape"),
        (lambda device: 3.5, TypeError, "float"),
        (lambda device: None, TypeError, "NoneType"),
        (lambda device: [[1.0] * 7] * 4, TypeError, "list"),
    ],
)
def test_copies_that_are_refused(device, other, error, words):
    with device.array((4, 7), "float32") as made:
        for method in (made.copy_from, made.copy_to, made[...].copy_to):
            with pytest.raises(error, match=words):
                method(other(device))
        for stream, wrong in ((0, ValueError), (-1, ValueError), ("x", TypeError), (True, TypeError)):
            with pytest.raises(wrong):
                made.copy_to(np.zeros((4, 7), np.float32), stream=stream)


def test_a_read_only_target_is_refused(device):
    data = np.zeros((4, 7), np.float32)
    data.setflags(write=False)
    with device.array(data) as made:
        with pytest.raises(rawcuda.ProtocolError, match="must not be written"):
            made.copy_to(data)


def test_foreign_memory_is_kept_until_the_copy_is_done(device):
    class Foreign:
        def __init__(self) -> None:
            self.view = device.upload(numbers((4, 7)))

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.view.__cuda_array_interface__

    stream = device.stream()
    with device.array((4, 7), "float32") as made:
        made.copy_from(Foreign(), stream=stream)
        gc.collect()
        stream.synchronize()
        assert made.tolist() == numbers((4, 7)).tolist()


def test_copies_in_a_graph(device):
    source, target = device.upload(numbers((4, 7))), device.empty((4, 7), "float32")
    stream = device.stream()
    with device.array((4, 7), "float32") as made:
        with stream.capture() as graph:
            made.copy_from(source, stream=stream)
            made[1:].copy_to(target[:3], stream=stream)
            made[0].copy_to(target[3], stream=stream)
        graph.launch(stream)
        source.copy_from(numbers((4, 7)) * 2)
        graph.launch(stream)
        stream.synchronize()
        assert (np.asarray(target.download()) == np.roll(numbers((4, 7)) * 2, -1, 0)).all()
        graph.close()


# -- mipmapped arrays


@pytest.mark.parametrize("levels", (None, 1, 2, 4))
def test_levels_halve_the_extents(device, levels):
    with device.mipmapped_array((5, 9), "float32", levels=levels) as mipmapped:
        assert mipmapped.num_levels == len(mipmapped) == (levels or 4)
        shapes = [(5, 9), (2, 4), (1, 2), (1, 1)][: levels or 4]
        assert [level.shape for level in mipmapped] == shapes and mipmapped.shape == (5, 9)
        assert mipmapped[-1].shape == shapes[-1] and mipmapped.get_level(0).shape == (5, 9)
        for number, level in enumerate(mipmapped):
            level.copy_from(numbers(level.shape) + number)
            assert level.borrowed and level.parent is mipmapped and level.level == number
        assert all(level.tolist() == (numbers(level.shape) + k).tolist() for k, level in enumerate(mipmapped))


def test_layers_and_faces_are_not_halved(device):
    with device.mipmapped_array((3, 4, 8), "uint8", layered=True, channels=4) as mipmapped:
        assert [level.shape for level in mipmapped] == [(3, 4, 8), (3, 2, 4), (3, 1, 2), (3, 1, 1)]
    with device.mipmapped_array((6, 4, 4), "uint8", cubemap=True) as mipmapped:
        assert [level.shape for level in mipmapped] == [(6, 4, 4), (6, 2, 2), (6, 1, 1)]
    with device.mipmapped_array((4, 4, 8), "uint8") as mipmapped:
        assert [level.shape for level in mipmapped] == [(4, 4, 8), (2, 2, 4), (1, 1, 2), (1, 1, 1)]


def test_a_view_becomes_level_0(device):
    data = numbers((4, 8, 2), "uint8")
    with device.mipmapped_array(data, channels=2, surface=True) as mipmapped:
        assert mipmapped[0].tolist() == data.tolist() and mipmapped[1].surface
        assert mipmapped.channels == 2 and str(mipmapped.dtype) == "uint8"


@pytest.mark.parametrize("levels, error", [(0, ValueError), (5, ValueError), (-1, ValueError), (True, TypeError),
                                           (1.5, TypeError), (10**30, ValueError)])  # fmt: skip
def test_impossible_numbers_of_levels(device, levels, error):
    with pytest.raises(error, match="levels"):
        device.mipmapped_array((8, 8), "float32", levels=levels)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("to_array", [False, True], ids=["from an array", "to an array"])
def test_no_capture_begins_while_a_copy_is_waited_for(device, monkeypatch, strided, to_array):
    """With rows in pageable memory none began; with another layout, the copy broke a capture of another thread."""
    transfers, waiting, seen = module("gpu.textures.transfers"), module("gpu.core.points").waiting, []
    data = np.zeros((4, 12), np.float32)[:, :: 2 if strided else 1]
    queue = transfers._queue

    def queued(*given):
        seen.append(len(waiting))
        queue(*given)

    with device.array(data.shape, "float32") as array:
        monkeypatch.setattr(transfers, "_queue", queued)
        array.copy_from(data) if to_array else array.copy_to(data)
    assert seen == [1] and not waiting


def test_levels_that_are_not_there(device):
    with device.mipmapped_array((8, 8), "float32") as mipmapped:
        for number in (4, -5):
            with pytest.raises(IndexError, match="no level"):
                mipmapped[number]
        with pytest.raises(TypeError):
            mipmapped["0"]
        level = mipmapped[1]
        borrowed = rawcuda.OpaqueArray.borrow(device, level.handle, owner=level)
        assert "level 1" in repr(level) and "level" not in repr(borrowed)
    for made in (level, borrowed):
        with pytest.raises(rawcuda.Closed, match="MipmappedArray of this array"):
            made.copy_from(np.zeros((4, 4), np.float32))
    with pytest.raises(rawcuda.Closed):
        mipmapped[0]


# -- the life of an array


def test_the_life_of_an_array(device):
    for make in (lambda: device.array((4, 4), "float32"), lambda: device.mipmapped_array((4, 4), "float32")):
        made = make()
        assert not made.closed and hex(made.handle) in repr(made) and not made.borrowed
        for refused in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                refused(made)
        made.close()
        made.close()
        assert made.closed and "closed" in repr(made)
        with pytest.raises(rawcuda.Closed):
            made.handle
        with pytest.raises(TypeError, match="made by"):
            type(made)()
    closed = device.array((4, 4), "float32")
    closed.close()
    for use in (closed.download, lambda: closed.copy_from(np.zeros((4, 4), np.float32)), closed[0].download):
        with pytest.raises(rawcuda.Closed):
            use()


def test_a_detached_array_is_the_callers(device, driver):
    made = device.array((4, 4), "float32", surface=True)
    handle = made.detach()
    assert made.closed
    with rawcuda.OpaqueArray.borrow(device, handle) as borrowed:
        assert borrowed.shape == (4, 4) and borrowed.surface and borrowed.borrowed
        borrowed.copy_from(numbers((4, 4)))
        assert borrowed.tolist() == numbers((4, 4)).tolist()
    with device.current():
        driver.cuArrayDestroy(module("headers.cuda_h").CUarray(handle))


@pytest.mark.parametrize("handle, error", [(0, ValueError), (-1, ValueError), ("x", TypeError), (True, TypeError)])
def test_handles_that_are_none(device, handle, error):
    with pytest.raises(error):
        rawcuda.OpaqueArray.borrow(device, handle)
    with pytest.raises(TypeError, match="Device"):
        rawcuda.OpaqueArray.borrow(None, 1)


def test_pending_copies_keep_a_dropped_array(device):
    source, target = device.upload(numbers((4, 7))), device.empty((4, 7), "float32")
    stream = device.stream()
    made = device.array((4, 7), "float32")
    made.copy_from(source, stream=stream)
    made.copy_to(target, stream=stream)
    del made
    gc.collect()
    stream.synchronize()
    assert target.tolist() == numbers((4, 7)).tolist()


def test_close_waits_for_pending_copies(device):
    target = device.empty((4, 7), "float32")
    stream = device.stream()
    with device.array(numbers((4, 7))) as made:
        made.copy_to(target, stream=stream)
    stream.synchronize()
    assert target.tolist() == numbers((4, 7)).tolist()


def test_closing_in_a_capture_breaks_nothing(device):
    stream, target, source = device.stream(), device.empty(4, "float32"), device.upload(numbers((4,)))
    made = device.array((4, 7), "float32")
    with stream.capture() as graph:
        target.copy_from(source, stream=stream)
        made.close()
    graph.launch(stream)
    stream.synchronize()
    graph.close()
    assert target.tolist() == [0, 1, 2, 3]


def test_calls_are_traced(device):
    seen: list[Any] = []
    with rawcuda.trace(seen.append):
        with device.array(numbers((4, 7))) as made:
            made.tolist()
    text = " ".join(map(str, seen))
    assert all(name in text for name in ("cuArray3DCreate_v2", "cuMemcpy3DAsync_v2", "cuArrayDestroy"))


def test_a_closed_device(device):
    other = rawcuda.Device(0)
    other.close()
    source = np.zeros((4, 7), np.float32)
    for use in (
        lambda: other.array(source),
        lambda: other.mipmapped_array(source),
        lambda: other.empty_pitched((4, 7), "float32"),
        lambda: rawcuda.OpaqueArray.borrow(other, 64),
    ):
        with pytest.raises(rawcuda.Closed, match="Device"):
            use()
    with device.array((4, 7), "float32", surface=True) as made:
        for make in (other.texture, other.surface):
            with pytest.raises(rawcuda.Closed, match="Device"):
                make(made)


# -- pitched memory


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 2, 3, 5), 7])
@pytest.mark.parametrize("dtype", ("uint8", "float32", "complex128", "float64"))
def test_rows_are_aligned(device, shape, dtype):
    view = device.empty_pitched(shape, dtype)
    with view.owner as memory:
        full = (shape,) if isinstance(shape, int) else shape
        assert view.shape == full and str(view.dtype) == dtype and view.strides[-1] == view.itemsize
        if len(full) > 1:
            pitch = view.strides[-2]
            assert pitch >= full[-1] * view.itemsize and pitch % device.attribute("TEXTURE_PITCH_ALIGNMENT") == 0
            assert view.strides[:-2] == tuple(pitch * int(np.prod(full[k + 1 : -1])) for k in range(len(full) - 2))
            assert memory.nbytes == pitch * int(np.prod(full[:-1]))
        assert view.ptr % device.attribute("TEXTURE_ALIGNMENT") == 0
        view.copy_from(numbers(full, dtype))
        assert view.tolist() == numbers(full, dtype).tolist()


def test_pitched_memory_of_no_elements(device):
    assert device.empty_pitched((0, 5), "float32").shape == (0, 5)
    assert device.empty_pitched((3, 0), "float32").tolist() == [[], [], []]


@pytest.mark.parametrize(
    "shape, error",
    [((), ValueError), ((-1, 4), ValueError), ((2**62, 2**62), ValueError), ("x", TypeError), ((1.5,), TypeError)],
)
def test_impossible_pitched_memory(device, shape, error):
    with pytest.raises(error):
        device.empty_pitched(shape, "float32")


@pytest.mark.parametrize("kind", ["pinned", "managed"])
@pytest.mark.parametrize("viewed", [False, True])
def test_memory_of_another_device_is_ready_in_the_order_of_its_default_stream(device, kind, viewed):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is one device")
    other = rawcuda.Device(1)
    with device.array(64, "uint8") as made, other.allocate(64, kind=kind) as memory:
        made.copy_from(bytes([5] * 64))
        memory.fill(9)
        other.synchronize()
        target = memory.view() if viewed else memory
        made.copy_to(target)
        back = rawcuda.view(bytearray(64))
        target.copy_to(back)
        assert back.tolist() == [5] * 64
        device.synchronize()


def test_arrays_are_ready_in_the_order_of_their_copies(device):
    """Each copy waits for the last one into the array, or into any level of its mipmapped array."""
    numbers = device.upload(bytes(range(8)))
    with device.stream() as stream, device.stream() as other, device.mipmapped_array(8, "uint8", levels=2) as levels:
        with device.array(8, "uint8") as one, device.array(8, "uint8") as two:
            assert one.stream is None
            one.copy_from(numbers, stream=stream)
            assert one.stream is stream and one.tolist() == list(range(8))
            one[2:4].copy_from(numbers[4:6], stream=stream)
            two.copy_from(one, stream=other)
            assert two.stream is other and two.tolist() == [0, 1, 4, 5, 4, 5, 6, 7]
            two.copy_from(numbers)
            assert two.stream == 1
            one.copy_from(two[::], stream=stream)
            memory = device.allocate(8)
            one.copy_to(memory, stream=other)
            assert memory.stream is other and memory.view().tolist() == list(range(8))
            two.copy_from(memory.fill(9, stream=stream))
            assert two.tolist() == [9] * 8
            two.stream = None
            two.copy_from(numbers, stream=stream)
            stream.close()
            assert two.tolist() == list(range(8))
        levels[0].copy_from(numbers, stream=other)
        assert levels.stream is levels[1].stream is other and levels[0].tolist() == list(range(8))
        other.synchronize()


@pytest.mark.parametrize("form", ["rows", "columns", "vectors in columns"])
def test_a_target_is_ready_in_the_order_of_the_copy(device, form):
    """Consumers of the target's protocols wait for the stream of the copy, also if it went through temporary memory."""
    with device.stream() as stream, device.array((4, 8), "float32", channels=2) as made:
        base = device.empty((8, 4, 2), "float32")
        target = {
            "rows": device.empty((4, 8, 2), "float32"),
            "columns": base.transpose(1, 0, 2),
            "vectors in columns": base.reinterpret("float32x2").reshape((8, 4)).T,
        }[form]
        made.copy_from(numbers((4, 8, 2)))
        device.synchronize()
        made.copy_to(target, stream=stream)
        assert target.stream is stream
        stream.synchronize()


@pytest.mark.parametrize("how", ["host", "to host", "download", "columns", "to columns"])
def test_what_cannot_be_captured_is_refused_and_the_capture_stays_valid(device, how):
    host, columns = numbers((4, 8)), device.zeros((8, 4), "float32").T
    with device.stream() as stream, device.array((4, 8), "float32") as made, device.allocate(8) as plain:
        call = {
            "host": lambda: made.copy_from(host, stream=stream),
            "to host": lambda: made.copy_to(host, stream=stream),
            "download": lambda: made.download(stream=stream),
            "columns": lambda: made.copy_from(columns, stream=stream),
            "to columns": lambda: made.copy_to(columns, stream=stream),
        }[how]
        device.synchronize()
        with stream.capture() as graph:
            plain.fill(1, stream=stream)
            with pytest.raises(rawcuda.InvalidUse, match="the stream is being captured"):
                call()
            plain.fill(2, stream=stream)
        assert len(graph.nodes) == 2
        graph.close()


READ = """.version 6.3
.target sm_50
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 out) {
    .reg .u64 %t, %o; .reg .f32 %a, %b, %c, %d, %x;
    ld.param.u64 %t, [texture]; ld.param.u64 %o, [out]; mov.f32 %x, 0f3FC00000;
    tex.1d.v4.f32.f32 {%a, %b, %c, %d}, [%t, {%x}];
    st.global.f32 [%o], %a; ret;
}"""
WRITE = """.version 6.3
.target sm_50
.address_size 64
.visible .entry write(.param .u64 surface) {
    .reg .u64 %s; .reg .u32 %x, %v;
    ld.param.u64 %s, [surface]; mov.u32 %x, 8; mov.u32 %v, 7;
    sust.b.1d.b32.trap [%s, {%x}], {%v}; ret;
}"""


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("closed", ["array", "texture"])
def test_a_graph_with_a_texture_of_a_closed_array_is_not_launched(device, closed, captured):
    with device.load(READ) as code, device.stream() as stream, device.zeros(1, "float32").owner as out:
        made = device.array(numbers((8,)))
        texture = device.texture(made)
        device.synchronize()
        if captured:
            with stream.capture() as graph:
                code["read"].launch(texture, out, grid=1, block=1, stream=stream)
        else:
            graph = device.graph()
            graph.kernel(code["read"], texture, out, grid=1, block=1)
        graph.launch(stream)
        stream.synchronize()
        {"array": made, "texture": texture}[closed].close()
        with pytest.raises(rawcuda.Closed, match="a node of this graph uses .*closed"):
            graph.launch(stream)
        for thing in (graph, texture, made):
            thing.close()


@pytest.mark.parametrize("captured", [False, True])
def test_a_graph_with_a_surface_of_a_closed_array_is_not_launched(device, captured):
    with device.load(WRITE) as code, device.stream() as stream:
        made = device.array((8,), "uint32", surface=True)
        surface = device.surface(made)
        if captured:
            with stream.capture() as graph:
                code["write"].launch(surface, grid=1, block=1, stream=stream)
        else:
            graph = device.graph()
            graph.kernel(code["write"], surface, grid=1, block=1)
        made.copy_from(memoryview(bytes(32)).cast("I"))
        graph.launch(stream)
        stream.synchronize()
        assert made.tolist() == [0, 0, 7, 0, 0, 0, 0, 0]
        made.close()
        with pytest.raises(rawcuda.Closed, match="a node of this graph uses .*closed"):
            graph.launch(stream)
        for thing in (graph, surface):
            thing.close()


def test_a_captured_copy_of_a_closed_mipmapped_array_is_not_launched(device):
    with device.stream() as stream, device.mipmapped_array((8, 8), "float32", levels=3) as made:
        target = device.zeros((4, 4), "float32")
        level = made[1].copy_from(target)
        device.synchronize()
        with stream.capture() as graph:
            level.copy_to(target, stream=stream)
        made.close()
        with pytest.raises(rawcuda.Closed, match="a node of this graph uses .*closed"):
            graph.launch(stream)
        graph.close()
