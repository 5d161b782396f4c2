"""Arrays, textures, surfaces and tensor maps at the emulator's entry points, and what it reports of kernels."""

from __future__ import annotations

import ctypes
import itertools
import re
import struct

import pytest

from tests.emulator.emulator_client import Client
from tests.subject import module

textures, arrays = (
    module("emulator.entries.texturing.texture_entries"),
    module("emulator.entries.texturing.array_entries"),
)
OUT = ctypes.c_uint64()
FLOAT, UINT8, INT32 = 0x20, 0x01, 0x0A
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
BODY = """.visible .entry k(.param .u64 t, .param .u64 out)
{
    .reg .b64 %rd<6>;
    .reg .f32 %f<12>;
    .reg .b32 %r<12>;
    .reg .b16 %h<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [t];
    ld.param.u64 %rd2, [out];
    mov.f32 %f5, 0f3F000000;
    mov.u32 %r5, 0;
    mov.u32 %r6, 99;
    mov.u32 %r7, 3;
BODY
    st.global.f32 [%rd2], %f1;
    st.global.u32 [%rd2+4], %r1;
    ret;
}
"""


@pytest.fixture(params=["eager", "lazy", "random"])
def client(request):
    made = Client(request.param)
    yield made
    assert not made.emulator.kept_exceptions


def array_of(client, width=8, height=4, depth=0, format=FLOAT, channels=1, flags=0):
    return client.get("cuArray3DCreate_v2", struct.pack("<QQQ iII4x", width, height, depth, format, channels, flags))


def filled(client, width=8, height=4, flags=0):
    array = array_of(client, width, height, flags=flags)
    content = struct.pack(f"<{width * height}f", *range(width * height))
    side = struct.pack("<2Q i4x QQQ Q", 0, 0, 1, ctypes.addressof(keep(content)), 0, 0, 4 * width)
    side += struct.pack("<2Q i4x QQQ Q", 0, 0, 3, 0, 0, array, 0)
    client.do("cuMemcpy2D_v2", side + struct.pack("<2Q", 4 * width, height))
    return array


kept = []


def keep(content):
    kept.append(ctypes.create_string_buffer(content, len(content)))
    return kept[-1]


def resource(kind, *words, layout=""):
    union = struct.pack("<" + layout, *words) if layout else struct.pack(f"<{len(words)}Q", *words)
    return struct.pack("<i4x", kind) + union.ljust(128, b"\0") + bytes(8)


def sampling(modes=(1, 1, 1), filter=0, flags=1, mip=0, bias=0.0, least=0.0, most=0.0):
    return struct.pack("<3i i I I i 3f 4f 12i", *modes, filter, flags, 0, mip, bias, least, most, *[0.0] * 4, *[0] * 12)


def texture_of(client, array, **options):
    return client.get("cuTexObjectCreate", resource(0, array), sampling(**options), None)


def run(client, body, handle):
    """Run a kernel, and return the code of the wait and what it wrote."""
    loaded = client.load(HEAD + BODY.replace("BODY", body))
    out = client.upload(bytes(8))
    code = client.launch(client.get("cuModuleGetFunction", loaded, b"k"), [handle, out])
    code = code or client.code("cuCtxSynchronize")
    return code, None if code else struct.unpack("<fI", client.download(out, 8))


TEX = "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];\nmov.u32 %r1, 0;"
SULD = "suld.b.2d.b32.trap {%r1}, [%rd1, {%r5, %r5}];\nmov.f32 %f1, 0f00000000;"


# -- arrays


@pytest.mark.parametrize(
    "options, code",
    [
        ({}, 0),
        ({"width": 0}, 1),
        ({"height": 0, "depth": 4}, 1),
        ({"format": 0x40}, 1),
        ({"format": 0xB0}, 801),
        ({"format": 0xC0}, 801),
        ({"channels": 3}, 1),
        ({"channels": 0}, 1),
        ({"flags": 0x40}, 801),
        ({"flags": 0x10}, 801),
        ({"flags": 0x1000}, 1),
        ({"flags": LAYERED}, 1),
        ({"flags": LAYERED, "depth": 3}, 0),
        ({"flags": LAYERED, "depth": 2049}, 1),
        ({"flags": CUBEMAP, "width": 4, "depth": 6}, 0),
        ({"flags": CUBEMAP, "width": 8, "depth": 6}, 1),
        ({"flags": CUBEMAP, "width": 4, "depth": 12}, 1),
        ({"flags": CUBEMAP | LAYERED, "width": 4, "depth": 12}, 0),
        ({"flags": CUBEMAP | LAYERED, "width": 4, "depth": 13}, 1),
        ({"flags": GATHER}, 0),
        ({"flags": GATHER, "depth": 2}, 1),
        ({"width": 131073}, 1),
        ({"width": 1 << 63}, 1),
        ({"width": 16384, "height": 1, "depth": 16385}, 1),
        ({"width": 8192, "height": 1, "depth": 16385}, 0),
        ({"width": 131072, "height": 65536}, 2),
    ],
)
def test_arrays(client, options, code):
    values = {"width": 8, "height": 4, "depth": 0, "format": FLOAT, "channels": 1, "flags": 0, **options}
    assert client.code("cuArray3DCreate_v2", OUT, struct.pack("<QQQ iII4x", *values.values())) == code
    if not code:
        found = ctypes.create_string_buffer(40)
        client.do("cuArray3DGetDescriptor_v2", found, OUT.value)
        assert struct.unpack("<QQQ iII", found.raw[:36]) == tuple(values.values())
        client.do("cuArrayDestroy", OUT.value)
        assert client.code("cuArrayDestroy", OUT.value) == 400
    assert not client.live()
    assert client.code("cuArray3DCreate_v2", None, bytes(40)) == 1 == client.code("cuArray3DCreate_v2", OUT, None)


