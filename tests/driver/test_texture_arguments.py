"""Textures and surfaces as objects: their options, their life, and their way into a kernel."""

from __future__ import annotations

import copy
import enum
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest

from tests.subject import module, rawcuda

from .texture_kernels import fetch, load, needs_compiler, np

owned = module("ownership")
pytestmark = needs_compiler
AT = np.array([[0.5, 0.5], [2.5, 1.5]], np.float32)


@pytest.fixture
def kernels(device: Any) -> Any:
    with load(device) as module:
        yield module


@pytest.fixture
def image(device: Any) -> Any:
    with device.array(np.arange(32, dtype=np.float32).reshape(4, 8)) as array:
        yield array


# -- options


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"address_mode": "repeat"}, ValueError, "'wrap', 'clamp', 'mirror', 'border'"),
        ({"address_mode": 1}, TypeError, "address_mode"),
        ({"address_mode": ("clamp", 1)}, TypeError, "address_mode"),
        ({"address_mode": ("clamp",) * 3}, ValueError, "2 dimensions"),
        ({"address_mode": ()}, ValueError, "2 dimensions"),
        ({"address_mode": "wrap"}, ValueError, "normalized_coords=True"),
        ({"address_mode": ("clamp", "mirror")}, ValueError, "normalized_coords=True"),
        ({"filter_mode": "cubic"}, ValueError, "filter_mode"),
        ({"filter_mode": None}, TypeError, "filter_mode"),
        ({"read_mode": "float"}, ValueError, "element_type"),
        ({"normalized_coords": 2}, TypeError, "normalized_coords"),
        ({"border_color": 1.0}, ValueError, 'address_mode="border"'),
        ({"border_color": (1, 2, 3, 4, 5), "address_mode": "border"}, ValueError, "at most 4"),
        ({"border_color": "red", "address_mode": "border"}, TypeError, "border_color"),
        ({"border_color": float("nan"), "address_mode": "border"}, ValueError, "finite"),
        ({"srgb": True}, ValueError, "uint8"),
        ({"srgb": "yes"}, TypeError, "srgb"),
        ({"max_anisotropy": 17}, ValueError, "0 to 16"),
        ({"max_anisotropy": -1}, ValueError, "0 to 16"),
        ({"max_anisotropy": 2.0}, TypeError, "max_anisotropy"),
        ({"mipmap_filter_mode": "linear"}, ValueError, "MipmappedArray"),
        ({"mipmap_level_bias": 1}, ValueError, "MipmappedArray"),
        ({"mipmap_level_bias": "1"}, TypeError, "mipmap_level_bias"),
        ({"min_mipmap_level_clamp": 1}, ValueError, "MipmappedArray"),
        ({"max_mipmap_level_clamp": 1}, ValueError, "MipmappedArray"),
        ({"max_mipmap_level_clamp": float("inf")}, ValueError, "finite"),
        ({"seamless_cubemap": True}, ValueError, "cubemap=True"),
        ({"channels": 2}, ValueError, "channels=2"),
        ({"colour": 1}, TypeError, "colour"),
    ],
)
def test_options_that_are_refused(device, image, options, error, words):
    with pytest.raises(error, match=words):
        device.texture(image, **options)


@pytest.mark.parametrize(
    "dtype, options, words",
    [
        ("uint8", {"filter_mode": "linear"}, "normalized_float"),
        ("int16", {"filter_mode": "linear"}, "normalized_float"),
        ("uint32", {"filter_mode": "linear"}, "use float32"),
        ("int32", {"read_mode": "normalized_float"}, "8 and 16 bits"),
        ("uint8", {"srgb": True}, "normalized_float"),
        ("int8", {"srgb": True, "read_mode": "normalized_float"}, "uint8"),
        ("uint8", {"address_mode": "border", "border_color": 1}, "not defined"),
    ],
)
def test_options_that_do_not_fit_the_elements(device, dtype, options, words):
    with device.array((4, 8), dtype) as array, pytest.raises(ValueError, match=words):
        device.texture(array, **options)


def test_a_mipmapped_array_needs_normalized_coordinates(device):
    with device.mipmapped_array((4, 8), "float32") as mipmapped:
        with pytest.raises(ValueError, match="normalized_coords=True"):
            device.texture(mipmapped)
        with device.texture(mipmapped, normalized_coords=True) as texture:
            assert texture.kind == "mipmapped" and texture.resource is mipmapped


