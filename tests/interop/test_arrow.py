"""The Arrow C interfaces: pyarrow's arrays and columns, streams, nulls, and structs that contradict themselves."""

from __future__ import annotations

import ctypes
import errno
import gc
import threading

import pytest

from tests.subject import module, rawcuda

numpy = pytest.importorskip("numpy")
view = rawcuda.view


def arrow(x, **more):
    return view(x, protocol="arrow", **more)


# -- pyarrow


TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


@pytest.mark.parametrize("name", TYPES)
def test_8_1_numbers_of_pyarrow(name):
    pa = pytest.importorskip("pyarrow")
    values = numpy.arange(10, dtype=name)
    made = arrow(pa.array(values))
    assert (made.dtype, made.shape, made.device, made.readonly) == (name, (10,), ("cpu", 0), True)
    assert made.tolist() == values.tolist() and made.protocol == "arrow"
    assert arrow(pa.array(values)[3:7]).tolist() == values[3:7].tolist() and arrow(pa.array(values)[:0]).shape == (0,)
    assert not arrow(pa.array(values), writable=True).readonly


def test_8_9_8_11_dates_bytes_and_lists_of_pyarrow():
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


def test_8_9_what_is_no_strided_memory_is_refused():
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


_alive = []  # a struct may be released at any time after its exporter is gone, so its callbacks must live


class Exporter:
    """An exporter of one array of int32, some fields of whose structs can be changed."""

    def __init__(self, format=b"i", device=None, **changes):
        _alive.append(self)
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


def test_8_2_an_array_is_released_once():
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


def test_a_finalizer_uses_an_array_that_is_garbage_with_it():
    seen = []

    class User:
        def __init__(self, made):
            self.made, self.me = made, self

        def __del__(self):
            seen.append((len(exporter.released), self.made.tolist()))

    exporter = Exporter()
    made = arrow(exporter)
    User(made)
    del made
    gc.collect()
    assert seen == [(0, list(range(8)))] and len(exporter.released) == 1


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
    *(
        "length",
        "offset",
        "length, null_count, offset",
        "n_buffers, n_children",
        "buffers",
        "children",
        "dictionary",
        "null_count",
    ),
    *("release", "schema", "format", "device_type"),
}
BITS = ctypes.create_string_buffer(b"\xfb")  # element 2 is null


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"length": -1}, "length, null_count, offset"),
        ({"length": 2**62}, "length, null_count, offset"),
        ({"length": 2**62 - 1}, "length .* larger than"),
        ({"length": 2**61, "format": b"w:2147483647"}, "length .* larger than"),
        ({"offset": 2**62}, "length, null_count, offset"),
        ({"offset": 2**62 - 1}, "offset 4611686018427387903: leads out of the address space"),
        ({"offset": -1}, "length, null_count, offset"),
        ({"nulls": 9}, "length, null_count, offset"),
        ({"nulls": -2}, "length, null_count, offset"),
        ({"n_buffers": 1}, "n_buffers"),
        ({"n_children": 1}, "n_children"),
        ({"buffers": 0}, "n_buffers"),
        ({"data": 0}, "is null"),
        ({"dictionary": 8}, "dictionary"),
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
        ({"nulls": 1}, "null_count 1: needs a bitmap"),
        ({"device": (4, 0)}, "device_type 4"),
    ],
)
def test_8_10_structs_that_contradict_themselves_are_refused_and_not_taken(changes, words):
    exporter = Exporter(**changes)
    release = exporter.array[8]
    with pytest.raises(rawcuda.ProtocolError, match=words) as caught:
        arrow(exporter)
    assert caught.value.protocol == "arrow" and caught.value.field in FIELDS
    gc.collect()
    assert not exporter.released and exporter.array[8] == release


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"offset": -(2**40)}, "length, null_count, offset"),
        ({"offset": 2**62}, "length, null_count, offset"),
        ({"length": -8}, "length, null_count, offset"),
        ({"length": 2**62}, "length, null_count, offset"),
        ({"nulls": 9}, "length, null_count, offset"),
    ],
    ids=["offset", "large offset", "length", "large length", "nulls"],
)
@pytest.mark.parametrize("where", ["itself", "dictionary", "member"])
def test_8_10_what_cannot_be_viewed_contradicts_itself(changes, words, where):
    """Its nulls are looked for, so its bitmap is read."""
    exporter = Exporter(**{"format": b"b", "valid": ctypes.addressof(BITS), "nulls": -1, **changes})
    outer = exporter
    if where != "itself":
        children = [(ctypes.c_uint64 * 1)(ctypes.addressof(each)) for each in (exporter.schema, exporter.array)]
        numbers = {"format": b"+s", "n_buffers": 1, "n_children": 1, "schema_children": 1}
        if where == "dictionary":
            numbers = {"format": b"i", "dictionary": ctypes.addressof(exporter.array)}
            numbers["indices"] = ctypes.addressof(exporter.schema)
        outer = Exporter(**numbers)
        if where == "member":
            outer.schema[5], outer.array[6] = map(ctypes.addressof, children)
    with pytest.raises(rawcuda.ProtocolError, match=words):
        arrow(outer)
    gc.collect()
    assert not exporter.released and not outer.released


