"""Element types: one table with every name of each type, and the refused names."""

from __future__ import annotations

import ctypes
import pickle
import struct

import pytest

from tests.subject import module, rawcuda

dtypes, errors, scalars, pep3118 = (
    module("elements.dtypes"),
    module("errors"),
    module("elements.scalars"),
    module("protocols.pep3118"),
)

NAMES = [row[0] for row in dtypes._TABLE]
# 1.12, 1.13: as in dlpack.h 1.3
CANONICAL = {
    "bool": (6, 8, 1),
    "int8": (0, 8, 1),
    "int16": (0, 16, 1),
    "int32": (0, 32, 1),
    "int64": (0, 64, 1),
    "uint8": (1, 8, 1),
    "uint16": (1, 16, 1),
    "uint32": (1, 32, 1),
    "uint64": (1, 64, 1),
    "float16": (2, 16, 1),
    "float32": (2, 32, 1),
    "float64": (2, 64, 1),
    "bfloat16": (4, 16, 1),
    "complex32": (5, 32, 1),
    "complex64": (5, 64, 1),
    "complex128": (5, 128, 1),
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
    "float32x4": (2, 32, 4),
    "float4_e2m1fnx2": (17, 4, 2),
    "float16x2": (2, 16, 2),
    "uint8x3": (1, 8, 3),
}


def refused(call, *arguments, protocol, field, value=None, **keywords):
    """Return the ProtocolError that a call raises, and check that it names protocol, field and value."""
    with pytest.raises(errors.ProtocolError) as caught:
        call(*arguments, **keywords)
    error = caught.value
    assert isinstance(error, BufferError)
    assert (error.protocol, error.field) == (protocol, field)
    assert str(error).startswith(f"{protocol}: ") and (value is None or value in str(error))
    return error


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_type_leads_to_it(name):
    dtype = dtypes.of(name)
    assert str(dtype) == dtype.name == name and dtype == name and repr(dtype) == f"DType({name!r})"
    assert dtypes.of(dtype) is dtype and pickle.loads(pickle.dumps(dtype)) is dtype and hash(dtype) == hash(name)
    if dtype.code is not None:
        assert dtypes.from_dlpack(dtype.code, dtype.bits, 1, dtype.padded) is dtype
    if dtype.typestr[1] != "V":
        assert dtypes.from_typestr(dtype.typestr) is dtype and dtypes.of(dtype.typestr) is dtype
    if not dtype.format.endswith("x"):
        assert pep3118.dtype_of(dtype.format, dtype.itemsize) is dtype
    if dtype.code is not None and dtype.kind in ("int", "uint", "float") and dtype.format in "bBhHiIqQfd":
        assert struct.calcsize("=" + dtype.format) == dtype.itemsize
    assert dtype.nbytes(6) == 6 * dtype.itemsize and not dtype.packed


def test_1_12_1_13_canonical_dlpack_types():
    for name, (code, bits, lanes) in CANONICAL.items():
        dtype = dtypes.from_dlpack(code, bits, lanes, padded=bits < 8 and lanes == 1)
        assert str(dtype) == name and (dtype.code, dtype.bits, dtype.lanes) == (code, bits, lanes)
        assert dtypes.of(name) is dtype or bits < 8
    assert set(module("dlpack").TYPE_CODES.values()) == set(range(18))
    assert {code for code, _, _ in CANONICAL.values()} | {3} == set(range(18))


@pytest.mark.parametrize(
    "code, bits", [(17, 8), (17, 6), (15, 8), (16, 4), (7, 16), (4, 32), (6, 1), (2, 24), (5, 16), (0, 3), (1, 5)]
)
def test_1_14_unexpected_bits_stop_an_import(code, bits):
    refused(dtypes.from_dlpack, code, bits, 1, protocol="dlpack", field="dtype.bits", value=f"({code}, {bits}, 1)")