@pytest.mark.parametrize(
    "least, most, words",
    [
        (2, 1, "min_mipmap_level_clamp=2.0 is above the last level, 1.0"),
        (0, -1, "above the last level, -1.0"),
        (2.5, None, "above the last level, 2.0"),
        (2, None, ""),
        (5, 5, ""),
    ],
)
def test_the_first_level_that_is_read_is_not_above_the_last_one(device, least, most, words):
    options = {"normalized_coords": True, "min_mipmap_level_clamp": least, "max_mipmap_level_clamp": most}
    with device.mipmapped_array((8, 8), "float32", levels=3) as mipmapped:
        if words:
            with pytest.raises(ValueError, match=words):
                device.texture(mipmapped, **options)
        else:
            device.texture(mipmapped, **options).close()


def test_the_driver_gets_the_options(device, image, driver):
    cuda_h = module("headers.cuda_h")
    with device.texture(
        image, filter_mode="linear", address_mode=("mirror", "border"), normalized_coords=True, max_anisotropy=4,
        border_color=(1, 2),
    ) as texture:  # fmt: skip
        found, what = cuda_h.CUDA_TEXTURE_DESC(), cuda_h.CUDA_RESOURCE_DESC()
        with device.current():
            driver.cuTexObjectGetTextureDesc(found, cuda_h.CUtexObject(texture.handle))
            driver.cuTexObjectGetResourceDesc(what, cuda_h.CUtexObject(texture.handle))
        assert list(found.addressMode)[:2] == [3, 2] and found.filterMode == 1 and found.flags == 2
        assert list(found.borderColor) == [1, 2, 0, 0] and found.maxAnisotropy == 4
        assert what.resType == 0 and what.res.array.hArray.value == image.handle
        options = texture.options
        assert options.address_mode == ("mirror", "border") and options.border_color == (1, 2, 0, 0)
        assert "filter_mode='linear'" in repr(options)


class Mode(str, enum.Enum):
    LINEAR, BORDER, FRACTIONS = "linear", "border", "normalized_float"


def test_words_may_be_members_of_an_enumeration(device, driver):
    cuda_h = module("headers.cuda_h")
    with device.mipmapped_array((8, 8), "uint8", levels=2) as array, device.texture(
        array,
        filter_mode=Mode.LINEAR, mipmap_filter_mode=Mode.LINEAR, address_mode=(Mode.BORDER, "clamp"),
        read_mode=Mode.FRACTIONS, normalized_coords=True, border_color=1,
    ) as texture:  # fmt: skip
        found = cuda_h.CUDA_TEXTURE_DESC()
        with device.current():
            driver.cuTexObjectGetTextureDesc(found, cuda_h.CUtexObject(texture.handle))
        assert list(found.addressMode)[:2] == [1, 3] and found.filterMode == found.mipmapFilterMode == 1
        assert found.flags == 2


# -- memory that a texture cannot read


def test_memory_that_is_refused(device):
    row = device.empty((8, 37), "float32")
    with pytest.raises(ValueError, match="TEXTURE_PITCH_ALIGNMENT"):
        device.texture(row)
    with pytest.raises(ValueError, match="empty_pitched"):
        device.texture(row)
    flat = device.empty(64, "float32")
    for view, words in (
        (flat[1:], "TEXTURE_ALIGNMENT"),
        (flat[::2], "without gaps"),
        (flat[:0], "at least one element"),
        (device.empty((4, 0), "float32"), "at least one element"),
        (device.empty((8, 64), "float32").T, "without gaps"),
        (device.empty((4, 8, 16), "float32"), "1 or 2 dimensions"),
        (device.empty((), "float32"), "1 or 2 dimensions"),
        (device.empty(4, "float64"), "float64"),
        (device.empty((4, 3), "uint8"), "TEXTURE_PITCH_ALIGNMENT"),
    ):
        with pytest.raises(ValueError, match=words):
            device.texture(view)
    with pytest.raises(ValueError, match="rows of 256 bytes overlap"):
        device.texture(flat.broadcast_to((4, 64)))
    with pytest.raises(ValueError, match="channels=4"):
        device.texture(device.empty((4, 3), "uint8"), channels=4)
    with pytest.raises(ValueError, match="RGBA"):
        device.texture(device.empty((4, 3), "uint8"), channels=3)
    for dtype in ("float32x3", "float16x8"):
        with pytest.raises(ValueError, match="an element has 1, 2 or 4"):
            device.texture(device.empty(64, dtype))
    for host in (np.zeros(4, np.float32), b"1234", rawcuda.view(np.zeros((4, 8), np.float32))):
        with pytest.raises(ValueError, match="host memory"):
            device.texture(host)
    for other in (None, 7, "text", [1.0], device.stream()):
        with pytest.raises(TypeError):
            device.texture(other)