def test_plain_arrays(client):
    made = client.get("cuArrayCreate_v2", struct.pack("<QQ iI", 8, 0, UINT8, 4))
    found = ctypes.create_string_buffer(24)
    client.do("cuArrayGetDescriptor_v2", found, made)
    assert struct.unpack("<QQ iI", found.raw) == (8, 0, UINT8, 4)
    content = bytes(range(32))
    client.do("cuMemcpyHtoA_v2", made, 0, content, 32)
    back = ctypes.create_string_buffer(16)
    client.do("cuMemcpyAtoH_v2", back, made, 8, 16)
    assert back.raw == content[8:24]
    other, device = client.get("cuArrayCreate_v2", struct.pack("<QQ iI", 8, 0, UINT8, 4)), client.upload(bytes(32))
    client.do("cuMemcpyAtoA_v2", other, 4, made, 0, 28)
    client.do("cuMemcpyAtoD_v2", device, other, 4, 28)
    assert client.download(device, 32) == content[:28] + bytes(4)
    client.do("cuMemcpyDtoA_v2", made, 0, device, 32)
    stream = client.stream(0)
    pinned = client.pinned(bytes(32))
    client.do("cuMemcpyAtoHAsync_v2", pinned, made, 0, 32, stream)
    client.do("cuMemcpyHtoAAsync_v2", other, 0, pinned, 32, stream)
    client.do("cuStreamSynchronize", stream)
    assert ctypes.string_at(pinned, 32) == content[:28] + bytes(4)
    for offset, nbytes, code in ((0, 36, 1), (28, 8, 1), (2, 4, 1), (0, 6, 1), (0, 0, 0), (1 << 63, 4, 1)):
        assert client.code("cuMemcpyAtoD_v2", device, made, offset, nbytes) == code
    assert client.code("cuMemcpyAtoD_v2", device, 5, 0, 4) == 400


def test_a_copy_between_arrays_needs_elements_of_one_size(client):
    """CUDA Driver API, cuMemcpyAtoA: the formats may differ, but not the size of the elements."""
    array = {form: client.get("cuArrayCreate_v2", struct.pack("<QQ iI", 16, 0, *form)) for form in FORMS}
    for target, source in itertools.product(FORMS, repeat=2):
        code = 0 if (target in FORMS[:2]) == (source in FORMS[:2]) else 1
        if target != source:
            assert client.code("cuMemcpyAtoA_v2", array[target], 0, array[source], 0, 16) == code, (target, source)
            block = struct.pack("<2Q i4x QQQ Q", 0, 0, 3, 0, 0, array[source], 0)
            block += struct.pack("<2Q i4x QQQ Q 2Q", 0, 0, 3, 0, 0, array[target], 0, 16, 1)
            assert client.code("cuMemcpy2D_v2", block) == code, (target, source)


FORMS = [(0x20, 1), (0x01, 4), (0x01, 1)]  # format and channels: 4 bytes, 4 bytes, 1 byte


def test_mipmapped_arrays(client):
    descriptor = struct.pack("<QQQ iII4x", 8, 4, 0, FLOAT, 1, 0)
    made = client.get("cuMipmappedArrayCreate", descriptor, 100)  # clamped to 4
    levels = [client.get("cuMipmappedArrayGetLevel", made, level) for level in range(4)]
    assert len(set(levels)) == 4 and client.code("cuMipmappedArrayGetLevel", OUT, made, 4) == 1
    assert client.live() == {"mipmappedarray": 1}
    assert client.code("cuArrayDestroy", levels[0]) == 400
    found = ctypes.create_string_buffer(24)
    client.do("cuArrayGetDescriptor_v2", found, levels[2])
    assert struct.unpack("<QQ", found.raw[:16]) == (2, 1)
    client.do("cuMipmappedArrayDestroy", made)
    assert client.code("cuArrayGetDescriptor_v2", found, levels[2]) == 400
    assert client.code("cuMipmappedArrayDestroy", made) == 400 and not client.live()


