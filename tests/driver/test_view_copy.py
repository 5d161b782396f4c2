"""Copies and fills of any layout, on host and device: compared with plain Python for small layouts, and with NumPy."""

from __future__ import annotations

import array
import ctypes
import random
import shutil
import subprocess

import pytest

from tests.null.producers import Exporter, Tensor
from tests.null.test_layout import random_array
from tests.subject import module, rawcuda

errors, kernel, host_copy, layout, dtypes = (
    module(name)
    for name in ("errors", "gpu.copies.strided_kernel", "arrays.host_copy", "elements.layout", "elements.dtypes")
)
describe_as = module("protocols.description").describe_as
view, copy, ProtocolError = rawcuda.view, rawcuda.copy, errors.ProtocolError

PLACES = ("host", "pinned", "managed", "device")


def test_leading_extents_of_1_are_left_out(device):
    numpy = pytest.importorskip("numpy")
    for source in (numpy.arange(3.0)[None], numpy.arange(3.0)[None, None], numpy.full((1, 1), 7.0)):
        wanted, host, there = numpy.zeros(3), numpy.zeros(3), device.empty(3, "float64")
        wanted[...] = source
        copy(host, source)
        there[...] = source
        assert host.tolist() == there.tolist() == wanted.tolist()
    with pytest.raises(ValueError, match=r"could not broadcast source of shape \(2, 3\) into shape \(3,\)"):
        copy(numpy.zeros(3), numpy.zeros((2, 3)))


def test_a_fill_of_host_memory_refuses_what_is_no_stream(device):
    closed = device.stream()
    closed.close()
    for target in (view(bytearray(4)), device.empty(0, "float32")):
        for stream, error in (("a", TypeError), (0, ValueError), (closed, errors.Closed)):
            with pytest.raises(error):
                target.fill(1, stream=stream)
        target.fill(1, stream=-1).fill(1, stream=1)


def test_numpys_small_complex_numbers_are_complex(device):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="takes a real number, not a complex"):
        device.empty(2, "float32").fill(numpy.complex64(1 + 2j))
    assert device.empty(2, "complex64").fill(numpy.complex64(1 + 2j)).tolist() == [1 + 2j] * 2


def made(device, place, data):
    """Return a writable uint8 array of these bytes in some kind of memory, and the Memory that has to be closed."""
    if place == "host":
        return view(bytearray(data)), None
    memory = device.allocate(len(data), kind=place)
    memory.copy_from(bytes(data))
    return memory.view(), memory


LAYOUTS = [
    lambda v: v.reshape(2, 3, 4),
    lambda v: v.reshape(4, 3, 2).T,
    lambda v: v.reshape(2, 4, 3)[:, ::-1].transpose(0, 2, 1),
    lambda v: v.reshape(2, 3, 4)[::-1, ::-1, ::-1],
    lambda v: v.reshape(3, 2, 4).transpose(1, 0, 2),
]


@pytest.mark.parametrize("target_place", PLACES)
@pytest.mark.parametrize("source_place", PLACES)
def test_between_any_two_places_and_layouts(device, target_place, source_place):
    for itemsize, dtype in ((1, "uint8"), (4, "int32"), (16, "complex128")):
        for to in LAYOUTS:
            for of in LAYOUTS:
                data = bytes(random.Random(itemsize).randrange(256) for _ in range(24 * itemsize))
                source, first = made(device, source_place, data)
                target, second = made(device, target_place, bytes(24 * itemsize))
                t, s = to(target.reinterpret(dtype)), of(source.reinterpret(dtype))
                copy(t, s)
                rawcuda.synchronize()
                assert bytes(t.download().memoryview()) == bytes(s.download().memoryview())
                t.fill(b"\x5a" * itemsize)
                rawcuda.synchronize()
                assert bytes(target.download().memoryview()) == b"\x5a" * (24 * itemsize)
                del t, s, target, source
                for memory in (first, second):
                    if memory is not None:
                        memory.close()