def test_memory_that_is_too_large(device):
    with device.allocate(2**28 + 512) as memory, pytest.raises(ValueError, match="MAXIMUM_TEXTURE1D_LINEAR_WIDTH"):
        device.texture(memory)
    for shape, name in (((2, 140000), "2D_LINEAR_WIDTH"), ((66000, 1), "2D_LINEAR_HEIGHT")):
        view = device.empty_pitched(shape, "uint8")
        with view.owner, pytest.raises(ValueError, match=name):
            device.texture(view)
    with device.allocate(1 << 23) as memory, pytest.raises(ValueError, match="2D_LINEAR_PITCH"):
        device.texture(memory.view().reshape(2, 1 << 22)[:, :64])


@pytest.mark.parametrize(
    "options", [{"filter_mode": "linear"}, {"normalized_coords": True}, {"address_mode": "border"}]
)
def test_linear_memory_has_no_filter(device, options):
    with pytest.raises(ValueError, match="tex1Dfetch"):
        device.texture(device.empty(16, "float32"), **options)


def test_one_row_needs_no_pitch(device, kernels):
    view = device.upload(np.arange(7, dtype=np.float32).reshape(1, 7))
    with device.texture(view) as texture:
        assert list(fetch(kernels, "fetch_2d", texture, np.array([[3.5, 0.5]], np.float32))[:, 0]) == [3]


@pytest.mark.parametrize("kind", ("pinned", "managed"))
def test_memory_that_the_host_sees(device, kernels, kind):
    with device.allocate(2048, kind=kind) as memory:
        offset = -memory.ptr % device.attribute("TEXTURE_ALIGNMENT")
        view = memory.view()[offset : offset + 16].reinterpret("float32")
        view.copy_from(np.arange(4, dtype=np.float32))
        with device.texture(view) as texture:
            assert list(fetch(kernels, "fetch_linear", texture, np.arange(4)[:, None])[:, 0]) == [0, 1, 2, 3]


def test_another_device(device, kernels):
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is one device")
    there = rawcuda.Device(1)
    view = there.empty(16, "float32")
    with there.array((4, 4), "float32", surface=True) as array:
        for make in (device.texture, device.surface):
            with pytest.raises(ValueError, match="not on this device"):
                make(array)
        with pytest.raises(ValueError, match="not on device 0"):
            device.texture(view)
        with there.texture(array) as texture, pytest.raises(ValueError, match="is on device 1"):
            kernels["fetch_2d"].launch(texture, None, None, 0, grid=1, block=1)


# -- arguments


def test_every_way_to_give_a_texture(device, image):
    ptx = ".version 6.3\n.target sm_50\n.address_size 64\n"
    ptx += """
.visible .entry keep(.param .u64 out, .param .align 8 .b8 wrapped[8], .param .u64 plain) {
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [wrapped];
    ld.param.u64 %rd3, [plain];
    st.global.u64 [%rd1], %rd2;
    st.global.u64 [%rd1+8], %rd3;
    ret;
}
"""
    out = device.empty(2, "uint64")
    with device.load(ptx) as module, device.texture(image) as texture:
        kernel = module["keep"]
        for given in (texture, texture.handle, np.uint64(texture.handle)):
            kernel.launch(out, texture, given, grid=1, block=1)
            assert out.tolist() == [texture.handle] * 2
        kernel.configure(grid=1, block=1, stream=device.stream())(out, rawcuda.In(texture), texture)
        device.synchronize()
        assert out.tolist() == [texture.handle] * 2
        declared = module.kernel("keep", parameters=["pointer", "uint64", "pointer"])
        with pytest.raises(TypeError, match="is not a pointer"):
            declared.launch(out, texture, texture, grid=1, block=1)
        with pytest.raises((TypeError, ValueError), match="keep"):
            module.kernel("keep", parameters=["pointer", "uint64", "float64"]).launch(
                out, texture, texture, grid=1, block=1
            )


def test_parameters_that_take_no_texture(device, image):
    text = ".version 6.3\n.target sm_50\n.address_size 64\n"
    text += """
.visible .entry many(.param .u32 small, .param .f32 real, .param .align 8 .b8 large[16], .param .f64 wide) { ret; }
"""
    right = (0, 0.0, bytes(16), 0.0)
    with device.load(text) as module, device.texture(image) as texture:
        for number in range(4):
            given = [*right]
            given[number] = texture
            with pytest.raises((TypeError, ValueError), match="many"):
                module["many"].launch(*given, grid=1, block=1)