def test_what_only_special_arrays_have(client):
    array = array_of(client)
    mipmapped = client.get("cuMipmappedArrayCreate", struct.pack("<QQQ iII4x", 8, 4, 0, FLOAT, 1, 0), 2)
    out = ctypes.create_string_buffer(64)
    assert client.code("cuArrayGetPlane", OUT, array, 0) == 1
    for name, handle in (("cuArray", array), ("cuMipmappedArray", mipmapped)):
        assert client.code(f"{name}GetSparseProperties", out, handle) == 1
        assert client.code(f"{name}GetMemoryRequirements", out, handle, 0) == 1
        assert client.code(f"{name}GetMemoryRequirements", out, handle, 9) == 101
        assert client.code(f"{name}GetSparseProperties", out, 5) == 400
    assert client.code("cuTensorMapEncodeIm2colWide", out, *[0] * 15) == 801


def test_boxes_that_do_not_fit(client):
    array, device = array_of(client), client.upload(bytes(128))
    for x, y, width, height, code in (
        (0, 0, 32, 4, 0), (4, 1, 28, 3, 0), (0, 0, 36, 1, 1), (4, 0, 32, 1, 1), (0, 1, 32, 4, 1), (2, 0, 4, 1, 1),
        (0, 0, 6, 1, 1), (0, 4, 4, 1, 1),
    ):  # fmt: skip
        block = struct.pack("<2Q i4x QQQ Q", 0, 0, 2, 0, device, 0, 32)
        block += struct.pack("<2Q i4x QQQ Q 2Q", x, y, 3, 0, 0, array, 0, width, height)
        assert client.code("cuMemcpy2D_v2", block) == code, (x, y, width, height)


@pytest.mark.parametrize("levels", [0, 2])
def test_an_array_is_destroyed_after_the_work_of_its_context(levels):
    """Memory is freed after it, too."""
    client = Client("lazy")
    made = array = array_of(client)
    if levels:
        made = client.get("cuMipmappedArrayCreate", struct.pack("<3Q iII4x", 8, 4, 0, FLOAT, 1, 0), levels)
        array = client.get("cuMipmappedArrayGetLevel", made, 0)
    source, target, stream = client.upload(bytes(range(128))), client.upload(bytes(128)), client.stream()
    sides = [struct.pack("<2Q i4x QQQ Q", 0, 0, 2, 0, at, 0, 32) for at in (source, target)]
    inside = struct.pack("<2Q i4x QQQ Q", 0, 0, 3, 0, 0, array, 0)
    client.do("cuMemcpy2DAsync_v2", sides[0] + inside + struct.pack("<2Q", 32, 4), stream)
    client.do("cuMemcpy2DAsync_v2", inside + sides[1] + struct.pack("<2Q", 32, 4), stream)
    client.do("cuMipmappedArrayDestroy" if levels else "cuArrayDestroy", made)
    assert client.code("cuStreamQuery", stream) == 0
    assert client.download(target, 128) == bytes(range(128)) and not client.emulator.reports
    assert client.code("cuMipmappedArrayDestroy" if levels else "cuArrayDestroy", made) == 400


def test_memory_is_counted(client):
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    client.do("cuMemGetInfo_v2", free, total)
    before = free.value
    made = array_of(client, 64, 64)
    client.do("cuMemGetInfo_v2", free, total)
    assert free.value == before - 64 * 64 * 4
    client.do("cuArrayDestroy", made)
    client.do("cuMemGetInfo_v2", free, total)
    assert free.value == before
    array_of(client, 64, 64), texture_of(client, array_of(client))
    assert client.live() == {"array": 2, "texture": 1}
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert not {"array", "texture"} & {kind for kind, count in client.emulator.live_handles().items() if count}


# -- textures and surfaces


def test_the_descriptors_are_returned(client):
    array = array_of(client)
    texture = texture_of(client, array, modes=(3, 1, 0), filter=1, flags=2)
    found = ctypes.create_string_buffer(144)
    client.do("cuTexObjectGetResourceDesc", found, texture)
    assert found.raw == resource(0, array)
    client.do("cuTexObjectGetTextureDesc", found, texture)
    assert found.raw[:104] == sampling(modes=(3, 1, 0), filter=1, flags=2)
    assert client.code("cuTexObjectGetResourceViewDesc", found, texture) == 1
    client.do("cuTexObjectDestroy", texture)
    assert client.code("cuTexObjectDestroy", texture) == 400
    assert client.code("cuTexObjectGetResourceDesc", found, texture) == 400
    surface = client.get("cuSurfObjectCreate", resource(0, array_of(client, flags=SURFACE)))
    client.do("cuSurfObjectGetResourceDesc", found, surface)
    assert client.code("cuTexObjectDestroy", surface) == 400
    client.do("cuSurfObjectDestroy", surface)
    assert client.code("cuSurfObjectDestroy", surface) == 400


def view_of(format=0, extents=(8, 4, 0), levels=(0, 0), layers=(0, 0)):
    return struct.pack("<i4x QQQ 4I 16I", format, *extents, *levels, *layers, *[0] * 16)