def test_8_10_a_member_with_fewer_elements_than_its_structure():
    inner = Exporter(valid=ctypes.addressof(BITS), nulls=-1)
    outer = Exporter(format=b"+s", n_buffers=1, n_children=1, schema_children=1, length=10**9)
    children = [(ctypes.c_uint64 * 1)(ctypes.addressof(each)) for each in (inner.schema, inner.array)]
    outer.schema[5], outer.array[6] = map(ctypes.addressof, children)
    with pytest.raises(rawcuda.ProtocolError, match="has fewer than 1000000000 elements"):
        arrow(outer)


def test_8_12_pinned_memory_is_not_read_before_its_event(device):
    """Whether elements are null, or NaT, is known only when the event has been reached."""
    with device.stream() as stream, device.allocate(64, kind="pinned") as memory:
        event = stream.record()
        handle = ctypes.c_uint64(event.handle)
        at = {"valid": ctypes.addressof(BITS), "data": memory.ptr, "nulls": -1, "format": b"l", "device": (3, 0)}
        exporter = Exporter(**at)
        assert arrow(Exporter(**{**at, "valid": 0})).device[0] == "cuda_host"
        with pytest.raises(rawcuda.ProtocolError, match="null_count 1"):
            arrow(exporter)
        exporter.array[12] = ctypes.addressof(handle)
        with pytest.raises(rawcuda.ProtocolError, match="nulls were not counted"):
            arrow(exporter)
        stream.synchronize()
        event.close()


def test_8_12_device_memory_is_ready_in_the_order_of_the_stream_that_waited(device):
    """The default stream if none is given: copies on other streams wait for it, too."""
    with device.stream() as stream, device.allocate(64) as memory:
        event = stream.record()
        handle = ctypes.c_uint64(event.handle)
        for given, ready in ((None, 1), (stream, stream)):
            exporter = Exporter(data=memory.ptr, format=b"l", device=(2, 0))
            exporter.array[12] = ctypes.addressof(handle)
            assert arrow(exporter, stream=given).stream is ready
        device.synchronize()
        event.close()


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
def test_8_11_each_format_has_its_type(format):
    made = arrow(Exporter(format=format.encode(), length=0))
    assert made.dtype == numpy.dtype(FORMATS[format]) and made.shape == (0,)


@pytest.mark.parametrize("first", [0, 8, 9, 15])
def test_8_6_nulls_are_looked_for_at_each_bit(first):
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
def test_8_12_the_device_is_the_one_that_the_struct_names(said, device):
    exporter = Exporter(device=said)
    made = module("protocols.arrow").describe(exporter, module("protocols.description").Description, None)
    assert made._place.device == device
    if said[0] in (2, 13):  # the bits are where the host cannot, or must not yet, read them
        for nulls, words in ((-1, "^arrow: null_count -1: means that nulls were not counted"), (3, "null_count 3: el")):
            refused = Exporter(device=said, valid=8, nulls=nulls)
            with pytest.raises(rawcuda.ProtocolError, match=words) as caught:
                module("protocols.arrow").describe(refused, module("protocols.description").Description, None)
            assert caught.value.protects


