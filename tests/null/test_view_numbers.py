"""What a user of NumPy types: comparisons, conversions and assignments of views, fields, copies, flags, text."""

from __future__ import annotations

import array
import contextlib
import copy
import enum
import math
import operator
import sys
import tracemalloc
import warnings
from decimal import Decimal
from fractions import Fraction

import pytest

from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
view, of = rawcuda.view, module("elements.dtypes").of


def floats(*shape):
    return view(numpy.arange(math.prod(shape), dtype="f4").reshape(shape))


# -- comparisons


def test_a_view_without_dimensions_compares_by_its_value():
    v = floats(2, 3)
    assert v[1, 0] == 3 and v[1, 0] == 3.0 and v[1, 0] != 4 and not v[1, 0] != 3 and 3 == v[1, 0]
    assert v[1, 0] < 4 and v[1, 0] <= 3 and v[1, 0] > 2 and v[1, 0] >= 3 and 2 < v[1, 0] < v[1, 1]
    assert v[1, 0] == floats(4)[3] and v[1, 0] != v[0, 0] and v[0, 0] == numpy.float32(0)
    assert v[0, 0] != None  # noqa: E711
    assert view(numpy.array(b"ab"))[()] == b"ab"
    nan = view(numpy.array(math.nan))
    assert nan != nan and not nan == nan
    with pytest.raises(TypeError, match="'<' not supported"):
        assert v[0, 0] < "a"


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_other_views_are_not_compared(compare):
    v = floats(2, 3)
    for shaped in (v, v[0], v[:0], v[:1, :1]):
        for other in (3, None, "a", shaped, v[0, 0], [0, 1, 2], object()):
            with pytest.raises(TypeError, match="use `is None`" if other is None else r"numpy\.asarray\(view\)"):
                compare(shaped, other)
    with pytest.raises(TypeError, match="not compared"):
        compare(v[0, 0], v)


def test_a_view_is_not_hashable_and_not_searched():
    v = floats(3)
    for one in (v, v[0]):
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)
        with pytest.raises(TypeError, match="does not search"):
            1.0 in one  # noqa: B015


# -- numbers


def test_conversions_of_a_view_without_dimensions():
    v = view(numpy.array([2.75, -1.5]))
    assert int(v[0]) == 2 and float(v[0]) == 2.75 and complex(v[1]) == -1.5 and round(v[0]) == 3
    assert round(v[0], 1) == 2.8 and f"{v[0]:.1f}" == "2.8" and f"{v[0]:>6}" == "  2.75" and math.floor(v[1]) == -2
    assert f"{v}" == str(v) and math.sqrt(v[0]) == math.sqrt(2.75)
    whole = view(numpy.array([3, 5], "u1"))
    assert operator.index(whole[0]) == 3 and [10, 20, 30, 40][whole[0]] == 40 and range(9)[whole[1]] == 5
    assert bool(whole[0]) and complex(view(numpy.array(1 + 2j))) == 1 + 2j
    assert floats(8)[whole[1]] == 5.0  # an index of a view


def test_conversions_that_are_refused():
    v = view(numpy.array([2.75, -1.5]))
    for convert in (int, float, complex, round, lambda one: f"{one:.1f}"):
        with pytest.raises(TypeError, match="without dimensions"):
            convert(v)
        with pytest.raises(TypeError, match="without dimensions"):
            convert(v[:1])
    for one in (v[0], view(numpy.array(True)), v, view(numpy.array([1]))):
        with pytest.raises(TypeError, match="integers without dimensions"):
            operator.index(one)
    text = view(numpy.array(b"12"))
    for convert in (int, float, complex, round):
        with pytest.raises(TypeError, match="run of bytes"):
            convert(text)
    with pytest.raises(TypeError):
        int(view(numpy.array(1j)))
    with pytest.raises(ValueError, match="size 1"):
        bool(v)


BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split()


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_is_refused_with_the_libraries_that_do_it(name):
    v, compute = floats(3), getattr(operator, name)
    for left, right in (
        (v, 1),
        (1, v),
        (v, v),
        (v[0], 2.0),
        (2.5, v),
        (v, [1]),
        ("a", v) if name != "mod" else (v, "a"),
    ):
        with pytest.raises(TypeError, match=r"numpy\.asarray\(view\), cupy\.asarray\(view\) or torch\.as_tensor"):
            compute(left, right)
    in_place = getattr(operator, "i" + name.rstrip("_"))
    for other in (1, v, numpy.ones(3, "f4")):
        with pytest.raises(TypeError, match=r"numpy\.asarray"):
            in_place(v, other)


def test_signs_are_refused_too():
    for compute in (operator.neg, operator.pos, operator.abs, operator.invert, lambda one: divmod(one, 2)):
        with pytest.raises(TypeError, match=r"numpy\.asarray"):
            compute(floats(3))


def test_an_array_of_numpy_computes_with_a_view():
    v, ones = floats(3), numpy.ones(3, "f4")
    for result in (v + ones, ones + v):
        assert type(result) is numpy.ndarray and result.tolist() == [1, 2, 3]


# -- assignments


def test_assigning_lists_and_numbers():
    v = view(numpy.zeros((3, 4), "f4"))
    v[0] = [1, 2, 3, 4]
    v[1:, :2] = ((5, 6), (7, 8))
    v[1:, 2] = range(2)
    v[2, 3] = numpy.float64(9)
    v[1, 3] = numpy.int8(-1)
    assert v.tolist() == [[1, 2, 3, 4], [5, 6, 0, -1], [7, 8, 1, 9]]
    v[:, 0] = [Decimal("0.5"), Fraction(1, 4), numpy.float16(2)]
    v[0, 1:] = [v[2, 3], numpy.array(3), True]
    assert v.tolist() == [[0.5, 9, 3, 1], [0.25, 6, 0, -1], [2, 8, 1, 9]]
    v[:, 1:3] = [4, 5]  # broadcast
    v[..., 3] = [6]
    assert v.tolist() == [[0.5, 4, 5, 6], [0.25, 4, 5, 6], [2, 4, 5, 6]]
    v[:0] = 5
    whole = view(numpy.zeros(3, "i2"))
    whole[:] = [1, numpy.uint8(2), True]
    whole[1] = numpy.int64(-7)
    assert whole.tolist() == [1, -7, 1]
    pairs = view(numpy.zeros(2, "c8"))
    pairs[:] = [1j, numpy.complex64(2 - 1j)]
    assert pairs.tolist() == [1j, 2 - 1j]


@pytest.mark.parametrize("shape", [(0,), (1, 0), (5, 0), (2, 3, 0), (0, 3)])
def test_assigning_lists_without_values(shape):
    """NumPy assigns the same lists and refuses the same ones."""
    v, theirs = view(numpy.zeros(shape)), numpy.zeros(shape)
    for values in (theirs.tolist(), [[]], [], [1], [1, 2, 3], [[[1]] * 2] * 4, [[]] * 7):
        try:
            theirs[...] = numpy.array(values)
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                v[...] = values
        else:
            v[...] = values


def test_assignments_that_are_refused_change_nothing():
    v = view(numpy.zeros((2, 2), "i2"))
    for value, error, words in (
        ([[1, 2], [3]], ValueError, "ragged"),
        ([1, [2]], ValueError, "ragged"),
        ([[1], 2], ValueError, "ragged"),
        ([1, 2, 3], ValueError, "broadcast"),
        ([1, 2.5], TypeError, "takes an int"),
        ([1, 40000], ValueError, "does not fit"),
        ([1, None], TypeError, "takes an int"),
        (["a", "b"], TypeError, "takes an int"),
        (numpy.float32(1.5), TypeError, "takes an int"),
        ({1, 2}, TypeError, "not an exporter"),
        ("ab", TypeError, "not an exporter"),
        (None, TypeError, "not an exporter"),
        (numpy.zeros(2), TypeError, "converts nothing"),
    ):
        with pytest.raises(error, match=words):
            v[:] = value
        assert v.tolist() == [[0, 0], [0, 0]], value
    deep = []
    deep.append(deep)
    with pytest.raises((ValueError, RecursionError)):
        v[:] = deep
    with pytest.raises(rawcuda.ProtocolError, match="readonly"):
        view(b"abc")[:] = [1, 2, 3]


