"""Both array interfaces as dicts: section 5, and section 6 up to 6.5, of docs/protocols.md, without a driver."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import types

import pytest

from tests.null.producers import Shows
from tests.subject import module, rawcuda

array_interface, cuda = module("protocols.array_interface"), module("protocols.cuda_array_interface")
errors, description = module("errors"), module("protocols.description")
view, ProtocolError = rawcuda.view, errors.ProtocolError

VALUES = array.array("f", range(24))
ADDRESS = VALUES.buffer_info()[0]
GOOD = {"shape": (2, 3), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}


def host(**changes):
    return array_interface.describe(Shows(host={**GOOD, **changes}))


def device(**changes):
    return cuda.describe(Shows(cuda={**GOOD, **changes}))


BOTH = pytest.mark.parametrize(
    "read, name", [(host, "array_interface"), (device, "cuda_array_interface")], ids=["array", "cuda"]
)


def refused(name, field, value, read, **changes):
    with pytest.raises(ProtocolError) as caught:
        read(**changes)
    error = caught.value
    assert (
        (error.protocol, error.field) == (name, field)
        and str(error).startswith(f"{name}: {field} ")
        and str(value) in str(error)
    ), error


@BOTH
def test_5_1_5_3_6_1_what_is_read(read, name):
    d = read()
    assert (d.ptr, d.shape, d.strides, str(d.dtype)) == (ADDRESS, (2, 3), (12, 4), "float32")
    d = read(data=(ADDRESS, True), strides=None, descr=[("", "<f4")], mask=None)  # optional keys that add nothing new
    assert d._place.readonly and d.strides == (12, 4)
    d = read()
    assert (d._place.readonly, d._place.protocol, d._place.device) == (
        False,
        name,
        ("cpu", 0) if name == "array_interface" else None,
    )


@BOTH
def test_5_1_only_an_attribute_error_means_not_offered(read, name):
    describe = (array_interface if name == "array_interface" else cuda).describe
    assert describe(object()) is None and describe(Shows()) is None and describe(Shows) is None
    for error in (RuntimeError("requires grad"), KeyError("float8"), ValueError("x"), TypeError("y")):
        with pytest.raises(type(error)) as caught:
            describe(Shows(error, error))
        assert caught.value is error  # the exporter's error, unchanged
    shows = Shows(GOOD, GOOD)
    describe(shows)
    assert shows.reads == 1  # each read may enqueue an event
    for wrong in (3, [("shape", 1)], "x"):
        with pytest.raises(ProtocolError, match="must be a dict"):
            describe(Shows(wrong, wrong))
    assert describe(Shows(types.MappingProxyType(GOOD), types.MappingProxyType(GOOD))).shape == (2, 3)


@BOTH
@pytest.mark.parametrize("key", ["shape", "typestr", "data", "version"])
def test_5_2_6_1_a_key_missing(read, name, key):
    changes = dict(GOOD)
    del changes[key]
    describe = (array_interface if name == "array_interface" else cuda).describe
    if key == "version" and name == "cuda_array_interface":
        assert describe(Shows(cuda=changes)).stream == cuda.UNORDERED  # dicts of users omit it
        return
    with pytest.raises(ProtocolError, match=f"{key} (None: is missing|'Shows': must be)") as caught:
        describe(Shows(changes, changes))  # (without data, the exporter itself may have the buffer)
    assert caught.value.field == key


@BOTH
def test_5_2_lenient_where_others_are_sloppy(read, name):
    d = read(shape=[2, 3], strides=[12, 4], data=[ADDRESS, False])
    assert d.shape == (2, 3) and d.strides == (12, 4) and all(type(n) is int for n in d.shape + d.strides)
    assert read(shape=(0, 3), data=(None, False)).ptr == 0 and read(shape=(0, 3), data=(0, True))._place.readonly
    assert read(version=7).shape == (2, 3)  # 6.5: future versions must not be refused
    numpy = pytest.importorskip("numpy")
    d = read(shape=(numpy.int64(2), numpy.uint8(3)), data=(numpy.uint64(ADDRESS), numpy.bool_(True)))
    assert d.shape == (2, 3) and type(d.shape[0]) is int and type(d.ptr) is int and d._place.readonly is True


@BOTH
@pytest.mark.parametrize(
    "strides, expected",
    [(None, (12, 4)), ((12, 4), (12, 4)), ((4, 8), (4, 8)), ((-12, -4), (-12, -4)), ((0, 4), (0, 4)), ((5, 1), (5, 1))],
)
def test_5_4_6_4_strides_are_bytes(read, name, strides, expected):
    shift = 20 if strides == (-12, -4) else 0
    assert read(strides=strides, data=(ADDRESS + shift, False)).strides == expected


@BOTH
def test_5_4_default_strides_come_from_the_typestr_alone(read, name):
    assert read(typestr="<f8", shape=(1, 2)).strides == (16, 8) and read(shape=()).strides == ()
    assert read(typestr="|V12", shape=(2,), descr=[("a", "<f4", (3,))]).strides == (12,)


@BOTH
@pytest.mark.parametrize(
    "field, value",
    [
        ("shape", (-1, 3)),
        ("shape", 6),
        ("shape", "ab"),
        ("shape", None),
        ("shape", (2.0, 3)),
        ("shape", (1,) * 65),
        ("shape", (2**62, 4)),
        ("shape", (0, 2**63)),
        ("strides", (4,)),
        ("strides", (4, 4, 4)),
        ("strides", (1.0, 4)),
        ("strides", 4),
        ("strides", (2**62, 2**62)),
        ("strides", (-(2**62), 4)),
        ("typestr", ">f4"),
        ("typestr", "|O8"),
        ("typestr", 4),
        ("typestr", "<f3"),
        pytest.param("data", ADDRESS, id="data-address"),
        ("data", (ADDRESS,)),
        ("data", ("x", False)),
        ("data", (True, False)),
        ("data", (1.5, False)),
        ("data", (-1, False)),
        ("data", (2**64, False)),
        ("data", (ADDRESS, "no")),
        ("data", (0, False)),
        ("version", True),
        ("version", "3"),
        ("version", -1),
        ("mask", [1]),
        ("descr", 5),
        ("descr", [("a", "<f8")]),
    ],
)
def test_bad_input(read, name, field, value):
    if name == "array_interface" and field == "data" and not isinstance(value, tuple):
        refused(name, field, type(value).__name__, read, **{field: value})
    else:
        refused(
            name,
            field,
            "" if field in ("mask", "data") or value == "ab" else value if field != "typestr" else repr(value),
            read,
            **{field: value},
        )


@BOTH
def test_the_most_dimensions_and_the_last_addresses(read, name):
    assert read(shape=(1,) * 64).strides == (4,) * 64
    assert read(data=(1, False)).ptr == 1 and read(data=(2**64 - 24, False)).ptr == 2**64 - 24
    refused(name, "strides", hex(2**64 - 23), read, data=(2**64 - 23, False))
    refused(name, "data", "data 0: is a null pointer", read, data=(0, False))


@BOTH
@pytest.mark.parametrize("first, second", ["iI", "Ii", "if"])
def test_strides_of_the_same_bytes_are_told_apart(read, name, first, second):
    """What was learned of one array says nothing about an array of another type."""
    one = array.array(first, [12, 4])
    assert read(strides=one).strides == (12, 4)
    if second == "f":
        refused(name, "strides", "must be a tuple of ints", read, strides=array.array(second, one.tobytes()))
        return
    edge = array.array(first, [2**32 - 12 if first == "I" else -12, 4])
    assert read(strides=edge, shape=(1, 3)).strides == tuple(edge)
    other = array.array(second, edge.tobytes())
    assert read(strides=other, shape=(1, 3)).strides == tuple(other) != tuple(edge)


def test_numbers_of_numpy_of_the_same_bytes_are_told_apart():
    numpy = pytest.importorskip("numpy")
    assert device(stream=numpy.uint64(2**64 - 1)).stream == 2**64 - 1
    refused("cuda_array_interface", "stream", -1, device, stream=numpy.int64(-1))
    for read, name in (host, "array_interface"), (device, "cuda_array_interface"):
        assert read(strides=(numpy.int64(12), 4)).strides == (12, 4)
        refused(name, "strides", "must be a tuple of ints", read, strides=(numpy.int64(12).view("f8"), 4))
        assert read(version=numpy.int64(3)).shape == (2, 3)
        refused(name, "version", "must be an int", read, version=numpy.int64(3).view("f8"))


def test_5_7_6_5_a_mask_is_refused():
    refused("cuda_array_interface", "mask", "", device, mask=Shows(GOOD))
    refused("array_interface", "mask", "", host, mask=Shows(GOOD))
    assert device(mask=None).shape == (2, 3)


@pytest.mark.parametrize(
    "version, stream, pending",
    [
        (3, None, None),
        (3, 1, 1),
        (3, 2, 2),
        (3, 2**40, 2**40),
        (3, 2**64 - 1, 2**64 - 1),
        (2, None, 0),
        (0, None, 0),
        (2, 1, 1),
        (4, None, None),
        (4, 2, 2),
    ],
)
def test_5_9_5_14_5_15_the_stream(version, stream, pending):
    assert device(version=version, stream=stream).stream == pending


@pytest.mark.parametrize("stream", [0, -1, -2, True, False, 1.0, "1", 2**64, object()])
def test_5_9_streams_that_are_refused(stream):
    with pytest.raises(ProtocolError) as caught:
        device(stream=stream)
    assert caught.value.field == "stream"
    if stream == 0 and stream is not False:
        assert "stream 0: is disallowed" in str(caught.value) and "ambiguous" in str(caught.value)  # in these words


def test_5_6_read_only_is_carried():
    for readonly in (True, False):
        assert (
            device(data=(ADDRESS, readonly))._place.readonly is readonly
            and host(data=(ADDRESS, readonly))._place.readonly is readonly
        )


def test_5_12_synchronisation_is_never_switched_off_from_outside(monkeypatch):
    for name in ("NUMBA_CUDA_ARRAY_INTERFACE_SYNC", "CUPY_CUDA_ARRAY_INTERFACE_SYNC"):
        monkeypatch.setenv(name, "0")
    assert device(stream=2).stream == 2


def test_5_9_an_index_object_is_fine():
    class Index:
        def __index__(self):
            return 2

    assert device(stream=Index()).stream == 2


def test_5_13_the_exporter_is_held():
    shows = Shows(host={**GOOD})
    before = sys.getrefcount(shows)
    v = view(shows)
    w = v[1]
    assert v.owner is shows
    assert sys.getrefcount(shows) == before + 2
    del v, w
    gc.collect()
    assert sys.getrefcount(shows) == before


def test_5_16_bfloat16_has_no_typestr():
    for typestr in ("<V2", "|V2"):
        assert device(typestr=typestr).dtype.kind == "opaque"
    assert str(view(Shows(host={**GOOD, "typestr": "<V2"})).reinterpret("bfloat16").dtype) == "bfloat16"


# -- the other forms of data in the array interface


def test_6_2_a_pointer_ignores_the_offset():
    assert host(offset=8).ptr == ADDRESS


def test_6_2_data_in_a_buffer():
    data = bytearray(range(48))
    d = host(data=data, offset=4, typestr="|u1", shape=(2, 3), strides=(10, 2))
    start = ctypes.addressof(ctypes.c_char.from_buffer(data))
    assert d.ptr == start + 4 and d.owner.obj is data and not d._place.readonly and d.strides == (10, 2)
    assert host(data=bytes(24))._place.readonly


def test_6_2_data_in_the_exporter_itself():
    class Buffer(bytearray):
        @property
        def __array_interface__(self):
            return {"shape": (2, 3), "typestr": "<f4", "version": 3, "offset": 8, "data": None}

    data = Buffer(32)
    v = view(data, protocol="array_interface")
    assert v.shape == (2, 3) and v.ptr == ctypes.addressof(ctypes.c_char.from_buffer(data)) + 8 and v.owner.obj is data
    with pytest.raises(ProtocolError) as caught:
        host(data=None)
    assert caught.value.field == "data"


@pytest.mark.parametrize(
    "changes",
    [
        dict(offset=25),
        dict(offset=-1),
        dict(shape=(7,)),
        dict(strides=(-12, 4)),
        dict(offset=1),
        dict(strides=(13, 4)),
        dict(offset="x"),
        dict(shape=(2**60,)),
    ],
)
def test_6_2_a_buffer_too_small(changes):
    with pytest.raises(ProtocolError, match="^array_interface: (shape|strides|data) "):
        host(**{"data": bytearray(24), **changes})


def test_the_meanings_that_are_kept_are_bounded():
    most = 0
    for n in range(1100):
        assert host(shape=(n, 2)).shape == (n, 2)
        most = max(most, *[len(form.known) for form in array_interface._forms.answers.values()])
    assert 500 < most <= 1000


def test_a_dict_that_keeps_the_memory_alive_is_the_owner():
    class Scalar:
        pass

    plain, keeping = GOOD, {**GOOD, "__ref": VALUES}  # as NumPy's scalars write it
    for interface in (plain, keeping, keeping, plain, plain):
        exporter = Scalar()
        exporter.__array_interface__ = interface
        assert view(exporter).owner is (interface if interface is keeping else exporter)


def test_6_2_a_buffer_with_gaps():
    with pytest.raises(ProtocolError, match="gaps"):
        host(data=memoryview(bytearray(100))[::2])


def test_5_8_6_4_structures_keep_their_descr():
    descr = [("a", "<i4"), ("", "|V4"), ("b", "<f8")]
    v = view(Shows(host={**GOOD, "typestr": "|V16", "shape": (2,), "descr": descr}))
    assert v.dtype.descr == descr and v.dtype.kind == "opaque"
    assert v[:0].dtype is v.dtype and v["b"].strides == (16,) and v["b"].ptr == v.ptr + 8
    told = [("a", "<i4"), ("c", "|V4"), ("b", "<f8")]  # (NumPy would make a field of padding)
    named = view(Shows(host={**GOOD, "typestr": "|V16", "shape": (2,), "descr": told}))
    assert named.dtype.descr == named.__array_interface__["descr"] == told
    assert str(v.dtype) == "{'names': ['a', 'b'], 'formats': ['<i4', '<f8'], 'offsets': [0, 8], 'itemsize': 16}"


# -- out


def test_what_a_view_of_host_memory_says():
    v = view(VALUES).reshape(2, 3, 4)
    said = v.__array_interface__
    assert said == {
        "version": 3,
        "shape": (2, 3, 4),
        "typestr": "<f4",
        "data": (ADDRESS, False),
        "strides": None,
        "descr": [("", "<f4")],
    }
    assert v.__array_interface__ is not said  # a fresh one each time
    assert v.T.__array_interface__["strides"] == v.T.strides and v[:, ::-1].__array_interface__["data"] == (
        ADDRESS + 32,
        False,
    )
    assert not hasattr(v, "__cuda_array_interface__")  # host memory that the device cannot access
    assert view(b"abc").__array_interface__["data"][1] is True
    assert view(view(b"abc"), protocol="array_interface").readonly
    empty = v[:0].__array_interface__
    assert empty["data"][0] != 0 and empty["shape"] == (0, 3, 4)


def test_numpy_reads_what_a_view_says():
    numpy = pytest.importorskip("numpy")
    v = view(VALUES).reshape(2, 3, 4)
    for w in (
        v,
        v.T,
        v[:, ::-1, ::2],
        v[0, 0, 0],
        v[:0],
        v[None],
        v.broadcast_to((2, 2, 3, 4)),
        v.reinterpret("|V4"),
        v.reinterpret("complex64"),
    ):
        a = numpy.asarray(w)
        assert a.shape == w.shape and a.tobytes() == w.download().memoryview().tobytes()
        assert not a.size or all(mine == its for n, mine, its in zip(a.shape, w.strides, a.strides) if n > 1)
        assert a.flags.writeable == (not w.readonly) and (numpy.shares_memory(a, numpy.asarray(v)) or not a.size)
    lanes = v.reinterpret("float32x4")
    assert lanes.__array_interface__["typestr"] == "|V16"
    a = numpy.asarray(lanes)  # with Python 3.12 and later, NumPy uses the buffer protocol, and lanes become a dimension
    assert (a if a.dtype == "f4" else a["f0"]).shape == (2, 3, 1, 4)


@pytest.mark.parametrize("dtype", ["M8[s]", "S8", "longdouble", [("a", "i4"), ("b", "i4")]])
def test_a_subclass_of_numpys_arrays_with_other_properties(dtype):
    """What the dict says is true: a view by the properties led out of the memory."""
    numpy = pytest.importorskip("numpy")

    class Large(numpy.ndarray):
        shape = property(lambda self: (1 << 20,))
        strides = property(lambda self: (64,))
        dtype = property(lambda self: numpy.dtype("V64"))
        ndim = size = property(lambda self: 1 << 20)

    plain = numpy.zeros(3, dtype)
    for name in ("array_interface", None):
        seen = view(plain.view(Large), protocol=name)
        assert (seen.shape, seen.strides, seen.itemsize) == (plain.shape, plain.strides, plain.itemsize)


def test_a_subclass_of_numpys_numbers_with_other_properties():
    numpy = pytest.importorskip("numpy")

    class Large(numpy.float64):
        shape = property(lambda self: (1 << 20,))
        strides = property(lambda self: (8,))
        dtype = property(lambda self: numpy.dtype("V64"))

    seen = view(Large(1.5), protocol="array_interface")
    assert seen.shape == () and seen.tolist() == 1.5


def test_a_descr_of_more_extents_than_an_array_has_is_refused():
    with pytest.raises(ProtocolError, match="a shape of at most 64 ints"):
        host(typestr="|V8", descr=[("a", "|i1", (1,) * 65)])