@pytest.mark.parametrize("place", PLACES)
def test_gaps_are_left_alone(device, place):
    v, memory = made(device, place, bytes(range(100)))
    window = v.reshape(10, 10)[2:8:2, 1:9:3]
    before = view(bytearray(bytes(v.download().memoryview())))
    window.fill(255)
    before.reshape(10, 10)[2:8:2, 1:9:3].fill(255)
    assert bytes(v.download().memoryview()) == bytes(before.memoryview())
    window.copy_from(bytes([7]))  # repeated to the shape of the window
    before.reshape(10, 10)[2:8:2, 1:9:3] = 7
    assert bytes(v.download().memoryview()) == bytes(before.memoryview())
    window[1] = 9
    assert v.reshape(10, 10)[4, 1:9:3].tolist() == [9, 9, 9] and window.tolist() == [[7] * 3, [9] * 3, [7] * 3]
    del v, window
    if memory is not None:
        memory.close()


@pytest.mark.parametrize("place", PLACES)
def test_overlap_is_as_if_the_source_had_been_copied_first(device, place):
    cases = [
        (slice(3, 20), slice(0, 17)),
        (slice(0, 17), slice(3, 20)),
        (slice(None, None, -1), slice(None)),
        (slice(0, 10), slice(0, 20, 2)),
        (slice(0, 20, 2), slice(0, 10)),
        (slice(19, 9, -1), slice(5, 15)),
        (slice(0, 10), slice(0, 10)),
    ]
    for to, of in cases:
        v, memory = made(device, place, bytes(range(20)))
        want = list(range(20))
        want[to] = want[of]
        copy(v[to], v[of])
        rawcuda.synchronize()
        assert v.tolist() == want, (to, of)
        square = v[:16].reshape(4, 4)
        rows = square.tolist()
        square.copy_from(square.T)
        rawcuda.synchronize()
        assert square.tolist() == [list(row) for row in zip(*rows)]
        del v, square
        if memory is not None:
            memory.close()


@pytest.mark.parametrize("seed", range(10))
def test_1_000_random_layouts_give_numpys_numbers(device, seed):
    numpy = pytest.importorskip("numpy")
    for n in range(100):
        a, choose = random_array(numpy, (seed, n, 7).__hash__())
        there = on_device(numpy, device, a)
        assert (there.shape, there.strides) == (a.shape, a.strides)
        assert numpy.array_equal(numpy.asarray(there.download()), a), (a.shape, a.strides)
        b, _ = random_array(numpy, (seed, n, 8).__hash__())
        target = device.empty(a.shape, there.dtype)
        axes = choose.sample(range(a.ndim), a.ndim)
        turned = (
            device.empty(tuple(a.shape[i] for i in axes), there.dtype).transpose(
                *[axes.index(i) for i in range(a.ndim)]
            )
            if a.ndim
            else target
        )
        copy(turned, there)  # device to device
        copy(target, turned)
        assert numpy.array_equal(numpy.asarray(target.download()), a)
        back = numpy.zeros_like(a, order=choose.choice("CF"), subok=False)
        copy(back, there)  # directly into a NumPy array
        assert numpy.array_equal(back, a)
        if a.size:
            copy(target, a)
            assert numpy.array_equal(numpy.asarray(target.download()), a)


def on_device(numpy, device, a):
    """Return a copy of an array in device memory with exactly the same layout."""
    low, high = layout.extent(a.shape, a.strides, a.itemsize)
    address = a.__array_interface__["data"][0]
    whole = (ctypes.c_char * max(high - low, 1)).from_address(address + low) if a.size else bytearray(1)
    memory = device.upload(view(whole).reinterpret("uint8"))
    v = memory.reinterpret("uint8")
    return describe_as(type(v), v.ptr - low, a.shape, a.strides, dtypes.of(a.dtype), v._place, v.owner)


