"""Arguments that pretend, fail, recurse or are interrupted: each is refused by name, or raises its own error."""

import ctypes
import struct
import sys
import threading

import pytest

from tests.driver import kernels
from tests.driver.test_kernel import echoed
from tests.shared import run_threads
from tests.subject import module, rawcuda

errors = module("errors")


class Strange:
    """Make a type with the given methods: Strange(int, __index__=lambda self: 300)(5)."""

    def __new__(cls, *bases, **methods):
        return type("Strange", bases, methods)


def failing(error):
    def fail(*_, **__):
        raise error("mine")

    return fail


LIAR = Strange(
    int,
    __index__=lambda self: 300,
    __and__=lambda *_: "x",
    __rand__=lambda *_: "x",
    __le__=lambda *_: True,
    __ge__=lambda *_: True,
    __repr__=failing(KeyError),
)
OWN_ERRORS = [
    (".u32", Strange(__index__=failing(RuntimeError))(), RuntimeError),
    (".f32", Strange(__float__=failing(RuntimeError))(), RuntimeError),
    (".f32", Strange(float, __float__=failing(ZeroDivisionError))(1.0), ZeroDivisionError),
    (".u64", Strange(__dlpack__=property(failing(RuntimeError)))(), RuntimeError),
    (".u64", Strange(__cuda_array_interface__=property(failing(RuntimeError)))(), RuntimeError),
    (".u64", Strange(__dlpack__=failing(MemoryError), __dlpack_device__=lambda self: (2, 0))(), MemoryError),
    (".u32", Strange(__index__=failing(KeyboardInterrupt))(), KeyboardInterrupt),
]


@pytest.mark.parametrize("kind, argument, error", OWN_ERRORS)
def test_an_arguments_own_error_is_passed_on(device, kind, argument, error):
    with pytest.raises(error, match="mine"):
        echoed(device, [kind], argument)


def test_a_subclass_counts_as_what_it_is(device):
    assert echoed(device, [".u8"], LIAR(5))[0][:1] == b"\5"
    with pytest.raises(ValueError, match="300 does not fit: it holds -128"):
        echoed(device, [".u8"], LIAR(300))
    liar = Strange(float, __lt__=lambda *_: True, __gt__=lambda *_: True, __abs__=lambda _: 0.0)
    with pytest.raises(ValueError, match="does not fit"):
        echoed(device, [".f32"], liar(1e300))


HUGE = 10**5000
REFUSED = [
    (".u32", HUGE, ValueError, "an int of 16610 bits does not fit"),
    (".u64", -HUGE, ValueError, "an int of 16610 bits does not fit"),
    (".f32", HUGE, ValueError, "does not fit"),
    (".f64", HUGE, ValueError, r"magnitude must be below 1\.797"),
    (12, HUGE, TypeError, "declare the type"),
    (".u32", Strange(__index__=lambda self: HUGE)(), ValueError, "an int of 16610 bits does not fit"),
    (".u32", Strange(__index__=lambda self: 2**40)(), ValueError, "1099511627776 does not fit: it holds"),
    (".u32", Strange(__class__=property(lambda self: int))(), TypeError, "a Strange cannot be converted to an integer"),
    (".f32", Strange(__class__=property(lambda self: int))(), TypeError, "a Strange cannot be converted to a float"),
    (".u64", rawcuda.StridedView, TypeError, "a type cannot be converted to an integer"),
    (".u32", Strange(bytes, __len__=lambda self: 4)(b"12"), ValueError, "has 2 bytes, not 4"),
    (8, Strange(bytes, __len__=lambda self: 8)(b"12"), ValueError, "has 2 bytes, not 8"),
    (".u32", Strange(str)("1"), TypeError, "cannot be converted to an integer"),
    (".f32", Strange(str)("1"), TypeError, "cannot be converted to a float"),
    (".f32", 1j, TypeError, "cannot be converted to a float"),
    (".f64", Strange(complex)(1), TypeError, "cannot be converted to a float"),
    (".u64", ctypes.pointer(ctypes.c_int()), TypeError, "points to host memory"),
    (".u64", (ctypes.c_int * 2)(), ValueError, rf"a {(ctypes.c_int * 2).__name__} is in host memory"),
    (".u64", ctypes.byref(ctypes.c_int()), TypeError, "cannot be converted to an integer"),
    (".u32", rawcuda.In(5), TypeError, "an In cannot be converted"),
    (".f32", bytearray(4), TypeError, "cannot be converted to a float"),
    (".u8", ctypes.c_char(b"a"), TypeError, "another kind"),
    (".f64", ctypes.c_longdouble(1), (ValueError, TypeError), "has 16 bytes, not 8|another kind"),
]


