"""Launch objects: every kind of argument on every kind of stream, errors, generated text, threads and interrupts."""

import array
import ctypes
import gc
import inspect
import linecache
import re
import signal
import struct
import sys
import threading
import time
import traceback
import weakref
from functools import partial

import pytest

from tests.conftest import frees_classes
from tests.driver import kernels
from tests.subject import module, rawcuda

errors, written, packing = module("errors"), module("gpu.kernels.launch"), module("gpu.kernels.packing")


@pytest.fixture
def add(device):
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        yield loaded["add"], stream


def arrays(device, *numbers):
    made = [device.empty((4,), "float32") for _ in range(3)]
    for one, number in zip(made, numbers):
        one.fill(number)
    device.synchronize()  # launches may be on another stream
    return made


def test_every_kind_of_argument_is_taken_after_any_other(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for given in (a, a.ptr, rawcuda.view(a), a.owner, a, rawcuda.In(a), a.ptr, a):
        c.fill(0.0, stream=stream)
        launch(given, b, c, 4)
        stream.synchronize()
        assert c.tolist() == [3.0] * 4, given
        assert len(launch._prepared.pool) == 1


def test_what_is_refused_is_refused_also_later(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    for _ in range(3):
        launch(a, b, c, 4)
    for wrong, error in (
        ((a, b, c), TypeError),
        ((a, b, c, 4, 4), TypeError),
        ((a, b, c, 4.0), TypeError),
        ((a, b, c, 2**32), ValueError),
        ((a, b, b"x", 4), ValueError),
        ((a, b, bytearray(16), 4), ValueError),
        ((a, b, c.broadcast_to((2, 4)), 4), ValueError),
    ):
        with pytest.raises(error):
            launch(*wrong)
    with pytest.raises(TypeError):
        launch(a, b, c, n=4)
    stream.synchronize()


def test_what_is_closed_meanwhile_is_seen(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    launch = kernel.configure(grid=1, block=32, stream=stream)
    launch(a, b, c, 4)
    c.owner.close()
    with pytest.raises(errors.Closed):
        launch(a, b, c, 4)
    stream.close()
    with pytest.raises(errors.Closed):
        launch(a, b, a, 4)


def test_numbers_that_are_only_equal_to_those_configured_before_are_refused(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for _ in range(2):
        kernel.launch(a, b, c, 4, grid=1, block=(32, 1, 1), stream=stream)
    for grid, block in ((1.0, (32, 1, 1)), (True, (32, 1, 1)), (1, (32.0, 1, 1)), (1, (32, True, 1))):
        with pytest.raises(TypeError):
            kernel.launch(a, b, c, 4, grid=grid, block=block, stream=stream)
    kernel.launch(a, b, c, 4, grid=[1], block=[32], stream=stream)
    stream.synchronize()
    assert c.tolist() == [3.0] * 4


def test_kept_launches_hold_neither_stream_nor_module(device):
    with device.load(kernels.ADD) as loaded:
        kernel = loaded["add"]
        a, b, c = arrays(device, 1.0, 2.0)
        with device.stream() as stream:
            kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)
        with pytest.raises(errors.Closed):
            kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)
    with device.stream() as stream, pytest.raises(errors.Closed):
        kernel.launch(a, b, c, 4, grid=1, block=32, stream=stream)


def test_a_copy_done_again_is_the_same_copy(device):
    a, b = device.empty((4,), "float32"), device.allocate(16, kind="pinned").view().reinterpret("float32")
    with device.stream() as stream:
        for number in (1.0, 2.0, 3.0, 4.0, 5.0):
            a.fill(number, stream=stream)
            rawcuda.copy(b, a, stream=stream)
            stream.synchronize()
            assert b.tolist() == [number] * 4
        b.owner.close()
        with pytest.raises(errors.Closed):
            rawcuda.copy(b, a, stream=stream)


def test_new_arrays_at_each_launch_and_one_that_is_closed(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    a, b, c = arrays(device, 1.0, 2.0)
    device.synchronize()
    for _ in range(12):
        x = a[:]
        launch(x, b, c, 4)
    stream.synchronize()
    assert c.tolist() == [3.0] * 4
    for _ in range(2):
        launch(a, b, c, 4)
    x = a[:]
    a.owner.close()
    for closed in (a, x):
        with pytest.raises(errors.Closed):
            launch(closed, b, c, 4)


def test_the_function_outlives_its_launch_and_sees_what_is_closed(device):
    a, b, c = arrays(device, 1.0, 2.0)
    for closing in ("stream", "module", "array"):
        loaded, stream = device.load(kernels.ADD), device.stream()
        with loaded, stream:
            launch = loaded["add"].configure(grid=1, block=32, stream=stream)
            x = device.upload(bytearray(16)).reinterpret("float32")
            for _ in range(3):
                launch(a, b, x, 4)
            stream.synchronize()
            {"stream": stream, "module": loaded, "array": x.owner}[closing].close()
            for _ in range(2):
                with pytest.raises(errors.Closed):
                    launch(a, b, x, 4)
            other = device.stream()  # what is closed here does not concern the launch
            other.close()
            with pytest.raises(errors.Closed):
                launch(a, b, x, 4)


def test_an_event_recorded_again_is_refused_once_either_is_closed(device):
    for first in (True, False):
        stream, event = device.stream(), device.event()
        for _ in range(3):
            assert stream.record(event) is event
        (stream if first else event).close()
        for _ in range(2):
            with pytest.raises(errors.Closed):
                stream.record(event)
        stream.close()
        event.close()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_a_token_is_true_until_something_is_closed_or_a_trace_begins(device):
    owned = module("ownership")

    def trace():
        with rawcuda.trace([]):
            pass

    stream, loaded, other = device.stream(), device.load(kernels.GLOBALS), rawcuda.Device(0)
    with stream.capture() as graph:
        pass
    for end in (owned.invalidate, trace, graph.close, stream.close, loaded.close, other.close):
        before = owned.token()
        assert before and owned.token() is before
        end()
        end()
        assert not before and owned.tokens == []


# -- what a Launch is


def test_a_launch_is_an_object_that_tells_what_it_has(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=(2, 3), block=32, stream=stream)
    assert isinstance(launch, rawcuda.Launch) and not isinstance(len, rawcuda.Launch)
    assert (launch.kernel, launch.grid, launch.block) == (kernel, (2, 3, 1), (32, 1, 1))
    assert launch.shared_bytes == 0 and launch.stream is stream
    assert repr(launch) == "<Launch add(a, b, c, n) grid (2, 3, 1) block (32, 1, 1)>"
    assert str(inspect.signature(launch)) == "(a: 'u64', b: 'u64', c: 'u64', n: 'u32', /) -> None"
    assert inspect.signature(rawcuda.Launch.__call__)  # the class has one of its own
    with pytest.raises(TypeError, match="is made by Kernel.configure"):
        rawcuda.Launch()


def test_a_kernel_says_how_it_is_launched(device, add):
    kernel, _ = add
    for wrong in (lambda: kernel(1, 2), lambda: kernel[1, 32], lambda: kernel[1, 32](1), lambda: kernel(1, grid=1)):
        with pytest.raises(TypeError, match=r"add\.launch\(\.\.\., grid=blocks, block=threads\), or configure\("):
            wrong()


@pytest.mark.parametrize("given", [[1, 2], (1.0, 2.0)])
def test_a_list_is_told_what_makes_an_array(device, add, given):
    kernel, stream = add
    with pytest.raises(TypeError, match=r"parameter 'a'.*array\.array or numpy\.asarray.*upload"):
        kernel.launch(given, None, None, 0, grid=1, block=1)
    with pytest.raises(TypeError, match=r"parameter 'n'.*is not a number: give one of its elements, such"):
        kernel.launch(None, None, None, given, grid=1, block=1)


def test_in_of_host_memory_is_told_to_upload(device, add):
    if device.attribute("PAGEABLE_MEMORY_ACCESS"):
        pytest.skip("this device reaches all host memory")
    kernel, _ = add
    for host in (bytearray(16), array.array("f", [1])):
        with pytest.raises(ValueError, match=r"parameter 'a'.*host memory.*device\.upload"):
            kernel.launch(rawcuda.In(host), None, None, 0, grid=1, block=1)


# -- every kind of argument on every kind of stream


class Color(int):
    """A subclass of int."""


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int)]


class Foreign:
    """An array of another library: the CUDA Array Interface over our memory."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def __cuda_array_interface__(self):
        return {"shape": (8,), "typestr": "|u1", "data": (self.memory.ptr, False), "version": 3, "stream": None}


class Capsules:
    """An array of another library that offers DLPack."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


TYPES = [".u8", ".u16", ".u32", ".s32", ".u64", ".f32", ".f64", ".u64", 8, 12]
FORMATS = ["B", "H", "I", "i", "Q", "f", "d", "Q", "8s", "12s"]


def rounds(memory, made):
    """Yield lists of arguments of different types for TYPES, with the values that the kernel must store."""
    pointer, eight, twelve = memory.ptr, b"abcdefgh", b"abcdefghijkl"
    yield (1, 2, 3, -4, 5, 1.5, 2.5, memory, eight, twelve), (1, 2, 3, -4, 5, 1.5, 2.5, pointer, eight, twelve)
    yield (True, False, True, True, None, True, 3, None, None, twelve), (1, 0, 1, 1, 0, 1, 3, 0, bytes(8), twelve)
    top = (255, 2**16 - 1, 2**32 - 1, -(2**31), 2**64 - 1, float("inf"), -1e300, made, Pair(1, 2), twelve)
    yield top, (*top[:7], made.ptr, bytes(Pair(1, 2)), twelve)
    yield (
        (-1, -1, -1, 2**32 - 1, -1, 2, 2.0, rawcuda.In(made), made, (ctypes.c_ubyte * 12)(*twelve)),
        (255, 2**16 - 1, 2**32 - 1, -1, 2**64 - 1, 2, 2, made.ptr, struct.pack("<Q", made.ptr), twelve),
    )
    yield (
        (Color(7), Color(8), Color(2**32 - 1), Color(-1), Color(9), Color(1), Color(2), Foreign(memory), eight, twelve),
        (7, 8, 2**32 - 1, -1, 9, 1, 2, pointer, eight, twelve),
    )
    yield (
        (
            ctypes.c_ubyte(255),
            ctypes.c_short(-1),
            ctypes.c_int(-2),
            ctypes.c_uint(2**32 - 1),
            ctypes.c_void_p(2**64 - 1),
            ctypes.c_float(0.5),
            ctypes.c_double(0.25),
            Capsules(memory),
            Foreign(memory),
            twelve,
        ),
        (255, 2**16 - 1, 2**32 - 2, -1, 2**64 - 1, 0.5, 0.25, pointer, struct.pack("<Q", pointer), twelve),
    )
    yield (
        (b"a", b"ab", b"abcd", b"abcd", eight, b"abcd", eight, made[:], rawcuda.In(Foreign(memory)), twelve),
        (
            97,
            0x6261,
            0x64636261,
            0x64636261,
            int.from_bytes(eight, "little"),
            *struct.unpack("<f", b"abcd"),
            *struct.unpack("<d", eight),
            made.ptr,
            struct.pack("<Q", pointer),
            twelve,
        ),
    )
    try:
        import numpy
    except ImportError:
        return
    record = numpy.array((1, 2.0, 3), dtype="i4,f4,i4")[()]
    yield (
        (
            numpy.bool_(True),
            numpy.int8(-1),
            numpy.int32(-1),
            numpy.uint32(2**32 - 1),
            numpy.uint64(2**64 - 1),
            numpy.float16(1.5),
            numpy.float32(2.5),
            made,
            numpy.datetime64(5, "s"),
            record,
        ),
        (1, 2**16 - 1, 2**32 - 1, -1, 2**64 - 1, 1.5, 2.5, made.ptr, struct.pack("<q", 5), record.tobytes()),
    )
    yield (
        (
            numpy.int64(-1),
            numpy.uint16(3),
            numpy.int64(-5),
            numpy.int16(-5),
            numpy.int64(-5),
            numpy.float64(1.5),
            numpy.longdouble(2.5),
            numpy.int64(pointer),
            numpy.complex64(1 + 2j),
            numpy.void(twelve),
        ),
        (255, 3, 2**32 - 5, -5, 2**64 - 5, 1.5, 2.5, pointer, struct.pack("<ff", 1, 2), twelve),
    )


def streams(device, own):
    """Yield every kind of stream."""

    class Theirs:
        def __cuda_stream__(self):
            return 0, own.handle

    yield from (None, 1, 2, own, own.handle, Theirs(), rawcuda.Stream.legacy, rawcuda.Stream.per_thread)
    yield rawcuda.Stream.from_handle(own.handle)


def test_every_argument_on_every_stream(device):
    made = device.empty((2, 3), "int16")
    with device.load(kernels.echo(*TYPES)) as loaded, device.stream() as own, device.allocate(8) as memory:
        kernel, got = loaded["echo"], bytearray(16 * len(TYPES))
        with device.allocate(len(got)) as out:
            for stream in streams(device, own):
                launch = kernel.configure(grid=1, block=1, stream=stream)
                for arguments, expected in rounds(memory, made):
                    for call in (
                        lambda: launch(out, *arguments),  # noqa: B023
                        lambda: kernel.launch(out, *arguments, grid=1, block=(1,), stream=stream),  # noqa: B023
                    ):
                        out.fill(0xEE)
                        device.synchronize()
                        call()
                        device.synchronize()
                        out.copy_to(got)
                        slots = [got[at : at + 16] for at in range(0, len(got), 16)]
                        for form, slot, value in zip(FORMATS, slots, expected):
                            value = struct.pack("<" + form, value)
                            assert slot == value + b"\xee" * (16 - len(value)), (form, arguments)


# -- objects that claim to be ours


class Liar:
    """An object that claims to be one of our arrays."""

    def __init__(self, array):
        self.array = array

    @property
    def __class__(self):
        return type(self.array)

    @property
    def start(self):
        return self.array.ptr

    @property
    def _place(self):
        return self.array._place


def test_an_attribute_makes_nothing_an_address(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    launch = kernel.configure(grid=1, block=32, stream=stream)
    for _ in range(3):
        launch(a, b, c, 4)
    stream.synchronize()

    class Pretender:
        pass

    pretender = Pretender()
    for name in ("_ready", "start", "ptr", "_handle", "handle"):
        setattr(pretender, name, a.ptr)
    pretender._place, pretender.owner, pretender.device, pretender.readonly = a._place, a.owner, a.device, False
    for wrong in (pretender, Liar(a)):
        with pytest.raises(TypeError, match="parameter 'c'.*cannot be converted to an integer"):
            launch(a, b, wrong, 4)
    other = device.empty((4,), "float32")
    flagged = Foreign(other)
    flagged._ready = True
    launch(a, b, flagged, 4)
    stream.synchronize()
    assert other.tolist() == [3.0] * 4


def test_a_read_only_view_is_refused_after_anything_that_was_done_with_it(device, add):
    kernel, stream = add
    a, b, c = arrays(device, 1.0, 2.0)
    view = rawcuda.view(c, writable=False)
    launch = kernel.configure(grid=1, block=32, stream=stream)
    for _ in range(4):
        rawcuda.copy(b, view, stream=stream)
        launch(a, b, c, 4)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"parameter 'c'.*read-only: wrap it in In"):
                launch(a, b, view, 4)
        launch(rawcuda.In(view), b, c, 0)
    stream.synchronize()


def test_the_tables_have_a_bound(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    for number in range(600):
        launch(None, None, None, type(f"Int{number}", (int,), {})(0))
    slot = launch._prepared.packing.slots[3]
    assert len(slot.table.packers.answers) <= 256 and slot.table.packer(int) is packing._pack_int
    stream.synchronize()


# -- the generated source


def test_the_written_text_shows_in_tracebacks(device, add):
    kernel, stream = add
    launch = kernel.configure(grid=1, block=32, stream=stream)
    try:
        launch(None, None, None, 2**40)
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
    (frame,) = [frame for frame in frames if frame.filename.startswith("<launch")]
    assert frame.name == "add" and "pack_into" in frame.line or "table_3(type(n))" in frame.line
    assert "type(a) is MemoryView" in "".join(linecache.getlines(frame.filename))
    other = kernel.configure(grid=2, block=2, stream=stream)
    assert other.func.__code__ is launch.func.__code__  # written once for a signature


@frees_classes
def test_the_text_of_signatures_that_are_gone_is_forgotten(device):
    """The names of kernels come from outside, so the package must not keep them for ever."""
    start = {file for file in linecache.cache if str(file).startswith("<launch")}
    with device.load(kernels.echo(".u32")) as loaded:
        slots = loaded["echo"].configure(grid=1, block=1)._prepared.packing.slots
        for number in range(1200):
            written.maker_for(f"k{number}", ["n"], slots)
        gc.collect()
        left = {file for file in linecache.cache if str(file).startswith("<launch")} - start
        assert len(left) <= 501
        newest = written.maker_for("k1199", ["n"], slots)
        assert "def k1199(n=Missing, /" in "".join(linecache.getlines(newest.__code__.co_filename))


def test_integers_of_eight_bytes_beside_a_float(device):
    """With a float among the parameters, the format of struct is another one, which takes signed integers only."""
    for types in ((".u64", ".u8", ".u64"), (".u64", ".u8", ".f32"), (".u64", ".u8", ".f64")):
        with device.load(kernels.echo(*types)) as loaded, device.allocate(64) as out:
            launch = loaded["echo"].configure(grid=1, block=1)
            for value in (0, -1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), True, ctypes.c_uint64(2**64 - 1)):
                for small in (-128, 127, 255, True):
                    launch(out, value, small, 3)
                    device.synchronize()
                    got = bytearray(64)
                    out.copy_to(got)
                    number = getattr(value, "value", value)
                    assert got[:8] == (number % 2**64).to_bytes(8, "little") and got[16] == small % 256
            for value in (2**64, -(2**63) - 1):
                with pytest.raises(
                    ValueError, match=r"u64: .* does not fit: it holds -9223372036854775808 \.\. 1844674"
                ):
                    launch(out, value, 0, 3)
                with pytest.raises(ValueError, match=r"u8: .* does not fit: it holds -128 \.\. 255"):
                    launch(out, 0, value, 3)


def test_numbers_of_ctypes_in_either_byte_order(device):
    class Lying(ctypes.c_int64):
        value = 5

    with device.load(kernels.echo(".u16", ".u64", ".f64", 8)) as loaded, device.allocate(64) as out:
        launch = loaded["echo"].configure(grid=1, block=1)
        for short, long, real in (
            (ctypes.c_short, ctypes.c_int64, ctypes.c_double),
            (ctypes.c_ushort.__ctype_be__, ctypes.c_int64.__ctype_be__, ctypes.c_double.__ctype_be__),
            (ctypes.c_uint16.__ctype_le__, Lying, ctypes.c_double.__ctype_le__),
        ):
            launch(out, short(260), long(-7), real(0.5), ctypes.c_uint64(2**63))
            got = bytearray(64)
            device.synchronize()
            out.copy_to(got)
            assert struct.unpack_from("<H14xq8xd8xQ", got) == (260, -7, 0.5, 2**63)


def test_numbers_that_struct_refuses_are_refused_with_their_parameter(device):
    with device.load(kernels.echo(".f32", ".f64")) as loaded, device.allocate(64) as out:
        launch = loaded["echo"].configure(grid=1, block=1)
        launch(out, float("inf"), -float("inf"))
        for number in (1e39, -1e39, 10**39, 10**400):
            with pytest.raises(ValueError, match="f32: .* does not fit: its magnitude must be below") as caught:
                launch(out, number, 1.0)
            shown = None if caught.value.__suppress_context__ else caught.value.__context__
            assert not isinstance(shown, (struct.error, OverflowError))  # the error of struct is not shown
        with pytest.raises(ValueError, match="f64: .* does not fit"):
            launch(out, 1.0, 10**400)
        with pytest.raises(errors.Closed, match="kernel echo: parameter"):
            closed = device.allocate(64)
            closed.close()
            launch(closed, 1.0, 1.0)
        device.synchronize()


@pytest.mark.parametrize("number", [199, 200])  # and one for the output
def test_the_text_for_many_parameters_is_short(device, number):
    """Python needed 1 ms and 30 KB for each of them, of which a kernel may have 30,000."""
    with device.load(kernels.echo(*[".u32"] * number)) as loaded, device.allocate(16 * number + 16) as out:
        launch = loaded["echo"].configure(grid=1, block=1)
        packing = launch._prepared.packing
        text = written.text_for("echo", packing.names, packing.slots)
        assert ("slot_" in text) == (number < 200) and (len(text) < 40 * number) == (number == 200)
        numbers = [at * 7919 for at in range(number)]
        launch(out, *numbers)
        assert out.view("uint32")[: 4 * number : 4].tolist() == numbers
        for wrong in (numbers[:-1], [*numbers, 1], [1.5], []):
            with pytest.raises(TypeError, match=rf"echo.. takes {number + 1} arguments"):
                launch(out, *wrong)
        with pytest.raises(ValueError, match=rf"'p{number - 1}' .* does not fit"):
            launch(out, *numbers[:-1], 1 << 32)
        closed = device.allocate(16)
        closed.close()
        with pytest.raises(errors.Closed, match="kernel echo: parameter 'out'"):
            launch(closed, *numbers)
        launch(rawcuda.In(out.view("uint32")), *reversed(numbers))
        assert out.view("uint32")[: 4 * number : 4].tolist() == numbers[::-1]


NAMES = ["n", "self", "class", "None", "argument_2", "n", "x y", "é", "__x", "table_1", "kept", "a" * 200, "", "print"]


def test_the_text_has_nothing_of_the_input_but_plain_names(device):
    kinds = [".u8", ".u16", ".u32", ".u64", ".f32", ".f64", 3, 8]
    with device.load(kernels.echo(*kinds)) as loaded:
        slots = loaded["echo"].configure(grid=1, block=1)._prepared.packing.slots
    texts = written._TEXT, written._PACKING, written._BY_VALUES, "Missing", *written._INLINE.values()
    known = set(re.findall(r"[^\W\d]\w*", " ".join(texts)))
    for kernel in ("plain", "x; import os", "self", "pack_into", "def", "$k"):
        for names in (NAMES[:9], NAMES[5:], ["import os"] * 9, []):
            safe = written.safe_names(names)
            assert len(set(safe)) == len(safe) and all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in safe)
            text = written.text_for(kernel, safe, slots[: len(safe)])
            compile(text, "text", "exec")
            words = set(re.findall(r"[^\W\d]\w*", text)) - known - set(safe)
            words = {
                word for word in words if not re.fullmatch(r"(table|plain|choose|slot)_\d+|e|plain|kernel|self", word)
            }
            assert not words, words
    assert written.safe_names(["n", "pool", "n", "print"]) == ["n", "argument_1", "argument_2", "print"]