@pytest.mark.parametrize(
    "view, code",
    [
        (view_of(), 0),
        (view_of(format=0x16), 0),  # CU_RES_VIEW_FORMAT_FLOAT_1X32
        (view_of(format=0x13), 801),
        (view_of(extents=(8, 8, 0)), 1),
        (view_of(levels=(0, 1)), 1),
        (view_of(layers=(0, 1)), 1),
    ],
)
def test_resource_views(client, view, code):
    assert client.code("cuTexObjectCreate", OUT, resource(0, array_of(client)), sampling(), view) == code
    if not code:
        found = ctypes.create_string_buffer(112)
        client.do("cuTexObjectGetResourceViewDesc", found, OUT.value)
        assert found.raw == view
    linear = resource(2, client.allocate(64), FLOAT, 1, 64, layout="Q iI Q")
    assert client.code("cuTexObjectCreate", OUT, linear, sampling(), view_of()) == 1


@pytest.mark.parametrize(
    "options, code",
    [
        ({"modes": (4, 0, 0)}, 1),
        ({"filter": 2}, 1),
        ({"mip": 2}, 1),
        ({"flags": 4}, 1),
        ({"flags": 0x40}, 801),
        ({"flags": 0x11}, 1),
        ({"bias": float("nan")}, 1),
        ({"filter": 1}, 0),
        ({"modes": (0, 2, 3)}, 0),
    ],
)
def test_sampling(client, options, code):
    assert client.code("cuTexObjectCreate", OUT, resource(0, array_of(client)), sampling(**options), None) == code


def test_combinations_that_are_refused(client):
    integers = array_of(client, format=INT32)
    assert client.code("cuTexObjectCreate", OUT, resource(0, integers), sampling(filter=1), None) == 1
    mipmapped = client.get("cuMipmappedArrayCreate", struct.pack("<QQQ iII4x", 8, 4, 0, FLOAT, 1, 0), 2)
    assert client.code("cuTexObjectCreate", OUT, resource(1, mipmapped), sampling(flags=0), None) == 1
    assert client.code("cuTexObjectCreate", OUT, resource(1, mipmapped), sampling(flags=2), None) == 0
    assert client.code("cuTexObjectCreate", OUT, resource(0, 5), sampling(), None) == 400
    assert client.code("cuTexObjectCreate", OUT, resource(7, 5), sampling(), None) == 1
    flags = resource(0, array_of(client))[:136] + struct.pack("<Q", 1)
    assert client.code("cuTexObjectCreate", OUT, flags, sampling(), None) == 1
    for given in ((None, b"", b""), (OUT, None, sampling()), (OUT, resource(0, array_of(client)), None)):
        assert client.code("cuTexObjectCreate", *given, None) == 1
    assert client.code("cuSurfObjectCreate", OUT, resource(0, array_of(client))) == 1
    assert client.code("cuSurfObjectCreate", OUT, resource(2, client.allocate(64), 0)) == 1


@pytest.mark.parametrize(
    "offset, width, height, pitch, code",
    [
        (0, 8, 4, 64, 0),
        (256, 8, 4, 64, 1),
        (0, 8, 4, 48, 1),
        (0, 32, 4, 64, 1),
        (0, 8, 0, 64, 1),
        (0, 8, 65001, 64, 1),
        (0, 8, 4, 1 << 22, 1),
        (0, 8, 65, 64, 1),
    ],
)
def test_pitched_memory(client, offset, width, height, pitch, code):
    memory = client.allocate(4096)
    given = resource(3, memory + offset, FLOAT, 1, width, height, pitch, layout="Q iI QQQ")
    assert client.code("cuTexObjectCreate", OUT, given, sampling(), None) == code


@pytest.mark.parametrize("offset, nbytes, code", [(0, 64, 0), (0, 4096, 0), (0, 4100, 1), (16, 64, 1), (0, 3, 1)])
def test_linear_memory(client, offset, nbytes, code):
    given = resource(2, client.allocate(4096) + offset, FLOAT, 1, nbytes, layout="Q iI Q")
    assert client.code("cuTexObjectCreate", OUT, given, sampling(), None) == code


# -- kernels


def test_a_fetch(client):
    assert run(client, TEX, texture_of(client, filled(client))) == (0, (0.0, 0))


@pytest.mark.parametrize(
    "body, make, code, words",
    [
        (TEX, lambda client: 0, 719, "0x0 is not the handle of a texture object"),
        (TEX, lambda client: client.allocate(64), 719, "not the handle of a texture"),
        (TEX, lambda client: surface_of(client), 719, "it is that of a surface"),
        (SULD, lambda client: texture_of(client, filled(client)), 719, "it is that of a texture"),
        (TEX, lambda client: destroyed(client), 719, "destroyed"),
        (TEX, lambda client: emptied(client), 700, "freed"),
        (TEX.replace(".2d", ".1d").replace("{%f5, %f5}", "{%f5}"), lambda client: texture_of(client, filled(client)),
         719, "geometry .1d needs another texture"),
        (TEX.replace("f32.f32", "f32.s32").replace("{%f5, %f5}", "{%r5, %r5}"),
         lambda client: texture_of(client, filled(client)), 719, "linear memory"),
        ("tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];\nmov.u32 %r1, 0;",
         lambda client: texture_of(client, filled(client)), 719, "TEXTURE_GATHER"),
        (SULD.replace("{%r5, %r5}]", "{%r5, %r6}]"), lambda client: surface_of(client), 719, "row 99 is out of range"),
        (SULD.replace("{%r5, %r5}]", "{%r7, %r5}]"), lambda client: surface_of(client), 716, "not a multiple of the 4"),
        (SULD.replace(".2d", ".3d").replace("{%r5, %r5}]", "{%r5, %r5, %r5, %r5}]"), lambda client: surface_of(client),
         719, "geometry .3d"),
    ],
)  # fmt: skip
def test_mistakes_of_kernels_are_reported(body, make, code, words):
    client = Client()
    handle = make(client)
    assert run(client, body, handle)[0] == code
    report = client.emulator.reports[-1]
    assert words in report and "kernel k, block (0, 0, 0), thread (0, 0, 0)" in report and "ptx line" in report


