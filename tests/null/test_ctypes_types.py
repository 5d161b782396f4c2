"""Objects of ctypes are read by their classes: each field is where ctypes has it, or the dtype says why it has none."""

from __future__ import annotations

import ctypes
import gc
import pickle
import random
import struct
import sys
import weakref

import pytest

from tests.conftest import frees_classes
from tests.subject import module, rawcuda

types, errors, choosing, buffer = (
    module("elements.ctypes_types"),
    module("errors"),
    module("protocols.choosing"),
    module("protocols.buffer"),
)
view, explain = rawcuda.view, rawcuda.explain
LITTLE = sys.byteorder == "little"
SIMPLE = [
    ctypes.c_bool, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort, ctypes.c_int, ctypes.c_uint,
    ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_ssize_t,
    ctypes.c_float, ctypes.c_double,
]  # fmt: skip


def packed(*fields, pack=1):
    """Return a packed structure; Python 3.14 wants to know by whose rules."""
    return type("Packed", (ctypes.Structure,), {"_pack_": pack, "_layout_": "ms", "_fields_": list(fields)})


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_double)]


class Longer(Pair):
    _fields_ = [("c", ctypes.c_int8), ("d", ctypes.c_int64)]


class Hiding(Pair):
    _fields_ = [("a", ctypes.c_int16)]


class Number(ctypes.Union):
    _fields_ = [("i", ctypes.c_int32), ("d", ctypes.c_double)]


class Tagged(ctypes.Structure):
    _anonymous_ = ("value", "pair")
    _fields_ = [("tag", ctypes.c_uint8), ("value", Number), ("pair", Pair)]


class Flags(ctypes.Structure):
    _fields_ = [("low", ctypes.c_int32, 16), ("high", ctypes.c_int32, 16), ("x", ctypes.c_int64)]


class Byte(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint8, 4), ("high", ctypes.c_uint8, 4)]


class Big(ctypes.BigEndianStructure if LITTLE else ctypes.LittleEndianStructure):
    _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_double)]


def value_of(thing):
    """Return what ctypes reads, as lists and plain numbers."""
    if isinstance(thing, ctypes.Array) and not isinstance(thing, bytes):
        return [value_of(thing[i]) for i in range(len(thing))]
    return thing.value if isinstance(thing, ctypes._SimpleCData) else thing


def compared(thing, seen):
    """Compare a structure with a view of it, field by field."""
    kind = type(thing)
    assert seen.shape == () and seen.itemsize == ctypes.sizeof(kind) and not seen.dtype.reason
    assert seen.ptr == ctypes.addressof(thing)
    names = dict.fromkeys(entry[0] for base in reversed(kind.__mro__) for entry in vars(base).get("_fields_", ()))
    assert set(seen.dtype.names or ()) == set(names)
    for name in names:
        inner, part = getattr(thing, name), seen[name]
        assert part.ptr == seen.ptr + getattr(kind, name).offset
        if isinstance(inner, ctypes.Structure):
            compared(inner, part)
        elif isinstance(inner, ctypes.Array):
            compared_array(inner, part)
        else:
            assert part.tolist() == value_of(inner)


def compared_array(array, seen):
    """Compare an array, which may be one of arrays or of structures, with a view of it."""
    assert seen.shape[0] == len(array)
    if not issubclass(types.element_of(type(array)), ctypes.Structure):
        assert seen.tolist() == value_of(array)
        return
    for i in range(len(array)):
        (compared_array if isinstance(array[i], ctypes.Array) else compared)(array[i], seen[i])


def random_structure(choose, depth=0):
    """Return a class of structures: packed, aligned, derived and nested, with arrays and arrays of structures."""
    fields = []
    for n in range(choose.randint(1, 5)):
        nested = depth < 2 and choose.random() < 0.3
        kind = random_structure(choose, depth + 1) if nested else choose.choice(SIMPLE)
        for _ in range(choose.choice((0, 0, 1, 2))):
            kind *= choose.randint(1, 3)
        fields.append((f"f{n}_{depth}", kind))
    if choose.random() < 0.3:
        return packed(*fields, pack=choose.choice((1, 2, 4)))
    base = type("Base", (ctypes.Structure,), {"_fields_": fields})
    if choose.random() < 0.4:
        return type("Derived", (base,), {"_fields_": [("own", choose.choice(SIMPLE)), ("more", ctypes.c_int8)]})
    return base


def filled(kind, choose):
    """Return an object whose bytes are random, but each of its bools 0 or 1."""
    return kind.from_buffer(bytearray(choose.choices((0, 1), k=ctypes.sizeof(kind))))