def test_8_6_nulls_are_looked_for_only_among_the_elements():
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
def test_8_10_a_list_needs_as_many_elements_as_it_says(length, refused):
    child = Exporter(length=length)
    children = [(ctypes.c_uint64 * 1)(ctypes.addressof(struct)) for struct in (child.array, child.schema)]
    lists = Exporter(format=b"+w:3", length=2, n_buffers=1, n_children=1, schema_children=1)
    lists.array[6], lists.schema[5] = (ctypes.addressof(each) for each in children)
    if refused:
        with pytest.raises(rawcuda.ProtocolError, match="arrow: children 5: has fewer than 6 elements"):
            arrow(lists)
    else:
        assert arrow(lists).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("format", [b"+w:3", b"+s"])
@pytest.mark.parametrize("missing", ["array", "schema"])
@pytest.mark.parametrize("whole", [False, True])
def test_children_that_are_null(format, missing, whole):
    child = Exporter(length=6)
    lists = Exporter(format=format, length=2, n_buffers=1, n_children=1, schema_children=1)
    for struct, at, its in ((lists.array, 6, child.array), (lists.schema, 5, child.schema)):
        is_missing = (struct is lists.array) == (missing == "array")
        pointer = (ctypes.c_uint64 * 1)(0 if is_missing else ctypes.addressof(its))
        _alive.append(pointer)
        struct[at] = 0 if is_missing and whole else ctypes.addressof(pointer)
    with pytest.raises(rawcuda.ProtocolError, match="arrow: children .*is null; the exporter is at fault"):
        arrow(lists)


@pytest.mark.parametrize("format", ["+w:²", "w:²", "+w:" + "9" * 5000])
def test_sizes_that_are_no_numbers(format):
    with pytest.raises(rawcuda.ProtocolError, match="arrow: format"):
        arrow(Exporter(format=format.encode()))


# -- streams of our own

Get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)
Tell = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)


class Streams:
    """An exporter of chunks by `__arrow_c_stream__`, which counts the releases of the stream and of its schema.

    chunks    Exporters
    fails     ("get_schema" or "get_next", the number of the call, the code)
    """

    def __init__(self, *chunks, format=b"i", fails=("", 0, 0), said=b"the disk is gone", nameless=False):
        _alive.append(self)
        self.chunks, self.schema_of = chunks, Exporter(format=format)
        self.calls, self.closed = {"get_schema": 0, "get_next": 0}, 0
        self.said = said and ctypes.create_string_buffer(said)

        def get(name, fill):
            def call(stream, out):
                number = self.calls[name]
                self.calls[name] = number + 1
                if (name, number) == fails[:2]:
                    return fails[2]
                fill(number, out)
                return 0

            return Get(call)

        def schema(number, out):
            ctypes.memmove(out, self.schema_of.schema, 72)

        def next_(number, out):
            ctypes.memset(out, 0, 80)
            if number < len(chunks):
                ctypes.memmove(out, chunks[number].array, 80)

        def release(stream):
            self.closed += 1
            ctypes.c_uint64.from_address(stream + 24).value = 0

        self.functions = get("get_schema", schema), get("get_next", next_), Tell(self._tell), Released(release)
        addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in self.functions]
        self.struct = (ctypes.c_uint64 * 5)(*addresses, 0)
        self.name = b"arrow_array" if nameless else b"arrow_array_stream"

    def _tell(self, stream):
        return ctypes.addressof(self.said) if self.said else 0

    def __arrow_c_stream__(self, requested_schema=None):
        return _new(ctypes.addressof(self.struct), self.name, None)

    def counted(self):
        gc.collect()
        return self.closed, len(self.schema_of.released), [len(each.released) for each in self.chunks]