def surface_of(client):
    return client.get("cuSurfObjectCreate", resource(0, filled(client, flags=SURFACE)))


def destroyed(client):
    made = texture_of(client, filled(client))
    client.do("cuTexObjectDestroy", made)
    return made


def emptied(client):
    array = filled(client)
    made = texture_of(client, array)
    client.do("cuArrayDestroy", array)
    return made


def test_memory_that_was_freed():
    client = Client()
    memory = client.upload(bytes(64))
    texture = client.get("cuTexObjectCreate", resource(2, memory, FLOAT, 1, 64, layout="Q iI Q"), sampling(), None)
    client.do("cuMemFree_v2", memory)
    body = "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5}];\nmov.u32 %r1, 0;"
    assert run(client, body, texture)[0] == 700 and "the memory was freed" in client.emulator.reports[-1]


def test_memory_of_another_device():
    client = Client(devices=2)
    there = client.get("cuDevicePrimaryCtxRetain", 1)
    client.do("cuCtxSetCurrent", there)
    memory = client.upload(bytes(64))
    client.do("cuCtxSetCurrent", client.context)
    texture = client.get("cuTexObjectCreate", resource(2, memory, FLOAT, 1, 64, layout="Q iI Q"), sampling(), None)
    body = "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5}];\nmov.u32 %r1, 0;"
    assert run(client, body, texture)[0] == 700 and "another device" in client.emulator.reports[-1]


def test_elements_that_were_never_written():
    client = Client()
    texture = texture_of(client, array_of(client))
    code, _ = run(client, TEX, texture)
    assert code == 0 and "element (0, 0, 0) was never written" in client.emulator.reports[-1]
    strict = Client(strict=True)
    assert run(strict, TEX, texture_of(strict, array_of(strict)))[0] == 719
    assert "never written" in strict.emulator.reports[-1]
    strict = Client(strict=True)
    surface = strict.get("cuSurfObjectCreate", resource(0, array_of(strict, flags=SURFACE)))
    assert run(strict, SULD, surface)[0] == 719
    strict = Client(strict=True)
    surface = strict.get("cuSurfObjectCreate", resource(0, array_of(strict, flags=SURFACE)))
    body = "sust.b.2d.b32.trap [%rd1, {%r5, %r5}], {%r6};\n" + SULD
    assert run(strict, body, surface) == (0, (0.0, 99))


@pytest.mark.parametrize("bounds", ["clamp", "trap"])
def test_an_access_that_is_wider_than_a_row_is_refused(client, bounds):
    array = array_of(client, 1, 4, format=UINT8, flags=SURFACE)
    surface = client.get("cuSurfObjectCreate", resource(0, array))
    body = f"mov.f32 %f1, 0f00000000;\nsust.b.2d.b32.{bounds} [%rd1, {{%r5, %r5}}], {{%r6}};\nmov.u32 %r1, 0;"
    assert run(client, body, surface)[0] == 719
    assert "4 bytes are more than a row of 1 has" in client.emulator.reports[-1]


def test_an_access_that_is_wider_than_a_row_reads_0_with_zero():
    client = Client()
    surface = client.get("cuSurfObjectCreate", resource(0, array_of(client, 1, 4, format=UINT8, flags=SURFACE)))
    body = "mov.f32 %f1, 0f00000000;\nsust.b.2d.b32.zero [%rd1, {%r5, %r5}], {%r6};\n"
    body += "suld.b.2d.b32.zero {%r1}, [%rd1, {%r5, %r5}];\n"
    assert run(client, body, surface) == (0, (0.0, 0))


def test_findings_that_stop_no_kernel():
    client = Client()
    texture = texture_of(client, filled(client))
    body = "tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%f5, %f5}];\nmov.f32 %f1, 0f00000000;"
    assert run(client, body, texture)[0] == 0
    assert "reads floats as their bits" in client.emulator.reports[-1]
    memory = client.upload(bytes(64))
    linear = client.get("cuTexObjectCreate", resource(2, memory, FLOAT, 1, 64, layout="Q iI Q"), sampling(), None)
    body = "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r6}];\nmov.u32 %r1, 0;"
    assert run(client, body, linear) == (0, (0.0, 0))
    assert "element 99 is out of range" in client.emulator.reports[-1]


