"""The DLPack tests of NumPy, nanobind and the array API, rewritten with our views in place of their arrays."""

from __future__ import annotations

import gc
import sys

import pytest

from tests.interop.exchanges import made, same_strides
from tests.interop.systems import LAYOUTS, Nanobind, Strict
from tests.null.producers import name_of
from tests.shared import NUMBERS
from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
dlpack, errors = module("dlpack"), module("errors")
view = rawcuda.view
VERSIONED = numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"
pytestmark = [
    pytest.mark.usefixtures("exports_are_freed"),
    pytest.mark.skipif(not VERSIONED, reason="NumPy before 2.1 has legacy capsules only"),
]
EXPORTED = [name for name in LAYOUTS if name != "reversed"]


# -- NumPy's


def test_each_export_holds_the_view_until_its_capsule_goes():
    v = view(numpy.arange(5))
    before = sys.getrefcount(v)
    capsules = [v.__dlpack__(max_version=version) for version in (None, (0, 8), (1, 0), (1, 3))]
    assert sys.getrefcount(v) == before + 4
    del capsules
    gc.collect()
    assert sys.getrefcount(v) == before


def test_an_array_taken_holds_the_view_and_gives_it_back():
    v = view(numpy.arange(5))
    before = sys.getrefcount(v)
    y = numpy.from_dlpack(v)
    z = y[1:]
    del y
    gc.collect()
    assert sys.getrefcount(v) == before + 1 and z.tolist() == [1, 2, 3, 4]
    del z
    gc.collect()
    assert sys.getrefcount(v) == before


@pytest.mark.parametrize(
    "name",
    NUMBERS,
)
def test_every_dtype_passes_through(name):
    a = numpy.arange(5).astype(name)
    v = view(a)
    y = numpy.from_dlpack(v)
    assert y.dtype == a.dtype and (y == a).all() and y.ctypes.data == a.ctypes.data
    assert str(view(y).dtype) == name


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ns]", ">f8", "S3", "U2", "V4", [("x", "i4"), ("y", "f8")], "g", "G"])
def test_what_dlpack_has_no_word_for_is_a_buffer_error(dtype):
    a = numpy.zeros(2, dtype)
    try:
        v = view(a)
    except errors.ProtocolError:
        return  # our dtypes do not include it, either
    for version in (None, (1, 0)):
        with pytest.raises(BufferError):
            v.__dlpack__(max_version=version)
    with pytest.raises(BufferError):
        numpy.from_dlpack(v)


@pytest.mark.parametrize("layout", EXPORTED)
def test_layouts_pass_through_without_a_copy(layout):
    a, v = made(layout)
    y = numpy.from_dlpack(v)
    assert y.shape == a.shape and (y == a).all() and (y.ctypes.data == a.ctypes.data or not a.size)
    assert same_strides(a.shape, y.strides, a.strides)


@pytest.mark.parametrize("ndim", [*range(12), 32, 63, 64])
def test_any_number_of_dimensions(ndim):
    shape = (1,) * (ndim - 1) + (4,) if ndim else ()
    v = view(numpy.arange(4 if ndim else 1, dtype="i4")).reshape(shape)
    y = numpy.from_dlpack(v)
    assert y.shape == shape and y.ravel().tolist() == list(range(v.size))
    turned = v.transpose(*range(ndim)[::-1]) if ndim else v
    assert numpy.from_dlpack(turned).shape == shape[::-1]


def test_extents_of_one_have_any_stride():
    a = numpy.zeros((3, 1, 5, 1, 7), "f4")
    for step in (slice(None), slice(0, 1), slice(0, 1, 3)):
        v = view(a)[step]
        y = numpy.from_dlpack(v)
        assert y.shape == v.shape and (y == 0).all()
    odd = numpy.lib.stride_tricks.as_strided(a, (1, 3, 1), (13 * 4, a.strides[0], 999 * 4))
    v = view(odd)
    assert v.is_c_contiguous is False and numpy.from_dlpack(v).shape == (1, 3, 1)
    assert view(numpy.lib.stride_tricks.as_strided(a, (1, 5), (77 * 4, 28))).shape == (1, 5)


def test_a_capsule_is_taken_once():
    capsule = view(numpy.arange(3)).__dlpack__(max_version=(1, 0))
    first = view(capsule)
    assert name_of(capsule) == b"used_dltensor_versioned" and first.tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="consumed"):
        view(capsule)


def test_an_error_on_its_way_is_the_one_that_arrives():
    class Theirs:
        def __init__(self, v):
            self.v = v

        def __dlpack_device__(self):
            return self.v.__dlpack_device__()

        def __dlpack__(self, **keywords):
            capsule = self.v.__dlpack__(max_version=(1, 0))
            assert capsule is not None
            raise KeyError("in the middle of it")

    for take in (numpy.from_dlpack, view):
        for _ in range(20):
            with pytest.raises(KeyError, match="middle"):
                take(Theirs(view(numpy.arange(3))))
    for _ in range(20):
        with pytest.raises(IndexError):
            numpy.from_dlpack(view(numpy.arange(3)))[10**9]