def test_types_that_are_not_in_the_table_are_forgotten_and_equal_what_is_made_again():
    names = [(1, 8, 2), (17, 4, 1), (17, 4, 3), (3, 64, 1)]
    before = [dtypes.from_dlpack(*name) for name in names]
    number = len(dtypes._BY_DLPACK)
    for lanes in range(2, 2500):
        dtypes.of(f"int16x{lanes}")
    assert len(dtypes._VECTORS) <= 1000 and len(dtypes._BY_DLPACK) == number
    again = [dtypes.from_dlpack(*name) for name in names]
    assert before == again and [*map(hash, before)] == [*map(hash, again)] and before[0] is not again[0]
    assert before[1] != dtypes.from_dlpack(17, 4, 1, padded=True)
    source, target = (rawcuda.view(bytearray(b"abcd")).reinterpret(kind) for kind in (before[0], again[0]))
    target.copy_from(source)  # of equal types


def test_1_15_bytes_of_packed_and_padded_elements():
    packed, padded = dtypes.from_dlpack(17, 4, 1), dtypes.from_dlpack(17, 4, 1, padded=True)
    assert packed.packed and not packed.padded and padded.padded and not padded.packed
    assert [packed.nbytes(n) for n in (0, 1, 2, 3, 7)] == [0, 1, 1, 2, 4]
    assert [padded.nbytes(n) for n in (0, 1, 2, 3, 7)] == [0, 1, 2, 3, 7]
    six = dtypes.from_dlpack(15, 6, 1)
    assert [six.nbytes(n) for n in (1, 2, 3, 4, 5)] == [1, 2, 3, 3, 4]
    pair = dtypes.from_dlpack(17, 4, 2)  # torch's float4_e2m1fn_x2 has whole bytes: neither packed nor padded
    assert pair is dtypes.from_dlpack(17, 4, 2, padded=True) is padded.with_lanes(2) is packed.with_lanes(2)
    assert not pair.packed and not pair.padded and pair.itemsize == 1 and pair.nbytes(5) == 5
    three = dtypes.from_dlpack(17, 4, 3, padded=True)  # ((bits * lanes) + 7) / 8
    assert three.itemsize == 2 and three.nbytes(5) == 10 and three.padded


def test_1_26_no_bits_or_no_lanes():
    refused(dtypes.from_dlpack, 2, 0, 1, protocol="dlpack", field="dtype")
    refused(dtypes.from_dlpack, 2, 32, 0, protocol="dlpack", field="dtype")


def test_2_30_unknown_code():
    refused(dtypes.from_dlpack, 99, 32, 1, protocol="dlpack", field="dtype.code", value="99")


def test_the_padded_flag_says_nothing_about_whole_bytes():
    assert dtypes.from_dlpack(2, 32, 1, padded=True) is dtypes.of("float32")


def test_an_opaque_handle_is_bytes():
    handle = dtypes.from_dlpack(3, 64, 1)
    assert (handle.kind, handle.itemsize, str(handle), handle.code) == ("opaque", 8, "|V8", 3)
    refused(dtypes.from_dlpack, 3, 7, 1, protocol="dlpack", field="dtype.bits")


# -- typestr


@pytest.mark.parametrize(
    "typestr, name",
    [
        ("<f4", "float32"),
        ("=f4", "float32"),
        ("|f4", "float32"),
        ("f4", "float32"),
        ("|b1", "bool"),
        ("<b1", "bool"),
        (">u1", "uint8"),
        ("<c8", "complex64"),
        ("<c16", "complex128"),
        ("<f16", "float128"),
        ("<i8", "int64"),
        ("=f", "float32"),
        ("=d", "float64"),
        ("=l", "int32"),
        ("=B", "uint8"),
        ("=?", "bool"),
        ("=e", "float16"),
        ("|V2", "|V2"),
        ("<V2", "|V2"),
        ("<V1", "|V1"),
        ("<f1", "|V1"),
        ("<W4", "|V4"),
        ("|V12", "|V12"),
        ("|S3", "|S3"),
        ("|a3", "|S3"),
        ("<U2", "<U2"),
        ("<M8[s]", "datetime64[s]"),
        ("<m8[25ns]", "timedelta64[25ns]"),
        ("<M8", "datetime64"),
    ],
)
def test_5_16_6_3_typestr(typestr, name):
    dtype = dtypes.from_typestr(typestr)
    assert str(dtype) == name
    if name.startswith("|V"):
        assert dtype.kind == "opaque"  # a bfloat16 of torch or ml_dtypes: never read as a float16