@pytest.mark.parametrize("kind, argument, error, words", REFUSED, ids=map(str, range(len(REFUSED))))
def test_strange_values_are_refused_by_name(device, kind, argument, error, words):
    with pytest.raises(error, match=words) as raised:
        echoed(device, [kind], argument)
    assert "kernel echo: parameter 'p0'" in str(raised.value)


NO_NUMBERS = [
    1j,
    "1",
    object(),
    {1},
    {},
    slice(1),
    range(2),
    type,
    print,
    [1],
    (),
    bytearray(2),
    ctypes.byref(ctypes.c_int()),
]


@pytest.mark.parametrize("kind", [".u32", ".f32"])
def test_whatever_is_no_number_is_refused_with_a_remedy(device, kind):
    numpy = pytest.importorskip("numpy")
    arrays = numpy.zeros(1), numpy.complex64(1), numpy.str_("1"), numpy.datetime64("2020"), numpy.zeros(1, "i4,i4")[0]
    for argument in (*NO_NUMBERS, *arrays, *([1.5, numpy.float32(1), None] if kind == ".u32" else [None])):
        with pytest.raises(TypeError, match="parameter 'p0' is .*: (give|look|make|declare) ") as raised:
            echoed(device, [kind], argument)
        is_complex = isinstance(argument, (complex, numpy.complex64))
        assert ("its .real" in str(raised.value)) == is_complex, str(raised.value)


class Telling(ctypes.Structure):
    """A structure with its own __bytes__, as structures of network protocols have."""

    _fields_ = (("a", ctypes.c_uint32), ("b", ctypes.c_uint32))

    def __bytes__(self):
        return b"elsewise"


@pytest.mark.parametrize("kind", [8, ".u32", ".f32"])
def test_what_lies_in_memory_is_packed_whatever_bytes_says(device, kind):
    size = kind if isinstance(kind, int) else 4
    data = Strange(bytes, __bytes__=lambda self: b"other" * 9, __getitem__=lambda *_: 5)(bytes(range(size)))
    assert echoed(device, [kind], data)[0][:size] == bytes(range(size))
    assert echoed(device, [8], Telling(1, 2))[0][:8] == struct.pack("<II", 1, 2)


def test_large_ints_are_rounded_once_to_a_float32(device):
    numpy = pytest.importorskip("numpy")
    for given, rounded in (
        (2**60 + 2**36 + 1, 2.0**60 + 2.0**37),
        (2**60 + 2**36, 2.0**60),
        (2**60 + 2**36 - 1, 2.0**60),
        (2**60 + 3 * 2**36 - 1, 2.0**60 + 2.0**37),
        (2**54 + 1, 2.0**54),
    ):
        for number in (given, numpy.int64(given), numpy.uint64(given)):
            assert echoed(device, [".f32"], number)[0][:4] == struct.pack("<f", rounded)
        for number in (-given, numpy.int64(-given)):
            assert echoed(device, [".f32"], number)[0][:4] == struct.pack("<f", -rounded)
    assert echoed(device, [".f32"], 2**100 + 2**76 + 1)[0][:4] == struct.pack("<f", 2.0**100 + 2.0**77)
    assert echoed(device, [".f64"], 2**60 + 2**7 + 1)[0][:8] == struct.pack("<d", 2.0**60 + 2.0**8)


def test_the_numbers_of_ml_dtypes_are_numbers(device):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert echoed(device, [".f32"], ml_dtypes.bfloat16(1.5))[0][:4] == struct.pack("<f", 1.5)
    assert echoed(device, [".f64"], ml_dtypes.float8_e4m3fn(-2))[0][:8] == struct.pack("<d", -2)
    assert echoed(device, [2], ml_dtypes.bfloat16(1.5))[0][:2] == b"\xc0\x3f"
    for data in (ml_dtypes.bfloat16(1.5), ml_dtypes.uint4(9)):  # (uint4 has no __index__)
        with pytest.raises(TypeError, match="parameter 'p0' is .u32"):
            echoed(device, [".u32"], data)