def test_a_list_that_changes_or_lies_while_it_is_read():
    """What is stored is what one reading of the list gave, never bytes beside it."""

    class Longer(list):
        def __iter__(self):
            return iter([7] * 100_000)

    class Appends:
        """Its class is asked for between two readings."""

        @property
        def __class__(self):
            values.extend([5] * 1000)
            return int

        def __index__(self):
            return 4

    class Lies(bytes):
        def __len__(self):
            return 2

    v = view(numpy.zeros(3, "i2"))
    for values in (Longer([1, 2, 3]), [1, Appends(), 3], [Lies(1000), 1, 2], [Lies(), 1, 2]):
        with contextlib.suppress(ValueError):
            v[:] = values
        assert not {*v.tolist()} - {0, 1, 3, 4, 5}
    with pytest.raises(ValueError, match="has 2 bytes, not 1000"):
        v[:] = [Lies(1000), 1, 2]
    with pytest.raises(ValueError, match="more than 3 values"):
        v[:] = range(1 << 40)
    wide = view(numpy.zeros(2000, "i2"))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 2000 values"):
            wide[:] = [range(1 << 30)] * 2000  # no list is longer than 2000 by itself, as far as it is read
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


# -- fields


def test_a_field_that_is_an_array_may_make_no_more_dimensions_than_an_array_can_have():
    field = numpy.dtype([("a", "i4", (2, 2))])
    v = view(numpy.zeros(1, field))
    assert v.reshape((1,) * 62)["a"].ndim == 64
    with pytest.raises(IndexError, match="65 dimensions are too many: at most 64"):
        v.reshape((1,) * 63)["a"]


def test_fields():
    kind = numpy.dtype([("a", "i4"), ("b", "f8", (2, 2)), ("c", [("d", "u1"), ("e", "S3")])])
    a = numpy.zeros((2, 3), kind)
    a["a"], a["b"], a["c"]["d"] = 7, numpy.arange(4.0).reshape(2, 2), 5
    v = view(a)
    assert v.dtype.names == ("a", "b", "c") and v["c"].dtype.names == ("d", "e") and v["a"].dtype.names is None
    for name in kind.names:
        assert (
            v[name].shape == a[name].shape
            and v[name].strides == a[name].strides
            and v[name].tobytes() == a[name].tobytes()
        )
    assert v["c"]["d"].tolist() == a["c"]["d"].tolist() and v[0]["b"][1].tolist() == a[0]["b"][1].tolist()
    v["a"][1] = [1, 2, 3]
    v["b"] = [[0, 1], [2, 3]]
    assert a["a"].tolist() == [[7, 7, 7], [1, 2, 3]] and a["b"][1, 2].tolist() == [[0, 1], [2, 3]]
    aligned = numpy.zeros(2, numpy.dtype([("x", "u1"), ("y", "f8")], align=True))
    assert view(aligned)["y"].strides == aligned["y"].strides and view(aligned).dtype.names == ("x", "y")
    assert view(a[:0])["b"].shape == (0, 3, 2, 2)
    for wrong in ("z", "", "a "):
        with pytest.raises(IndexError, match="no field of name .*'a', 'b', 'c'"):
            v[wrong]
    with pytest.raises(IndexError, match="only integers"):
        floats(2)["a"]