@pytest.mark.parametrize("name", ["self", "class", "pack_into", "type", "kept", "make"])
def test_parameters_and_kernels_of_any_name(device, name):
    text = kernels.ADD.replace("entry add(", f"entry {name}(")
    for parameter in "abcn":
        text = re.sub(rf"(param \.\w+ |\[){parameter}\b", rf"\g<1>{name}_{parameter}", text)
    text = re.sub(rf"\b{name}_a\b", name, text)
    with device.load(text) as loaded:
        a, b, c = arrays(device, 1.0, 2.0)
        loaded[name].launch(a, b, c, 4, grid=1, block=32)
        assert c.tolist() == [3.0] * 4


# -- configurations that are kept


def test_a_launch_is_used_again_however_its_configuration_is_written(device, add):
    kernel, stream = add
    for grid, block in ((1, 32), ((1,), [32]), ([1, 1], (32, 1, 1)), (Color(1), range(32, 33))):
        for shared in (0, False + 0, Color(0)):
            kernel.launch(None, None, None, 0, grid=grid, block=block, shared_bytes=shared, stream=stream)
            kernel.launch(None, None, None, 0, grid=grid, block=block, shared_bytes=shared, stream=stream.handle)
    assert [len(idle) for idle in kernel._idle.answers.values()] == [1]
    for wrong in (
        dict(grid=1.0),
        dict(grid=True),
        dict(grid=(1, True)),
        dict(shared_bytes=0.0),
        dict(shared_bytes=False),
    ):
        with pytest.raises(TypeError):
            kernel.launch(None, None, None, 0, **{"grid": 1, "block": 32, "stream": stream, **wrong})
    for number in range(1, 700):
        kernel.launch(None, None, None, 0, grid=number, block=1, stream=stream)
    assert [len(idle) for idle in kernel._idle.answers.values()] == [1]
    for _ in range(1, 700):
        kernel.launch(None, None, None, 0, grid=2, cluster=2, block=1, stream=rawcuda.Stream.from_handle(stream.handle))
    assert len(kernel._idle) <= 256
    stream.synchronize()


