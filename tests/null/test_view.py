"""A view as a Python object: indexing, shapes, conversions to numbers, and operations that it refuses."""

from __future__ import annotations

import array
import copy
import gc
import mmap
import sys

import pytest

from tests.null.producers import Shows
from tests.subject import module, rawcuda

errors = module("errors")
view = rawcuda.view


def floats(*shape):
    size = 1
    for n in shape:
        size *= n
    return view(array.array("f", range(size))).reshape(shape)


def test_options_by_their_place():
    v = view(bytearray(4), None, "buffer", False)
    assert v.protocol == "buffer" and v.readonly and view(bytearray(4), 2).shape == (4,)
    with pytest.raises(TypeError):
        view(bytearray(4), "no stream")
    with pytest.raises(errors.ProtocolError):
        view(b"1234", -1, None, True)


def test_indexing():
    v = floats(2, 3, 4)
    assert v[1].shape == (3, 4) and v[1, 2, 3].shape == () and v[1, 2, 3].tolist() == 23.0 and v[..., 0].shape == (2, 3)
    assert (
        v[None].shape == (1, 2, 3, 4)
        and v[:, ::-1].tolist() == [row[::-1] for row in v.tolist()]
        and v[-1, -1, -1].item() == 23.0
    )
    assert [w.tolist() for w in v[0]] == v[0].tolist() and len(v) == 2
    for key, words in (
        (5, "out of bounds"),
        ((0, 0, 0, 0), "too many"),
        ("a", "only integers"),
        ([0], "only integers"),
        (True, "mask"),
    ):
        with pytest.raises(IndexError, match=words):
            v[key]
    with pytest.raises(TypeError, match="unsized"):
        len(v[0, 0, 0])
    with pytest.raises(TypeError):
        iter(v[0, 0, 0])


def test_truth_is_the_one_elements():
    """As in NumPy, the truth value is that of the only element; other views are refused, as in `3 in view`."""
    v = floats(2, 3)
    assert v[0, 1] and not v[0, 0] and v[:1, 2:]
    for unclear in (v, v[:0], v[0]):
        with pytest.raises(ValueError, match="size 1"):
            bool(unclear)
    with pytest.raises(TypeError):
        3.0 in v  # noqa: B015


def test_a_run_of_bytes_has_no_truth_and_equals_no_number():
    numpy = pytest.importorskip("numpy")
    zero, text = (rawcuda.view(numpy.array([x]))[0] for x in (numpy.longdouble(0), b"abc"))
    for use in (lambda: bool(zero), lambda: zero == 0, lambda: zero != 0, lambda: text == "abc"):
        with pytest.raises(TypeError, match="needs a number: an element of dtype .* is only a run of bytes"):
            use()
    assert text == b"abc" and text != b"abd" and zero != None and zero == zero  # noqa: E711, PLR0124


def test_assigning():
    v = floats(2, 3)
    v[0] = 7
    v[1, ::2] = array.array("f", [1, 2])
    v[1, 1] = v[0, 0]
    assert v.tolist() == [[7.0, 7.0, 7.0], [1.0, 7.0, 2.0]]
    for key, value, error in (
        (0, {1, 2, 3}, TypeError),
        (0, array.array("d", [1, 2, 3]), TypeError),
        (0, array.array("f", [1, 2]), ValueError),
        (0, "abc", TypeError),
        (9, 1, IndexError),
    ):
        with pytest.raises(error):
            v[key] = value


def test_shapes():
    v = floats(2, 3, 4)
    assert v.T.shape == (4, 3, 2) and v.transpose().strides == v.T.strides and v.transpose(1, 0, 2).shape == (3, 2, 4)
    assert v.transpose((2, 0, 1)).shape == v.transpose(-1, 0, 1).shape == (4, 2, 3)
    assert v.reshape(6, 4).shape == v.reshape((6, -1)).shape == v.reshape([6, 4]).shape == (6, 4) and v.reshape(
        -1
    ).shape == (24,)
    assert (
        v[:, :1].squeeze().shape == (2, 4)
        and v[:, :1].squeeze(1).shape == (2, 4)
        and v.broadcast_to((5, 2, 3, 4)).strides[0] == 0
    )
    assert v.broadcast_to((2, 3, 4)).readonly and v.T.T.is_c_contiguous and v.T.is_f_contiguous
    with pytest.raises(ValueError, match="without a copy"):
        v.T.reshape(24)
    for wrong in (
        lambda: v.reshape(5),
        lambda: v.reshape(-1, -1),
        lambda: v.transpose(0, 0, 1),
        lambda: v.squeeze(0),
        lambda: v.broadcast_to((2, 4)),
    ):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: v.reshape("24"), lambda: v.reshape(2.0, 12), lambda: v.broadcast_to(None)):
        with pytest.raises(TypeError):
            wrong()


