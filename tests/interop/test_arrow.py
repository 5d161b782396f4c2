"""The Arrow C data interfaces: pyarrow's arrays, and structs that contradict themselves."""

from __future__ import annotations

import ctypes
import gc

import pytest

from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
view = rawcuda.view


def arrow(x, **more):
    return view(x, protocol="arrow", **more)


# -- pyarrow


TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_pyarrow(name):
    pa = pytest.importorskip("pyarrow")
    values = numpy.arange(10, dtype=name)
    made = arrow(pa.array(values))
    assert (made.dtype, made.shape, made.device, made.readonly) == (name, (10,), ("cpu", 0), True)
    assert made.tolist() == values.tolist() and made.protocol == "arrow"
    assert arrow(pa.array(values)[3:7]).tolist() == values[3:7].tolist() and arrow(pa.array(values)[:0]).shape == (0,)
    assert not arrow(pa.array(values), writable=True).readonly


def test_dates_bytes_and_lists_of_pyarrow():
    pa = pytest.importorskip("pyarrow")
    times = numpy.array(["2026-01-01", "2026-02-03"], "M8[ms]")
    made = arrow(pa.array(times))
    assert made.dtype == times.dtype and numpy.asarray(made).tolist() == times.tolist()
    spans = numpy.array([1, 2], "m8[ns]")
    assert numpy.asarray(arrow(pa.array(spans))).tolist() == spans.tolist()
    assert arrow(pa.array([b"abc", b"def"], pa.binary(3))).tolist() == [b"abc", b"def"]
    matrix = pa.FixedSizeListArray.from_arrays(pa.array(numpy.arange(12.0)), 3)
    assert arrow(matrix).tolist() == numpy.arange(12.0).reshape(4, 3).tolist()
    assert arrow(matrix[1:3]).tolist() == numpy.arange(12.0).reshape(4, 3)[1:3].tolist()
    deep = pa.FixedSizeListArray.from_arrays(matrix, 2)
    assert arrow(deep[1:]).tolist() == numpy.arange(12.0).reshape(2, 2, 3)[1:].tolist()


def test_what_is_no_strided_memory_is_refused():
    pa = pytest.importorskip("pyarrow")
    for array, words in (
        (pa.array([1, None]), "null"),
        (pa.array([None, None]), "only nulls"),
        (pa.array([True, False]), "one bit"),
        (pa.array(["a"]), "format"),
        (pa.array([[1], [2, 3]]), "children"),
        (pa.array([{"a": 1}]), "children"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "dictionary"),
        (pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4]), 2), "null"),
    ):
        with pytest.raises(rawcuda.ProtocolError, match=words):
            arrow(array)
    assert arrow(pa.array([1, None, 3])[2:]).tolist() == [3]
    with pytest.raises(rawcuda.ProtocolError, match="arrow"):
        arrow(numpy.zeros(3))


def test_the_memory_lives_until_the_last_view_goes():
    pa = pytest.importorskip("pyarrow")
    before = pa.total_allocated_bytes()
    made = arrow(pa.array(range(10000), pa.int64()))[5:]
    assert pa.total_allocated_bytes() >= before + 80000
    gc.collect()
    assert made.tolist() == list(range(5, 10000))
    del made
    gc.collect()
    assert pa.total_allocated_bytes() < before + 80000


# -- structs of our own

_new = ctypes.pythonapi["PyCapsule_New"]
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
Released = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Exporter:
    """An exporter of one array of int32, some fields of whose structs can be changed."""

    def __init__(self, format=b"i", device=None, **changes):
        self.data = (ctypes.c_int32 * 8)(*range(8))
        self.released, self.format = [], ctypes.create_string_buffer(format)
        fields = {"length": 8, "nulls": 0, "offset": 0, "n_buffers": 2, "n_children": 0, "children": 0, "dictionary": 0}
        fields.update({"valid": 0, "data": ctypes.addressof(self.data), "indices": 0, "schema_children": 0, **changes})
        self.buffers = (ctypes.c_uint64 * 2)(fields["valid"], fields["data"])

        def release(address):
            self.released.append(address)
            ctypes.c_uint64.from_address(address + 64).value = 0

        self.release = Released(release)
        of = ctypes.cast(self.release, ctypes.c_void_p).value
        names = ("length", "nulls", "offset", "n_buffers", "n_children")
        numbers = [fields[name] & 2**64 - 1 for name in names]
        buffers = fields.get("buffers", ctypes.addressof(self.buffers))
        numbers += [buffers, fields["children"], fields["dictionary"], fields.get("release", of), 0]
        if device is not None:
            numbers += [device[1], device[0], 0, 0, 0, 0]
        self.array = (ctypes.c_uint64 * len(numbers))(*numbers)
        schema = [ctypes.addressof(self.format), 0, 0, 0, fields["schema_children"], 0, fields["indices"], of, 0]
        self.schema = (ctypes.c_uint64 * 9)(*schema)
        self.names = b"arrow_schema", b"arrow_array"
        if device is not None:
            self.names = b"arrow_schema", b"arrow_device_array"
            self.__class__ = DeviceExporter

    def __arrow_c_array__(self, requested_schema=None):
        return tuple(_new(ctypes.addressof(x), name, None) for x, name in zip((self.schema, self.array), self.names))