def test_read_only_stays_so_and_copies_are_free():
    a = numpy.arange(5)
    a.flags.writeable = False
    v = view(a)
    assert v.readonly and not numpy.from_dlpack(v).flags.writeable
    with pytest.raises(BufferError):
        v.__dlpack__()
    y = numpy.from_dlpack(v, copy=True)
    assert y.flags.writeable and y.ctypes.data != a.ctypes.data
    y[0] = 9
    assert a[0] == 0
    assert numpy.from_dlpack(view(numpy.arange(5))).flags.writeable


def test_keywords_only_and_no_stream_for_host_memory():
    v = view(numpy.arange(3))
    with pytest.raises(TypeError):
        v.__dlpack__(None)
    for stream in (1, 2, 0, "x", 3.5):
        with pytest.raises(BufferError):
            v.__dlpack__(stream=stream)
    assert v.__dlpack_device__() == (1, 0) and all(type(part) is int for part in v.__dlpack_device__())


# -- the array API's


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("dl_device", [None, (1, 0)])
def test_copy_and_device_mean_what_the_standard_says(copy, dl_device):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v = view(a)
    w = view(v.__dlpack__(max_version=(1, 0), copy=copy, dl_device=dl_device))
    assert (w.ptr != v.ptr) == (copy is True) and w.tolist() == a.tolist() and w.__dlpack_device__() == (1, 0)
    w[0, 0] = 50.0
    assert (a[0, 0] == 50.0) == (copy is not True)
    for other in ((2, 0), (4, 0), (8, 0), (1, 1)):
        with pytest.raises(BufferError):
            v.__dlpack__(max_version=(1, 0), copy=copy, dl_device=other)


@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint8", "uint64", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("layout", EXPORTED)
def test_from_dlpack_of_the_standard(copy, dtype, layout):
    strict = Strict().load()
    xp = strict.module
    source = LAYOUTS[layout](numpy.arange(12).astype(dtype).reshape(3, 4))
    v = view(source, protocol="array_interface")
    for keywords in ({}, {"device": xp.Device("CPU_DEVICE")}):
        y = xp.from_dlpack(v, copy=copy, **keywords)
        assert y.dtype == getattr(xp, dtype) and y.shape == source.shape and y._array.tolist() == source.tolist()
        assert (y._array.ctypes.data == v.ptr) == (copy is not True) or not source.size
    ours = view(xp.asarray(source.copy()))
    assert (str(ours.dtype), ours.shape, ours.tolist()) == (dtype, source.shape, source.tolist())


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2), (1, 99), (2, 0), (7, 3)])
def test_a_version_is_a_wish(version):
    capsule = view(numpy.arange(3)).__dlpack__(max_version=version)
    assert name_of(capsule) == (b"dltensor" if version is None or version[0] < 1 else b"dltensor_versioned")
    assert view(capsule).tolist() == [0, 1, 2]


# -- nanobind's


@pytest.fixture(scope="module")
def extension():
    return Nanobind().load().module


def test_nanobind_constrains_dtype_shape_order_device_and_writability(extension):
    a = numpy.arange(12, dtype="f4").reshape(3, 4)
    v = view(a)
    accepted = {
        "facts": v,
        "facts_ro": v.broadcast_to((2, 3, 4)),
        "facts_c": v,
        "facts_f": v.T,
        "facts_shape": v,
        "total": v[:, ::2],
    }
    refused = {
        "facts": v.broadcast_to((2, 3, 4)),
        "facts_c": v[:, ::2],
        "facts_f": v,
        "facts_shape": v.T,
        "total": v[0],
        "facts_cuda": v,
    }
    for name, argument in accepted.items():
        getattr(extension, name)(argument)
    for name, argument in refused.items():
        with pytest.raises(TypeError):
            getattr(extension, name)(argument)
    for wrong in ("f8", "i4", "c8"):
        with pytest.raises(TypeError):
            extension.facts_c(view(a.astype(wrong)))


def test_nanobind_counts_what_it_holds(extension):
    v = view(numpy.arange(12, dtype="f4").reshape(3, 4))
    before = len(dlpack.outstanding)
    held = [extension.Writable(v) for _ in range(10)]
    assert len(dlpack.outstanding) - before in (10, 0)  # (0: by the buffer protocol, on Python 3.12 and later)
    back = [view(each.out()) for each in held]
    del held
    gc.collect()
    assert all(each.ptr == v.ptr and each.tolist() == v.tolist() for each in back)
    back[0][0, 0] = 42.0
    assert v[0, 0].item() == 42.0
    del back
    gc.collect()
    assert len(dlpack.outstanding) == before


def test_nanobinds_own_array_outlives_the_call_that_made_it(extension):
    views = [view(extension.made(n)) for n in (1, 5, 1000)]
    gc.collect()
    churn = [extension.made(1000) for _ in range(50)]
    assert [v.tolist() for v in views] == [[float(i) for i in range(n)] for n in (1, 5, 1000)] and churn
    assert not any(v.readonly for v in views)
    assert view(extension.made(0)).shape == (0,)
