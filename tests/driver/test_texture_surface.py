"""Surfaces: loads, stores and updates in every kind of array, and what happens out of range."""

from __future__ import annotations

from typing import Any

import pytest

from tests.subject import rawcuda

from .texture_kernels import load, needs_compiler, np

pytestmark = needs_compiler
TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
# kind of array: the end of the functions' names, and the coordinates after x
KINDS = {
    "1d": ("1D", ""),
    "2d": ("2D", ", y"),
    "3d": ("3D", ", y, z"),
    "a1d": ("1DLayered", ", z"),
    "a2d": ("2DLayered", ", y, z"),
    "cube": ("Cubemap", ", y, z"),
    "acube": ("CubemapLayered", ", y, z"),
}
SHAPES: dict[str, tuple[tuple[int, ...], dict[str, bool]]] = {
    "1d": ((7,), {}),
    "2d": ((4, 7), {}),
    "3d": ((3, 4, 7), {}),
    "a1d": ((3, 7), {"layered": True}),
    "a2d": ((3, 4, 7), {"layered": True}),
    "cube": ((6, 4, 4), {"cubemap": True}),
    "acube": ((12, 4, 4), {"cubemap": True, "layered": True}),
}
PLACE = """
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    asm volatile("" :: "r"(y), "r"(z));
"""
COPIES = "".join(
    f"""
extern "C" __global__ void mirror_{kind}_{size}(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {{{PLACE}
    {type} value = surf{end}read<{type}>(from, x * {size}{rest});
    surf{end}write(value, to, ((int)blockDim.x - 1 - x) * {size}{rest});
}}
"""
    for kind, (end, rest) in KINDS.items()
    for size, type in TYPES.items()
)
MODES = {"clamp": "cudaBoundaryModeClamp", "zero": "cudaBoundaryModeZero"}
OTHERS = "".join(
    f"""
extern "C" __global__ void read_{mode}(cudaSurfaceObject_t s, int *out, int x, int y) {{
    *out = surf2Dread<int>(s, x * 4, y, {name});
}}
extern "C" __global__ void write_{mode}(cudaSurfaceObject_t s, int value, int x, int y) {{
    surf2Dwrite(value, s, x * 4, y, {name});
}}
"""
    for mode, name in MODES.items()
)
OTHERS += "".join(
    f"""
extern "C" __global__ void {op}_{type}(cudaSurfaceObject_t s, int x, unsigned value) {{
    asm volatile("sured.b.{op}.1d.{type}.trap [%0, {{%1}}], %2;" :: "l"(s), "r"(x), "r"(value));
}}
"""
    for op, type in (
        ("add", "u32"),
        ("add", "s32"),
        ("min", "u32"),
        ("max", "u32"),
        ("min", "s32"),
        ("max", "s32"),
        ("and", "b32"),
        ("or", "b32"),
    )
)
QUERIES = ("width", "height", "depth", "channel_data_type", "channel_order", "array_size")
OTHERS += "".join(
    f"""
extern "C" __global__ void {opcode}_{what}(unsigned long long t, int *out) {{
    asm volatile("{opcode}.{what}.b32 %0, [%1];" : "=r"(*out) : "l"(t));
}}
"""
    for opcode in ("txq", "suq")
    for what in QUERIES
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", TYPES)
def test_loads_and_stores(device, kind, size):
    shape, options = SHAPES[kind]
    dtype, channels = {1: ("uint8", 1), 2: ("int16", 1), 4: ("float32", 1), 8: ("float16", 4), 16: ("int32", 4)}[size]
    full = (*shape, channels) if channels > 1 else shape
    data = (np.arange(np.prod(full)) % 120).astype(dtype).reshape(full)
    depth = 1 if kind in ("1d", "2d") else shape[0]
    height = 1 if kind in ("1d", "a1d") else shape[-2]
    with (
        load(device, COPIES) as module,
        device.array(data, channels=channels, surface=True, **options) as source,
        device.array(shape, dtype, channels=channels, surface=True, **options) as target,
    ):
        with device.surface(source) as reading, device.surface(target) as writing:
            kernel = module[f"mirror_{kind}_{size}"]
            kernel.launch(reading, writing, grid=depth, block=(shape[-1], height))
        axis = len(shape) - 1
        assert (np.asarray(target.download()) == np.flip(data, axis)).all()


def test_out_of_range(device):
    data = np.arange(1, 29, dtype=np.int32).reshape(4, 7)
    out = device.empty(1, "int32")
    with load(device, OTHERS) as module, device.array(data, surface=True) as made, device.surface(made) as surface:
        for x, y in ((-1, 0), (7, 0), (0, -1), (0, 4), (1000, 1000), (3, 2)):
            inside = 0 <= x < 7 and 0 <= y < 4
            nearest = data[np.clip(y, 0, 3), np.clip(x, 0, 6)]
            for mode, expected in (("clamp", nearest), ("zero", nearest if inside else 0)):
                module[f"read_{mode}"].launch(surface, out, x, y, grid=1, block=1)
                assert out.tolist() == [expected], (x, y, mode)
            module["write_zero"].launch(surface, 99, x, y, grid=1, block=1)
            expected = data.copy()
            if inside:
                expected[y, x] = 99
            assert made.tolist() == expected.tolist()
            module["write_clamp"].launch(surface, 55, x, y, grid=1, block=1)
            expected[np.clip(y, 0, 3), np.clip(x, 0, 6)] = 55
            assert made.tolist() == expected.tolist()
            made.copy_from(data)


@pytest.mark.parametrize(
    "name, before, value, after",
    [
        ("add_u32", 2**32 - 1, 3, 2),
        ("add_s32", 5, -7, 2**32 - 2),
        ("min_u32", 5, 2**32 - 1, 5),
        ("max_u32", 5, 2**32 - 1, 2**32 - 1),
        ("min_s32", 5, -1, 2**32 - 1),
        ("max_s32", 5, -1, 5),
        ("and_b32", 0b1100, 0b1010, 0b1000),
        ("or_b32", 0b1100, 0b1010, 0b1110),
    ],
)
def test_updates(device, name, before, value, after):
    data = np.array([1, before, 3], np.uint32)
    with load(device, OTHERS) as module, device.array(data, surface=True) as made, device.surface(made) as surface:
        module[name].launch(surface, 4, value, grid=1, block=1)
        assert made.tolist() == [1, after, 3]


def test_queries(device):
    out = device.empty(1, "int32")

    def ask(module: Any, thing: Any, opcode: str) -> list[int]:
        found = []
        for what in QUERIES:
            module[f"{opcode}_{what}"].launch(thing, out, grid=1, block=1)
            found += out.tolist()
        return found

    with load(device, OTHERS) as module, device.array((4, 7), "uint8", channels=4, surface=True) as made:
        with device.texture(made) as texture, device.surface(made) as surface:
            for thing, opcode in ((texture, "txq"), (surface, "suq")):
                width, height, _, kind, order, _ = ask(module, thing, opcode)
                assert (width, height) == (7, 4)
                assert (kind, order) == (0x10DA, 0x10B5)  # CL_UNSIGNED_INT8, CL_RGBA


def test_a_kernel_writes_what_a_texture_reads(device):
    from .texture_kernels import SOURCE, fetch

    with (
        load(device, OTHERS + SOURCE) as module,
        device.array(np.zeros((4, 7), np.float32), surface=True) as made,
        device.surface(made) as surface,
        device.texture(made) as texture,
    ):
        module["write_zero"].launch(surface, 0x3F800000, 3, 2, grid=1, block=1)  # 1.0
        assert list(fetch(module, "fetch_2d", texture, np.array([[3.5, 2.5], [2.5, 2.5]], np.float32))[:, 0]) == [1, 0]


def test_a_level_is_written_and_read(device):
    with load(device, OTHERS) as module, device.mipmapped_array((4, 8), "int32", surface=True) as mipmapped:
        mipmapped[1].copy_from(np.zeros((2, 4), np.int32))
        with device.surface(mipmapped[1]) as surface:
            module["write_zero"].launch(surface, 7, 3, 1, grid=1, block=1)
        assert mipmapped[1].tolist() == [[0, 0, 0, 0], [0, 0, 0, 7]]


def test_what_is_no_surface(device):
    with device.array((4, 4), "float32") as plain, device.mipmapped_array((4, 4), "float32", surface=True) as mipmapped:
        with pytest.raises(ValueError, match="surface=True"):
            device.surface(plain)
        with pytest.raises(TypeError, match="take a level"):
            device.surface(mipmapped)
        with pytest.raises(TypeError, match="whole array"):
            device.surface(plain[0])
        for other in (device.empty((4, 4), "float32"), np.zeros((4, 4), np.float32), None, 7, device.stream()):
            with pytest.raises(TypeError, match="OpaqueArray"):
                device.surface(other)
    with device.array((4, 4), "float32", surface=True) as made:
        pass
    with pytest.raises(rawcuda.Closed):
        device.surface(made)
    with pytest.raises(TypeError, match="Device.surface"):
        rawcuda.SurfaceObject()


def test_copies_between_devices_are_in_the_order_of_their_stream(device: Any) -> None:
    """They go through temporary memory: the last step, and the first one, were on a default stream instead."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    numbers = np.arange(28, dtype="int32").reshape(4, 7)
    with rawcuda.Device(1 - device.ordinal) as other, device.stream() as stream, other.stream() as theirs:
        image, there = device.array(numbers), other.array((4, 7), "int32", surface=True)
        target, seen = other.zeros((4, 7), "int32"), other.zeros((4, 7), "int32")
        with other.graph() as graph, load(other, OTHERS) as module, other.surface(there) as surface:
            graph.copy(seen, target)
            executable = graph.instantiate()
            rawcuda.synchronize()
            image.copy_to(target, stream=stream)
            theirs.wait(stream)
            executable.launch(theirs)  # nothing notes what it reads
            theirs.synchronize()
            assert seen.tolist() == numbers.tolist()
            there.copy_from(numbers)
            for value in range(70, 80):
                theirs.call(int)  # the kernel waits for it; nothing notes what the kernel writes
                module["write_zero"].launch(surface, value, 3, 2, grid=1, block=1, stream=theirs)
                stream.wait(theirs)
                image.copy_from(there, stream=stream)
                image.copy_to(numbers, stream=stream)
                assert numbers[2, 3] == value
            executable.close()
        image.close(), there.close()


@pytest.mark.codes("cuStreamIsCapturing returned 906")
@pytest.mark.parametrize("nonblocking", [True, False])
def test_copies_between_devices_leave_the_captures_of_other_streams_alone(device: Any, nonblocking: bool) -> None:
    """They waited for all streams of a device, and used its default stream, which may be barred then."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    numbers = np.arange(28, dtype="int32").reshape(4, 7)
    with rawcuda.Device(1 - device.ordinal) as other, device.stream() as stream:
        image, there, memory = device.array((4, 7), "int32"), other.array(numbers), other.upload(2 * numbers)
        written = other.zeros(4, "int32"), device.zeros(4, "int32")
        rawcuda.synchronize()
        with other.stream(nonblocking=nonblocking) as captured, device.stream(nonblocking=nonblocking) as another:
            with captured.capture() as graph, another.capture() as graph_here:
                written[0].fill(1, stream=captured)
                written[1].fill(1, stream=another)
                image.copy_from(there, stream=stream)
                image.copy_to(memory, stream=stream)
                image[1:3].copy_from(memory[:2], stream=stream)
                written[0].fill(2, stream=captured)
                written[1].fill(2, stream=another)
            graph.launch(captured), graph_here.launch(another)
            captured.synchronize(), another.synchronize(), stream.synchronize()
        assert [each.tolist() for each in written] == [[2] * 4] * 2
        assert memory.tolist() == numbers.tolist()
        assert image.tolist() == [numbers[row].tolist() for row in (0, 0, 1, 3)]
        image.close(), there.close()


@pytest.mark.parametrize("which", ["the array's", "the other"])
def test_a_copy_between_devices_is_refused_if_a_default_stream_of_either_is_captured(device: Any, which: str) -> None:
    """Its temporary memory would be freed, and the graph would read it."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    numbers, per_thread = np.arange(8, dtype="int32"), rawcuda.Stream.per_thread
    with rawcuda.Device(1 - device.ordinal) as other:
        image, there, memory = device.array(numbers), other.array((8,), "int32"), other.zeros(8, "int32")
        captured = device if which == "the array's" else other
        filled = captured.empty(4, "int32")
        rawcuda.synchronize()
        with captured.current(), captured.stream() as stream:
            with stream.capture() as graph:
                filled.fill(1, stream=stream)
                per_thread.wait(stream)
                for copy in (
                    lambda: image.copy_from(there, stream=per_thread),
                    lambda: image.copy_to(memory, stream=per_thread),
                    lambda: image.copy_from(memory, stream=per_thread),
                ):
                    with pytest.raises(rawcuda.InvalidUse, match="this copy needs temporary memory"):
                        copy()
                stream.wait(per_thread)
            graph.close()
        image.close(), there.close()
