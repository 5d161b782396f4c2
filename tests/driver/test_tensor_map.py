"""Tensor maps: how they are encoded, every rule that they must obey, and their way into a kernel."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import struct
import sys
import threading
import weakref
from typing import Any

import pytest

from tests.subject import module, rawcuda

from .texture_kernels import load, needs_compiler, np

TensorMap, owned = rawcuda.TensorMap, module("ownership")
SOURCE = """
struct alignas(64) Map { unsigned words[32]; };
extern "C" __global__ void keep(const __grid_constant__ Map map, unsigned *out)
{
    out[threadIdx.x] = map.words[threadIdx.x];
}
"""


@pytest.fixture(autouse=True)
def supported(device: Any) -> None:
    if not device.attribute("TENSOR_MAP_ACCESS_SUPPORTED"):
        pytest.skip("this device has no tensor maps")


@needs_compiler
def test_a_kernel_gets_its_bytes(device):
    view, out = device.empty((64, 64), "float16"), device.empty(32, "uint32")
    made = TensorMap.tiled(view, box=(8, 64))
    with load(device, SOURCE) as code:
        kernel = code["keep"]
        assert kernel.parameters[0].size == 128
        for given in (made, bytes(made)):
            out.fill(0)
            kernel.launch(given, out, grid=1, block=32)
            assert np.asarray(out.download()).tobytes() == bytes(made)
        stream = device.stream()
        kernel.configure(grid=1, block=32, stream=stream)(made, out)
        stream.synchronize()
        with pytest.raises(ValueError, match="128 bytes.*CUtensorMap|CUtensorMap"):
            kernel.launch(bytes(128), made, grid=1, block=32)
        view.owner.close()
        with pytest.raises(rawcuda.Closed, match="keep"):
            kernel.launch(made, out, grid=1, block=32)


@needs_compiler
def test_declared_tensor_maps(device):
    view, out = device.empty((64, 64), "float16"), device.empty(32, "uint32")
    made = TensorMap.tiled(view, box=(8, 64))
    with load(device, SOURCE) as code:
        for declaration in ("tensor map", "CUtensorMap", TensorMap):
            kernel = code.kernel("keep", parameters=[declaration, "uint32*"])
            for given in (made, bytes(made)):
                out.fill(0)
                kernel.launch(given, out, grid=1, block=32)
                assert np.asarray(out.download()).tobytes() == bytes(made)
            for wrong in (view, None, 7, bytes(64), 1.5):
                with pytest.raises((TypeError, ValueError), match="keep.* is a tensor map"):
                    kernel.launch(wrong, out, grid=1, block=32)


@needs_compiler
def test_a_launch_keeps_its_tensor_map(device):
    out, stream = device.empty(32, "uint32"), device.stream()
    with load(device, SOURCE) as code:
        made = TensorMap.tiled(device.empty((64, 64), "float16"), box=(8, 64))
        expected, gone = bytes(made), weakref.ref(made)
        code["keep"].launch(made, out, grid=1, block=32, stream=stream)
        del made
        gc.collect()
        stream.synchronize()
        assert np.asarray(out.download()).tobytes() == expected
        device.synchronize()
        assert gone() is None


class Foreign:
    """An array of another library."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def __cuda_array_interface__(self):
        return {"shape": (64, 64), "typestr": "<f4", "data": (self.memory.ptr, False), "version": 3, "stream": None}


@needs_compiler
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("meanwhile", [False, True], ids=["afterwards", "meanwhile"])
def test_a_launch_keeps_the_memory_of_a_tensor_map_whose_address_is_replaced(device, monkeypatch, captured, meanwhile):
    foreign, stream, go = Foreign(device.allocate(64 * 64 * 4)), device.stream(), threading.Event()
    gone, made = weakref.ref(foreign), TensorMap.tiled(foreign, box=(8, 8))
    out, other = device.empty(32, "uint32"), device.empty((64, 64), "float32")
    packed = TensorMap._pass

    def replaced(self, slot):  # as another thread may do it
        try:
            return packed(self, slot)
        finally:
            self.replace_address(other)

    if meanwhile:
        monkeypatch.setattr(TensorMap, "_pass", replaced)
    with load(device, SOURCE) as code:
        if captured:
            with stream.capture() as graph:
                code["keep"].launch(made, out, grid=1, block=32, stream=stream)
        else:
            stream.call(lambda: go.wait(2))  # what is not kept waits for it
            code["keep"].launch(made, out, grid=1, block=32, stream=stream)
        made.replace_address(other)
        del foreign
        gc.collect()
        owned.drain()
        is_kept = gone() is not None
        go.set()
        assert is_kept
        if captured:
            graph.close()
        device.synchronize()
        rawcuda.synchronize()
        gc.collect()
        assert gone() is None