class DeviceExporter(Exporter):
    def __arrow_c_device_array__(self, requested_schema=None):
        return self.__arrow_c_array__()


def test_an_array_is_released_once():
    exporter = Exporter()
    made = arrow(exporter)
    part = made[2:]
    assert made.tolist() == list(range(8)) and not exporter.released
    with pytest.raises(rawcuda.ProtocolError, match="released or taken already"):
        arrow(exporter)
    del made
    assert part.tolist() == list(range(2, 8)) and not exporter.released
    part.owner.__del__()  # a finalizer may be called more than once
    assert len(exporter.released) == 1
    del part
    gc.collect()
    assert len(exporter.released) == 1


class Cannot(Exporter):
    __arrow_c_array__ = property()


class OnlyOnDevice:
    def __init__(self, exporter):
        self.__arrow_c_device_array__ = exporter.__arrow_c_array__

    __arrow_c_device_array__ = None


@pytest.mark.parametrize("number", [0, 7], ids=["no format", "released"])
def test_a_schema_that_says_nothing_is_refused(number):
    exporter = Exporter()
    exporter.schema[number] = 0
    with pytest.raises(rawcuda.ProtocolError, match="has no format, or was released already"):
        arrow(exporter)


def test_what_an_object_offers_beside_its_class():
    with pytest.raises(rawcuda.ProtocolError, match="Cannot does not offer it"):
        arrow(Cannot())
    assert arrow(OnlyOnDevice(Exporter(device=(1, 0)))).tolist() == list(range(8))


FIELDS = {
    *("length", "offset", "length, offset", "n_buffers, n_children", "buffers", "children", "dictionary", "null_count"),
    *("release", "schema", "format", "device_type"),
}
BITS = ctypes.create_string_buffer(b"\xfb")  # element 2 is null


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"length": -1}, "length, offset"),
        ({"length": 2**62}, "length, offset"),
        ({"length": 2**62 - 1}, "length .* larger than"),
        ({"length": 2**61, "format": b"w:2147483647"}, "length .* larger than"),
        ({"offset": 2**62}, "length, offset"),
        ({"offset": 2**62 - 1}, "offset 4611686018427387903: leads out of the address space"),
        ({"offset": -1}, "length, offset"),
        ({"nulls": 9}, "length, offset"),
        ({"nulls": -2}, "length, offset"),
        ({"n_buffers": 1}, "n_buffers"),
        ({"n_children": 1}, "n_children"),
        ({"buffers": 0}, "n_buffers"),
        ({"data": 0}, "is null"),
        ({"dictionary": 8}, "length, offset"),
        ({"indices": 8}, "dictionary"),
        ({"schema_children": 1}, "children"),
        ({"release": 0}, "released or taken already"),
        ({"format": b""}, "format"),
        ({"format": b"\xff\xfe"}, "format"),
        ({"format": b"+w:3"}, "one child"),
        ({"format": b"+w:x"}, "one child"),
        ({"format": b"w:0"}, "format"),
        ({"format": b"u"}, "format"),
        ({"format": b"n"}, "holds only nulls"),
        ({"format": b"b"}, "has one bit"),
        *[
            ({"format": each}, "format")
            for each in (b"w:", b"w:x", b"w:2147483648", b"tsx:", b"tss", b"tDx", b"tt", b"x")
        ],
        ({"valid": ctypes.addressof(BITS), "nulls": 1}, "null_count 1"),
        ({"valid": ctypes.addressof(BITS), "nulls": -1}, "null_count 1"),
        ({"device": (4, 0)}, "device_type 4"),
    ],
)
def test_structs_that_contradict_themselves_are_refused_and_not_taken(changes, words):
    exporter = Exporter(**changes)
    release = exporter.array[8]
    with pytest.raises(rawcuda.ProtocolError, match=words) as caught:
        arrow(exporter)
    assert caught.value.protocol == "arrow" and caught.value.field in FIELDS
    gc.collect()
    assert not exporter.released and exporter.array[8] == release