def test_wrap_and_mirror_without_normalized_coordinates_clamp(client):
    texture = texture_of(client, filled(client), modes=(0, 2, 0), flags=1)
    body = "mov.f32 %f5, 0f42C80000;\n" + TEX  # 100.0
    assert run(client, body, texture) == (0, (31.0, 0))


@pytest.mark.parametrize(
    "format, channels, type, values, stored",
    [
        (FLOAT, 1, "f32", (1.5,), struct.pack("<f", 1.5)),
        (0x10, 1, "f32", (1e9,), struct.pack("<e", float("inf"))),
        (UINT8, 4, "u32", (1, 2, 300, 255), bytes((1, 2, 255, 255))),
        (0x08, 2, "s32", (-300, 300), struct.pack("<bb", -128, 127)),
        (0x09, 1, "b32", (-5,), struct.pack("<h", -5)),
    ],
)
def test_formatted_stores(client, format, channels, type, values, stored):
    array = array_of(client, 4, 2, format=format, channels=channels, flags=SURFACE)
    surface = client.get("cuSurfObjectCreate", resource(0, array))
    words = [struct.unpack("<I", struct.pack("<f" if type == "f32" else "<i", value))[0] for value in values]
    names = [f"%r{8 + number}" for number in range(len(words))] if type != "f32" else ["%f6"]
    moves = "".join(
        f"mov.b32 {name}, 0f{word:08X};\n" if type == "f32" else f"mov.b32 {name}, {word};\n"
        for name, word in zip(names, words)
    )
    vector = {1: "", 2: ".v2", 4: ".v4"}[len(values)]
    body = f"{moves}sust.p.2d{vector}.b32.trap [%rd1, {{%r7, %r5}}], {{{', '.join(names)}}};\n"
    assert run(client, body + "mov.f32 %f1, 0f00000000;\nmov.u32 %r1, 0;", surface)[0] == 0
    out = client.allocate(len(stored))
    block = struct.pack("<2Q i4x QQQ Q", 3 * len(stored), 0, 3, 0, 0, array, 0)
    block += struct.pack("<2Q i4x QQQ Q 2Q", 0, 0, 2, 0, out, 0, len(stored), len(stored), 1)
    client.do("cuMemcpy2D_v2", block)
    assert client.download(out, len(stored)) == stored


@pytest.mark.parametrize(
    "text",
    [
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3}, [%rd1, {%f5, %f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5, %f5}];",
        "tex.2d.v4.f32.f32 {%r1, %f2, %f3, %rd4}, [%rd1, {%f5, %f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5, %rd3}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%r1, {%f5, %f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1+8, {%f5, %f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f5, %f5}];",
        "tex.2d.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
        "tex.4d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
        "tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%r1, [%rd1, {%f5, %f5}];",
        "tld4.x.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
        "txq.volume.b32 %r1, [%rd1];",
        "txq.width.b32 %rd1, [%rd1];",
        "suld.b.cube.b32.trap {%r1}, [%rd1, {%r5, %r5}];",
        "suld.b.2d.v2.b32.trap {%r1}, [%rd1, {%r5, %r5}];",
        "suld.b.2d.b32.trap {%r1}, [%rd1, {%f5, %rd5}];",
        "sust.b.2d.b32.trap [%rd1, {%r5, %r5}], {%r1, %r2};",
        "sust.b.2d.b16.trap [%rd1, {%r5, %r5}], {%p1};",
        "sured.b.xor.2d.b32.trap [%rd1, {%r5, %r5}], %r1;",
        "sured.b.add.2d.b32.trap [%rd1, {%r5, %r5}], %r1;",
        "sured.b.and.2d.u32.trap [%rd1, {%r5, %r5}], %r1;",
        "sured.b.add.a2d.u32.trap [%rd1, {%r5, %r5, %r5, %r5}], %r1;",
        "sured.b.min.2d.u64.trap [%rd1, {%r5, %r5}], %rd1;",
        "suld.b.2d.b32 {%r1}, [%rd1, {%r5, %r5}];",
        "suld.b.2d.v4.b64.trap {%rd1, %rd2, %rd3, %rd4}, [%rd1, {%r5, %r5}];",
        "tex.cube.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5, %r5, %r5, %r5}];",
        "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
        "sust.p.2d.f32.trap [%rd1, {%r5, %r5}], {%f1};",
        "tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}], {%f1}, {%f2};",
        "tex.grad.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}], %f1, %f2;",
        "tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5, %f5}];",
    ],
)
def test_instructions_that_do_not_assemble(client, text):
    assert client.code("cuModuleLoadData", OUT, (HEAD + BODY.replace("BODY", text)).encode()) == 218