@pytest.mark.parametrize("typestr", [">f4", ">i2", ">c16", ">U2", ">M8[s]"])
def test_1_16_6_14_other_byte_order(typestr):
    refused(dtypes.from_typestr, typestr, protocol="array_interface", field="typestr", value=repr(typestr))


@pytest.mark.parametrize(
    "typestr",
    [
        "|O8",
        "<t4",
        "",
        None,
        3,
        "<f3",
        "<x4",
        "<f",
        "f4x",
        "|V99999999999999999999",
        "<M4[s]",
        "<f4[s]",
        "<M8[s",
        "<M8x",
        "|S",
        "<i²",
        "|V²",
        "|S" + "9" * 5000,
    ],
)
def test_6_3_refused_typestr(typestr):
    if typestr == "<f":
        assert dtypes.from_typestr(typestr) is dtypes.of("float32")  # a letter of the struct module, as in DALI
    else:
        refused(dtypes.from_typestr, typestr, protocol="array_interface", field="typestr")


def test_the_protocol_named_is_the_one_that_was_read():
    with pytest.raises(errors.ProtocolError, match="^cuda_array_interface: typestr"):
        dtypes.from_typestr("|O8", protocol="cuda_array_interface")


# -- descr


def test_6_4_descr_is_kept():
    descr = [("a", "<i4"), ("", "|V4"), ("b", "<f8", (2,)), (("title", "c"), [("x", "|u1"), ("y", "<f4")])]
    dtype = dtypes.from_typestr("|V29", descr)
    assert dtype.kind == "opaque" and dtype.itemsize == 29 and dtype.descr == descr and dtype.descr is not descr
    assert dtypes.from_typestr("|V29", list(descr)) is dtype and pickle.loads(pickle.dumps(dtype)) is dtype
    descr[3][1].append(("z", "|u1"))
    assert len(dtype.descr[3][1]) == 2  # and cannot be changed by the caller
    lists = [["a", "<i4"], ["", "|V4"], ["b", "<f8", [2]], [["title", "c"], [["x", "|u1"], ["y", "<f4"]]]]  # of JSON
    assert dtypes.from_typestr("|V29", lists) is dtype
    assert dtypes.from_typestr("<f4", [("", "<f4")]) is dtypes.of("float32")
    assert str(dtypes.from_typestr("|V4", [("", "|V4")])) == "|V4"


@pytest.mark.parametrize(
    "typestr, descr",
    [
        ("|V8", [("a", "<i4")]),
        ("<f4", [("", "<f8")]),
        ("|V4", "abc"),
        ("|V4", [("a",)]),
        ("|V4", [("a", "<i4", -1)]),
        ("|V4", [("a", "<i4", "x")]),
        ("|V4", [(1, "<i4")]),
        ("|V8", [("a", "|O8")]),
        ("|V4", [(("t", 1), "<i4")]),
        ("|V4", [3]),
    ],
)
def test_6_4_descr_that_contradicts(typestr, descr):
    with pytest.raises(errors.ProtocolError):
        dtypes.from_typestr(typestr, descr)


def test_a_descr_nested_without_end_is_refused():
    descr = [("a", "|u1")]
    for _ in range(30):
        descr = [("a", descr)]
    with pytest.raises(errors.ProtocolError, match="nested"):
        dtypes.from_typestr("|V1", descr)
    endless = []
    endless.append(("a", endless))
    with pytest.raises(errors.ProtocolError, match="nested"):
        dtypes.from_typestr("|V1", endless)


def test_names_from_outside_do_not_pile_up():
    for n in range(5000):
        dtypes.from_typestr(f"|S{n + 1}")
        pep3118.dtype_of(f"{n}s", n)
    assert len(dtypes._OPAQUE) <= 1002 and len(pep3118._known) <= 1002


# -- of