def test_declared_textures_and_surfaces(device, kernels):
    rest = ["float32*", "float32*", "int32"]
    out, at = device.empty((2, 4), "float32"), device.upload(np.pad(AT, ((0, 0), (0, 2))))
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    with device.array(data, surface=True) as array, device.texture(array) as texture, device.surface(array) as surface:
        for declaration in ("texture", "cudaTextureObject_t", rawcuda.TextureObject):
            kernel = kernels.kernel("fetch_2d", parameters=[declaration, *rest])
            for given in (texture, texture.handle, np.uint64(texture.handle), rawcuda.In(texture)):
                out.fill(0)
                kernel.launch(given, at, out, 2, grid=1, block=2)
                assert [row[0] for row in out.tolist()] == [0, 10]
            for wrong in (surface, array, out, None, 1.5, "text", bytes(4), 2**64):
                with pytest.raises((TypeError, ValueError), match="fetch_2d.* is a texture"):
                    kernel.launch(wrong, at, out, 2, grid=1, block=2)
        for declaration in ("surface", "cudaSurfaceObject_t", rawcuda.SurfaceObject):
            kernel = kernels.kernel("fetch_2d", parameters=[declaration, *rest])
            with pytest.raises(TypeError, match=r"is a surface.*device.surface\(array\)"):
                kernel.launch(texture, at, out, 2, grid=1, block=2)
        for declaration in ("tensor map", rawcuda.TensorMap, "float16"):
            with pytest.raises((TypeError, ValueError), match="fetch_2d"):
                kernels.kernel("fetch_2d", parameters=[declaration, *rest])


def test_an_array_itself_is_no_argument(device, kernels, image):
    with device.mipmapped_array((4, 8), "float32") as mipmapped:
        for given in (image, image[1:], mipmapped):
            with pytest.raises(TypeError, match=r"fetch_2d.*device.texture\(it\)"):
                kernels["fetch_2d"].launch(given, None, None, 0, grid=1, block=1)


def test_closed_textures_and_resources(device, kernels):
    array = device.array((4, 8), "float32")
    texture = device.texture(array)
    array.close()
    with pytest.raises(rawcuda.Closed, match="kernel fetch_2d.*OpaqueArray"):
        kernels["fetch_2d"].launch(texture, None, None, 0, grid=1, block=1)
    texture.close()
    with pytest.raises(rawcuda.Closed, match="TextureObject"):
        kernels["fetch_2d"].launch(texture, None, None, 0, grid=1, block=1)
    view = device.empty(16, "float32")
    with device.texture(view) as texture:
        view.owner.close()
        with pytest.raises(rawcuda.Closed, match="Memory"):
            kernels["fetch_linear"].launch(texture, None, None, 0, grid=1, block=1)
    mipmapped = device.mipmapped_array((4, 8), "float32")
    with device.texture(mipmapped, normalized_coords=True) as texture, device.texture(mipmapped[0]) as level:
        mipmapped.close()
        for each in (texture, level):
            with pytest.raises(rawcuda.Closed, match="MipmappedArray"):
                kernels["fetch_2d"].launch(each, None, None, 0, grid=1, block=1)
        with pytest.raises(rawcuda.Closed):
            device.texture(mipmapped, normalized_coords=True)
    with pytest.raises(rawcuda.Closed):
        device.texture(array)


# -- the life of a texture


def test_the_life_of_a_texture_and_a_surface(device):
    with device.array((4, 8), "float32", surface=True) as array:
        for make in (device.texture, device.surface):
            made = make(array)
            assert made.resource is array and made.device is device and hex(made.handle) in repr(made)
            for refused in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError):
                    refused(made)
            with made as same:
                assert same is made
            made.close()
            assert made.closed and "closed" in repr(made)
            with pytest.raises(rawcuda.Closed):
                made.handle
            with pytest.raises(TypeError, match="made by"):
                type(made)()


def test_a_detached_texture_is_the_callers(device, image, driver):
    handle = device.texture(image).detach()
    with device.current():
        driver.cuTexObjectDestroy(module("headers.cuda_h").CUtexObject(handle))


def test_a_texture_keeps_its_array(device, kernels):
    texture = device.texture(device.array(np.arange(32, dtype=np.float32).reshape(4, 8)))
    linear = device.texture(device.upload(np.arange(5, dtype=np.float32)))
    gc.collect()
    owned.drain()
    assert list(fetch(kernels, "fetch_2d", texture, AT)[:, 0]) == [0, 10]
    assert list(fetch(kernels, "fetch_linear", linear, np.arange(5)[:, None])[:, 0]) == [0, 1, 2, 3, 4]
    texture.close()
    linear.close()