@needs_compiler
def test_another_device(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is one device")
    made = TensorMap.tiled(rawcuda.Device(1).empty((8, 8), "float32"), box=(8, 8))
    with load(device, SOURCE) as code, pytest.raises(ValueError, match="device 1"):
        code["keep"].launch(made, None, grid=1, block=32)
    with pytest.raises(ValueError, match="device 0"):
        made.replace_address(device.empty((8, 8), "float32"))


# -- what can be encoded


@pytest.mark.parametrize("shape", [(64,), (16, 64), (4, 16, 64), (3, 4, 16, 64), (2, 3, 4, 16, 64)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32",
                                   "float64", "bfloat16"])  # fmt: skip
def test_ranks_and_dtypes(device, shape, dtype):
    view = device.empty(shape, dtype)
    box = (*(min(side, 4) for side in shape[:-1]), 16)
    made = TensorMap.tiled(view, box=box if len(box) > 1 else 16)
    assert made.box == box and made.kind == "tiled" and made.view is view and len(bytes(made)) == 128
    other = TensorMap.tiled(view, box=(*box[:-1], 32))
    assert bytes(made) != bytes(other) and bytes(made) == bytes(TensorMap.tiled(view, box=box))


def test_every_choice_changes_the_bytes(device):
    view = device.empty((4, 8, 64), "float32")
    seen = {bytes(TensorMap.tiled(view, box=(1, 1, 8)))}
    for options in (
        {"swizzle": "32B"},
        {"swizzle": "64B"},
        {"swizzle": "128B"},
        {"swizzle": "128B_atom_32B"},
        {"swizzle": "128B_atom_64B"},
        {"interleave": "16B"},
        {"interleave": "32B", "swizzle": "32B"},
        {"l2_promotion": "64B"},
        {"l2_promotion": "128B"},
        {"l2_promotion": "256B"},
        {"fill": "nan"},
        {"element_strides": (1, 2, 1)},
        {"dtype": "tfloat32"},
        {"dtype": "float32_ftz"},
        {"dtype": "tfloat32_ftz"},
    ):
        seen.add(bytes(TensorMap.tiled(view, box=(1, 1, 8), **options)))
    assert len(seen) == 16
    assert bytes(TensorMap.tiled(view, box=(1, 1, 8), fill="zero")) in seen and len(seen) == 16


def test_pitched_memory_and_parts(device):
    for view in (device.empty_pitched((5, 33), "float32"), device.empty((64, 64), "float32")[3:, 4:40]):
        assert TensorMap.tiled(view, box=(5, 8)).view is view


def test_the_stride_of_one_element_does_not_matter(device):
    view = device.empty((1, 1, 15), "float32")
    made = TensorMap.tiled(view, box=(1, 1, 8))
    assert TensorMap.tiled(device.empty((4, 4, 16), "float32")[::4, ::-4], box=(1, 1, 8)).box == made.box
    with pytest.raises(ValueError, match="positive multiple"):
        TensorMap.tiled(device.empty((4, 4, 15), "float32"), box=(1, 1, 8))


def test_exporters(device):
    class Foreign:
        def __init__(self) -> None:
            self.memory = device.empty((16, 16), "float32")

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.memory.__cuda_array_interface__

    foreign = Foreign()
    made = TensorMap.tiled(foreign, box=(4, 4))
    assert made.view.ptr == foreign.memory.ptr
    managed = device.allocate(1024, kind="managed")
    assert TensorMap.tiled(managed.view("float32").reshape(16, 16), box=(4, 4)).box == (4, 4)


def test_images(device):
    for rank in (3, 4, 5):
        view = device.empty((2, *[16] * (rank - 2), 64), "float16")
        corner = (-1,) * (rank - 2) if rank > 3 else -1
        made = TensorMap.im2col(view, lower=corner, upper=(1,) * (rank - 2), channels=64, pixels=128)
        assert made.kind == "im2col" and made.box == (128, 64) and len(bytes(made)) == 128
        assert bytes(made) != bytes(
            TensorMap.im2col(view, lower=corner, upper=(0,) * (rank - 2), channels=64, pixels=128)
        )


def test_the_address_is_replaced(device):
    view, other = device.empty((16, 16), "float32"), device.empty((16, 16), "float32")
    made = TensorMap.tiled(view, box=(4, 4))
    before = bytes(made)
    assert made.replace_address(other) is made and made.view is other
    assert bytes(made) == bytes(TensorMap.tiled(other, box=(4, 4))) != before
    for wrong, error, words in (
        (device.empty((16, 17), "float32"), ValueError, "shape"),
        (device.empty((16, 16), "int32"), TypeError, "int32"),
        (device.empty((17, 16), "float32")[:, :].reshape(-1)[1:257].reshape(16, 16), ValueError, "multiple of 16"),
        (np.zeros((16, 16), np.float32), ValueError, "host memory"),
        (3, TypeError, "int"),
    ):
        with pytest.raises(error, match=words):
            made.replace_address(wrong)


# -- what cannot


@pytest.mark.parametrize(
    "shape, dtype, options, error, words",
    [
        ((16, 16), "float32", {"box": (4,)}, ValueError, "2 numbers"),
        ((16, 16), "float32", {"box": (4, 4, 4)}, ValueError, "2 numbers"),
        ((16, 16), "float32", {"box": (0, 4)}, ValueError, "1 to 256"),
        ((16, 16), "float32", {"box": (257, 4)}, ValueError, "1 to 256"),
        ((16, 16), "float32", {"box": (2**80, 4)}, ValueError, "1 to 256"),
        ((16, 16), "float32", {"box": (4, 2.0)}, TypeError, "float"),
        ((16, 16), "float32", {"box": "44"}, TypeError, "str"),
        ((16, 16), "float32", {"box": (4, True)}, TypeError, "bool"),
        ((16, 16), "float32", {"box": (4, 3)}, ValueError, "12 is not a multiple of 16"),
        ((16, 64), "float32", {"box": (4, 16), "swizzle": "32B"}, ValueError, "permits 32"),
        ((16, 64), "float32", {"box": (4, 32), "swizzle": "64B"}, ValueError, "permits 64"),
        ((16, 64), "float32", {"box": (4, 64), "swizzle": "128B"}, ValueError, "permits 128"),
        ((16, 16), "float32", {"box": (4, 4), "swizzle": "16B"}, ValueError, "swizzle"),
        ((16, 16), "float32", {"box": (4, 4), "swizzle": 32}, TypeError, "swizzle"),
        ((16, 16), "float32", {"box": (4, 4), "interleave": "64B"}, ValueError, "interleave"),
        ((16, 16), "float32", {"box": (4, 4), "interleave": "16B"}, ValueError, "3 to 5 dimensions"),
        ((4, 4, 16), "float32", {"box": (1, 1, 4), "interleave": "32B"}, ValueError, 'swizzle="32B"'),
        ((4, 4, 4), "float32", {"box": (1, 1, 4), "interleave": "32B", "swizzle": "32B"}, ValueError, "multiple of 32"),
        ((16, 16), "float32", {"box": (4, 4), "l2_promotion": "32B"}, ValueError, "l2_promotion"),
        ((16, 16), "float32", {"box": (4, 4), "fill": "one"}, ValueError, "fill"),
        ((16, 16), "int32", {"box": (4, 4), "fill": "nan"}, ValueError, "needs floats"),
        ((16, 16), "float32", {"box": (4, 4), "element_strides": (9, 1)}, ValueError, "1 to 8"),
        ((16, 16), "float32", {"box": (4, 4), "element_strides": (0, 1)}, ValueError, "1 to 8"),
        ((16, 16), "float32", {"box": (4, 4), "element_strides": (1, 2)}, ValueError, "must be 1"),
        ((16, 16), "float32", {"box": (4, 4), "element_strides": 1}, ValueError, "2 numbers"),
        ((16, 16), "float32", {"box": (4, 4), "dtype": "float64"}, ValueError, "8 bytes"),
        ((16, 16), "float32", {"box": (4, 4), "dtype": "complex64"}, ValueError, "complex64"),
        ((16, 16), "int8", {"box": (4, 16)}, ValueError, "reinterpret"),
        ((16, 16), "complex128", {"box": (4, 4)}, ValueError, "complex128"),
        ((16, 15), "float32", {"box": (4, 4)}, ValueError, "empty_pitched"),
        ((16, 0), "float32", {"box": (4, 4)}, ValueError, "extent"),
        ((), "float32", {"box": ()}, ValueError, "1 to 5 dimensions"),
        ((1,) * 6, "float32", {"box": (1,) * 6}, ValueError, "1 to 5 dimensions"),
    ],
)
def test_rules(device, shape, dtype, options, error, words):
    with pytest.raises(error, match=words):
        TensorMap.tiled(device.empty(shape, dtype), **options)


def test_layouts(device):
    view = device.empty((64, 64), "float32")
    for wrong, words in (
        (view.T, "no gaps"),
        (view[:, ::2], "no gaps"),
        (view[::-1], "positive multiple"),
        (view[:, 1:61], "multiple of 16"),
        (view.broadcast_to((4, 64, 64)), "positive multiple"),
    ):
        with pytest.raises(ValueError, match=words):
            TensorMap.tiled(wrong, box=(4,) * wrong.ndim)
    for host in (np.zeros((16, 16), np.float32), b"0123456789abcdef"):
        with pytest.raises(ValueError, match="host memory"):
            TensorMap.tiled(host, box=(4, 4))
    for other in (None, 3, "text", [1.0]):
        with pytest.raises(TypeError):
            TensorMap.tiled(other, box=4)
    view.owner.close()
    with pytest.raises(rawcuda.Closed):
        TensorMap.tiled(view, box=(4, 4))


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"lower": (-129, 0)}, ValueError, "-128 to 127"),
        ({"upper": (0, 128)}, ValueError, "-128 to 127"),
        ({"lower": 0}, ValueError, "2 numbers"),
        ({"lower": (9, 9), "upper": (-9, -9)}, ValueError, "no pixels"),
        ({"channels": 0}, ValueError, "1 to 256"),
        ({"channels": 257}, ValueError, "1 to 256"),
        ({"channels": 4}, ValueError, "multiple of 16"),
        ({"pixels": 1025}, ValueError, "1 to 1024"),
        ({"pixels": 0}, ValueError, "1 to 1024"),
        ({"pixels": "8"}, TypeError, "pixels"),
        ({"swizzle": "32B"}, ValueError, "permits 32"),
    ],
)
def test_rules_of_images(device, options, error, words):
    view = device.empty((2, 16, 16, 64), "float16")
    with pytest.raises(error, match=words):
        TensorMap.im2col(view, **{"lower": (0, 0), "upper": (0, 0), "channels": 64, "pixels": 8, **options})