def test_8_2_8_3_a_stream_of_one_chunk_is_viewed_and_released_once():
    chunk = Exporter(length=3, offset=2)
    stream = Streams(chunk)
    made = view(stream)
    assert made.tolist() == [2, 3, 4] and made.ptr == ctypes.addressof(chunk.data) + 8
    assert (made.protocol, made.readonly, made.shape) == ("arrow", True, (3,))
    assert stream.counted() == (1, 1, [0])
    part = made[1:]
    del made
    assert stream.counted() == (1, 1, [0])
    del part
    assert stream.counted() == (1, 1, [1])
    with pytest.raises(rawcuda.ProtocolError, match="the stream was released or taken already"):
        arrow(stream)


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0)])
def test_8_3_a_stream_without_elements(lengths):
    stream = Streams(*[Exporter(length=length) for length in lengths])
    made = view(stream)
    assert (made.shape, made.dtype, made.device) == ((0,), "int32", ("cpu", 0))
    del made
    assert stream.counted() == (1, 1, [1] * len(lengths))


def test_8_3_chunks_without_elements_do_not_count():
    stream = Streams(Exporter(length=0), Exporter(length=2), Exporter(length=0))
    made = view(stream)
    assert made.tolist() == [0, 1] and stream.counted() == (1, 1, [1, 0, 1])


def test_8_4_several_chunks_are_refused_by_a_view_and_put_together_by_copies():
    parts = [(8, 0), (0, 0), (3, 1)]
    wanted = [*range(8), 1, 2, 3]

    def fresh():
        return Streams(*[Exporter(length=length, offset=offset) for length, offset in parts])

    stream = fresh()
    with pytest.raises(
        rawcuda.ProtocolError, match=r"arrow: chunks 2: .*upload\(\), copy\(\) or an assignment"
    ) as caught:
        view(stream)
    assert caught.value.field == "chunks"
    del caught
    assert stream.counted() == (1, 1, [1, 1, 1])
    target = view(bytearray(44)).reinterpret("int32")
    for call in (
        lambda stream: rawcuda.copy(target, stream),
        lambda stream: target.copy_from(stream),
        lambda stream: target.__setitem__(..., stream),
    ):
        target.fill(-1)
        stream = fresh()
        call(stream)
        assert target.tolist() == wanted and stream.counted() == (1, 1, [1, 1, 1])


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("said", [b"the disk is gone", None])
@pytest.mark.parametrize("name", ["get_schema", "get_next"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.ENOSYS, errno.ENOMEM, 12345, -5])
def test_8_5_the_errors_of_a_stream_are_told(name, code, number, said):
    if name == "get_schema" and number:
        number = 0
    chunks = [Exporter(length=2) for _ in range(2)]
    stream = Streams(*chunks, fails=(name, number, code), said=said)
    kind = MemoryError if code == errno.ENOMEM else rawcuda.ProtocolError
    with pytest.raises(kind, match=f"arrow: {name}.*{said.decode() if said else ''}") as caught:
        view(stream)
    if kind is rawcuda.ProtocolError:
        assert caught.value.field == name and f"{name} {code}: is the error" in str(caught.value)
    del caught
    taken = number if name == "get_next" else 0
    assert stream.counted() == (1, int(name == "get_next"), [1] * taken + [0] * (2 - taken))


def test_8_10_what_is_no_stream():
    with pytest.raises(
        rawcuda.ProtocolError, match="capsule .*: must be a PyCapsule with the name 'arrow_array_stream'"
    ):
        arrow(Streams(nameless=True))
    for number, name in enumerate(("get_schema", "get_next")):
        stream = Streams(Exporter(length=1))
        stream.struct[number] = 0
        with pytest.raises(rawcuda.ProtocolError, match=f"arrow: {name} 0: is a null pointer"):
            arrow(stream)
        assert stream.counted()[0] == 1


def test_8_3_a_reader_that_cannot_be_viewed_keeps_its_chunks():
    stream = Streams(Exporter(length=2), format=b"u")
    with pytest.raises(rawcuda.ProtocolError, match="format 'u'"):
        view(stream)
    assert stream.calls["get_next"] == 0 and stream.counted() == (1, 1, [0])


def test_8_2_two_threads_want_one_stream():
    for _ in range(50):
        stream, made, failed = Streams(Exporter(length=2)), [], []

        def take(stream=stream, made=made, failed=failed):
            try:
                made.append(view(stream))
            except rawcuda.ProtocolError as error:
                failed.append(str(error))

        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == len(failed) == 1 and "taken already" in failed[0]
        del take
        made.clear()
        assert stream.counted() == (1, 1, [1])