@pytest.mark.parametrize(
    "text",
    [
        "tex.base.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5, %f5, %f5}];",
        "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %f5];",
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {3}];",
        "tex.a1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5, %f5}];",
        "tex.level.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r5, %r6}], %r7;",
        "tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd1, {%f5, %f5}];",
        "suld.b.1d.b32.trap {%r1}, [%rd1, %r5];",
        "sust.p.2d.cs.b32.trap [%rd1, {%r5, %r5}], {%f1};",
        "sured.p.min.3d.b32.zero [%rd1, {%r5, %r5, %r5, %r5}], %r1;",
        "txq.level.width.b32 %r1, [%rd1], %r5;",
    ],
)
def test_instructions_that_assemble(client, text):
    client.load(HEAD + BODY.replace("BODY", text))


def test_fetches_of_half_precision(client):
    texture = texture_of(client, filled(client), filter=1, flags=0)
    body = "mov.b32 %r8, 0f40000000;\ntex.2d.v2.f16x2.f32 {%r1, %r2}, [%rd1, {%r8, %r8}];\nmov.b32 %f1, %r2;"
    code, (_, bits) = run(client, body, texture)
    assert code == 0 and bits.to_bytes(4, "little") == struct.pack("<ee", 13.5, 0)
    body = "mov.b32 %r8, 0f40000000;\ntex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd1, {%r8, %r8}];\n"
    code, (_, bits) = run(client, body + "mov.b32 %r1, {%h0, %h3};\nmov.b32 %f1, 0;", texture)
    assert code == 0 and bits.to_bytes(4, "little") == struct.pack("<ee", 13.5, 1)


def test_the_result_of_a_fetch_may_be_in_registers_of_bits(client):
    """nvcc keeps floats in .b32 registers for new architectures."""
    texture = texture_of(client, filled(client), filter=1, flags=0)
    body = "mov.b32 %r8, 0f40000000;\ntex.2d.v4.f32.f32 {%r1, _, _, _}, [%rd1, {%r8, %r8}];\nmov.b32 %f1, %r1;"
    code, (as_float, bits) = run(client, body, texture)
    assert code == 0 and as_float == 13.5 and bits == struct.unpack("<I", struct.pack("<f", 13.5))[0]


# -- tensor maps


def encode(client, target, **changes):
    given = {
        "type": 7, "rank": 2, "address": 1 << 20, "dims": (64, 16), "strides": (256,), "box": (8, 4), "steps": (1, 1),
        "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0, **changes,
    }  # fmt: skip
    dims, strides = (struct.pack(f"<{len(given[name])}Q", *given[name]) for name in ("dims", "strides"))
    box, steps = (struct.pack(f"<{len(given[name])}I", *given[name]) for name in ("box", "steps"))
    return client.code(
        "cuTensorMapEncodeTiled", target, given["type"], given["rank"], given["address"], dims, strides, box, steps,
        given["interleave"], given["swizzle"], given["promotion"], given["fill"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes, code",
    [
        ({}, 0),
        ({"type": 16}, 1),
        ({"type": 13}, 801),
        ({"rank": 0}, 1),
        ({"rank": 6}, 1),
        ({"address": 8}, 1),
        ({"address": 0}, 1),
        ({"dims": (0, 16)}, 1),
        ({"dims": (64, (1 << 32) + 1)}, 1),
        ({"strides": (264,)}, 1),
        ({"strides": (1 << 40,)}, 1),
        ({"strides": (128,)}, 1),
        ({"box": (257, 1)}, 1),
        ({"box": (0, 1)}, 1),
        ({"box": (3, 1)}, 1),
        ({"steps": (1, 9)}, 1),
        ({"steps": (9, 1)}, 0),
        ({"steps": (1, 0)}, 1),
        ({"swizzle": 1}, 0),
        ({"swizzle": 1, "box": (12, 1)}, 1),
        ({"swizzle": 7}, 1),
        ({"interleave": 1}, 1),
        ({"promotion": 4}, 1),
        ({"fill": 1}, 0),
        ({"fill": 1, "type": 3}, 1),
        ({"fill": 2}, 1),
    ],
)
def test_tensor_maps(client, changes, code):
    memory = ctypes.create_string_buffer(320)
    start = ctypes.addressof(memory) + -ctypes.addressof(memory) % 128
    assert encode(client, start, **changes) == code
    assert any(ctypes.string_at(start, 128)) == (code == 0)
    assert encode(client, start + 8) == 1 and encode(client, None) == 1
    if not code:
        before = ctypes.string_at(start, 128)
        client.do("cuTensorMapReplaceAddress", start, 1 << 21)
        assert ctypes.string_at(start, 128) != before
        client.do("cuTensorMapReplaceAddress", start, 1 << 20)
        assert ctypes.string_at(start, 128) == before
        assert client.code("cuTensorMapReplaceAddress", start, 8) == 1
    assert client.code("cuTensorMapReplaceAddress", start + 128, 1 << 20) == 1


IN_AND_OUT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
    .reg .b64 %o, %m; .reg .b32 %r<9>; .reg .pred %q;
    .shared .align 1024 .b8 s[{size}]; .shared .align 8 .b64 bar;
    ld.param.u64 %o, [out]; mov.b64 %m, map; cvta.param.u64 %m, %m; mov.u32 %r1, s; mov.u32 %r2, {bar}; mov.u32 %r3, 0;
    mov.u32 %r4, 0;
fill: add.u32 %r5, %r1, %r4; st.shared.u32 [%r5], 7777;
    add.u32 %r4, %r4, 4; setp.lt.u32 %q, %r4, {size}; @%q bra fill;
    mbarrier.init.shared.b64 [%r2], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {count};
    add.u32 %r1, %r1, {place};
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%m, {{%r3, %r3}}], [%r2];
wait: mbarrier.try_wait.parity.shared.b64 %q, [%r2], 0; @!%q bra wait;
    mov.u32 %r4, 0;