def test_dtypes_compare_with_numpys():
    for name in ("f4", "i2", "u8", "c16", "?", "f2"):
        dtype = view(numpy.zeros(1, name)).dtype
        kind = numpy.dtype(name)
        assert (
            dtype == kind and dtype == kind.type and kind == dtype and numpy.dtype(dtype) is kind and not dtype != kind
        )
        assert dtype == kind.str and dtype != numpy.dtype("M8[s]") and dtype != "nonsense"
        assert dtype != object  # noqa: E721
    kind = numpy.dtype([("x", "u1"), ("y", "f8")], align=True)
    dtype = view(numpy.zeros(1, kind)).dtype
    assert dtype == kind and numpy.dtype(dtype) == kind
    assert numpy.dtype(view(numpy.zeros(1, "M8[ms]")).dtype) == numpy.dtype("M8[ms]")
    assert numpy.dtype(view(numpy.zeros(1, "S5")).dtype) == numpy.dtype("S5")
    with pytest.raises(TypeError):
        numpy.dtype(of("float32x4"))


# -- layout, copies, bytes


def test_other_orders_are_those_of_numpy():
    a = numpy.arange(24).reshape(2, 3, 4)
    v = view(a)
    for other, same in (
        (v.swapaxes(0, 2), a.swapaxes(0, 2)),
        (v.swapaxes(-1, 1), a.swapaxes(-1, 1)),
        (v.moveaxis(0, -1), numpy.moveaxis(a, 0, -1)),
        (v.moveaxis((0, 1), (-1, 0)), numpy.moveaxis(a, (0, 1), (-1, 0))),
        (v.ravel(), a.ravel()),
        (v.T.ravel(), a.T.ravel()),
        (v[:, ::2].ravel(), a[:, ::2].ravel()),
        (v[:0].ravel(), a[:0].ravel()),
    ):
        assert other.shape == same.shape and other.tolist() == same.tolist()
    assert v.ravel().ptr == v.ptr and v.T.ravel().ptr != v.ptr
    for wrong in (lambda: v.swapaxes(0, 3), lambda: v.moveaxis(5, 0)):
        with pytest.raises(IndexError, match="out of bounds"):
            wrong()
    for wrong in (
        lambda: v.moveaxis((0, 1), 2),
        lambda: v.moveaxis((0, 0), (1, 2)),
        lambda: v.moveaxis((0, 1), (2, 2)),
    ):
        with pytest.raises(ValueError, match="moveaxis|each axis once"):
            wrong()


def test_flat_and_item():
    a = numpy.arange(6.0).reshape(2, 3)
    v = view(a).T
    assert list(v.flat) == a.T.ravel().tolist() and len(v.flat) == 6 and v.flat[1] == 3.0 and v.flat[-1] == 5.0
    v.flat[1] = 9
    assert a[1, 0] == 9 and list(view(numpy.array(5)).flat) == [5] and list(v[:0].flat) == []
    assert (
        v.item(0, 1) == 9 and v.item((2, 1)) == 5.0 and v.item(1) == 9.0 and v.item(-1) == 5.0 and v[0].item(1) == 9.0
    )
    for index in ((3, 0), (6,), (-7,), (0, 0, 0)):
        with pytest.raises(IndexError):
            v.item(*index)
    with pytest.raises(IndexError):
        v.flat[6]
    for wrong in ("a", 1.0, None, True):
        with pytest.raises(TypeError):
            v.flat[wrong]
    with pytest.raises(IndexError, match="one index for each dimension"):
        view(numpy.zeros((2, 2, 2))).item(0, 0)


def test_bytes_are_those_of_numpy():
    a = numpy.arange(6, dtype="i2").reshape(2, 3)
    for one in (a, a.T, a[:, ::2], a[:, ::-1], a[:0], a[1, 1]):
        v = view(one)
        assert v.tobytes() == bytes(v) == one.tobytes() and v.tobytes("F") == one.tobytes("F")
    with pytest.raises(ValueError, match="order"):
        view(a).tobytes("A")


def test_copies_are_new_memory():
    a = numpy.arange(6, dtype="i2").reshape(2, 3)
    for one in (a, a.T, a[:, ::2]):
        v = view(one)
        copied, deep = v.copy(), copy.deepcopy(v)
        assert copied.tolist() == deep.tolist() == one.tolist() and copied.is_c_contiguous
        assert copied.ptr != v.ptr != deep.ptr and not copied.readonly
    assert copy.deepcopy(view(a.T)).strides == a.T.strides and copy.copy(view(a)).ptr == view(a).ptr


