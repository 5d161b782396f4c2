"""Textures: what a fetch reads, for each filter, address mode, dtype, number of channels and kind of array."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from .texture_kernels import fetch, fractions, load, model, needs_compiler, np

pytestmark = needs_compiler
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")
MODES = {False: ("clamp", "border"), True: ("clamp", "border", "wrap", "mirror")}
SHAPES = {1: (8,), 2: (4, 8), 3: (2, 4, 8)}


@pytest.fixture
def kernels(device: Any) -> Any:
    with load(device) as module:
        yield module


@pytest.fixture
def near(library: Any) -> Any:
    """Compare with the model: exactly on the emulator, and with the precision of the hardware on a GPU."""

    def near(got: Any, expected: Any) -> None:
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=(1e-6 if library else 6e-3) * scale)

    return near


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Any:
    random = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return random.integers(-64, 64, shape).astype(dtype) / 4
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def stored(data: Any) -> Any:
    """Return data without the dimension of the channels if there is only one."""
    return data[..., 0] if data.shape[-1] == 1 else data


def places(shape: tuple[int, ...], normalized: bool, count: int = 96) -> Any:
    """Return coordinates in and around an array, all of them multiples of 1/8 of an element."""
    random = np.random.default_rng(len(shape))
    columns = [random.integers(-12 * n, 20 * n, count) / 8 / (n if normalized else 1) for n in shape[::-1]]
    return np.stack(columns, 1).astype(np.float32)


@pytest.mark.parametrize("channels", (1, 2, 4))
@pytest.mark.parametrize("dtype", ("float16", "float32"))
def test_floats(device, kernels, near, dtype, channels):
    for ndim, normalized, linear in itertools.product((1, 2, 3), (False, True), (False, True)):
        data = numbers((*SHAPES[ndim], channels), dtype)
        with device.array(stored(data), channels=channels) as array:
            at = places(SHAPES[ndim], normalized)
            for mode in MODES[normalized]:
                border = (0.5, -2.0, 3.0, 8.0) if mode == "border" else None
                with device.texture(
                    array,
                    address_mode=mode,
                    filter_mode="linear" if linear else "point",
                    normalized_coords=normalized,
                    border_color=border,
                ) as texture:
                    got = fetch(kernels, f"fetch_{ndim}d", texture, at)[:, :channels]
                    expected = model(data, at, (mode,) * 3, linear, normalized, (border or (0,) * 4)[:channels])
                    near(got, expected)


@pytest.mark.parametrize("channels", (1, 2, 4))
@pytest.mark.parametrize("dtype", DTYPES[:6])
def test_integers_as_such(device, kernels, dtype, channels):
    for ndim, normalized in itertools.product((1, 2, 3), (False, True)):
        data = numbers((*SHAPES[ndim], channels), dtype)
        with device.array(stored(data), channels=channels) as array:
            at = places(SHAPES[ndim], normalized)
            for mode in MODES[normalized]:
                with device.texture(array, address_mode=mode, normalized_coords=normalized) as texture:
                    got = fetch(kernels, f"whole_{ndim}d", texture, at, kind="uint32")[:, :channels]
                    expected = model(data, at, (mode,) * 3, False, normalized).astype(np.int64) & 0xFFFFFFFF
                    assert (got == expected).all(), (ndim, mode)


@pytest.mark.parametrize("channels", (1, 2, 4))
@pytest.mark.parametrize("dtype", DTYPES[:4])
def test_integers_as_fractions(device, kernels, near, dtype, channels):
    for ndim, linear in itertools.product((1, 2, 3), (False, True)):
        data = numbers((*SHAPES[ndim], channels), dtype)
        with device.array(stored(data), channels=channels) as array:
            at = places(SHAPES[ndim], True)
            for mode in MODES[True]:
                with device.texture(
                    array,
                    address_mode=mode,
                    filter_mode="linear" if linear else "point",
                    read_mode="normalized_float",
                    normalized_coords=True,
                    border_color=(1.0, 0.5, 0.25, 0.125) if mode == "border" else None,
                ) as texture:
                    got = fetch(kernels, f"fetch_{ndim}d", texture, at)[:, :channels]
                    border = (1.0, 0.5, 0.25, 0.125)[:channels]
                    near(got, model(fractions(data), at, (mode,) * 3, linear, True, border))


def test_an_address_mode_for_each_dimension_is_in_the_order_of_the_shape(device, kernels, near):
    data = numbers((4, 8, 1), "float32")
    at = places((4, 8), True)
    modes = ("mirror", "wrap")
    with (
        device.array(data[..., 0]) as array,
        device.texture(array, address_mode=modes, filter_mode="linear", normalized_coords=True) as texture,
    ):
        near(fetch(kernels, "fetch_2d", texture, at)[:, :1], model(data, at, modes[::-1], True, True))


@pytest.mark.parametrize("linear", (False, True))
def test_layers_are_clamped_and_not_filtered(device, kernels, near, linear):
    filter_mode = "linear" if linear else "point"
    lines, images = numbers((3, 8, 2), "float32"), numbers((3, 4, 8, 2), "float32")
    for data, name, shape in ((lines, "fetch_a1d", (8,)), (images, "fetch_a2d", (4, 8))):
        with device.array(data, channels=2, layered=True) as array:
            assert array.shape == data.shape[:-1] and array.layered
            with device.texture(array, filter_mode=filter_mode) as texture:
                for layer, clamped in ((0, 0), (2, 2), (1, 1), (-4, 0), (9, 2)):
                    at = places(shape, False, 40)
                    given = np.zeros((40, 4), np.float32)
                    given[:, : at.shape[1]], given[:, 3] = at, layer
                    got = fetch(kernels, name, texture, given)[:, :2]
                    near(got, model(data[clamped], at, ("clamp",) * 2, linear, False))


# x, y, z of a direction -> the face that it hits, and s/m, t/m there
def faces(direction: Any) -> tuple[int, float, float]:
    x, y, z = direction
    largest = max(abs(x), abs(y), abs(z))
    if abs(x) == largest:
        face, s, t = (0, -z, -y) if x > 0 else (1, z, -y)
    elif abs(y) == largest:
        face, s, t = (2, x, z) if y > 0 else (3, x, -z)
    else:
        face, s, t = (4, x, -y) if z > 0 else (5, -x, -y)
    return face, (s / largest + 1) / 2, (t / largest + 1) / 2


def test_cubemaps_choose_a_face_by_the_largest_coordinate(device, kernels, near):
    data = numbers((12, 4, 4, 1), "float32")
    random = np.random.default_rng(5)
    major = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)] * 8, np.float32)
    others = random.integers(-3, 4, (48, 3)) / 4
    directions = np.where(major != 0, major, others).astype(np.float32)
    found = [faces(direction) for direction in directions]
    for layered in (False, True):
        content = data if layered else data[:6]
        with device.array(content[..., 0], cubemap=True, layered=layered) as array:
            with device.texture(array, normalized_coords=True) as texture:
                given = np.zeros((48, 4), np.float32)
                given[:, :3], given[:, 3] = directions, 1
                got = fetch(kernels, "fetch_acube" if layered else "fetch_cube", texture, given)[:, :1]
                expected = [
                    model(content[face + 6 * layered], np.array([[s, t]]), ("clamp",) * 2, False, True)[0]
                    for face, s, t in found
                ]
                near(got, np.array(expected))


def test_cubemaps_take_directions_without_a_largest_coordinate(device, kernels):
    content = numbers((6, 4, 4, 1), "float32")
    odd = [float("inf"), -float("inf"), float("nan"), 0.0, 1e-45, 3e38]
    directions = np.array(list(itertools.product(odd, repeat=3)), np.float32)
    given = np.ones((len(directions), 4), np.float32)
    given[:, :3] = directions
    with device.array(content[..., 0], cubemap=True) as array:
        with device.texture(array, normalized_coords=True) as texture:
            assert np.isin(fetch(kernels, "fetch_cube", texture, given)[:, 0], content).all()


@pytest.mark.parametrize("mip_linear", (False, True))
def test_levels_of_detail(device, kernels, near, mip_linear):
    levels = [numbers((8 >> k, 8 >> k, 1), "float32", k) for k in range(4)]
    with device.mipmapped_array((8, 8), "float32") as mipmapped:
        for level, content in zip(mipmapped, levels):
            level.copy_from(content[..., 0])
        options = {"normalized_coords": True, "filter_mode": "linear"}
        with device.texture(mipmapped, mipmap_filter_mode="linear" if mip_linear else "point", **options) as texture:
            at = places((8, 8), True, 32)

            def expected(lod: float) -> Any:
                lod = min(max(lod, 0), 3)
                if not mip_linear:
                    return model(levels[min(int(lod + 0.5), 3)], at, ("clamp",) * 2, True, True)
                low, part = int(lod), lod - int(lod)
                pair = [model(levels[k], at, ("clamp",) * 2, True, True) for k in (low, min(low + 1, 3))]
                return pair[0] * (1 - part) + pair[1] * part

            given = np.zeros((32, 4), np.float32)
            given[:, :2] = at
            for lod in (0, 0.25, 1, 1.75, 3, 9, -2):
                given[:, 3] = lod
                near(fetch(kernels, "level_2d", texture, given)[:, :1], expected(lod))
            near(fetch(kernels, "fetch_2d", texture, given)[:, :1], expected(0))
            given[:, 2], given[:, 3] = 2 / 8, 1 / 8  # two elements in x, one in y: one level up
            near(fetch(kernels, "grad_2d", texture, given)[:, :1], expected(1))
        clamps = {"min_mipmap_level_clamp": 1.0, "max_mipmap_level_clamp": 2.0, "mipmap_level_bias": 1.0}
        with device.texture(
            mipmapped, mipmap_filter_mode="linear" if mip_linear else "point", **options, **clamps
        ) as t:
            for lod, used in ((0, 1), (0.5, 1.5), (1, 2), (5, 2), (-3, 1)):
                given[:, 3] = lod
                near(fetch(kernels, "level_2d", t, given)[:, :1], expected(used))


def test_a_gather_returns_the_elements_that_a_filter_would_use(device, kernels):
    data = numbers((4, 8, 2), "float32")
    with device.array(data, channels=2, gather=True) as array, device.texture(array) as texture:
        at = np.array([[3.0, 2.0], [3.4, 2.2], [0.0, 0.0], [8.0, 4.0]], np.float32)
        for component, name in ((0, "gather_r"), (1, "gather_g")):
            got = fetch(kernels, name, texture, at)
            for (x, y), found in zip(at, got):
                i, j = int(np.floor(x - 0.5)), int(np.floor(y - 0.5))
                left, right = np.clip((i, i + 1), 0, 7)
                top, bottom = np.clip((j, j + 1), 0, 3)
                corners = [(bottom, left), (bottom, right), (top, right), (top, left)]
                assert list(found) == [data[corner][component] for corner in corners]


def test_srgb_is_decoded_before_it_is_filtered(device, kernels, near):
    data = numbers((4, 8, 4), "uint8")
    fraction = data / 255
    decoded = np.where(fraction <= 0.04045, fraction / 12.92, ((fraction + 0.055) / 1.055) ** 2.4)
    decoded[..., 3] = fraction[..., 3]
    at = places((4, 8), False)
    with device.array(data, channels=4) as array:
        options = {"read_mode": "normalized_float", "srgb": True}
        for linear in (False, True):
            with device.texture(array, filter_mode="linear" if linear else "point", **options) as texture:
                near(fetch(kernels, "fetch_2d", texture, at), model(decoded, at, ("clamp",) * 2, linear, False))


def test_an_element_is_resident(device, kernels):
    with device.array(numbers((4, 8), "float32")) as array, device.texture(array) as texture:
        at = places((4, 8), False, 8)
        assert (fetch(kernels, "resident", texture, at)[:, 0] == fetch(kernels, "fetch_2d", texture, at)[:, 0]).all()


def test_coordinates_that_are_no_numbers_read_something(device, kernels):
    at = np.array([[np.inf, 0], [-np.inf, 0], [1e30, -1e30]], np.float32)
    data = numbers((4, 8), "float32")
    with device.array(data) as array, device.texture(array, filter_mode="linear") as texture:
        got = fetch(kernels, "fetch_2d", texture, at)[:, 0]
        assert list(got) == [data[0, 7], data[0, 0], data[0, 7]]
        assert np.isfinite(fetch(kernels, "fetch_2d", texture, np.full((1, 2), np.nan, np.float32))[0, 0])


@pytest.mark.gpu_only("the emulator computes with the formulas of the model")
def test_the_hardware_rounds_as_the_model(device, kernels):
    data = numbers((4, 8, 1), "float32")
    at = np.random.default_rng(2).uniform(-1, 9, (4096, 2)).astype(np.float32)
    with device.array(data[..., 0]) as array, device.texture(array, filter_mode="linear") as texture:
        got = fetch(kernels, "fetch_2d", texture, at)[:, :1]
        expected = model(data, at, ("clamp",) * 2, True, False)
        assert np.abs(got - expected).max() <= 2 * 32 / 256 and np.abs(got - expected).mean() < 0.05


# -- textures over memory


@pytest.mark.parametrize("channels", (1, 2, 4))
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_memory(device, kernels, dtype, channels):
    data = numbers((37, channels), dtype)
    with device.upload(data).owner as memory:
        view = memory.view(dtype).reshape((37, channels) if channels > 1 else 37)
        with device.texture(view, channels=channels) as texture:
            assert texture.kind == "linear" and texture.resource is view
            at = np.arange(37, dtype=np.float32)[:, None]
            name, kind = ("fetch_linear", "float32") if dtype[0] == "f" else ("fetch_linear_u", "uint32")
            got = fetch(kernels, name, texture, at, kind=kind)[:, :channels]
            expected = data if dtype[0] == "f" else data.astype(np.int64) & 0xFFFFFFFF
            assert (got == expected).all()
            outside = np.array([[-1.0], [37.0], [1000.0]], np.float32)
            assert not fetch(kernels, name, texture, outside, kind=kind)[:, :channels].any()


@pytest.mark.parametrize("dtype", DTYPES[:4])
def test_linear_memory_as_fractions(device, kernels, near, dtype):
    data = numbers((37, 1), dtype)
    with device.texture(device.upload(data[:, 0]), read_mode="normalized_float") as texture:
        near(fetch(kernels, "fetch_linear", texture, np.arange(37)[:, None])[:, :1], fractions(data))


def test_coordinates_anywhere(device, kernels, library):
    """Between the multiples of 1/256 of an element, the emulator rounds as the model does."""
    data = numbers((4, 7, 1), "float32")
    random = np.random.default_rng(3)
    with device.array(data[..., 0]) as array:
        for normalized in (False, True):
            at = random.uniform(-0.5, 1.5, (256, 2)).astype(np.float32) * ((1, 1) if normalized else (7, 4))
            at = at.astype(np.float32)
            with device.texture(array, filter_mode="linear", normalized_coords=normalized) as texture:
                got = fetch(kernels, "fetch_2d", texture, at)[:, :1]
                expected = model(data, at, ("clamp",) * 2, True, normalized)
                assert np.abs(got - expected).max() <= (0.5 if library is None else 1e-5)


@pytest.mark.parametrize("channels", (1, 4))
@pytest.mark.parametrize("dtype", ("uint8", "float16", "float32"))
def test_pitched_memory(device, kernels, near, dtype, channels):
    data = numbers((5, 11, channels), dtype)
    shape = (5, 11) if channels == 1 else (5, 11 * channels)
    rows = device.empty_pitched(shape, dtype)
    with rows.owner:
        rows.copy_from(data.reshape(shape))
        view = rows if channels == 1 else rows._derived(
            rows.ptr, (5, 11, channels), (rows.strides[0], rows.strides[1] * channels, rows.strides[1])
        )  # fmt: skip
        exact = data if dtype != "uint8" else fractions(data)
        for normalized, linear in itertools.product((False, True), (False, True)):
            at = places((8, 8), normalized)
            for mode in MODES[normalized]:
                with device.texture(
                    view,
                    channels=channels,
                    address_mode=mode,
                    filter_mode="linear" if linear else "point",
                    read_mode="normalized_float",
                    normalized_coords=normalized,
                ) as texture:
                    assert texture.kind == "pitched"
                    got = fetch(kernels, "fetch_2d", texture, at)[:, :channels]
                    near(got, model(exact, at, (mode,) * 2, linear, normalized))


def test_memory_is_read_when_the_kernel_runs(device, kernels):
    view = device.upload(np.zeros(4, np.float32))
    with view.owner, device.texture(view) as texture:
        view.copy_from(np.arange(4, dtype=np.float32))
        assert list(fetch(kernels, "fetch_linear", texture, np.arange(4)[:, None])[:, 0]) == [0, 1, 2, 3]


def test_a_memory_is_a_texture_of_bytes(device, kernels):
    with device.allocate(16) as memory, device.texture(memory) as texture:
        memory.copy_from(bytes(range(16)))
        got = fetch(kernels, "fetch_linear_u", texture, np.arange(16)[:, None], kind="uint32")
        assert list(got[:, 0]) == list(range(16))