copy: add.u32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5]; st.global.u32 [%o], %r6;
    add.u64 %o, %o, 4; add.u32 %r4, %r4, 4; setp.lt.u32 %q, %r4, {read}; @%q bra copy;
    fence.proxy.async; mov.u32 %r4, {rows};
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m, {{%r3, %r4}}], [%r1];
    {then} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    ret; }}
"""


COPY = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d, {%r, %r}], [s];"


def swizzled(client, swizzle, rows, place, *, size=2048, bar="bar", read=128, then=""):
    """Copy rows of 16 bytes into shared memory and back behind them; return what shared memory has, and the tensor."""
    words = 4 * rows
    tensor, out = client.upload(struct.pack(f"<{2 * words}I", *range(1, words + 1), *[0] * words)), client.allocate(128)
    memory = ctypes.create_string_buffer(256)
    map = ctypes.addressof(memory) + -ctypes.addressof(memory) % 128
    changes = {"address": tensor, "dims": (4, 2 * rows), "strides": (16,), "box": (4, rows), "swizzle": swizzle}
    assert encode(client, map, type=2, **changes) == 0
    text = IN_AND_OUT.format(size=size, place=place, count=16 * rows, read=read, rows=rows, then=then, bar=bar)
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, [ctypes.string_at(map, 128), out]) or client.code("cuCtxSynchronize")
    if code:
        return code
    return tuple(struct.unpack(f"<{n}I", client.download(at, 4 * n)) for at, n in ((out, 32), (tensor, 2 * words)))


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("place", [0, 384, 896])
@pytest.mark.parametrize("swizzle", [0, 1, 3])
def test_a_swizzle_that_is_wider_than_the_box(swizzle, place, rows):
    """Each part goes to its place in the whole span, and what is between them stays as it was."""
    client = Client(sm=90)
    wanted = [7777] * 32
    for row in range(rows):
        part = row ^ ((place + 16 * row) // 128 & (1 << swizzle) - 1)
        wanted[4 * part : 4 * part + 4] = range(4 * row + 1, 4 * row + 5)
    assert swizzled(client, swizzle, rows, place) == (tuple(wanted), (*range(1, 4 * rows + 1),) * 2)
    assert not client.emulator.reports


def test_what_a_swizzle_leaves_between_the_parts_is_not_read():
    """A thread may write there while the copy out of shared memory runs, but not to what the copy reads."""
    for at, wrong in ((0, False), (48, True)):
        client = Client(sm=90)
        found = swizzled(client, 3, 2, 384, then=f"st.shared.u32 [%r1+{at}], %r6;")
        assert bool(client.emulator.reports) == wrong == (found == 719), client.emulator.reports


def test_a_swizzle_needs_its_whole_span():
    client = Client(sm=90)
    assert swizzled(client, 3, 2, 1920, size=1952, bar="s", read=32) == 700
    assert "past the end" in client.emulator.reports[-1]


@pytest.mark.parametrize("replaced, then, words", [
    ("tensormap.replace.tile.rank.global.b1024.b32 [%d], 255;", "", "replace of rank with 255, which is too large"),
    ("tensormap.replace.tile.rank.global.b1024.b32 [%d], 254;", COPY, "rank 255, type 7, box"),
    ("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%d], 1; "
     "tensormap.replace.tile.box_dim.global.b1024.b32 [%d], 0, 12;", COPY, "inner dimension .* 48 bytes.* at most 32"),
])  # fmt: skip
def test_bad_changes_of_a_tensor_map_are_faults(replaced, then, words):
    client = Client(sm=90)
    memory = ctypes.create_string_buffer(256)
    map = ctypes.addressof(memory) + -ctypes.addressof(memory) % 128
    assert encode(client, map) == 0
    text = ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 p) { .reg .b64 %d; .reg .b32 %r; "
    text += f".shared .align 128 .b8 s[512]; ld.param.u64 %d, [p]; mov.u32 %r, 0; {replaced} {then} ret; }}\n"
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    code = client.launch(function, [client.upload(ctypes.string_at(map, 128))]) or client.code("cuCtxSynchronize")
    assert code == 719 and re.search(words, client.emulator.reports[-1]), client.emulator.reports


def test_tensor_maps_of_an_older_device():
    client = Client(sm=80)
    memory = ctypes.create_string_buffer(320)
    assert encode(client, ctypes.addressof(memory) + -ctypes.addressof(memory) % 128) == 801
    assert client.get_int("cuDeviceGetAttribute", 127, 0) == 0
    assert Client().get_int("cuDeviceGetAttribute", 127, 0) == 1