def test_shared_memory_that_was_granted_is_never_made_less(device):
    limit = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    with device.load(kernels.REVERSE) as loaded:
        out = device.empty(32, "uint32")
        first, second = loaded["reverse"], loaded["reverse"]
        second.attributes
        launch = first.configure(grid=1, block=32, shared_bytes=limit)
        second.launch(out, grid=1, block=32, shared_bytes=(limit + 48 * 1024) // 2)
        assert loaded["reverse"].attributes["max_dynamic_shared_bytes"] == limit
        launch(out)
        assert out.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("when", ["before the call", "after the call"])
def test_a_launch_asks_for_its_shared_memory_after_an_interrupted_change_of_the_limit(device, monkeypatch, when):
    """What launches had been granted was noted before the call, which was made."""
    driver = device._primary.driver
    call = driver.cuFuncSetAttribute

    def interrupted(*arguments):
        if when == "after the call":
            call(*arguments)
        raise KeyboardInterrupt

    with device.load(kernels.REVERSE) as loaded:
        kernel, out = loaded["reverse"], device.empty(32, "uint32")
        kernel.launch(out, grid=1, block=32, shared_bytes=60_000)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setitem(driver.__dict__, "cuFuncSetAttribute", interrupted)
            kernel.attributes.max_dynamic_shared_bytes = 1000
        out.fill(0)
        kernel.launch(out, grid=1, block=32, shared_bytes=60_000)
        assert out.tolist() == list(range(31, -1, -1))


class OnTheWay:
    """The methods by which a number is packed; each closes the memory that was packed before it."""

    def __index__(self):
        return self._closes(1)

    def __float__(self):
        return self._closes(1.0)

    def tobytes(self, *_):
        return self._closes(bytes(4))

    def _closes(self, value):
        type(self).memory.close()
        return value


@pytest.mark.parametrize(
    "base, kind",
    [("int64", "u32"), ("int64", "u64"), ("int64", "f32"), ("float64", "f32"), ("float32", "f64"), ("int32", "b32")],
)
def test_a_subclass_of_a_numpy_number_that_closes_an_earlier_argument(device, base, kind):
    numpy = pytest.importorskip("numpy")
    number = type("Number", (OnTheWay, getattr(numpy, base)), {})
    code = f"{kernels.HEAD}.visible .entry k(.param .u64 at, .param .{kind} v) {{ ret; }}"
    with device.load(code) as loaded:
        number.memory = device.allocate(64)
        with pytest.raises(rawcuda.Closed, match="parameter 'at'"):
            loaded["k"].launch(number.memory, number(1), grid=1, block=1)


# -- interrupts


class Exporter(Foreign):
    alive = 0

    def __init__(self, memory):
        super().__init__(memory)
        Exporter.alive += 1

    def __del__(self):
        Exporter.alive -= 1


def interrupted_at(number, function):
    """Call a function and raise KeyboardInterrupt at the nth line that runs; tell whether that line was reached."""
    left = [number]
    here = re.compile(r"<launch|[/\\]gpu[/\\]kernels[/\\]")

    def trace(frame, event, argument):
        if not here.search(frame.f_code.co_filename):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("on_default", [False, True])
def test_an_interrupt_at_each_line_of_a_launch(device, on_default):
    with device.load(kernels.ADD) as loaded, device.stream() as own, device.allocate(16) as memory:
        a, b, c = arrays(device, 1.0, 2.0)
        device.synchronize()
        launch = loaded["add"].configure(grid=1, block=32, stream=None if on_default else own)
        calls, call = [], launch._prepared.call

        def counted(*arguments):
            code = call(*arguments)
            if not code:  # (a driver may refuse the first try if another context is current)
                calls.append(1)
            return code

        launch._prepared.call = counted
        number = 1
        while interrupted_at(number, lambda: launch(Exporter(memory), b, c, 4)):
            assert len(calls) <= 1, f"line {number}: the work was queued twice"
            if calls:
                assert Exporter.alive == 1, f"line {number}: freed while the kernel may run"
            while module("driver").current().current_context() is not None:  # an interrupt may leave one pushed
                rawcuda.cu.cuCtxPopCurrent_v2(ctypes.byref(rawcuda.cu.CUcontext()))
            calls.clear()
            device.synchronize()
            assert Exporter.alive == 0, f"line {number}: kept for ever"
            launch(a, b, c, 4)
            launch(a, b, c, 4)
            assert len(launch._prepared.pool) <= 2
            device.synchronize()
            assert c.tolist() == [3.0] * 4
            calls.clear()
            number += 1
        assert number > 15
        calls.clear()
        device.synchronize()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_an_interrupt_by_a_timer(device):
    if module("tracing").careful:
        pytest.skip("with the fast paths off, each launch asks the emulator, which handles an interrupt by itself")

    def interrupt(*_):
        raise KeyboardInterrupt

    def nothing(*_):
        return 0

    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        # The emulator handles an interrupt inside its own functions, so none of them is called: the context that `ask`
        # leaves in its cell, 0, is the one that the launch wants.
        loaded["add"].launch(None, None, None, 0, grid=1, block=32)
        packing = loaded["add"]._known.packing
        ask, packing.ask = packing.ask, nothing
        launch = loaded["add"].configure(grid=1, block=32, stream=stream)
        packing.ask = ask
        a, b, c = arrays(device, 1.0, 2.0)
        launch._prepared.check()
        call, launch._prepared.call, launch._prepared.context = launch._prepared.call, nothing, 0
        before = signal.signal(signal.SIGALRM, interrupt)
        interrupts = 0
        try:
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 3e-5 + interrupts % 50 * 1e-6)
                    while True:
                        launch(a, b, c, 4)
                except KeyboardInterrupt:
                    interrupts += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        launch._prepared.call = call
        with device.current():
            launch(a, b, c, 4)
        stream.synchronize()
        assert c.tolist() == [3.0] * 4 and interrupts > 10 and len(launch._prepared.pool) == 1


