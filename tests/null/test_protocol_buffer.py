"""The buffer protocol in both directions: section 6 of docs/protocols.md from 6.6 on; named after its rules."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import struct
import sys

import pytest

from tests.null.test_dtypes import refused
from tests.subject import module, rawcuda

buffer, pep3118, errors, dtypes = (
    module("protocols.buffer"),
    module("protocols.pep3118"),
    module("errors"),
    module("elements.dtypes"),
)
view, ProtocolError = rawcuda.view, errors.ProtocolError
LITTLE = sys.byteorder == "little"
try:
    import _testbuffer
except ImportError:
    _testbuffer = None


def exported(shape, strides, itemsize=4):
    """Return a memoryview with the fields that an exporter gave; CPython checks none of them."""
    kept = [None if each is None else (ctypes.c_ssize_t * len(each))(*each) for each in (shape, strides)]
    at = [None if each is None else ctypes.addressof(each) for each in kept]
    memory, name = ctypes.create_string_buffer(64), ctypes.create_string_buffer(b"i")
    struct = buffer.Py_buffer(
        ctypes.addressof(memory), None, 12, itemsize, 0, len(shape), ctypes.addressof(name), at[0], at[1], None, None
    )
    make = ctypes.pythonapi.PyMemoryView_FromBuffer
    make.argtypes, make.restype = [ctypes.c_void_p], ctypes.py_object
    return make(ctypes.addressof(struct)), (memory, name, kept)


LARGE = 2 ** (8 * ctypes.sizeof(ctypes.c_ssize_t) - 2)  # half of the largest extent
needs_64_bits = pytest.mark.skipif(LARGE < 2**62, reason="in a browser pointers, size_t and long have 4 bytes")


@pytest.mark.parametrize(
    "shape, strides, itemsize, words",
    [
        ((-3,), (4,), 4, "shape .*negative extent"),
        ((2, -3), (12, 4), 4, "shape .*negative extent"),
        ((-2, -3), (12, 4), 4, "shape .*negative extent"),
        pytest.param((LARGE,), (4,), 4, "shape .*larger than", marks=needs_64_bits),
        pytest.param((LARGE, LARGE, 0), (4, 4, 4), 4, "shape .*larger than", marks=needs_64_bits),
        ((3,), (LARGE,), 4, "strides .*exceed the address space"),
        ((3,), (-2 * LARGE,), 4, "strides .*exceed the address space"),
        ((3,), (4,), -4, "itemsize -4"),
    ],
    ids=["line", "rows", "two", "large", "empty", "strides", "negative strides", "itemsize"],
)
def test_6_19_layouts_that_are_impossible_are_refused(shape, strides, itemsize, words):
    view_of_it, kept = exported(shape, strides, itemsize)
    with pytest.raises(ProtocolError, match=words) as caught:
        view(view_of_it)
    assert caught.value.protocol == "buffer" and kept


@needs_64_bits
@pytest.mark.parametrize("kind", [ctypes.c_char * 8, ctypes.c_char * 2 * 4], ids=["line", "rows"])
def test_6_19_elements_outside_of_the_address_space_are_refused(kind):
    assert view(kind.from_address(2**64 - 9)).ptr == 2**64 - 9
    with pytest.raises(ProtocolError, match="strides .* lead out of the address space from 0xfffffffffffffffe"):
        view(kind.from_address(2**64 - 2))
    below, kept = exported((2,), (-(2**60),))
    with pytest.raises(ProtocolError, match="strides .* lead out of the address space from"):
        view(below)
    assert kept


def test_6_19_layouts_that_reach_no_byte_may_have_any_strides():
    view_of_it, kept = exported((0, 3), (LARGE, 4))
    assert view(view_of_it).shape == (0, 3) and kept


class Structure(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("d", ctypes.c_double)]


class Packed(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("a", ctypes.c_uint8), ("d", ctypes.c_float)]


# -- in


@pytest.mark.parametrize(
    "make, dtype, shape, readonly",
    [
        (lambda: b"abc", "uint8", (3,), True),
        (lambda: bytearray(b"abc"), "uint8", (3,), False),
        (lambda: array.array("d", [1, 2]), "float64", (2,), False),
        (lambda: array.array("l", [1]), f"int{8 * struct.calcsize('l')}", (1,), False),
        (lambda: array.array("Q", [1]), "uint64", (1,), False),
        (lambda: memoryview(b"abcd").cast("H"), "uint16", (2,), True),
        (lambda: memoryview(bytearray(12)).cast("f", (3, 1)), "float32", (3, 1), False),
        (lambda: mmap.mmap(-1, 100), "uint8", (100,), False),
        (lambda: (ctypes.c_int * 3)(1, 2, 3), "int32", (3,), False),
        (lambda: ((ctypes.c_double * 3) * 2)(), "float64", (2, 3), False),
        (lambda: ctypes.c_int64(5), "int64", (), False),
        (lambda: (ctypes.c_bool * 2)(), "bool", (2,), False),
        (lambda: (ctypes.c_char * 4)(), "|S1", (4,), False),
        (lambda: array.array("u", "ab") if sys.version_info < (3, 13) else array.array("w", "ab"), "<U1", (2,), False),
        (lambda: b"", "uint8", (0,), True),
    ],
)
def test_exporters_of_the_standard_library(make, dtype, shape, readonly):
    thing = make()
    v = view(thing)
    assert (str(v.dtype), v.shape, v.readonly, v.protocol, v.device) == (dtype, shape, readonly, "buffer", ("cpu", 0))
    assert v.ptr == address(thing) and v.is_c_contiguous and v.owner.obj is thing or isinstance(thing, memoryview)
    if dtype not in ("|S1", "<U1") and v.size:
        assert (
            v.tolist() == memoryview(thing).cast("B").cast(memoryview(thing).format.lstrip("<"), shape).tolist()
            if shape
            else True
        )
    del v
    if hasattr(thing, "close"):
        thing.close()  # no view holds it any more


def address(thing):
    kept = ctypes.create_string_buffer(80)
    get = (
        ctypes.PyDLL(None)["PyObject_GetBuffer"]
        if sys.platform != "win32"
        else ctypes.PyDLL("", handle=sys.dllhandle)["PyObject_GetBuffer"]
    )
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get(thing, ctypes.addressof(kept), 0x11C)
    found = ctypes.c_void_p.from_buffer(kept).value
    release = (
        ctypes.PyDLL(None)["PyBuffer_Release"]
        if sys.platform != "win32"
        else ctypes.PyDLL("", handle=sys.dllhandle)["PyBuffer_Release"]
    )
    release.argtypes, release.restype = [ctypes.c_void_p], None
    release(ctypes.addressof(kept))
    return found


def test_6_6_a_buffer_is_held_while_it_is_viewed_and_released_once():
    data = bytearray(b"abc")
    v = view(data)
    w = v[1:]
    del v
    with pytest.raises(BufferError, match="exports|existing"):
        data.append(1)
    del w
    data.append(1)  # released
    before = sys.getrefcount(data)
    for _ in range(1000):
        view(data)
    assert sys.getrefcount(data) == before


def test_6_7_an_exporters_own_errors():
    numpy = pytest.importorskip("numpy")
    dates = numpy.array(["2026-01-01"], "M8[s]")
    with pytest.raises(ValueError, match="buffer"):
        view(dates, protocol="buffer")
    v = view(dates)  # NumPy's DLPack refuses; the array interface can express it
    assert v.protocol == "array_interface" and str(v.dtype) == "datetime64[s]" and v.tolist() == [dates.tobytes()]


def test_a_type_error_of_an_exporter_is_its_own():
    cpython = module("interpreter.cpython")  # PyObject_Size() fails like a getbuffer function, with a TypeError
    kind = cpython.type_with_slots("tests.Fails", object, 0, (1, cpython.address_of("PyObject_Size")))
    with pytest.raises(TypeError, match=r"'tests.Fails' has no len\(\)|'Fails' has no len\(\)"):
        view(kind(), protocol="buffer")


def test_structures_in_structures():
    for depth in 20, 21:  # the deepest that is read, and one that is only copied
        format = "T{" * depth + "i:a:" + "}:x:" * (depth - 1) + "}"
        assert ("'a'" in str(pep3118.dtype_of(format, 4))) == (depth == 20)


def test_a_structure_is_read_once_however_deep_it_lies(monkeypatch):
    read, fields = [], dtypes._fields
    monkeypatch.setattr(dtypes, "_fields", lambda *given: read.append(1) or fields(*given))
    assert pep3118.dtype_of("T{" * 12 + "h:q:" + "}:x:" * 11 + "}", 2).itemsize == 2 and len(read) == 12


@pytest.mark.skipif(_testbuffer is None, reason="this Python has no _testbuffer")
def test_6_8_suboffsets_are_refused_unless_all_are_negative():
    rows = _testbuffer.ndarray(list(range(6)), shape=[2, 3], format="i", flags=_testbuffer.ND_PIL)
    assert memoryview(rows).suboffsets
    refused(view, rows, protocol="buffer", field="suboffsets")
    assert view(_testbuffer.ndarray(list(range(6)), shape=[2, 3], format="i")).tolist() == [[0, 1, 2], [3, 4, 5]]
    single = _testbuffer.ndarray([7], shape=[], format="i")
    assert view(single).shape == () and view(single).tolist() == 7


def test_6_8_ctypes_gives_no_strides():
    v = view(((ctypes.c_short * 3) * 2)((1, 2, 3), (4, 5, 6)))
    assert v.strides == (6, 2) and v.T.tolist() == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize("is_known", [True, False])
def test_6_9_the_address_is_the_first_elements(monkeypatch, is_known):
    if not is_known:  # where a memoryview has the address
        monkeypatch.setattr(buffer, "_offset", 0)
        monkeypatch.setattr(buffer, "_read_buf", module("interpreter.cpython").unpacker("Q"))
    exporter = bytearray(range(6))
    m = memoryview(exporter)[::-2]
    v = view(m)
    assert v.strides == (-2,) and v.tolist() == [5, 3, 1] and v.ptr == address(m) == buffer.address_of(m)
    del v, m
    exporter.append(6)  # no buffer is left
    numpy = pytest.importorskip("numpy")
    a = numpy.arange(3)[::-1]
    assert view(a, protocol="buffer").ptr == a.__array_interface__["data"][0] and view(
        a, protocol="buffer"
    ).strides == (-8,)


def test_6_10_the_itemsize_is_trusted_over_the_format():
    v = view((Structure * 2)())
    assert v.itemsize == 16 and v.shape == (2,) and v.dtype.kind == "opaque"
    w = view((Packed * 2)())
    assert w.itemsize == 5 and w.dtype.kind == "opaque"
    for nested, size in (("T{=e:x:b:y:@e:z:}", 12), ("=T{b:x:@h:y:}", 9)):  # NumPy aligns in the outermost structure
        assert str(pep3118.dtype_of(f"T{{i:a:b:b:{nested}:s:}}", size)) == f"|V{size}"
    assert str(pep3118.dtype_of("T{<i:a:<d:b:}", 16)) == "|V16"  # ctypes before gh-76961: the format is wrong
    assert pep3118.dtype_of("T{<i:a:<d:b:}", 16).format == "16x"  # NumPy would refuse it if it were passed on
    assert pep3118.dtype_of("<l", 8).kind == "opaque" and pep3118.dtype_of("f", 8).kind == "opaque"
    assert pep3118.dtype_of(None, 1) is dtypes.of("uint8") and pep3118.dtype_of("", 4).kind == "opaque"


@pytest.mark.parametrize(
    "format, itemsize, name",
    [
        ("?", 1, "bool"),
        ("b", 1, "int8"),
        ("B", 1, "uint8"),
        ("h", 2, "int16"),
        ("H", 2, "uint16"),
        ("i", 4, "int32"),
        ("I", 4, "uint32"),
        ("q", 8, "int64"),
        ("Q", 8, "uint64"),
        ("e", 2, "float16"),
        ("f", 4, "float32"),
        ("d", 8, "float64"),
        ("g", 16, "float128"),
        ("l", struct.calcsize("l"), f"int{8 * struct.calcsize('l')}"),
        ("L", struct.calcsize("l"), f"uint{8 * struct.calcsize('l')}"),
        ("n", 8, "int64"),
        ("N", 8, "uint64"),
        ("<l", 4, "int32"),
        ("=L", 4, "uint32"),
        ("^l", struct.calcsize("l"), f"int{8 * struct.calcsize('l')}"),
        ("@i", 4, "int32"),
        ("=i", 4, "int32"),
        ("<i", 4, "int32"),
        ("|B", 1, "uint8"),
        (">B", 1, "uint8"),
        ("!?", 1, "bool"),
        (">s", 1, "|S1"),
        ("Ze", 4, "complex32"),
        ("Zf", 8, "complex64"),
        ("Zd", 16, "complex128"),
        ("Zg", 32, "complex256"),
        ("<Zd", 16, "complex128"),
        ("F", 8, "complex64"),
        ("<D", 16, "complex128"),
        ("G", 32, "complex256"),
        ("c", 1, "|S1"),
        ("s", 1, "|S1"),
        ("3s", 3, "|S3"),
        ("p", 1, "|V1"),
        ("4x", 4, "|V4"),
        ("P", 8, "|V8"),
        ("w", 4, "<U1"),
        ("2w", 8, "<U2"),
        ("u", 4, "<U1"),
        ("<u", 4, "<U1"),
        ("<2w", 8, "<U2"),
        ("u", 2, "|V2"),
        ("3i", 12, "|V12"),
        ("(2,3)f", 24, "|V24"),
        ("(2)<h", 4, "|V4"),
        ("t", 1, "|V1"),
        ("&i", 8, None),
        ("O", 8, None),
        ("X{}", 8, None),
        ("<z", 8, None),
        ("<Z", 8, None),
        ("T{<i:number:<z:text:}", 12, None),
        ("T{<Z:text:<i:number:}", 12, None),
        ("T{i:a:d:b:}", 16, "{'names': ['a', 'b'], 'formats': ['<i4', '<f8'], 'offsets': [0, 8], 'itemsize': 16}"),
        ("T{i:a:=d:b:}", 12, "[('a', '<i4'), ('b', '<f8')]"),
        ("T{=i:a:d:b:}", 12, "[('a', '<i4'), ('b', '<f8')]"),
        ("T{Zf:a:f:b:}", 12, "[('a', '<c8'), ('b', '<f4')]"),
        ("T{B:a:Zf:b:}", 12, "{'names': ['a', 'b'], 'formats': ['u1', '<c8'], 'offsets': [0, 4], 'itemsize': 12}"),
        ("T{B:a:f:b:}", 8, "{'names': ['a', 'b'], 'formats': ['u1', '<f4'], 'offsets': [0, 4], 'itemsize': 8}"),
        ("T{i:a:P:b:}", 16, "{'names': ['a', 'b'], 'formats': ['<i4', 'V8'], 'offsets': [0, 8], 'itemsize': 16}"),
        ("T{=i:a:P:b:}", 12, "[('a', '<i4'), ('b', 'V8')]"),
        ("T{B:a:xxxf:b:}", 8, "{'names': ['a', 'b'], 'formats': ['u1', '<f4'], 'offsets': [0, 4], 'itemsize': 8}"),
        ("T{(2)i:a:T{B:x:(3)^f:y:}:b:}", 21, "[('a', '<i4', (2,)), ('b', [('x', 'u1'), ('y', '<f4', (3,))])]"),
        ("T{3s:name:2w:text:}", 12, None),
        ("^T{3s:name:2w:text:}", 11, "[('name', 'S3'), ('text', '<U2')]"),
        ("T{>i:a:}", 4, "|V4"),
        ("T{i:a:", 4, "|V4"),
        ("(2i", 8, "|V8"),
        ("(a)i", 8, "|V8"),
        ("²i", 8, "|V8"),
        ("(²)i", 8, "|V8"),
        ("99999999999999999999i", 4, "|V4"),
        ("i:a", 4, "|V4"),
        ("T{" * 30, 1, "|V1"),
        ("ii", 8, "|V8"),
        ("i:a: i:b:", 8, "[('a', '<i4'), ('b', '<i4')]"),
        ("Zx", 4, "|V4"),
        ("k", 4, "|V4"),
    ],
)
@pytest.mark.skipif(not LITTLE, reason="the names are for a little-endian machine")
def test_6_11_6_12_6_13_the_format_language(format, itemsize, name):
    if name is None and set(format) & set("&OXzZ"):
        refused(pep3118.dtype_of, format, itemsize, protocol="buffer", field="format", value=repr(format))
        return
    dtype = pep3118.dtype_of(format, itemsize)
    assert dtype.itemsize == itemsize
    if name is not None:
        assert str(dtype) == name
    if name is None:
        assert dtype.kind == "opaque"


@pytest.mark.parametrize(
    "format, itemsize", [(">i", 4), ("!d", 8), (">Zf", 8), (">w", 4)] if LITTLE else [("<i", 4), ("<d", 8)]
)
def test_6_14_other_byte_order(format, itemsize):
    refused(pep3118.dtype_of, format, itemsize, protocol="buffer", field="format", value=repr(format))


def test_6_11_what_numpy_writes():
    numpy = pytest.importorskip("numpy")
    for what in (
        "?",
        "b",
        "B",
        "h",
        "H",
        "i",
        "I",
        "l",
        "L",
        "q",
        "Q",
        "e",
        "f",
        "d",
        "g",
        "F",
        "D",
        "G",
        "S3",
        "U2",
        "V4",
        [("a", "<i4"), ("b", "<f8")],
        [("a", "<i4", (2,)), ("b", [("x", "u1"), ("y", "<f4", (3,))])],
        {"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 16},
        numpy.dtype([("a", "i1"), ("b", "f8")], align=True),
    ):
        a = numpy.zeros((2, 3), what)
        v, w = view(a, protocol="buffer"), view(a, protocol="array_interface")
        assert v.itemsize == w.itemsize == a.itemsize and v.shape == a.shape and v.strides == a.strides
        assert str(v.dtype) == str(w.dtype) or a.dtype.isalignedstruct, (str(v.dtype), str(w.dtype))
        b = numpy.asarray(v.memoryview())  # and back by the same protocol
        assert b.dtype == numpy.asarray(memoryview(a)).dtype and b.shape == a.shape and numpy.shares_memory(a, b)


def test_6_15_read_only():
    numpy = pytest.importorskip("numpy")
    assert view(numpy.broadcast_to(numpy.zeros(3), (2, 3)), protocol="buffer").readonly
    assert not view(bytearray(3)).readonly and view(memoryview(bytearray(3)).toreadonly()).readonly


# -- out


def test_6_17_memoryview_of_a_view():
    data = bytearray(range(24))
    v = view(data).reshape(2, 3, 4)[:, ::-1, ::2].T
    m = v.memoryview()
    assert (m.shape, m.strides, m.format, m.itemsize, m.readonly, m.ndim) == ((2, 3, 2), (2, -4, 12), "B", 1, False, 3)
    assert m.tolist() == v.tolist()
    before = sys.getrefcount(data)
    del v
    gc.collect()
    assert m.tolist()[0][0] == [8, 20]  # it keeps the memory
    m[0, 0, 0] = 99
    assert data[8] == 99
    with pytest.raises(BufferError):
        data.append(1)
    del m
    gc.collect()
    data.append(1)
    assert sys.getrefcount(data) <= before


def test_6_17_read_only_and_empty_and_single():
    m = view(b"abc").memoryview()
    assert m.readonly and bytes(m) == b"abc"
    with pytest.raises(TypeError):
        m[0] = 1
    assert view(bytearray(0)).memoryview().tolist() == [] and view(bytearray(12)).reinterpret("float32")[
        :0
    ].memoryview().shape == (0,)
    single = view(array.array("d", [2.5]))[0].memoryview()
    assert single.ndim == 0 and single[()] == 2.5 and single.shape == ()
    assert view(bytearray(16)).reinterpret("complex64").memoryview().format == "Zf"


def test_6_17_many_memoryviews_leave_nothing():
    data = bytearray(64)
    v = view(data)
    before = sys.getrefcount(v), sys.getrefcount(data), len(gc.get_objects())
    for _ in range(3000):
        memoryview(v[::2].memoryview())[1:].tobytes()
    gc.collect()
    after = sys.getrefcount(v), sys.getrefcount(data), len(gc.get_objects())
    assert after[:2] == before[:2] and after[2] - before[2] < 20


def test_6_17_near_the_recursion_limit_there_is_a_memoryview_or_an_error(python):
    """A callback that Python could not enter left the buffer as it was: of memory that had been freed."""
    code = """
        import pickle, sys
        from tests.subject import rawcuda

        data = bytes(range(64))
        a = rawcuda.view(bytearray(data))
        assert bytes(a.memoryview()) == data == pickle.loads(pickle.dumps(a, 5)).tobytes()

        def at(depth, call):
            return call() if not depth else at(depth - 1, call)

        right = 0
        sys.setrecursionlimit(400)
        for call in (a.memoryview, lambda: pickle.dumps(a, 5)):
            for depth in range(300, 400):
                many = [memoryview(bytearray(b"another's" * 9)) for _ in range(300)]
                del many
                try:
                    made = at(depth, call)
                except RecursionError:
                    continue
                assert (bytes(made) if type(made) is memoryview else pickle.loads(made).tobytes()) == data
                right += 1
        print(0 < right < 200)
    """
    result = python(code, check=True)
    assert result.stdout == "True\n" and not result.stderr


def test_6_17_memoryviews_of_another_layout_are_refused(monkeypatch):
    monkeypatch.setattr(module("interpreter.buffer_type"), "_KNOWN", False)
    with pytest.raises(BufferError, match="is not known: read the elements with tolist"):
        view(bytearray(4)).memoryview()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ is new in Python 3.12")
def test_6_17_python_3_12_asks_for_the_buffer_itself():
    v = view(bytearray(range(6)))
    assert memoryview(v).tolist() == list(range(6)) and bytes(v) == bytes(range(6))
    assert struct.unpack_from("3B", v, 2) == (2, 3, 4)
    file = open(__file__, "rb")
    with file:
        assert file.readinto(v) == 6  # a writable buffer is requested
    with pytest.raises((BufferError, TypeError)), open(__file__, "rb") as file:
        file.readinto(view(b"abcdef"))


def test_a_view_is_viewed_by_the_buffer_protocol_of_its_own_memoryview():
    v = view(bytearray(range(12))).reshape(3, 4)[:, 1:3]
    w = view(v.memoryview())
    assert w.protocol == "buffer" and w.tolist() == v.tolist() and w.strides == v.strides and w.ptr == v.ptr


def test_6_16_a_pending_export_pins_a_bytearray():
    data = bytearray(8)
    capsule = view(data).__dlpack__()
    with pytest.raises(BufferError):
        data.extend(b"x")
    del capsule
    data.extend(b"x")


def test_a_format_with_more_extents_than_an_array_has_is_bytes():
    """The product of any number of them took time with the square of their number."""
    pep3118 = module("protocols.pep3118")
    assert pep3118._Reader(f"({'1,' * 64})B").items("")[0][0].shape == (1,) * 64
    with pytest.raises(pep3118._Unreadable):
        pep3118._Reader(f"({'1,' * 65})B").items("")
    assert pep3118.dtype_of(f"({'1,' * 65})B", 8).typestr == "|V8"