@pytest.mark.parametrize("seed", range(40))
def test_each_field_is_where_ctypes_has_it(seed):
    choose = random.Random(seed)
    kind = random_structure(choose)
    one = filled(kind, choose)
    compared(one, view(one))
    compared(one, view(memoryview(one)))
    compared(one, view(one, protocol="buffer"))
    several = (kind * 3)(*[filled(kind, choose) for _ in range(3)])
    for seen in view(several), view(memoryview(several)):
        assert seen.shape == (3,) and seen.strides == (ctypes.sizeof(kind),)
        for i in range(3):
            compared(several[i], seen[i])
    assert view(memoryview(several)[1:]).dtype is view(several).dtype is view(one).dtype
    assert pickle.loads(pickle.dumps(view(one).dtype)) is view(one).dtype
    assert view(view(several).memoryview()).dtype is view(several).dtype
    numpy = pytest.importorskip("numpy")
    own = numpy.asarray(view(several))
    assert own.dtype == view(several).dtype and own.dtype.itemsize == ctypes.sizeof(kind)
    assert own.ctypes.data == ctypes.addressof(several)


def test_padding_base_classes_packing_and_nesting():
    two = (Pair * 2)((1, 2.5), (3, 4.5))
    assert view(two)["b"].tolist() == [2.5, 4.5] and view(two).dtype.names == ("a", "b")
    view(two)["b"][1] = 7
    assert two[1].b == 7
    longer = Longer(1, 2.5, 3, 4)
    assert view(longer).dtype.names == ("a", "b", "c", "d")
    assert [view(longer)[name].item() for name in "abcd"] == [1, 2.5, 3, 4]
    tight = packed(("a", ctypes.c_int8), ("b", ctypes.c_double), ("c", Pair * 2))(1, 2.5, two)
    assert view(tight)["b"].item() == 2.5 and view(tight)["c"]["b"].tolist() == [2.5, 7]
    assert view(packed(("a", ctypes.c_int8))(5))["a"].item() == 5  # (its format was that of a byte)


def test_a_field_hides_one_of_a_base_class():
    hiding = Hiding()
    hiding.a = 7
    Pair.a.__set__(hiding, -1)
    assert view(hiding)["a"].dtype == "int16" and view(hiding)["a"].item() == 7
    assert view(hiding).dtype.names == ("b", "a")


def test_a_field_that_is_not_what_fields_says():
    class Changed(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_int64)]

    Changed._fields_[1] = ("b", ctypes.c_int16)
    assert view(Changed()).dtype == "|V16" and "'b' was changed" in view(Changed()).dtype.reason

    class Replaced(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int32)]

    Replaced.a = 5
    assert "'a' was changed" in view(Replaced()).dtype.reason
    three = ctypes.c_int32 * 3

    class Longer(ctypes.Structure):
        _fields_ = [("a", three * 2)]

    three._length_ = 1000
    assert view(Longer()).dtype == "|V24" and "'a' was changed" in view(Longer()).dtype.reason


@pytest.mark.parametrize(
    "kind, reason",
    [
        (Flags, "it has bit fields"),
        (Byte, "it has bit fields"),
        (Number, "it is a union"),
        (type("Small", (ctypes.Union,), {"_fields_": [("a", ctypes.c_uint8), ("b", ctypes.c_int8)]}), "it is a union"),
        (type("More", (Flags,), {"_fields_": [("y", ctypes.c_int8)]}), "it has bit fields"),
        (Big, "it has the other byte order"),
        (type("Around", (ctypes.Structure,), {"_fields_": [("n", ctypes.c_int8), ("b", Big)]}), "other byte order"),
    ],
)
def test_what_has_no_fields_says_why(kind, reason):
    for one in kind(), (kind * 2)():
        seen = view(one)
        assert seen.dtype.names is None and reason in seen.dtype.reason and seen.itemsize == ctypes.sizeof(kind)
        assert seen.tobytes() == bytes(one)
        for name in "low", "a", "y":
            with pytest.raises(IndexError, match=f"no field of name '{name}': .*{reason}"):
                seen[name]
        assert seen.download().tobytes() == bytes(one) and reason in str(explain(one))
        assert pickle.loads(pickle.dumps(seen.dtype)) is seen.dtype
        again = view(memoryview(one))
        assert again.dtype is seen.dtype or seen.itemsize == 1


def test_the_reason_of_one_field_leaves_the_others():
    one = Tagged(tag=3)
    one.d, one.a, one.b = 2.5, 7, 1.5  # (of the anonymous ones)
    seen = view(one)
    assert seen.dtype.names == ("tag", "value", "pair") and seen["tag"].item() == 3
    assert seen["value"].dtype.reason.startswith("it is a union") and seen["value"].tobytes() == bytes(one.value)
    assert seen["value"].reinterpret("float64").item() == 2.5 and seen["pair"]["b"].item() == 1.5

    class Outer(ctypes.Structure):
        _fields_ = [("flags", Flags), ("x", ctypes.c_float)]

    assert view(Outer(Flags(1, 2, 3), 2.5))["x"].item() == 2.5 and "bit" in view(Outer())["flags"].dtype.reason


def test_numpy_reads_the_other_byte_order_itself():
    numpy = pytest.importorskip("numpy")
    seen = numpy.asarray(view((Big * 2)((1, 2.5), (3, 4.5))))
    assert seen["a"].tolist() == [1, 3] and seen["b"].tolist() == [2.5, 4.5] and seen.dtype == numpy.dtype(Big)