def test_threads_on_a_default_stream_each_see_their_own_context(device):
    with device.load(kernels.echo(".u32")) as loaded:
        launch, wrong = loaded["echo"].configure(grid=1, block=1, stream=2), []

        def work(seed):
            with device.allocate(16) as out:
                for number in range(30):
                    with device.current() if number % 2 else rawcuda.Device(0).current():
                        launch(out, seed * 100 + number)
                    launch(out, seed * 100 + number)
                    device.synchronize()
                    got = bytearray(16)
                    out.copy_to(got)
                    if got[:4] != struct.pack("<I", seed * 100 + number):
                        wrong.append(bytes(got))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_the_function_of_a_launch_whose_module_was_collected(device):
    loaded = device.load(kernels.GLOBALS)
    call = loaded["nothing"].configure(grid=1, block=1).func
    call()
    del loaded
    gc.collect()
    with pytest.raises(errors.Closed, match="the module of kernel nothing is closed"):
        call()


class ClosingArray:
    """An array of another library whose code first closes a stream."""

    def __init__(self, memory):
        self.memory = memory

    @property
    def __cuda_array_interface__(self):
        self.stream.close()
        return {"version": 3, "shape": (4,), "typestr": "<f4", "data": (self.memory.ptr, False)}


class ClosingNumber:
    """A number whose code closes a stream."""

    def __index__(self):
        self.stream.close()
        return 4