class Both(Streams):
    """Offers an array that it refuses to give, and a stream."""

    def __init__(self, error, *chunks):
        super().__init__(*chunks)
        self.error = error

    def __arrow_c_array__(self, requested_schema=None):
        raise self.error


@pytest.mark.parametrize("kind", [BufferError, TypeError, ValueError, NotImplementedError, RuntimeError, ImportError])
def test_8_1_an_interface_that_is_refused_falls_to_the_next_one(kind):
    assert view(Both(kind("no"), Exporter(length=2))).tolist() == [0, 1]
    error = kind("no array")
    alone = type("Alone", (), {"__arrow_c_array__": lambda self, requested_schema=None: (_ for _ in ()).throw(error)})
    with pytest.raises(kind) as caught:
        view(alone())
    assert caught.value is error and "arrow: Alone raised this" in error.__notes__[0]


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, OSError])
def test_8_1_an_interface_that_fails_ends_the_search(kind):
    error, chunk = kind("now"), Exporter(length=2)
    with pytest.raises(kind) as caught:
        view(Both(error, chunk))
    assert caught.value is error and not chunk.released


def test_8_1_arrow_comes_last():
    class Also(Exporter):
        __array_interface__ = property(lambda self: {"shape": (2,), "typestr": "<i4", "version": 3, "data": self.at})

    thing = Also(length=2)
    thing.at = ctypes.addressof(thing.data), False
    assert view(thing).protocol == "array_interface" and view(thing, protocol="arrow").protocol == "arrow"


# -- what is missing


def test_0_8_8_6_nulls_end_the_search():
    class Also(Exporter):
        def __array__(self, *a, **k):
            return numpy.zeros(8, "i4")

    for make in (
        lambda: Also(valid=ctypes.addressof(BITS), nulls=-1),
        lambda: Also(format=b"b", valid=ctypes.addressof(BITS), nulls=1),
        lambda: Also(format=b"n", nulls=8),
    ):
        for call in (view, lambda thing: rawcuda.copy(numpy.zeros(8, "i4"), thing)):
            exporter = make()
            with pytest.raises(rawcuda.ProtocolError, match="null") as caught:
                call(exporter)
            assert caught.value.protects
    rawcuda.copy(numpy.zeros(8, "i4"), Also(format=b"b"))  # without nulls, __array__ is asked


@pytest.mark.parametrize("format", ["tsn:", "tsu:UTC", "tss:", "tDm", "tdm"])
def test_8_7_a_time_that_would_be_nat_is_refused(format):
    times = (ctypes.c_int64 * 5)(0, 1 << 63, -1, -(2**63), 7)
    times[1] = 0
    whole = Exporter(format=format.encode(), data=ctypes.addressof(times), length=5)
    with pytest.raises(
        rawcuda.ProtocolError, match=r"arrow: element 3 -9223372036854775808: is a time for Arrow"
    ) as caught:
        arrow(whole)
    assert caught.value.protects
    for part in ({"length": 3}, {"length": 1, "offset": 4}):
        assert arrow(Exporter(format=format.encode(), data=ctypes.addressof(times), **part)).shape == (part["length"],)
    plain = arrow(Exporter(format=b"l", data=ctypes.addressof(times), length=5))
    assert plain.tolist()[3] == -(2**63)