class Wide(ctypes.c_int32):
    """A subclass, whose objects ctypes does not turn into numbers."""


@pytest.mark.parametrize(
    "kind, name",
    [
        (ctypes.c_bool, "bool"),
        (ctypes.c_char, "|S1"),
        (ctypes.c_size_t, f"uint{8 * struct.calcsize('N')}"),
        (ctypes.c_ssize_t, f"int{8 * struct.calcsize('n')}"),
        (ctypes.c_void_p, f"uint{8 * struct.calcsize('P')}"),
        (ctypes.c_long, f"int{8 * struct.calcsize('l')}"),
        (Wide, "int32"),
    ],
)
def test_simple_types(kind, name):
    holder = type("Holder", (ctypes.Structure,), {"_fields_": [("before", ctypes.c_int8), ("it", kind)]})
    for seen in view((kind * 3)()), view((holder * 3)())["it"], view(memoryview((kind * 3)())), view(kind()):
        assert str(seen.dtype) == name and not seen.dtype.reason
    assert types.of_ctypes(kind) == name


def test_types_that_differ_between_platforms():
    """They are the type of their size, or bytes with a reason; a long double of eight bytes is a double."""
    for kind, names in (
        (ctypes.c_wchar, {2: "|V2", 4: "<U1" if LITTLE else ">U1"}),
        (ctypes.c_longdouble, {8: "float64", 12: "|V12", 16: "float128"}),
    ):
        dtype = types.of_ctypes(kind)
        assert str(dtype) == names[ctypes.sizeof(kind)] and bool(dtype.reason) == (str(dtype)[:2] == "|V")
        holder = type("Holder", (ctypes.Structure,), {"_fields_": [("before", ctypes.c_int8), ("it", kind)]})
        assert view(holder())["it"].dtype is dtype
    assert str(types._of_simple("u", 2)) == str(types._of_simple("g", 12)) == "None"
    assert [str(types._of_simple(code, size)) for code, size in (("C", 16), ("E", 8), ("F", 8), ("G", 32))] == [
        "complex128", "complex64", "complex64", "complex256",
    ]  # fmt: skip


REFUSED = [
    ctypes.py_object,
    ctypes.c_char_p,
    ctypes.c_wchar_p,
    ctypes.POINTER(ctypes.c_int),
    ctypes.POINTER(Pair),
    ctypes.CFUNCTYPE(None),
]


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_pointers_and_objects_are_refused(kind):
    what = "Python object" if kind is ctypes.py_object else "pointer"
    fields = [("n", ctypes.c_int32), ("p", kind)]
    holder = type("Holder", (ctypes.Structure,), {"_fields_": fields})
    union = type("Either", (ctypes.Union,), {"_fields_": fields})
    bits = type("Bits", (ctypes.Structure,), {"_fields_": [("b", ctypes.c_int32, 3), *fields]})
    for thing in (kind * 2)(), holder(), (holder * 2)(), packed(*fields)(), union(), bits(), (union * 2)():
        with pytest.raises(errors.ProtocolError, match=what):
            view(thing)
        with pytest.raises(errors.ProtocolError, match=what):
            view(thing, protocol="buffer")


@pytest.mark.parametrize("swapped", [ctypes.c_int32, ctypes.c_double], ids=lambda kind: kind.__name__)
def test_numbers_in_the_other_byte_order_are_refused(swapped):
    other = swapped.__ctype_be__ if LITTLE else swapped.__ctype_le__
    for thing in other(), (other * 2)():
        with pytest.raises(errors.ProtocolError, match="other byte order"):
            view(thing)
    assert types.is_swapped(other) and types.is_swapped(other * 2) and types.is_swapped(Big * 2)
    assert not types.is_swapped(swapped) and not types.is_swapped(Pair) and not types.is_swapped(ctypes.c_byte)


def test_a_memoryview_that_was_cast_has_its_own_type():
    two = (Pair * 2)((1, 2.5), (3, 4.5))
    cast = view(memoryview(two).cast("B"))
    assert cast.dtype == "uint8" and cast.shape == (32,)
    sliced = view(memoryview(two)[::-1])
    assert sliced["a"].tolist() == [3, 1] and sliced.strides == (-16,)


@frees_classes
def test_nothing_keeps_a_class_alive():
    kind = type("Brief", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int8), ("b", ctypes.c_int64)]})
    assert view(kind())["b"].item() == 0
    gone = weakref.ref(kind)
    del kind
    gc.collect()
    assert gone() is None


def test_empty_structures_and_arrays():
    class Nothing(ctypes.Structure):
        _fields_ = []

    assert view(Nothing()).itemsize == 0 and view((Pair * 0)()).shape == (0,)
    assert view((Pair * 0)())["b"].shape == (0,) and view((Pair * 0)()).dtype is view(Pair()).dtype


def test_a_field_of_a_view_without_fields():
    for exporter in bytearray(8), (ctypes.c_float * 2)():
        with pytest.raises(IndexError, match="no field of name 'a': dtype .* has no fields: only integers, slices"):
            view(exporter)["a"]
