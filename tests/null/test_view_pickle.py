"""Pickling of views in host memory: what arrives, what travels out of band, and what is refused."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
view, pickling = rawcuda.view, module("arrays.pickling")

BASE = numpy.arange(24, dtype="i4").reshape(2, 3, 4)
STRUCTURES = numpy.zeros(3, numpy.dtype([("a", "u1"), ("b", "f8", 2)], align=True))
ARRAYS = {
    "C order": BASE,
    "Fortran order": BASE.T,
    "gaps": BASE[:, ::2],
    "reversed": BASE[::-1],
    "no dimensions": numpy.array(3.5),
    "empty": BASE[:0],
    "empty, Fortran": numpy.zeros((3, 0), order="F"),
    "structures": STRUCTURES,
    "dates": numpy.array(["2026-01-01"], "M8[D]"),
    "half": numpy.ones(3, "f2"),
    "read-only": numpy.frombuffer(b"abcd", "u1"),
    "broadcast": numpy.broadcast_to(numpy.ones(3), (2, 3)),
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ARRAYS)
def test_a_view_arrives_with_its_shape_order_dtype_and_flag(name, protocol):
    v = view(ARRAYS[name])
    made = pickle.loads(pickle.dumps(v, protocol))
    assert (made.shape, made.dtype, made.readonly, made.device) == (v.shape, v.dtype, v.readonly, ("cpu", 0))
    assert made.tobytes() == ARRAYS[name].tobytes() and made.ptr != v.ptr
    assert made.is_f_contiguous or not v.is_f_contiguous
    assert numpy.asarray(made).flags.writeable == (not v.readonly)


@pytest.mark.parametrize("name", ARRAYS)
def test_buffers_travel_out_of_band_without_a_copy(name):
    v, buffers = view(ARRAYS[name]), []
    data = pickle.dumps(v, 5, buffer_callback=buffers.append)
    made = pickle.loads(data, buffers=buffers)
    assert made.tobytes() == v.tobytes() and made.readonly == v.readonly and len(data) < 500
    if v.size and (v.is_c_contiguous or v.is_f_contiguous):
        assert made.ptr == v.ptr and made.strides == v.strides
    received = pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])  # what a socket gives
    assert received.tobytes() == v.tobytes() and (received.readonly or not v.size)
    writable = pickle.loads(data, buffers=[bytearray(buffer) for buffer in buffers])
    assert writable.readonly == v.readonly and writable.tobytes() == v.tobytes()


def test_the_memory_lives_as_long_as_what_arrived():
    made = pickle.loads(pickle.dumps(view(numpy.arange(1000.0)), 5))[10:]
    assert made.tolist() == list(range(10, 1000))


def test_an_extension_type_and_a_small_float_arrive():
    v = rawcuda.view(numpy.arange(4, dtype="u1")).reinterpret("float8_e4m3fn")
    made = pickle.loads(pickle.dumps(v, 5))
    assert made.dtype is v.dtype and made.tobytes() == v.tobytes()


def test_what_holds_a_view_can_be_pickled_with_it():
    v = view(BASE)
    again = pickle.loads(pickle.dumps({"a": [v, v], "b": v[0]}, 5))
    assert again["a"][0] is again["a"][1] and again["b"].tolist() == v[0].tolist()


def altered(**changes):
    """Return the arguments of rebuild() for a view, with some of them changed."""
    names = ("version", "shape", "order", "dtype", "readonly", "kind", "data")
    _, arguments = view(BASE).__reduce_ex__(4)
    return [changes.get(name, argument) for name, argument in zip(names, arguments)]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"version": 2}, "version 2"),
        ({"version": 2**70}, "version"),
        ({"version": 0}, "version is 0"),
        ({"version": "1"}, "version is '1'"),
        ({"shape": (2, 3, 5)}, "have 120 bytes, and it has 96"),
        ({"shape": (2**60, 2**60)}, "bytes|too large|large"),
        ({"shape": (-2, -12)}, "not a shape"),
        ({"shape": [2, 3, 4]}, "not a shape"),
        ({"shape": (2.0,)}, "not a shape"),
        ({"shape": (1,) * 65 + (24,)}, "dimensions"),
        ({"order": "K"}, "order 'K'"),
        ({"dtype": "int32"}, "dtype 'int32'"),
        ({"dtype": None}, "dtype None"),
        ({"kind": "disk"}, "kind of memory 'disk'"),
        ({"data": b""}, "it has 0"),
        ({"data": bytes(97)}, "it has 97"),
        ({"data": None}, "damaged pickle: None is not one run of bytes"),
        ({"data": 5}, "damaged pickle: 5 is not one run of bytes"),
        ({"data": memoryview(bytes(192))[::2]}, "damaged pickle: .* is not one run of bytes"),
        ({"data": numpy.zeros((2, 3, 4), "f4", order="F")}, "damaged pickle: .* is not one run of bytes"),
    ],
)
def test_a_damaged_pickle_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        pickling.rebuild(*altered(**changes))


@pytest.mark.parametrize("kind", ["cuda", None, []], ids=str)
def test_a_damaged_kind_of_memory_is_refused(kind):
    with pytest.raises(ValueError, match="damaged pickle: .* is not a kind of memory"):
        pickling.rebuild_memory(1, 4, kind, b"1234")


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 5},
        {"offset": 240},
        {"offset": 2**40},
        {"offset": -1},
        {"offset": "4"},
        {"shape": (2,)},
        {"shape": (-1,)},
        {"dtype": "<i4"},
        {"size": -8},
        {"size": 8.0},
    ],
)
def test_a_damaged_field_of_a_structure_is_refused(change):
    dtype = module("elements.dtypes").from_typestr("|V8", [("a", "<i4"), ("b", "<i4")])
    make, (parts, size, *rest) = dtype.__reduce__()
    assert make(parts, size, *rest) is dtype
    names = "label", "dtype", "shape", "offset"
    last = {**dict(zip(names, parts[-1])), **change}
    with pytest.raises(ValueError, match="a damaged pickle"):
        make([parts[0], tuple(last[name] for name in names)], change.get("size", size), *rest)


def test_an_unknown_dtype_is_refused():
    data = pickle.dumps(view(BASE), 2)
    assert b"from_dlpack" in data
    for old, new in ((b"K\x00K K\x01", b"K\x63K K\x01"), (b"K\x00K K\x01", b"K\x00K!K\x01")):
        assert old in data
        with pytest.raises(rawcuda.ProtocolError, match="dtype"):
            pickle.loads(data.replace(old, new))


def test_a_truncated_pickle_is_refused():
    data = pickle.dumps(view(BASE), 5)
    for length in range(0, len(data), 7):
        with pytest.raises((pickle.UnpicklingError, EOFError, ValueError, AttributeError, ImportError, TypeError)):
            pickle.loads(data[:length])
    with pytest.raises(pickle.UnpicklingError):
        pickle.Unpickler(io.BytesIO(pickle.dumps(view(BASE), 5, buffer_callback=[].append))).load()


def test_receive_on_is_checked_and_restored():
    for wrong, error in (
        ("device", ValueError),
        (-1, ValueError),
        (True, TypeError),
        (1.0, TypeError),
        ([], TypeError),
    ):
        with pytest.raises(error, match="receive_on"):
            rawcuda.receive_on(wrong)
    receiver = pickling._receiver
    with rawcuda.receive_on("host"):
        assert receiver == ["host"]
        with rawcuda.receive_on(1):
            assert receiver == [1]
        assert receiver == ["host"]
    assert receiver == [None]


def test_copies_of_every_public_object_have_one_owner():
    """Objects with a handle refuse copies; others give an equal object, or themselves."""
    v = view(BASE)
    assert copy.copy(v).ptr == v.ptr and copy.deepcopy(v).ptr != v.ptr
    for maker in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert maker(v.dtype) == v.dtype