FORMATS = {
    **{
        "c": "int8",
        "C": "uint8",
        "s": "int16",
        "S": "uint16",
        "i": "int32",
        "I": "uint32",
        "l": "int64",
        "L": "uint64",
    },
    **{"e": "float16", "f": "float32", "g": "float64", "w:2147483647": "|V2147483647", "w:5": "|V5"},
    **{
        "tdD": "int32",
        "tdm": "<M8[ms]",
        "tts": "int32",
        "ttm": "int32",
        "ttu": "int64",
        "ttn": "int64",
        "tiM": "int32",
    },
    **{"tss:": "<M8[s]", "tsm:UTC": "<M8[ms]", "tsu:": "<M8[us]", "tsn:": "<M8[ns]"},
    **{"tDs": "<m8[s]", "tDm": "<m8[ms]", "tDu": "<m8[us]", "tDn": "<m8[ns]"},
}


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_has_its_type(format):
    made = arrow(Exporter(format=format.encode(), length=0))
    assert made.dtype == numpy.dtype(FORMATS[format]) and made.shape == (0,)


@pytest.mark.parametrize("first", [0, 8, 9, 15])
def test_nulls_are_looked_for_at_each_bit(first):
    for null in range(32):
        bits = ctypes.create_string_buffer((~(1 << null) & 0xFFFFFFFF).to_bytes(4, "little"))
        exporter = Exporter(format=b"C", valid=ctypes.addressof(bits), nulls=-1, offset=first, length=10)
        if first <= null < first + 10:
            with pytest.raises(rawcuda.ProtocolError, match="null_count 1:"):
                arrow(exporter)
        else:
            assert arrow(exporter).ptr == ctypes.addressof(exporter.data) + first
    everything = Exporter(valid=ctypes.addressof(BITS), nulls=8, length=8)
    with pytest.raises(rawcuda.ProtocolError, match="null_count 1:"):
        arrow(everything)


@pytest.mark.parametrize(
    "said, device",
    [((2, 1), ("cuda", 1)), ((2, -1), ("cuda", 0)), ((13, 1), ("cuda_managed", 1)), ((3, 1), ("cuda_host", 0))],
)
def test_the_device_is_the_one_that_the_struct_names(said, device):
    exporter = Exporter(device=said)
    made = module("protocols.arrow").describe(exporter, module("protocols.description").Description, None)
    assert made._place.device == device
    refused = Exporter(device=said, valid=8, nulls=-1)
    if said[0] == 2:  # the bits are where the host cannot read them
        with pytest.raises(rawcuda.ProtocolError, match="^arrow: null_count -1: means that nulls were not counted"):
            module("protocols.arrow").describe(refused, module("protocols.description").Description, None)


def test_nulls_are_looked_for_only_among_the_elements():
    made = arrow(Exporter(valid=ctypes.addressof(BITS), nulls=-1, offset=3, length=5))
    assert made.tolist() == [3, 4, 5, 6, 7]
    assert arrow(Exporter(data=0, length=0)).shape == (0,)


@pytest.mark.parametrize("pair", [None, (), (1, 2), (object(),) * 2, "ab"])
def test_what_is_no_pair_of_capsules_is_refused(pair):
    class Wrong:
        def __arrow_c_array__(self, requested_schema=None):
            return pair

    with pytest.raises(rawcuda.ProtocolError, match="capsule"):
        arrow(Wrong())


def test_the_device_interface_is_preferred_and_names_the_device():
    exporter = Exporter(device=(1, -1))
    made = arrow(exporter)
    assert made.device == ("cpu", 0) and made.tolist() == list(range(8))
    del made
    assert len(exporter.released) == 1


@pytest.mark.parametrize("length, refused", [(6, False), (5, True)])
def test_a_list_needs_as_many_elements_as_it_says(length, refused):
    child = Exporter(length=length)
    children = [(ctypes.c_uint64 * 1)(ctypes.addressof(struct)) for struct in (child.array, child.schema)]
    lists = Exporter(format=b"+w:3", length=2, n_buffers=1, n_children=1, schema_children=1)
    lists.array[6], lists.schema[5] = (ctypes.addressof(each) for each in children)
    if refused:
        with pytest.raises(rawcuda.ProtocolError, match="arrow: children 5: has fewer than 6 elements"):
            arrow(lists)
    else:
        assert arrow(lists).tolist() == [[0, 1, 2], [3, 4, 5]]