def test_reinterpret():
    v = floats(2, 4)
    assert (
        v.reinterpret("int32").shape == (2, 4)
        and v.reinterpret("uint8").shape == (2, 16)
        and v.reinterpret("complex64").shape == (2, 2)
    )
    assert (
        v.reinterpret("uint8").reinterpret("float32").tolist() == v.tolist()
        and v.T.reinterpret("uint32").strides == v.T.strides
    )
    for wrong, words in (
        (lambda: v.reinterpret("|V3"), "not a whole number"),
        (lambda: v[:, ::2].reinterpret("float64"), "gaps"),
        (lambda: v[0, 0].reinterpret("uint8"), "without dimensions"),
        (lambda: v.reinterpret("|V0"), "not a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    assert v[:, :1].reinterpret("uint8").shape == (2, 4)  # after a single element there is no gap
    with pytest.raises(TypeError):
        v.reinterpret("nonsense")


def test_numbers():
    v = floats(2, 3)
    assert (
        v.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        and v[1, 1].tolist() == v[1, 1].item() == v[1:, 1:2].item() == 4.0
    )
    for many in (v, v[:0]):
        with pytest.raises(ValueError, match="size 1"):
            many.item()


def test_repr():
    v = floats(2, 3)
    assert (
        repr(v) == "<StridedView float32 (2, 3) strides (12, 4) on cpu, by buffer: [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]>"
    )
    assert repr(view(b"abc")) == "<StridedView uint8 (3,) strides (1,) on cpu, read-only, by buffer: [97, 98, 99]>"
    assert repr(v.owner) == "<buffer of array, 24 bytes>" and type(v.owner.obj) is array.array


def test_a_shallow_copy_is_another_view_of_the_same_memory():
    host = floats(2, 3)
    by_address = view(Shows(host={"shape": (3,), "typestr": "<f4", "data": (host.ptr, False), "version": 3}))
    for v in (host, by_address, host.T):
        again = copy.copy(v)
        assert again is not v and (again.ptr, again.shape, again.strides, again.owner) == (
            v.ptr,
            v.shape,
            v.strides,
            v.owner,
        )


def test_a_buffer_cannot_be_released_under_a_view():
    data = bytearray(6)
    v = view(data)
    assert not hasattr(v.owner, "release") and not hasattr(v.owner, "__exit__")
    m = memoryview(data)
    w = view(m)
    m.release()  # the original attributes; the reader has its own references
    assert w.tolist() == [0] * 6
    with pytest.raises(BufferError):
        data.append(1)
    del v, w
    gc.collect()
    data.append(1)


def test_numbers_too_large_to_be_written_out():
    huge = 10**6000
    for changes in ({"shape": (huge,)}, {"strides": (huge,)}, {"data": (huge, False)}, {"shape": (2, huge)}):
        with pytest.raises(errors.ProtocolError):
            view(Shows(host={"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3, **changes}))
    v = floats(2, 3)
    for wrong in (
        lambda: v[huge],
        lambda: v.reshape(huge),
        lambda: v.broadcast_to((huge, 2, 3)),
        lambda: view(b"", stream=huge),
        lambda: v.fill(huge),
    ):
        with pytest.raises((ValueError, IndexError, TypeError, OverflowError)):
            wrong()


def test_no_attribute_can_be_added_and_weak_references_can():
    import weakref

    v = floats(3)
    with pytest.raises(AttributeError):
        v.name = 1
    gone = weakref.ref(v)
    del v
    assert gone() is None


def test_writing_through_a_view_is_seen_by_its_exporter():
    data = array.array("i", range(6))
    v = view(data).reshape(2, 3)
    v[1].fill(9)
    rawcuda.copy(v[0], view(array.array("i", [4, 5, 6])))
    assert data.tolist() == [4, 5, 6, 9, 9, 9]


def test_copies_refuse_what_they_cannot_do():
    v = floats(2, 3)
    for target, source, error in (
        (v, 5, TypeError),
        (5, v, TypeError),
        (v, floats(3, 2), ValueError),
        (b"x" * 24, v.reinterpret("uint8"), errors.ProtocolError),
        (v, array.array("i", range(6)), TypeError),
    ):
        with pytest.raises(error):
            rawcuda.copy(target, source)
    before = sys.getrefcount(v)
    with pytest.raises(TypeError):
        rawcuda.copy(v, None)
    assert sys.getrefcount(v) == before


def test_numpy_makes_an_array_of_host_memory_only():
    numpy = pytest.importorskip("numpy")
    v = floats(2, 3)
    assert v.__array__().tolist() == v.tolist() and numpy.shares_memory(v.__array__(), numpy.asarray(v))
    assert v.__array__(copy=True).ctypes.data != v.ptr and v.__array__("f8").dtype == "f8"
    assert v.__array__("f4", copy=False).ctypes.data == v.ptr
    with pytest.raises(ValueError, match="must be converted to float64"):
        v.__array__("f8", copy=False)
    assert numpy.asarray(v, "f8").dtype == "f8" and numpy.sum(v) == 15.0


def test_past_4_gib_nothing_wraps():
    """Only the pages that are used are allocated."""
    try:
        memory = mmap.mmap(-1, 9 << 30)
    except (OSError, ValueError, OverflowError):
        pytest.skip("9 GiB of addresses are not available")
    v = view(memory)
    far = v[:: (1 << 32) + 3]
    far.fill(9)
    rows = v[: 8 << 30].reshape(2, 1 << 32)
    assert far.shape == (3,) and [memory[i * ((1 << 32) + 3)] for i in range(3)] == [9, 9, 9] and v.nbytes == 9 << 30
    assert (
        rows[:, 3:4].tolist() == [[0], [9]]
        and rows.T[3].tolist() == [0, 9]
        and rows[1, (1 << 32) - 1].ptr == v.ptr + (8 << 30) - 1
    )
    out = view(bytearray(4)).reshape(2, 2)
    rawcuda.copy(out, rows[:, 2:4])  # strides of 4 GiB
    assert out.tolist() == [[0, 0], [0, 9]]
    w = view(v.__dlpack__(max_version=(1, 0)))
    assert (
        w.shape == (9 << 30,) and w[(1 << 32) + 3].item() == 9 and view(rows, protocol="dlpack").strides == (1 << 32, 1)
    )
    assert view(rows, protocol="array_interface")[1, 3].item() == 9 and rows.memoryview().strides == (1 << 32, 1)
    del v, w, far, rows
    gc.collect()
    memory.close()


@pytest.mark.parametrize("field", ["ptr", "shape", "strides", "dtype"])
def test_the_fields_of_a_view_are_read_only(field):
    """A view with another shape than its memory has would read and write beyond it."""
    v = floats(2, 3)
    for one in (v, v[1], v.T, copy.copy(v)):
        before = getattr(one, field)
        with pytest.raises(AttributeError):
            setattr(one, field, before)
        assert getattr(one, field) is before
    with pytest.raises(AttributeError):
        del v.shape


def test_the_read_only_fields_have_a_fallback(monkeypatch):
    cpython = module("interpreter.cpython")

    class Slots:
        __slots__ = ("_x",)

    member = cpython.read_only(Slots, "x")
    monkeypatch.setattr(cpython, "_knows_types", False)
    fallback = cpython.read_only(Slots, "x")
    assert type(fallback) is property
    for descriptor in (member, fallback):
        Slots.x = descriptor
        one = Slots()
        with pytest.raises(AttributeError):
            one.x
        one._x = 7
        assert one.x == 7
        with pytest.raises(AttributeError):
            one.x = 8
        assert one._x == 7


@pytest.mark.parametrize("arguments", [(), (1,), (bytearray(4), "f4")], ids=str)
def test_the_class_of_views_says_how_views_are_made(arguments):
    with pytest.raises(TypeError, match=r"made by view\(exporter\), by Device"):
        rawcuda.StridedView(*arguments)
    assert isinstance(view(bytearray(4)), rawcuda.StridedView) and type(view(bytearray(4))).__name__ == "StridedView"


@pytest.mark.parametrize(
    "thing, words",
    [
        ([1, 2], "make an array of it with array.array or numpy.asarray"),
        (type("Converted", (), {"__array__": lambda self: None})(), "so give numpy.asarray"),
        (object(), "the buffer protocol$"),
    ],
    ids=["list", "__array__", "object"],
)
def test_what_is_no_exporter_is_told_what_to_do(thing, words):
    with pytest.raises(TypeError, match=words):
        rawcuda.view(thing)