def test_broadcast_and_refusals(device):
    v = device.empty((2, 3), "float32")
    v.copy_from(array.array("f", [1, 2, 3]))
    assert v.tolist() == [[1.0, 2.0, 3.0]] * 2
    v.copy_from(view(array.array("f", [5, 6])).reshape(2, 1))
    assert v.tolist() == [[5.0] * 3, [6.0] * 3]
    v.copy_from(view(array.array("f", [4])).reshape(()))
    assert v.tolist() == [[4.0] * 3] * 2 and v.copy_from(v) is v
    for source, error, words in (
        (array.array("f", [1, 2]), ValueError, "broadcast"),
        (array.array("d", [1, 2, 3]), TypeError, "float64"),
        (array.array("i", [1, 2, 3]), TypeError, "int32"),
        ([1, 2, 3], TypeError, "exporter"),
        (3.0, TypeError, "exporter"),
    ):
        with pytest.raises(error, match=words):
            v.copy_from(source)
    for target in (b"x" * 24, v.broadcast_to((2, 2, 3)), view(bytearray(24), writable=False)):
        with pytest.raises(ProtocolError, match="readonly"):
            copy(target, v)
    overlapping = describe_as(type(v), v.ptr, (3, 3), (4, 4), v.dtype, v._place, v.owner)
    for write in (lambda: overlapping.fill(0), lambda: overlapping.copy_from(v[:1])):
        with pytest.raises(ValueError, match="share bytes"):
            write()


def test_copy_to_returns_the_target(device):
    v = device.upload(array.array("f", range(6)))
    target = array.array("f", [0] * 6)
    assert v.copy_to(target) is target and list(target) == list(range(6))
    out = bytearray(24)
    with pytest.raises(TypeError, match="uint8"):
        v.copy_to(out)  # no silent reinterpretation
    v.reinterpret("uint8").copy_to(out)
    assert array.array("f", bytes(out)).tolist() == list(range(6))


@pytest.mark.parametrize(
    "dtype, value, result",
    [
        ("bool", True, True),
        ("int8", -5, -5),
        ("uint16", 65535, 65535),
        ("int32", 7, 7),
        ("uint64", 2**63, 2**63),
        ("float16", 1.5, 1.5),
        ("bfloat16", 3.0, 3.0),
        ("float32", 0.25, 0.25),
        ("float64", 1e300, 1e300),
        ("complex64", 1 - 2j, 1 - 2j),
        ("complex128", 1j, 1j),
        ("float8_e4m3fn", 448.0, 448.0),
        ("float4_e2m1fn", 1.5, 1.5),
        ("|V3", b"abc", b"abc"),
        ("float32x4", bytes(range(16)), bytes(range(16))),
        ("float32", 0, 0.0),
        ("int64", 0x0101010101010101, 0x0101010101010101),
    ],
)
@pytest.mark.parametrize("place", ["host", "device"])
def test_fill_every_width_and_layout(device, place, dtype, value, result):
    itemsize = dtypes.of(dtype).itemsize
    v, memory = made(device, place, bytes(itemsize * 60))
    whole = v.reinterpret(dtype)
    zero = whole.tolist()[0]
    for part in (
        lambda w: w,
        lambda w: w[::2],
        lambda w: w.reshape(6, 10)[:, 2:7],
        lambda w: w.reshape(6, 10)[:, ::3],
        lambda w: w.reshape(3, 4, 5)[:, 1:3, ::-1],
        lambda w: w.reshape(3, 4, 5)[::2, ::2, ::2],
        lambda w: w[5],
        lambda w: w[:0],
        lambda w: w.reshape(60, 1).T,
    ):
        v.fill(0)
        assert part(whole).fill(value) is not None
        flags = view(bytearray(60))
        part(flags).fill(1)
        assert whole.tolist() == [result if flag else zero for flag in flags.tolist()]
    del v, whole
    if memory is not None:
        memory.close()


def test_fill_of_three_bytes_at_every_address(device):
    v = device.empty(40, "uint8")
    for start in range(3):  # one of them is a multiple of 3, for which the driver has no fill
        assert v[start : start + 30].reinterpret("|V3").fill(b"abc").tolist() == [b"abc"] * 10


def test_fill_refuses_what_does_not_fit(device):
    v = device.empty(3, "uint8")
    for value, error in (
        (256, ValueError),
        (-1, ValueError),
        (1.5, TypeError),
        ("a", TypeError),
        (b"ab", ValueError),
        (None, TypeError),
    ):
        with pytest.raises(error):
            v.fill(value)