def test_of_takes_whatever_names_a_type():
    class Torch:
        def __repr__(self):
            return "torch.bfloat16"

    assert dtypes.of(float) is dtypes.of("float64") is dtypes.of("double") and dtypes.of(int) is dtypes.of("int64")
    assert dtypes.of(bool) is dtypes.of("bool") and dtypes.of(complex) is dtypes.of("complex128")
    assert dtypes.of(Torch()) is dtypes.of("bfloat16")
    for name in ("datetime64[ns]", "timedelta64[25us]", "datetime64"):
        assert str(dtypes.of(name)) == name
    assert dtypes.of("timedelta64[D]") is dtypes.of("m8[D]")
    assert dtypes.of("float32x4").with_lanes(2) is dtypes.of("float32x2")


def test_of_takes_dtypes_of_arrow_and_pandas():
    """Those that have an equal dtype in NumPy, of the same width: a bool has 1 bit there."""
    arrow = pytest.importorskip("pyarrow")
    for mine, theirs in (("float16", arrow.float16()), ("float32", arrow.float32()), ("float64", arrow.float64())):
        assert str(dtypes.of(theirs)) == mine
    assert str(dtypes.of(arrow.timestamp("ns"))) == "datetime64[ns]"
    for other in (arrow.bool_(), arrow.date32(), arrow.string(), arrow.list_(arrow.int8()), arrow.decimal128(3)):
        with pytest.raises(TypeError, match="does not name an element type"):
            dtypes.of(other)


def test_of_takes_dtypes_of_pandas():
    """Some have the attribute numpy_dtype."""
    numpy = pytest.importorskip("numpy")

    class Float32Dtype:
        name = "Float32"

        def __init__(self, equal):
            self.numpy_dtype = equal

    assert dtypes.of(Float32Dtype(numpy.dtype("float32"))) is dtypes.of("float32")
    for other in (Float32Dtype(numpy.dtype(object)), Float32Dtype(None)):
        with pytest.raises(TypeError, match="does not name an element type"):
            dtypes.of(other)


@pytest.mark.parametrize(
    "spec",
    ["datetime64[ns", "float33", "", "x4", "nonsense", None, 3, object(), [], "float32x", "V", "float32x²", "V²"]
    + ["float32x" + "9" * 5000],
)
def test_of_refuses_what_names_none(spec):
    with pytest.raises(TypeError):
        dtypes.of(spec)


def test_nested_structures_are_told_apart_in_little_memory():
    """The text by which a type is found contains that of each inner type once."""
    one, other = [("a'\\", "<i4")], [("a'\\", "<u4")]
    for _ in range(18):
        one, other = [("b'\\", one)], [("b'\\", other)]
    made = dtypes.from_typestr("|V4", one)
    assert made is dtypes.from_typestr("|V4", one) and made is not dtypes.from_typestr("|V4", other)
    assert len(made._identity) < 20_000


def test_the_format_for_c_stays_where_two_threads_make_it(monkeypatch):
    made = dtypes.structure([dtypes.Field("made_by_two", dtypes.of("int64"))], 8)
    own, addresses = dtypes.create_string_buffer, []

    def meanwhile(text):
        monkeypatch.setattr(dtypes, "create_string_buffer", own)
        addresses.append(made.c_format())  # what another thread does between two lines
        return own(text)

    monkeypatch.setattr(dtypes, "create_string_buffer", meanwhile)
    addresses.append(made.c_format())
    assert addresses == [made.c_format()] * 2 and ctypes.string_at(addresses[0]) == made.format.encode()


def test_a_long_format_is_read_once():
    class Counting(str):
        read = 0

        def __getitem__(self, place):
            found = super().__getitem__(place)
            Counting.read += len(found)
            return found

    for part in ("b:name:", "(2,3)b:x:", "xxxb", "3x(1)b"):
        text = Counting(part * 1000)
        pep3118._Reader(text).items("")
        assert Counting.read < 6 * len(text)
        Counting.read = 0