def test_what_is_big_endian_is_refused_and_a_number_is_swapped(device):
    numpy = pytest.importorskip("numpy")
    big = ctypes.c_float.__ctype_be__

    class Inner(ctypes.BigEndianStructure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    class Outer(ctypes.Structure):
        _fields_ = (("a", Inner),)

    record = numpy.array((1, 2), [("a", ">i4"), ("b", ">f4")])[()]
    for data in (Inner(1, 2), Outer(Inner(1, 2)), (big * 2)(1, 2), record):
        with pytest.raises(ValueError, match="^kernel echo: parameter 'p0' is 8 bytes .* is big-endian, and CUDA is"):
            echoed(device, [8], data)
    assert echoed(device, [4], big(1.5))[0][:4] == struct.pack("<f", 1.5)
    assert echoed(device, [8], record.astype(record.dtype.newbyteorder("=")))[0][:8] == struct.pack("<if", 1, 2)


def test_the_errors_for_structures_give_the_remedy(device):
    numpy = pytest.importorskip("numpy")
    pair = numpy.array([1, 2], "f4")
    with pytest.raises(ValueError, match=r"in host memory.* for the bytes of a structure, give bytes\(it\)"):
        echoed(device, [8], pair)
    assert echoed(device, [8], bytes(pair))[0][:8] == struct.pack("<ff", 1, 2)
    fields = [("a", "i4"), ("b", "f8")]
    with pytest.raises(ValueError, match=r"has 12 bytes, not 16: .* numpy\.dtype\(fields, align=True\)"):
        echoed(device, [16], numpy.array((1, 2), fields)[()])
    wide = numpy.zeros(1, [("a", int), ("b", float)])[0]
    with pytest.raises(
        ValueError, match=r"has 16 bytes, not 8: the int and float of Python .* write \"i4\" and \"f4\""
    ):
        echoed(device, [8], wide)
    with pytest.raises(ValueError, match=r"has 16 bytes, not 12$"):
        echoed(device, [12], wide)
    with pytest.raises(ValueError, match=r"has 12 bytes, not 16: struct\.pack\(\) adds no padding at the end"):
        echoed(device, [16], struct.pack("<Qi", 1, 2))
    aligned = numpy.array((1, 2), numpy.dtype(fields, align=True))[()]
    assert echoed(device, [16], aligned)[0][:4] == struct.pack("<i", 1)
    for values in ((1.0, 2), [1.0, 2], {"a": 1}):
        with pytest.raises(TypeError, match=r"give bytes, as of struct\.pack\(\)"):
            echoed(device, [16], values)


def test_a_refusal_of_a_protocol_names_the_parameter(device):
    broken = Strange(__cuda_array_interface__={"shape": (1,), "typestr": "<f4", "version": 3})()
    with pytest.raises(errors.ProtocolError, match="^kernel echo: parameter 'p0': ") as raised:
        echoed(device, [".u64"], broken)
    assert raised.value.protocol == "cuda_array_interface"


def test_numpy_scalars(device):
    numpy = pytest.importorskip("numpy")
    good = [
        (".u8", numpy.bool_(True), b"\1"),
        (".s32", numpy.int8(-1), b"\xff" * 4),
        (".u64", numpy.uint64(2**64 - 1), b"\xff" * 8),
        (".f32", numpy.float16(1.5), struct.pack("<f", 1.5)),
        (".f64", numpy.longdouble(1.5), struct.pack("<d", 1.5)),
        (".f32", numpy.uint8(3), struct.pack("<f", 3)),
        (2, numpy.float16(1.5), struct.pack("<e", 1.5)),
        (8, numpy.datetime64(5, "s"), struct.pack("<q", 5)),
        (8, numpy.complex64(1 + 2j), struct.pack("<ff", 1, 2)),
        (8, numpy.array((1, 2.0), dtype="i4,f4")[()], struct.pack("<if", 1, 2)),
        (3, numpy.void(b"abc"), b"abc"),
    ]
    for kind, argument, stored in good:
        assert echoed(device, [kind], argument)[0][: len(stored)] == stored, (kind, argument)
    bad = [
        numpy.datetime64(5, "ns"),
        numpy.timedelta64(5, "ns"),
        numpy.void(b"12345678"),
        numpy.array((1, 2.0), dtype="i4,f4")[()],
        numpy.str_("1"),
        numpy.complex64(1),
        numpy.array(5),
        numpy.array([5]),
        numpy.ma.masked_array([1], [True]),
        numpy.ma.masked,
    ]
    for kind in (".u8", ".u32", ".f32", ".f64", ".u64"):
        for argument in bad:
            if kind == ".u64" and isinstance(argument, numpy.ndarray) and device.attribute("PAGEABLE_MEMORY_ACCESS"):
                continue  # on such a device, an address of host memory is legal
            with pytest.raises((TypeError, ValueError), match="kernel echo: parameter 'p0' is "):
                echoed(device, [kind], argument)
    with pytest.raises(TypeError, match="or round it"):
        echoed(device, [".u32"], numpy.longdouble(1))


def test_in_wraps_any_number_of_times(device):
    with device.allocate(8) as memory:
        (slot,) = echoed(device, [".u64"], rawcuda.In(rawcuda.In(memory)))
        assert int.from_bytes(slot[:8], "little") == memory.ptr
    assert echoed(device, [".u64"], rawcuda.In(None))[0][:8] == bytes(8)


# -- shapes of kernels


def test_no_parameters_and_many(device):
    with device.load(kernels.GLOBALS) as loaded:
        launch = loaded["nothing"].configure(grid=1, block=1)
        launch()
        with pytest.raises(TypeError, match="0 arguments.* 1 (was|arguments were) given"):
            launch(1)
    count = 150
    slots = echoed(device, [".u32"] * count, *range(count))
    assert [int.from_bytes(slot[:4], "little") for slot in slots] == list(range(count))


def test_structures_of_odd_sizes_and_alignments(device):
    sizes = [1, 3, 8, 5, 2, 16, 7]
    values = [bytes(range(index, index + size)) for index, size in enumerate(sizes)]
    slots = echoed(device, sizes, *values)
    assert [slot[:size] for slot, size in zip(slots, sizes)] == values


@pytest.mark.parametrize("name", ["k" * 300, "$dollar$", "_under%s", "%percent", "_Z3addILi3EEvPfS0_"])
def test_names_that_ptx_allows(device, name):
    name = name.replace("%s", "$s")
    with device.load(kernels.HEAD + f".visible .entry {name}(.param .u32 {name}_param_0) {{ ret; }}\n") as loaded:
        assert list(loaded) == [name] and name in loaded and [p.size for p in loaded[name].parameters] == [4]
        loaded[name].launch(1, grid=1, block=1)
        with pytest.raises(ValueError, match="does not fit"):
            loaded[name].launch(2**32, grid=1, block=1)


def test_a_mangled_name_is_hinted_at(device):
    with device.load(kernels.HEAD + ".visible .entry _Z3addPf(.param .u64 a) { ret; }\n") as loaded:
        with pytest.raises(errors.NotFound, match=r'it has _Z3addPf.*extern "C"'):
            loaded["add"]


# -- in the middle of a launch


def test_an_exporter_that_launches_while_it_is_asked(device):
    class Recursive:
        depth = 0

        def __init__(self, memory, launch):
            self.memory, self.launch = memory, launch

        @property
        def __cuda_array_interface__(self):
            Recursive.depth += 1
            if Recursive.depth < 10:
                self.launch(self, Recursive.depth)
            return self.memory.__cuda_array_interface__

    with device.load(kernels.echo(".u32")) as loaded, device.allocate(16) as out:
        launch = loaded["echo"].configure(grid=1, block=1)
        launch(Recursive(out, launch), 77)
        device.synchronize()
        got = bytearray(16)
        out.copy_to(got)
        assert got[:4] == b"\x4d\0\0\0"  # the outermost launch is the last one


class Exporter:
    """An exporter of memory; `alive` is the number of these objects."""

    alive = 0

    def __init__(self, memory):
        Exporter.alive += 1
        self.__cuda_array_interface__ = memory.__cuda_array_interface__

    def __del__(self):
        Exporter.alive -= 1


def test_in_whose_array_is_exchanged_or_closed(device):
    with device.load(kernels.echo(".u64")) as loaded, device.allocate(48) as out:
        a, b = device.empty((4,), "float32"), device.empty((4,), "float32")
        launch = loaded["echo"].configure(grid=1, block=1)
        given = rawcuda.In(a)
        for array in (a, b, b.owner, a[1:], rawcuda.view(a), a):
            given.exporter = array
            launch(out, given)
            got = bytearray(48)
            device.synchronize()
            out.copy_to(got)
            assert int.from_bytes(got[:8], "little") == array.ptr
        a.owner.close()
        with pytest.raises(errors.Closed, match="kernel echo: parameter 'p0'"):
            launch(out, given)
        given.exporter = bytearray(8)
        with pytest.raises(ValueError, match="host memory"):
            launch(out, given)


def test_in_that_contains_itself(device):
    itself, first, second = rawcuda.In(None), rawcuda.In(None), rawcuda.In(None)
    itself.exporter, first.exporter, second.exporter = itself, second, first
    with device.load(kernels.ADD) as loaded, device.allocate(16) as memory:
        launch = loaded["add"].configure(grid=1, block=1)
        for wrong in (itself, first):
            with pytest.raises(ValueError, match=r"kernel add: parameter 'a'.*contains itself.*write In\(array\)"):
                launch(wrong, memory, memory, 0)
            assert repr(wrong) == "In(In(...))"
        launch(rawcuda.In(rawcuda.In(memory)), memory, memory, 0)
        device.synchronize()


def test_a_failure_half_way_keeps_nothing(device):
    with device.load(kernels.ADD) as loaded, device.allocate(16) as memory:
        launch = loaded["add"].configure(grid=1, block=1)
        for _ in range(5):
            with pytest.raises(ValueError, match="does not fit"):
                launch(Exporter(memory), Exporter(memory), memory, 2**40)
        del _
        sys.last_value = None
        assert Exporter.alive == 0 and len(launch._prepared.pool) <= 2
        launch(Exporter(memory), memory, memory, 0)  # it still works
        device.synchronize()
        assert Exporter.alive == 0 and len(launch._prepared.pool) == 1


def test_an_exporter_outlives_a_launch_that_was_interrupted(device, monkeypatch):
    with device.load(kernels.ADD) as loaded, device.allocate(16) as memory:
        launch = loaded["add"].configure(grid=1, block=1)
        call = launch._prepared.call

        def interrupted(*arguments):
            call(*arguments)
            raise KeyboardInterrupt

        launch._prepared.call = interrupted
        with pytest.raises(KeyboardInterrupt):
            launch(Exporter(memory), memory, memory, 0)
        launch._prepared.call = call
        sys.last_value = None
        assert Exporter.alive == 1 and len(launch._prepared.pool) <= 2
        device.synchronize()
        assert Exporter.alive == 0


def test_many_threads_over_one_launch_switching_all_the_time(device):
    with device.load(kernels.echo(".u32", ".u64", ".f32")) as loaded, device.stream() as stream:
        launch = loaded["echo"].configure(grid=1, block=1, stream=stream)

        def work(seed):
            with device.allocate(48) as out:
                for number in range(25):
                    value = seed * 1000 + number
                    launch(out, value, value << 20, float(value))
                    got = bytearray(48)
                    out.copy_to(got, stream=stream)
                    assert (got[:4], got[16:24], got[32:36]) == (
                        struct.pack("<I", value),
                        struct.pack("<Q", value << 20),
                        struct.pack("<f", value),
                    ), (seed, number, bytes(got))

        run_threads(work)
        assert 1 <= len(launch._prepared.pool) <= 8


# -- configurations


def test_numbers_from_numpy_configure(device):
    numpy = pytest.importorskip("numpy")
    with device.load(kernels.REVERSE) as loaded:
        out = device.empty(6, "uint32")
        launch = loaded["reverse"].configure(
            grid=numpy.array([2, 1]), block=numpy.int64(3), shared_bytes=numpy.int32(12)
        )
        assert (launch.grid, launch.block, launch.shared_bytes) == ((2, 1, 1), (3, 1, 1), 12)
        launch(out)
        assert out.tolist() == [2, 1, 0] * 2
        assert loaded["reverse"].max_active_blocks(numpy.int64(32)) == loaded["reverse"].max_active_blocks((32, 1)) > 0
        with pytest.raises(ValueError, match=r"grid=an int of 16610 bits: x is at most|x is at most"):
            loaded["reverse"].configure(grid=HUGE, block=1)
        with pytest.raises(ValueError, match="shared_bytes=an int of"):
            loaded["reverse"].configure(grid=1, block=1, shared_bytes=HUGE)
        for block in (0, (), (1, 2, 3, 4)):
            with pytest.raises(ValueError, match="block="):
                loaded["reverse"].max_active_blocks(block)


def test_attributes_asked_by_many_threads_at_once(device):
    wrong = []
    with device.load(kernels.ADD) as loaded:
        for _ in range(20):
            kernel, start = loaded["add"], threading.Barrier(4)

            def ask():
                start.wait()
                found = dict(kernel.attributes)
                if found["max_threads_per_block"] != 1024 or found["ptx_version"] != 50 or len(found) < 10:
                    wrong.append(found)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "declared, size, value",
    [
        ("bfloat16", 2, 1e39),
        ("bfloat16", 2, (2 - 2.0**-8) * 2.0**127),
        ("bfloat16", 2, 10**400),
        ("complex64", 8, 1e39),
        ("complex64", 8, 1e39j),
        ("complex128", 16, 10**400),
        ("float16", 2, 65520.0),
        ("float32", 4, 1e39),
    ],
)
def test_floats_out_of_range_are_refused_in_a_launch(device, declared, size, value):
    with pytest.raises(ValueError, match="does not fit"):
        echoed(device, [size], value, parameters=["pointer", declared])