def test_tolist_of_every_dtype_there_and_back(device):
    for name in (
        "bool",
        "int4",
        "uint2",
        "int16",
        "float16",
        "bfloat16",
        "float8_e5m2",
        "complex32",
        "complex64",
        "float6_e2m3fn",
    ):
        dtype = dtypes.of(name)
        source = view(bytearray(dtype.itemsize * 6)).reinterpret(dtype).reshape(2, 3)
        source[0].fill(1)
        assert device.upload(source).tolist() == source.tolist() == [[1] * 3, [0] * 3]
    assert device.empty((2, 0, 3), "f4").tolist() == [[], []] and device.empty((0, 2), "f4").tolist() == []
    assert device.upload(view(array.array("f", [3]))[0]).tolist() == 3.0


def test_copy_raw_copies_bytes(device):
    with device.allocate(24) as memory:
        memory.copy_from(array.array("f", range(6)))
        target = array.array("i", [0] * 6)
        memory.copy_to(target)
        assert target.tobytes() == array.array("f", range(6)).tobytes()
        memory.copy_to(view(target).reshape(2, 3).T)  # of any layout
        assert array.array("f", target.tobytes()).tolist() == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
        memory.copy_from(view(target)[::-1])
        with pytest.raises(ValueError, match="bytes"):
            memory.copy_from(bytes(23))


def test_a_label_that_lies_is_refused_before_the_memory_is_touched(device):
    there = device.upload(array.array("f", range(6))).reshape(2, 3)
    v = view(Exporter(Tensor(there.ptr, device=(1, 0))))
    for touch in (v.tolist, v.download, lambda: v.fill(0), lambda: copy(v, there), lambda: copy(there, v)):
        with pytest.raises(ProtocolError, match="the driver says"):
            touch()
    with pytest.raises(ProtocolError, match="the driver says"):
        view(Exporter(Tensor(device=(2, 0))))
    if len(rawcuda.devices()) > 1:
        with pytest.raises(ProtocolError, match="the driver says"):
            view(Exporter(Tensor(there.ptr, device=(2, 1))))
    right = view(Exporter(Tensor(there.ptr, device=(2, 0))))
    assert right.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_a_label_is_checked_in_each_copy(device):
    """The exporter frees its memory while it is exported: what was right for the first copy is wrong for the next."""
    theirs, ours = device.allocate(24), device.upload(array.array("f", range(6)))
    v = view(Exporter(Tensor(theirs.ptr, shape=(6,), device=(2, 0))))
    part = v[1:]
    copy(v, ours)
    copy(part, ours[1:])
    assert v.tolist() == ours.tolist() and part.tolist() == ours.tolist()[1:]
    device.synchronize()
    theirs.close()
    host = array.array("f", range(6))
    for touch in (v.tolist, part.tolist, v.download, lambda: v.fill(0), lambda: copy(v, ours), lambda: copy(ours, v)):
        with pytest.raises(ProtocolError, match="the driver says"):
            touch()
    for touch in (lambda: copy(v, host), lambda: copy(host, v), lambda: copy(part, v[:-1]), lambda: part.fill(0)):
        with pytest.raises(ProtocolError, match="the driver says"):
            touch()


# -- the kernel


def test_the_kernels_ptx_is_of_the_version_that_every_driver_takes():
    for ndim in (1, 2, 64):
        for size in (1, 2, 4, 8, 16):
            text = kernel.ptx(ndim, size, ndim == 2)
            assert text.startswith(".version 6.3\n.target sm_50\n") and text.isascii()


@pytest.mark.parametrize("architecture", [75, 80, 90, 100, 120])
def test_ptxas_takes_the_kernel(tmp_path, architecture):
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas on this machine")
    for ndim, size, wide in ((1, 1, False), (2, 2, True), (3, 4, False), (5, 8, True), (64, 16, False), (64, 16, True)):
        text = tmp_path / "kernel.ptx"
        text.write_text(kernel.ptx(ndim, size, wide))
        result = subprocess.run(
            [ptxas, f"-arch=sm_{architecture}", str(text), "-o", str(tmp_path / "cubin")],
            capture_output=True,
            text=True,
        )
        if "is not defined for option" in result.stderr or "not a recognized" in result.stderr:
            pytest.skip(f"this ptxas does not know sm_{architecture}")
        assert result.returncode == 0, result.stderr