def test_vectors():
    vector = dtypes.of("float32x4")
    assert (vector.itemsize, vector.descr, vector.format) == (16, [("", "<f4", (4,))], "(4)f")
    assert dtypes.of("uint8x65535").itemsize == 65535
    for lanes in (0, 65536):
        with pytest.raises(errors.ProtocolError, match="lanes"):
            dtypes.of("uint8").with_lanes(lanes)
    with pytest.raises(errors.ProtocolError):
        dtypes.of("float128").with_lanes(2)


def test_numpy_agrees():
    numpy = pytest.importorskip("numpy")
    for name in NAMES:
        try:
            theirs = numpy.dtype(name)
        except TypeError:
            continue
        if theirs.isbuiltin != 1:  # of ml_dtypes, known by name after it was imported
            continue
        ours = dtypes.of(theirs)
        assert ours is dtypes.of(name) and str(ours) == str(theirs) and ours.itemsize == theirs.itemsize
        assert ours.typestr == theirs.str and dtypes.of(theirs.type) is ours
    with pytest.raises(errors.ProtocolError):
        dtypes.of(numpy.dtype(">f4"))
    for what in (
        [("a", "<i4"), ("b", "<f8")],
        [("a", "<i4", (2,)), ("b", [("x", "u1"), ("y", "<f4", (3,))])],
        "S3",
        "U2",
        "V4",
        "M8[s]",
        "m8[25ns]",
        {"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 24},
        [(("t", "a"), "<i4")],
        [("a", "S3"), ("b", "?"), ("c", "<c8", (2, 3))],
    ):
        theirs = numpy.dtype(what)
        ours = dtypes.from_typestr(theirs.str, theirs.descr if theirs.names else None)
        assert str(ours) == str(theirs) and ours.itemsize == theirs.itemsize
        assert dtypes.of(theirs) is ours


def test_ml_dtypes_agrees():
    numpy, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    for name in NAMES:
        kind = getattr(ml_dtypes, name, None)
        if kind is None:
            continue
        theirs, ours = numpy.dtype(kind), dtypes.of(name)
        assert (
            str(theirs) == str(ours) == name
            and theirs.itemsize == ours.itemsize
            and dtypes.of(kind) is dtypes.of(theirs) is ours
        )
        codes = bytes(range(256)) if theirs.itemsize == 1 else struct.pack("=65536H", *range(65536))
        if ours.bits < 8:
            codes = bytes(range(1 << ours.bits))
        with numpy.errstate(all="ignore"):
            values = numpy.frombuffer(codes, theirs).astype("c16" if ours.kind == "complex" else "f8").tolist()
        for mine, its in zip(scalars.decode(ours, codes), values):
            assert mine == its or str(mine) == str(its), (name, mine, its)  # (str: NaNs)


# -- numbers to bytes

FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    3.14159,
    1e-3,
    448.0,
    464.0,
    464.1,
    480.0,
    57344.0,
    61440.0,
    61439.0,
    240.0,
    248.0,
    7.5,
    7.75,
    28.0,
    30.0,
    6.0,
    7.0,
    2.0**-9,
    2.0**-10,
    1.5 * 2.0**-10,
    2.0**-17,
    2.0**-133,
    2.0**-134,
    3.38e38,
    3.3961e38,
    1e39,
    65504.0,
    0.5,
    0.25,
    2.5,
    1 + 2.0**-8,
    1 + 3 * 2.0**-8,
    float("inf"),
    float("-inf"),
    float("nan"),
]


SMALL_FLOATS = [*scalars._SMALL, "float8_e8m0fnu"]


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_numbers_round_as_ml_dtypes_rounds_them(name):
    """Numbers that ml_dtypes turns into an infinity, NaN or the largest number are out of range."""
    numpy, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    dtype, theirs = dtypes.of(name), numpy.dtype(getattr(ml_dtypes, name))
    largest, refused = float(ml_dtypes.finfo(theirs).max), 0
    for value in [sign * value for value in FLOATS for sign in (1, -1)]:
        with numpy.errstate(all="ignore"):
            its = numpy.array([value], "f8").astype(theirs).tobytes()
        mine = scalars.converted(dtype, value)
        (wanted,), (got,) = scalars.decode(dtype, its), scalars.decode(dtype, mine)
        assert mine == its or wanted != wanted and got != got, (name, value, wanted, got)
        try:
            assert scalars.encode(dtype, value) == mine
            assert not abs(value) < float("inf") or abs(wanted) <= largest
        except ValueError:  # the next test checks from where on
            assert not abs(wanted) < largest or value != value
            refused += 1
    assert refused >= 2