@pytest.mark.parametrize("dtype", ["M8[ns]", "M8[us]", "m8[ms]", "m8[s]"])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 300000])
def test_8_7_nat_leaves_as_null(dtype, count):
    pa = pytest.importorskip("pyarrow")
    values = numpy.arange(count).astype(dtype)
    assert pa.array(view(values)).null_count == 0
    lost = sorted({0, count // 2, count - 1})
    values[lost] = "NaT"
    theirs = pa.array(view(values))
    theirs.validate(full=True)
    assert (
        theirs.null_count == len(lost) and [at for at, each in enumerate(theirs.is_null().to_pylist()) if each] == lost
    )
    assert theirs.buffers()[1].address == values.ctypes.data
    assert numpy.array_equal(theirs.to_numpy(zero_copy_only=False), values, equal_nan=True)
    with pytest.raises(rawcuda.ProtocolError, match=f"null_count {len(lost)}: elements are null"):
        view(view(values), protocol="arrow")
    del values
    gc.collect()
    assert theirs.null_count == len(lost) and theirs[0].as_py() is None


def test_8_7_bytes_that_look_like_nat_between_two_times_do_not_count():
    raw = b"\x01" + b"\0" * 7 + b"\x80" + b"\x01" * 7  # 00 00 00 00 00 00 00 80, one byte after the start
    pa = pytest.importorskip("pyarrow")
    assert pa.array(view(raw).reinterpret("<M8[ns]")).null_count == 0


def test_8_7_nan_is_a_number_in_both_directions():
    pa = pytest.importorskip("pyarrow")
    theirs = pa.array(view(numpy.array([1.0, float("nan")])))
    assert theirs.null_count == 0 and str(arrow(theirs).tolist()) == "[1.0, nan]"


# -- columns of pyarrow


def test_8_3_8_4_columns_of_pyarrow(device):
    pa = pytest.importorskip("pyarrow")
    column = pa.table({"a": pa.array([1, 2, 3], "int16")})["a"]
    made = view(column)
    assert made.tolist() == [1, 2, 3] and made.ptr == column.chunk(0).buffers()[1].address and made.readonly
    assert view(column[1:]).tolist() == [2, 3]
    two = pa.chunked_array([[1, 2], [3]], pa.float32())
    assert device.upload(two).tolist() == [1, 2, 3] and device.upload(two).dtype == "float32"
    matrix = pa.chunked_array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.int32(), 2))
    assert device.upload(matrix).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert device.upload(pa.chunked_array([[True], [False]])).tolist() == [True, False]
    assert device.upload(pa.chunked_array([], pa.int8())).shape == (0,)
    for refused in (pa.chunked_array([[1], [None]]), pa.chunked_array([[None, True]]), pa.table({"a": [1, None]})):
        with pytest.raises(rawcuda.ProtocolError, match="null_count 1"):
            device.upload(refused)
    assert device.upload(pa.table({"a": [1, 2], "b": [3, 4]})).tolist() == [[1, 3], [2, 4]]


def test_5_17_8_11_arrays_that_pyarrow_does_not_give_by_dlpack(device):
    import datetime

    pa = pytest.importorskip("pyarrow")
    time = datetime.datetime(2020, 1, 1)
    for array, dtype in (
        (pa.array([time]), "M8[us]"),
        (pa.array([time], pa.timestamp("ns", "Europe/Berlin")), "M8[ns]"),
        (pa.array([time.date()], pa.date64()), "M8[ms]"),
        (pa.array([datetime.timedelta(1)]), "m8[us]"),
    ):
        assert view(array).dtype == device.upload(array).dtype == numpy.dtype(dtype)
        assert numpy.asarray(view(array)).tolist() == array.to_numpy(zero_copy_only=False).tolist()
    days = pa.array([time.date()])
    assert view(days).dtype == device.upload(days).dtype == "int32" and view(days).tolist() == [18262]
    bits = pa.array([True] * 9 + [False] * 4)[8:]
    assert device.upload(bits).tolist() == [True, False, False, False, False]
    with pytest.raises(TypeError) as caught:
        view(bits)
    assert "dlpack: BooleanArray raised this" in caught.value.__notes__[0] and "one bit" in caught.value.__notes__[0]
    assert device.upload(pa.array([5, 7, 5]).dictionary_encode()).tolist() == [5, 7, 5]
    target = view(bytearray(3)).reinterpret("bool")
    target[...] = pa.array([True, False, True])
    assert target.tolist() == [True, False, True]