@pytest.mark.parametrize("configured", [False, True])
@pytest.mark.parametrize("how", ["array", "number"])
def test_a_stream_that_an_argument_closes(device, configured, how):
    """It is not given to the driver, for which its handle may be that of another stream by then."""
    names = []
    with device.zeros(4, "float32").owner as memory, device.load(kernels.ADD) as code:
        closing = ClosingArray(memory) if how == "array" else ClosingNumber()
        arguments = (memory, memory, closing, 4) if how == "array" else (memory, memory, memory, closing)
        closing.stream = stream = device.stream()
        shape = {"grid": 1, "block": 4, "stream": stream}
        code["add"].launch(memory, memory, memory, 4, **shape)  # what it prepares is used again
        launch = code["add"].configure(**shape) if configured else partial(code["add"].launch, **shape)
        with rawcuda.trace(lambda call: names.append(getattr(call, "name", ""))):
            with pytest.raises(rawcuda.Closed, match="(?i)stream"):
                launch(*arguments)
    assert "cuStreamDestroy_v2" in names
    assert not [name for name in names if "Launch" in name or "Wait" in name]


def test_a_launch_keeps_no_stream_that_was_given_to_it(device):
    with device.load(kernels.ADD) as code, device.zeros(4, "float32").owner as memory:
        stream = device.stream()
        code["add"].launch(memory, memory, memory, 4, grid=1, block=4, stream=stream)
        alive = weakref.ref(stream)
        del stream
        gc.collect()
        assert alive() is None


def test_a_module_that_an_argument_closes(device):
    """The number of an argument is asked for after the module was checked."""

    class Closing:
        def __index__(self):
            code.close()
            return 4

    with device.zeros(4, "float32").owner as memory:
        for configured in (False, True):
            code = device.load(kernels.ADD)
            launch = code["add"].configure(grid=1, block=4)
            with pytest.raises(rawcuda.Closed, match="the module of kernel add is closed"):
                if configured:
                    launch(memory, memory, memory, Closing())
                else:
                    code["add"].launch(memory, memory, memory, Closing(), grid=1, block=4)