@pytest.mark.gpu_only("copies over more than 4 GiB, which the emulator would have to allocate in the process")
def test_past_4_gib_and_2_to_the_31_elements(device):
    if device.free_memory < 12 << 30:
        pytest.skip("less than 12 GiB free")
    big = device.empty((2, 2**31 + 8), "uint8").fill(1)
    big[1, 2**31 :].fill(7)
    assert big[1, 2**31 - 2 : 2**31 + 2].tolist() == [1, 1, 7, 7] and big[0, -1].item() == 1
    half = device.empty((2**31 + 8, 2), "uint8")
    half.copy_from(big.T)  # by the kernel, with 64-bit indices
    assert half[2**31 - 1 : 2**31 + 1].tolist() == [[1, 1], [1, 7]]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("ndim", [1, 2, 3, 6, 20])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_kernel_moves_every_element_size_in_any_number_of_dimensions(device, monkeypatch, size, ndim, wide):
    shape = tuple(2 if i % 3 == 0 else 1 if ndim > 8 and i % 3 == 1 else 3 if i < 6 else 1 for i in range(ndim))
    count = layout.size(shape)
    data = bytes(random.Random(size * ndim).randrange(256) for _ in range(count * size))
    source = device.upload(data)
    target = device.empty(count * size, "uint8").fill(0)
    strides = layout.c_strides(shape, size)
    walk = host_copy.Walk(
        size, shape, target.ptr, strides, source.ptr + strides[0] * (shape[0] - 1), (-strides[0], *strides[1:])
    )
    if wide:
        monkeypatch.setattr(kernel, "_NARROW", 0)
    monkeypatch.setattr(kernel, "_BLOCKS", 3)  # so that each thread copies several elements
    kernel.run(walk, device, 1)
    rows = [data[i : i + strides[0]] for i in range(0, len(data), strides[0])]
    assert bytes(target.download().memoryview()) == b"".join(rows[::-1])


def test_the_largest_element_that_alignment_allows():
    walk = lambda nbytes, target, source, *strides: host_copy.Walk(
        nbytes, (5,), target, strides[:1], source, strides[1:]
    )  # noqa: E731
    assert kernel.units(walk(16, 4096, 8192, 32, 64)) == (16, (5,), (32,), (64,))
    assert kernel.units(walk(16, 4096, 8200, 32, 64)) == (8, (5, 2), (32, 8), (64, 8))
    assert kernel.units(walk(48, 4096, 8192, 64, 48)) == (16, (5, 3), (64, 16), (48, 16))
    assert kernel.units(walk(12, 4096, 8192, 12, 16)) == (4, (5, 3), (12, 4), (16, 4))
    assert kernel.units(walk(4, 4097, 8192, 8, 4)) == (1, (5, 4), (8, 1), (4, 1))
    assert kernel.units(walk(2, 4096, 8192, -2, 6))[0] == 2


def test_what_fits_a_pitched_copy_is_one(device):
    source = device.upload(bytes(range(120)))
    for part, call in (
        (lambda v: v, "cuMemcpyAsync"),
        (lambda v: v.reshape(10, 12)[:, 2:8], "cuMemcpy2DAsync_v2"),
        (lambda v: v.reshape(5, 4, 6)[::2, 1:3, 2:5], "cuMemcpy3DAsync_v2"),
        (lambda v: v.reshape(10, 12)[:, ::5], "cuLaunchKernel"),
    ):
        taken = part(source)
        target = device.empty(taken.shape, "uint8")
        seen = []
        with rawcuda.trace(seen.append):
            target.copy_from(taken)
        names = {getattr(event, "name", "") for event in seen}
        assert (
            any(name.startswith(call) for name in names)
            or call == "cuLaunchKernel"
            and any("Launch" in name for name in names)
        ), names
        assert sum(getattr(event, "name", "").startswith(("cuMemcpy", "cuLaunch")) for event in seen) == 1
        assert target.tolist() == taken.tolist() == part(view(bytes(range(120)))).tolist()