@pytest.mark.parametrize("without_numpy", [False, True])
def test_astype_converts_as_numpy_does(without_numpy, monkeypatch):
    names = (
        "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()
    )
    values = [0, 1, 0.5, 2.5, -1.5, 100, 3e4]
    if without_numpy:
        monkeypatch.setattr(module("arrays.conversion"), "_numpy", lambda: None)
    for old in names:
        with numpy.errstate(all="ignore"):
            a = numpy.array([values, values[::-1]]).astype(old)
        for new in names:
            if old[0] in "fc" and new[0] == "u" or old == "float16" and a.dtype.kind == "f" and new == "int8":
                continue  # C does not define a negative number as an unsigned one, nor one out of range
            if old[0] in "fc" and new in ("int8", "int16"):
                continue
            with numpy.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = a.astype(new)
            made = view(a).astype(new)
            assert made.dtype == new and made.tolist() == wanted.tolist(), (old, new)
    assert view(a).astype(a.dtype, copy=False).ptr == view(a).ptr and view(a).astype(a.dtype).ptr != view(a).ptr
    assert view(numpy.array([1.5, -2])).astype("bfloat16").tolist() == [1.5, -2]
    for wrong in ("S3", "float32x4", "M8[s]"):
        with pytest.raises(TypeError, match="converts numbers"):
            view(a).astype(wrong)
    with pytest.raises(TypeError, match="converts numbers"):
        view(numpy.zeros(2, "S3")).astype("i4")


def test_flags_are_numpys():
    base = numpy.zeros((3, 4))
    for a in (base, base.T, base[:, ::2], base[:1, :1], base[0]):
        v = view(a)
        for key in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED", "C", "F", "FORC", "FNC"):
            assert v.flags[key] == a.flags[key], (key, a)
        assert (v.flags.c_contiguous, v.flags.writeable, v.flags.forc) == (a.flags.c_contiguous, True, a.flags.forc)
    odd = numpy.frombuffer(bytes(17), "u1")[1:].view("f8")
    assert not view(odd).flags.aligned and not view(odd).flags.writeable and "ALIGNED : False" in repr(view(odd).flags)
    assert not v.flags.owndata and v.copy().flags.owndata
    with pytest.raises(KeyError, match="C_CONTIGUOUS"):
        v.flags["nonsense"]


def test_the_size_in_memory_counts_the_elements():
    assert view(numpy.zeros(1000)).__sizeof__() >= 8000 and view(numpy.zeros(0)).__sizeof__() < 1000
    assert 4000 <= view(numpy.zeros(1000))[::-2].__sizeof__() < 5000
    assert sys.getsizeof(view(bytearray(1)).broadcast_to((sys.maxsize,))) < 1000  # they share a byte


# -- text


def test_repr_shows_a_few_values_of_host_memory():
    assert repr(floats(3)).endswith("by dlpack: [0.0, 1.0, 2.0]>") and repr(floats(3)[1]).endswith(": 1.0>")
    assert repr(floats(10)).endswith(": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, ...]>")
    assert repr(floats(3, 1, 2)).endswith(": [[[0.0, 1.0]], [[2.0, 3.0]], ...]>") and repr(floats(0)).endswith(": []>")
    assert repr(view(numpy.zeros(2, "S3"))).endswith("by buffer>")
    assert len(repr(view(numpy.zeros((9,) * 6)))) < 2000
    large = view(array.array("q", [2**40]))
    assert repr(large).endswith(": [1099511627776]>")