def test_a_launch_keeps_its_textures(device, kernels):
    stream = device.stream()
    out = device.empty((2, 4), "float32")
    at = device.upload(np.pad(AT, ((0, 0), (0, 2))))
    launch = kernels["fetch_2d"].configure(grid=1, block=2, stream=stream)
    gone = []
    for number in range(40):
        array = device.array(np.full((4, 8), number, np.float32))
        texture = device.texture(array)
        gone.append(weakref.ref(texture))
        launch(texture, at, out, 2)
        del array, texture
        gc.collect()
        owned.drain()
    stream.synchronize()
    assert out.tolist()[0][0] == 39
    device.synchronize()
    assert not any(each() for each in gone)


def test_close_waits_for_the_kernel(device, kernels):
    stream = device.stream()
    out, at = device.empty((2, 4), "float32"), device.upload(np.pad(AT, ((0, 0), (0, 2))))
    array = device.array(np.arange(32, dtype=np.float32).reshape(4, 8))
    texture = device.texture(array)
    kernels["fetch_2d"].launch(texture, at, out, 2, grid=1, block=2, stream=stream)
    texture.close()
    array.close()
    stream.synchronize()
    assert [row[0] for row in out.tolist()] == [0, 10]


def test_a_graph_keeps_its_textures(device, kernels):
    stream = device.stream()
    out, at = device.empty((2, 4), "float32"), device.upload(np.pad(AT, ((0, 0), (0, 2))))
    texture = device.texture(device.array(np.arange(32, dtype=np.float32).reshape(4, 8)))
    with stream.capture() as graph:
        kernels["fetch_2d"].launch(texture, at, out, 2, grid=1, block=2, stream=stream)
    del texture
    gc.collect()
    owned.drain()
    graph.launch(stream)
    stream.synchronize()
    assert [row[0] for row in out.tolist()] == [0, 10]
    graph.close()


@pytest.mark.parametrize("first", ("device", "array", "mipmapped", "texture", "surface", "over_memory", "module"))
def test_every_pair_is_closed_in_both_orders(first):
    names = ("device", "array", "mipmapped", "texture", "surface", "over_memory", "module")
    for second in names:
        device = rawcuda.Device(0)
        stream = device.stream()
        kernels = load(device)
        array = device.array((4, 8), "float32", surface=True)
        array.copy_from(np.zeros((4, 8), np.float32), stream=stream)
        mipmapped = device.mipmapped_array((4, 8), "float32")
        things = {
            "device": device,
            "array": array,
            "mipmapped": mipmapped,
            "texture": device.texture(array),
            "surface": device.surface(array),
            "over_memory": device.texture(device.empty(16, "float32")),
            "module": kernels,
        }
        out, at = device.empty((2, 4), "float32"), device.upload(np.pad(AT, ((0, 0), (0, 2))))
        kernels["fetch_2d"].launch(things["texture"], at, out, 2, grid=1, block=2, stream=stream)
        for name in (first, second, first, *names):
            things[name].close()
        things.clear()
        del array, mipmapped, kernels, out, at, stream, device
        gc.collect()
        owned.drain()
    rawcuda.synchronize()


def test_dropped_without_the_collector(device):
    device.synchronize()
    gc.collect()
    gc.disable()
    try:
        array = device.array((4, 8), "float32", surface=True)
        things = [array, device.texture(array), device.surface(array), device.mipmapped_array((4, 8), "float32")]
        things += [device.texture(device.empty(16, "float32"))]
        gone = [weakref.ref(thing) for thing in things]
        del array
        things.clear()
        device.synchronize()
        assert not any(each() for each in gone) and not owned.dropped
    finally:
        gc.enable()


def test_threads_share_a_texture(device, kernels, image):
    wrong: list[Any] = []

    def run() -> None:
        try:
            stream = device.stream()
            for _ in range(5):
                if list(fetch(kernels, "fetch_2d", texture, AT, stream=stream)[:, 0]) != [0, 10]:
                    wrong.append("other values")
        except Exception as error:
            wrong.append(error)

    with device.texture(image) as texture:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_nothing_is_left_by_a_refused_texture(device, library):
    before = None if library is None else library.live_handles()
    with device.array((4, 8), "uint8") as array:
        for _ in range(3):
            with pytest.raises(ValueError):
                device.texture(array, filter_mode="linear")
    with pytest.raises(ValueError):
        device.array((2**21, 4), "uint8")
    assert library is None or library.live_handles() == before


def test_calls_are_traced(device, image):
    seen: list[Any] = []
    with rawcuda.trace(seen.append):
        device.texture(image).close()
    text = " ".join(map(str, seen))
    assert "cuTexObjectCreate" in text and "cuTexObjectDestroy" in text