@pytest.mark.parametrize("name", ["float16", *SMALL_FLOATS])
def test_the_edge_of_a_range_is_where_struct_has_it_for_float16(name):
    """The least number that is refused is half a step above the largest one, if it rounds to the next even one."""
    dtype = dtypes.of(name)
    if name in ("float16", "bfloat16"):
        parts = (10, 15) if name == "float16" else (7, 127)
        largest, odd = (2 - 2.0 ** -parts[0]) * 2.0 ** parts[1], True
        edge = (2 - 2.0 ** -(parts[0] + 1)) * 2.0 ** parts[1]
    else:
        numbers = [number for number in scalars._table(name) if 0 <= number < float("inf")]
        largest, odd = max(numbers), scalars._table(name).index(max(numbers)) % 2 == 1
        above = largest if name == "float8_e8m0fnu" else largest - sorted(set(numbers))[-2]
        edge, odd = largest + above / 2, odd or name == "float8_e8m0fnu"
    assert scalars.decode(dtype, scalars.encode(dtype, largest)) == [largest]
    below, beyond = edge * (1 - 2.0**-50), edge * (1 + 2.0**-50)
    for sign in (1, -1) if name != "float8_e8m0fnu" else (1,):
        assert scalars.decode(dtype, scalars.encode(dtype, sign * below)) == [sign * largest]
        if not odd:
            assert scalars.decode(dtype, scalars.encode(dtype, sign * edge)) == [sign * largest]
        for wrong in (sign * edge,) * odd + (sign * beyond, sign * 1e39, sign * 1e300, sign * 10**400):
            with pytest.raises(ValueError, match=f"does not fit into {name}"):
                scalars.encode(dtype, wrong)


def test_of_two_powers_of_two_that_are_equally_near_the_larger_one_is_taken():
    """As ml_dtypes does, and not the one whose code is even."""
    numpy, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    dtype = dtypes.of("float8_e8m0fnu")
    ties = [1.5 * 2.0**power for power in range(-127, 127)]
    assert b"".join(scalars.encode(dtype, tie) for tie in ties) == bytes(range(1, 255))
    assert numpy.array(ties).astype(ml_dtypes.float8_e8m0fnu).tobytes() == bytes(range(1, 255))