def test_images_need_three_dimensions(device):
    with pytest.raises(ValueError, match="3 to 5 dimensions"):
        TensorMap.im2col(device.empty((16, 64), "float16"), lower=(), upper=(), channels=64, pixels=8)


def test_an_exception_while_the_address_is_replaced(device):
    """The map has the address of the memory that it keeps, whatever line an exception comes from."""
    first, second = device.empty((8, 8), "float32"), device.empty((8, 8), "float32")
    made, seen, complete = TensorMap.tiled(first, box=(8, 8)), set(), False

    class Injected(BaseException):
        pass

    def trace(frame, event, _):
        if frame.f_code is not TensorMap.replace_address.__code__:
            return None
        if event == "line" and frame.f_lineno not in seen:
            seen.add(frame.f_lineno)
            raise Injected
        return trace

    was = sys.gettrace()
    while not complete:
        target = second if made.view is first else first
        sys.settrace(trace)
        try:
            made.replace_address(target)
            complete = True
        except Injected:
            pass
        finally:
            sys.settrace(was)
        assert struct.pack("Q", made.view.ptr) in bytes(made)
    assert len(seen) > 8 and made.view is target


def test_it_is_one_object(device):
    made = TensorMap.tiled(device.empty((16, 16), "float32"), box=(4, 4))
    assert "tiled, box (4, 4)" in repr(made)
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            refused(made)
    with pytest.raises(TypeError, match="TensorMap.tiled"):
        TensorMap()


def test_calls_are_traced(device):
    seen: list[Any] = []
    view = device.empty((16, 16), "float32")
    with rawcuda.trace(seen.append):
        TensorMap.tiled(view, box=(4, 4))
    assert "cuTensorMapEncodeTiled" in " ".join(map(str, seen))


@pytest.mark.emulator_only("the emulator can be an older device")
def test_a_device_without_tensor_maps(python):
    result = python(
        """
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        try:
            rawcuda.TensorMap.tiled(device.empty((16, 16), "float32"), box=(4, 4))
        except rawcuda.Unsupported as error:
            print(error)
        """,
        env={"RAWCUDA_EMULATOR": "sm=80"},
        check=True,
    )
    assert "TENSOR_MAP_ACCESS_SUPPORTED" in result.stdout


def test_the_driver_has_the_same_structure():
    assert ctypes.sizeof(module("headers.cuda_h").CUtensorMap) == 128