def test_repr_of_memory_that_cannot_be_read():
    from tests.null.producers import Shows

    bad = view(Shows(host={"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}))
    assert repr(bad).endswith("by array_interface>")


def test_masked_arrays_are_refused():
    class Own(numpy.ma.MaskedArray):
        pass

    for masked in (numpy.ma.masked_array([1.0, 2], [0, 1]), numpy.ma.masked_array([1.0]), Own([1.0])):
        with pytest.raises(TypeError, match=r"array\.filled"):
            view(masked)
        assert view(masked, protocol="buffer").shape == masked.shape  # who names a protocol asks for the memory
        with pytest.raises(TypeError, match=r"array\.filled"):
            rawcuda.copy(numpy.zeros(masked.shape), masked)
    assert view(masked.data).tolist() == [1.0] and view(masked.filled(0)).tolist() == [1.0]


# -- the range of float types

FLOATS = [name for name, *_ in module("elements.dtypes")._TABLE if of(name).kind == "float" and name != "float128"]


@pytest.mark.parametrize("name", FLOATS)
def test_one_rule_for_the_range_of_all_floats(name):
    """A number that rounds to one beyond the largest is refused, in whatever way it is stored."""
    dtype = of(name)
    v = view(bytearray(4 * dtype.itemsize)).reinterpret(dtype)
    before = v.tobytes()
    wrong = [10**400, -(10**400), Decimal("1e400"), Fraction(10**400)]
    if name != "float64":
        wrong += [1e39, -1e39, numpy.float64(1e39), numpy.array(1e39), 10**39]
        wrong += [numpy.float32(3e38)] * (name not in ("float32", "bfloat16"))
    if numpy.longdouble("1e4000") - numpy.longdouble("1e4000") == 0:
        wrong.append(numpy.longdouble("1e4000"))
    if name not in ("float16", "float32", "float64", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e5m2"):
        wrong += [math.inf, -math.inf, numpy.float32("inf")]
    for value in wrong:
        for store in (
            lambda value: v.__setitem__(0, value),
            lambda value: v.__setitem__(slice(None), value),
            lambda value: v.__setitem__(slice(None), [1, 1, value, 1]),
            v.fill,
        ):
            if isinstance(value, numpy.ndarray) and store is not v.fill:
                continue  # (an array is copied, and has another dtype)
            with pytest.raises(ValueError, match="does not fit|neither zero nor negative"):
                store(value)
    assert v.tobytes() == before
    v.fill(2)
    v[1], v[2:] = numpy.float32(1), [numpy.float64(4), Decimal(2)]
    assert v.tolist() == [2, 1, 4, 2]


def test_astype_never_refuses_a_number(monkeypatch):
    monkeypatch.setattr(module("arrays.conversion"), "_numpy", lambda: None)
    numbers = view(numpy.array([1e39, -1e39, 1.5, math.inf, math.nan]))
    for name, wanted in (
        ("bfloat16", [math.inf, -math.inf, 1.5, math.inf, math.nan]),
        ("float8_e4m3fn", [math.nan, math.nan, 1.5, math.nan, math.nan]),
        ("float8_e5m2fnuz", [math.nan, math.nan, 1.5, math.nan, math.nan]),
        ("float6_e3m2fn", [28, -28, 1.5, 28, 0]),
        ("float8_e8m0fnu", [math.nan, math.nan, 2, math.nan, math.nan]),
        ("float16", [math.inf, -math.inf, 1.5, math.inf, math.nan]),
        ("float32", [math.inf, -math.inf, 1.5, math.inf, math.nan]),
        ("complex64", [math.inf, -math.inf, 1.5, math.inf, math.nan]),
        ("complex32", [math.inf, -math.inf, 1.5, math.inf, math.nan]),
    ):
        found = numbers.astype(name).tolist()
        if name.startswith("complex"):
            assert all(n.imag == 0 for n in found)
            found = [n.real for n in found]
        assert repr([abs(n) if n == 0 else n for n in found]) == repr([float(n) for n in wanted])
    large = view(numpy.array([complex(1e300, -1e300), complex(2, math.nan)]))
    assert repr(large.astype("complex64").tolist()) == repr([complex(math.inf, -math.inf), complex(2, math.nan)])
    assert large.astype("complex128").tobytes() == large.tobytes()


def test_large_integers_are_rounded_once(monkeypatch):
    numbers = [(2**24 + 1) * 2**30 + 1, (2**24 + 1) * 2**30 - 1, (2**24 + 3) * 2**30, 2**62 + 2**38 + 1, 2**63 - 1]
    numbers += [2**60 + 2**36 + offset for offset in (-1, 0, 1)]
    given = numpy.array([*numbers, *(-number for number in numbers)], "i8")
    wanted = given.astype("f4").tolist(), given.astype("c8").tolist(), view(given).astype("f8").tolist()
    monkeypatch.setattr(module("arrays.conversion"), "_numpy", lambda: None)
    made = view(given)
    assert made.astype("float32").tolist() == wanted[0] and made.astype("complex64").tolist() == wanted[1]
    assert made.astype("float64").tolist() == wanted[2]


WAYS = {
    "fill": lambda made, n: made.fill(n),
    "an element": lambda made, n: made.__setitem__(0, n),
    "a list": lambda made, n: made.__setitem__(..., [n]),
    "an int of NumPy": lambda made, n: made.fill(numpy.int64(n)),
    "a list of NumPy's": lambda made, n: made.__setitem__(..., [numpy.int64(n)]),
    "an array of NumPy": lambda made, n: made.fill(numpy.array(n)),
    "a view": lambda made, n: made.fill(view(numpy.array(n))),
    "an enumeration": lambda made, n: made.fill(enum.IntEnum("Large", {"N": n}).N),
}


@pytest.mark.parametrize("name", ["float32", "complex64", "float64", "complex128"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_rounds_a_large_integer_once(way, name):
    for number in [2**53 + 1, 2**53 + 2**29 + 1, *[2**60 + 2**36 + offset for offset in (-1, 0, 1)], -(2**63)]:
        wanted = numpy.array([number]).astype(name).tolist()
        for each, sign in ((number, 1), (-number, -1)):
            if each < 2**63:
                made = rawcuda.view(bytearray(16)).reinterpret(name)[:1]
                WAYS[way](made, each)
                assert made.tolist() == [sign * wanted[0]], each


@pytest.mark.parametrize("new", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float8_e8m0fnu", "bfloat16"])
@pytest.mark.parametrize("old", ["float16", "float32", "float64", "complex64", "int64"])
def test_astype_does_not_depend_on_other_modules(monkeypatch, old, new):
    pytest.importorskip("ml_dtypes")
    values = [3e9, math.nan, 1e20, -3e9, math.inf, -math.inf, -1.5, 300, -129, 0.75, 3, 12, 1.00390625 + 1e-15, 2.0**63]
    with numpy.errstate(all="ignore"):
        given = numpy.array([2**30 + 2**22 + 1, 3] if old == "int64" else values).astype(old)
    found = view(given).astype(new).tobytes()
    monkeypatch.setattr(module("arrays.conversion"), "_numpy", lambda: None)
    assert found == view(given).astype(new).tobytes()


def test_small_integers_are_converted_with_ml_dtypes_loaded():
    pytest.importorskip("ml_dtypes")
    numbers = view(numpy.array([-8, -1, 0, 7], "int8"))
    assert numbers.astype("int4").astype("uint4").tolist() == [8, 15, 0, 7]


@pytest.mark.parametrize("masked", [numpy.ma.masked, numpy.ma.array(5, "i4", mask=True), numpy.ma.array(5.0)])
@pytest.mark.parametrize("name", ["int32", "float32", "float64", "complex64", "bool"])
def test_elements_of_a_masked_array_are_refused(masked, name):
    """In a list, and as the value of a fill: the number under the mask was written."""
    target = view(numpy.full(2, 7, name))
    for write in (
        lambda: target.fill(masked),
        lambda: target.__setitem__(slice(None), [1, masked]),
        lambda: target.__setitem__(0, masked),
    ):
        with pytest.raises(TypeError, match="masked array.*array\\.filled"):
            write()
        assert target.tolist() == numpy.full(2, 7, name).tolist()