def test_what_float_makes_infinite_is_out_of_range():
    """float() returns an infinity for a large Decimal and a large long double, and struct takes that."""
    from decimal import Decimal

    for name in ("float16", "float32", "float64", *SMALL_FLOATS):
        with pytest.raises(ValueError, match="does not fit"):
            scalars.encode(dtypes.of(name), Decimal("1e400"))
    assert scalars.encode(dtypes.of("float32"), Decimal("Infinity")) == struct.pack("=f", float("inf"))
    numpy = pytest.importorskip("numpy")
    large = numpy.longdouble("1e4000")
    if large - large == 0:  # (a long double of 64 bits has no such number)
        for name in ("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "float8_e5m2"):
            with pytest.raises(ValueError, match="does not fit"):
                scalars.encode(dtypes.of(name), large)
        with pytest.raises(ValueError, match="does not fit"):
            scalars.encode(dtypes.of("complex128"), numpy.clongdouble(large))
    for value in (numpy.longdouble("inf"), numpy.clongdouble(complex(0, float("inf")))):
        assert len(scalars.encode(dtypes.of("complex64"), value)) == 8


def test_small_floats_round_to_nearest_even():
    for name, value, code in [
        ("float8_e4m3fn", 448.0, 0x7E),
        ("float8_e4m3fn", 464.0, 0x7E),
        ("float8_e5m2", float("-inf"), 0xFC),
        ("float8_e5m2", 61439.0, 0x7B),
        ("float4_e2m1fn", 6.9, 7),
        ("float4_e2m1fn", -0.2, 0x8),
        ("float4_e2m1fn", 2.5, 4),
        ("float8_e4m3fnuz", -0.0, 0),
        ("float8_e4m3fnuz", float("nan"), 0x80),
        ("float8_e8m0fnu", 1.0, 127),
    ]:
        assert scalars.encode(dtypes.of(name), value) == bytes([code]), (name, value)
    for value, code in [
        (1.0, 0x3F80),
        (1 + 2.0**-8, 0x3F80),
        (1 + 3 * 2.0**-8, 0x3F82),
        (1 + 2.0**-8 + 2.0**-40, 0x3F81),
        (-2.0, 0xC000),
        (2.0**-133, 1),
        (2.0**-134, 0),
        (float("inf"), 0x7F80),
        (-0.0, 0x8000),
        (3.3961e38, 0x7F7F),
    ]:
        assert scalars.encode(dtypes.of("bfloat16"), value) == struct.pack("=H", code), value


@pytest.mark.parametrize(
    "name, value, data",
    [
        ("bool", True, b"\1"),
        ("bool", 0, b"\0"),
        ("int8", -1, b"\xff"),
        ("uint16", 65535, b"\xff\xff"),
        ("float16", 1.0, struct.pack("=e", 1)),
        ("float32", 2, struct.pack("=f", 2)),
        ("complex64", 1 + 2j, struct.pack("=2f", 1, 2)),
        ("complex32", 1j, struct.pack("=2e", 0, 1)),
        ("complex128", 3, struct.pack("=2d", 3, 0)),
        ("int4", -8, b"\xf8"),
        ("uint4", 15, b"\x0f"),
        ("float32", b"abcd", b"abcd"),
        ("float128", b"x" * 16, b"x" * 16),
        ("float32x2", b"12345678", b"12345678"),
    ],
)
def test_encode(name, value, data):
    assert scalars.encode(dtypes.of(name), value) == data
    if not isinstance(value, bytes):
        assert scalars.decode(dtypes.of(name), data * 3) == [value] * 3


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("int8", 128, ValueError),
        ("uint8", -1, ValueError),
        ("int32", 1.5, TypeError),
        ("int64", 2**63, ValueError),
        ("float32", 1e39, ValueError),
        ("float16", 65520.0, ValueError),
        ("float32", 1j, TypeError),
        ("float32", "1", TypeError),
        ("float32", b"abc", ValueError),
        ("int4", 8, ValueError),
        ("uint4", 16, ValueError),
        ("float128", 1.0, TypeError),
        ("float32x2", 1.0, TypeError),
        ("|V3", 1, TypeError),
        ("float4_e2m1fn", float("nan"), ValueError),
        ("float6_e3m2fn", float("inf"), ValueError),
        ("float8_e4m3fn", float("inf"), ValueError),
        ("float8_e5m2fnuz", float("-inf"), ValueError),
        ("float8_e8m0fnu", float("inf"), ValueError),
        ("float8_e8m0fnu", 2.0**128, ValueError),
        ("bfloat16", 1e39, ValueError),
        ("bfloat16", 10**400, ValueError),
        ("complex32", 1e39j, ValueError),
        ("float8_e8m0fnu", -1.0, ValueError),
        ("complex64", "1", TypeError),
    ],
)
def test_encode_refuses(name, value, error):
    with pytest.raises(error):
        scalars.encode(dtypes.of(name), value)


def test_types_with_names_of_any_length_are_not_remembered():
    """A thousand of them would be kept, of megabytes each."""
    numpy = pytest.importorskip("numpy")
    pep3118, dtypes = module("protocols.pep3118"), module("elements.dtypes")
    long, tables = numpy.zeros(2, [("n" * 20_000, "i1"), ("b", "i2")]), (pep3118._known, dtypes._OPAQUE)
    before = [len(table) for table in (*tables, dtypes._structures)]
    first, second = rawcuda.view(memoryview(long)), rawcuda.view(long)
    assert first.dtype == second.dtype and first.dtype.itemsize == 3
    assert [len(table) for table in (*tables, dtypes._structures)] == before