def test_8_8_8_9_types_that_are_refused_by_every_way_in(device):
    import decimal

    pa = pytest.importorskip("pyarrow")
    storage = pa.ExtensionArray.from_storage
    lists = pa.array([[1], [2, 3]])
    for array, words in (
        (storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))), "arrow.uuid"),
        (storage(pa.bool8(), pa.array([1], pa.int8())), "arrow.bool8"),
        (pa.chunked_array([storage(pa.bool8(), pa.array([1], pa.int8()))]), "arrow.bool8"),
        (lists, "list"),
        (pa.chunked_array([lists]), r"\+l"),
        (pa.array([decimal.Decimal(1)]), "decimal|d:"),
        (pa.array(["a"]), "string|'u'"),
        (pa.array([{"a": 1}]), "struct|s"),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)).take(pa.array([0, None], "int8")), "null_count"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "union"),
    ):
        target = view(numpy.zeros(2, "i8"))
        for call in (
            view,
            device.upload,
            lambda array, target=target: rawcuda.copy(target, array),
            lambda array, target=target: target.__setitem__(..., array),
        ):
            with pytest.raises((TypeError, BufferError), match=words):
                call(array)
        with pytest.raises(rawcuda.ProtocolError):
            arrow(array)
    assert device.upload(storage(pa.bool8(), pa.array([1], pa.int8())).storage).tolist() == [1]


def test_8_6_nulls_of_nested_types_are_found():
    pa = pytest.importorskip("pyarrow")
    fields = pa.struct([("a", pa.int8()), ("b", pa.int8())])
    struct = pa.array([{"a": 1, "b": 2}, {"a": 1, "b": None}, None, {"a": 3, "b": 4}], fields)
    missing = module("protocols.arrow")._missing_in
    fetch = module("protocols.arrow").fetch
    for array, count in (
        (struct, 2),  # a structure, and one of b
        (struct[:1], 0),
        (struct[1:2], 1),
        (struct[3:], 0),
        (pa.array([5, None, 5]).dictionary_encode(), 1),
        (pa.array([5, None, 5]).dictionary_encode()[:1], 0),
        (pa.array([[1, None], [3]]), 1),
        (pa.array([True, None, None]), 2),
        (pa.array([None, "a"]), 1),
        (pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([None], pa.int32())), 1),
        (pa.array([[True, None], [None, None]], pa.list_(pa.bool_(), 2))[1:], 2),
    ):
        parts = fetch(array)
        assert missing(parts.schema, parts.arrays[0], False) == count, array


# -- explain()


def test_explain_shows_what_arrow_says_and_fetches_no_chunk():
    exporter = Exporter(length=5, offset=1)
    said = str(rawcuda.explain(exporter))
    assert "the Arrow C interfaces      yes" in said
    assert "__arrow_c_array__() -> format 'i', device ('cpu', 0), length 5, null_count 0, offset 1, n_buffers 2" in said
    assert f"= int32 (5,), byte strides (4,), on cpu 0, at {ctypes.addressof(exporter.data) + 4:#x}, read-only" in said
    stream = Streams(Exporter(length=2))
    said = str(rawcuda.explain(stream))
    assert "__arrow_c_stream__() -> format 'i'" in said and "it would fetch the chunks of the stream" in said
    assert stream.calls["get_next"] == 0
    refused = str(rawcuda.explain(Exporter(valid=ctypes.addressof(BITS), nulls=1)))
    assert "the Arrow C interfaces      yes, but refused" in refused and "null_count 1" in refused
    numbers = numpy.arange(3)
    assert "none: all describe the same memory in the same way" in str(rawcuda.explain(view(numbers)))
    on_device = str(rawcuda.explain(Exporter(device=(2, 1))))
    assert "device ('cuda', 1)" in on_device and "refused" not in on_device.partition("What view()")[0]


def test_a_trace_tells_the_steps_of_arrow():
    steps = []
    with rawcuda.trace(steps.append):
        view(Exporter(length=2)), view(Streams(Exporter(length=3)))
    told = [str(step) for step in steps]
    assert any("Exporter.__arrow_c_array__()" in each and "(2,)" in each for each in told), told
    assert any("Streams.__arrow_c_stream__()" in each and "(3,)" in each for each in told), told


def test_8_4_a_graph_copies_several_chunks(device):
    chunks = Exporter(length=3), Exporter(length=2, offset=4)
    target = device.empty((5,), "int32")
    with device.graph() as graph, device.stream() as stream:
        graph.copy(target, Streams(*chunks))
        graph.launch(stream)
        stream.synchronize()
    assert target.tolist() == [0, 1, 2, 4, 5]
