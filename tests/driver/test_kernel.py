"""Modules, kernels, and the arguments that a launch accepts or refuses."""

import array
import ctypes
import struct
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


def echoed(device, types, *arguments, parameters=None, **options):
    """Launch echo(out, ...) and return the 16-byte slots that the kernel stored."""
    with device.load(kernels.echo(*types)) as loaded, device.allocate(16 * max(len(types), 1)) as out:
        out.fill(0xEE)
        loaded.kernel("echo", parameters=parameters).launch(out, *arguments, grid=1, block=1, **options)
        device.synchronize()
        slots = bytearray(out.nbytes)
        out.copy_to(slots)
        return [bytes(slots[at : at + 16]) for at in range(0, len(slots), 16)]


# -- the main job


@pytest.mark.parametrize("on_stream", [False, True])
def test_vector_add(device, on_stream):
    n = 1000
    a, b = array.array("f", range(n)), array.array("f", [x * 0.5 for x in range(n)])
    stream = device.stream() if on_stream else None
    with device.load(kernels.ADD) as loaded:
        x, y, z = device.upload(a), device.upload(b), device.empty(n, "float32")
        loaded["add"].launch(x, y, z, n, grid=(n + 255) // 256, block=256, stream=stream)
        if stream:
            stream.synchronize()
        assert z.tolist() == [p + q for p, q in zip(a, b)]
    if stream:
        stream.close()


def test_configured_once_called_often_by_many_threads(device):
    n, results = 64, {}
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        add = loaded["add"].configure(grid=1, block=64, stream=stream)
        zero = device.upload(array.array("f", [0] * n))

        def work(seed):
            mine = device.upload(array.array("f", [seed] * n))
            out = device.empty(n, "float32")
            for _ in range(20):
                add(mine, zero, out, n)
            stream.synchronize()
            results[seed] = out.tolist()

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {seed: [float(seed)] * n for seed in range(8)}


def test_shared_memory_and_a_barrier(device):
    with device.load(kernels.REVERSE) as loaded:
        out = device.empty(2 * 96, "uint32")
        loaded["reverse"].launch(out, grid=2, block=96, shared_bytes=96 * 4)
        assert out.tolist() == list(range(95, -1, -1)) * 2


def test_variables(device):
    with device.load(kernels.GLOBALS) as loaded:
        table = loaded.global_("table")
        assert table.nbytes == 16 and table.borrowed
        loaded["twice"].launch(grid=1, block=4)
        device.synchronize()
        got = bytearray(16)
        table.copy_to(got)
        assert struct.unpack("<4I", got) == (2, 4, 6, 8)
        assert loaded.global_("factor").nbytes == 4
        with pytest.raises(errors.NotFound, match="no variable 'nope'"):
            loaded.global_("nope")
    with pytest.raises(errors.Closed):
        table.ptr


# -- accepted arguments

NUMBERS = [
    (".u8", 255, b"\xff"),
    (".u8", -128, b"\x80"),
    (".u8", True, b"\1"),
    (".u16", -1, b"\xff\xff"),
    (".u32", 2**32 - 1, b"\xff" * 4),
    (".u32", -(2**31), b"\0\0\0\x80"),
    (".s32", 2**32 - 1, b"\xff" * 4),
    (".u64", 2**64 - 1, b"\xff" * 8),
    (".u64", -(2**63), b"\0" * 7 + b"\x80"),
    (".f32", 1.5, struct.pack("<f", 1.5)),
    (".f32", 3, struct.pack("<f", 3)),
    (".f32", float("inf"), struct.pack("<f", float("inf"))),
    (".f64", -0.1, struct.pack("<d", -0.1)),
    (".u64", None, b"\0" * 8),
    (".u32", b"abcd", b"abcd"),
    (".f32", b"abcd", b"abcd"),
    (12, b"abcdefghijkl", b"abcdefghijkl"),
    (".u32", ctypes.c_int(-2), b"\xfe\xff\xff\xff"),
    (".f32", ctypes.c_float(0.5), struct.pack("<f", 0.5)),
    (".b32", ctypes.c_float(0.5), struct.pack("<f", 0.5)),
    (".b32", ctypes.c_uint(7), b"\7\0\0\0"),
    (".u64", ctypes.c_void_p(5), b"\5" + b"\0" * 7),
    (3, (ctypes.c_ubyte * 3)(1, 2, 3), b"\1\2\3"),
    (".b64", None, b"\0" * 8),
]


@pytest.mark.parametrize("kind, argument, stored", NUMBERS)
def test_values_arrive_bit_for_bit(device, kind, argument, stored):
    (slot,) = echoed(device, [kind], argument)
    assert slot == stored + b"\xee" * (16 - len(stored))


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int)]


def test_many_at_once_at_their_offsets(device):
    types = [".u8", ".f64", ".u16", 12, ".u32", ".f32", ".u64", 8]
    slots = echoed(device, types, 1, 2.0, 3, b"123456789abc", 4, 5.0, 6, Pair(1.0, 2))
    sizes = [1, 8, 2, 12, 4, 4, 8, 8]
    expected = [
        b"\1",
        struct.pack("<d", 2),
        b"\3\0",
        b"123456789abc",
        b"\4\0\0\0",
        struct.pack("<f", 5),
        b"\6" + b"\0" * 7,
        struct.pack("<fi", 1.0, 2),
    ]
    assert [slot[:size] for slot, size in zip(slots, sizes)] == expected


def test_arrays_as_addresses(device):
    with (
        device.allocate(8) as memory,
        device.allocate(8, kind="pinned") as pinned,
        device.allocate(8, kind="managed") as managed,
    ):
        view = device.empty((2, 3), "int16")
        slots = echoed(device, [".u64"] * 4 + [".b64", 8], memory, pinned, managed, view, view, rawcuda.In(memory))
        assert [int.from_bytes(slot[:8], "little") for slot in slots] == [
            memory.ptr,
            pinned.ptr,
            managed.ptr,
            view.ptr,
            view.ptr,
            memory.ptr,
        ]


def test_an_exporter_on_the_fly(device):
    class Exporter:
        def __init__(self, memory, readonly=False):
            self.memory = memory
            self.__cuda_array_interface__ = {
                "shape": (2,),
                "typestr": "<f4",
                "data": (memory.ptr, readonly),
                "version": 3,
            }

    with device.allocate(8) as memory:
        (slot,) = echoed(device, [".u64"], Exporter(memory))
        assert int.from_bytes(slot[:8], "little") == memory.ptr
        with pytest.raises(ValueError, match=r"read-only: wrap it in In\("):
            echoed(device, [".u64"], Exporter(memory, readonly=True))
        (slot,) = echoed(device, [".u64"], rawcuda.In(Exporter(memory, readonly=True)))
        assert int.from_bytes(slot[:8], "little") == memory.ptr
        (slot,) = echoed(device, [".u64"], Exporter(memory, readonly=True), parameters=["pointer", rawcuda.In])
        assert int.from_bytes(slot[:8], "little") == memory.ptr


DECLARED = [
    (".b32", "float32", 1.5, struct.pack("<f", 1.5)),
    (".b32", "int32", -1, b"\xff" * 4),
    (".b64", "float64", 2.5, struct.pack("<d", 2.5)),
    (".u32", "float32", 1.5, struct.pack("<f", 1.5)),
    (2, "float16", 1.5, struct.pack("<e", 1.5)),
    (2, "bfloat16", 1.5, b"\xc0\x3f"),
    (2, "bfloat16", 1.00390625, b"\x80\x3f"),
    (2, "bfloat16", 1.01171875, b"\x82\x3f"),
    (2, "bfloat16", float("-inf"), b"\x80\xff"),
    (8, "complex64", 1 + 2j, struct.pack("<ff", 1, 2)),
    (8, Pair, Pair(1, 2), struct.pack("<fi", 1, 2)),
    (".b64", ctypes.c_longlong, -1, b"\xff" * 8),
    (".u8", "bool", True, b"\1"),
]


@pytest.mark.parametrize("kind, what, argument, stored", DECLARED)
def test_declared_parameters(device, kind, what, argument, stored):
    (slot,) = echoed(device, [kind], argument, parameters=["pointer", what])
    assert slot[: len(stored)] == stored


SIGNED = [
    (".u32", "int32", 2**31 - 1, 2**31),
    (".u32", "s32", -(2**31), 2**31),
    (".u32", ctypes.c_int32, -(2**31), 2**32 - 1),
    (".u32", "uint32", 2**32 - 1, -1),
    (".u32", ctypes.c_uint32, 0, -1),
    (".u64", "int64", -(2**63), 2**63),
    (".u64", "uint64", 2**64 - 1, -1),
    (".u64", ctypes.c_size_t, 2**64 - 1, -1),
    (".u8", "int8", -128, 128),
    (".u16", "uint16", 2**16 - 1, -1),
]


@pytest.mark.parametrize("kind, what, fitting, other", SIGNED)
def test_a_declared_integer_takes_the_numbers_of_its_range(device, kind, what, fitting, other):
    size = int(kind[2:]) // 8
    declared = ["pointer", what]
    (slot,) = echoed(device, [kind], fitting, parameters=declared)
    assert slot[:size] == (fitting % 256**size).to_bytes(size, "little")
    with pytest.raises(ValueError, match=f"'p0' is .*: {other} does not fit: it holds .*; ctypes.c_u?int{size * 8}"):
        echoed(device, [kind], other, parameters=declared)
    with pytest.raises(ValueError, match=f"'p0' is .*: {other} does not fit"):  # where struct refuses another argument
        echoed(device, [kind, ".u32"], other, 2**70, parameters=[*declared, "u32"])


@pytest.mark.parametrize("what", ["u32", ".u32", "u64", ctypes.c_void_p])
@pytest.mark.parametrize("number", [-1, 1])
def test_types_that_do_not_tell_the_sign_take_both(device, what, number):
    size = 4 if "32" in str(what) else 8
    (slot,) = echoed(device, [f".u{size * 8}"], number, parameters=["pointer", what])
    assert slot[:size] == (number % 256**size).to_bytes(size, "little")


@pytest.mark.parametrize("what", ["uint64", "u64", ctypes.c_ulonglong])
def test_arrays_for_a_declared_unsigned_integer_of_8_bytes(device, what):
    """Programs pass addresses in it."""
    with device.allocate(8) as memory:
        for given in (memory, memory.view("int32"), rawcuda.In(memory), memory.ptr):
            (slot,) = echoed(device, [".u64"], given, parameters=["pointer", what])
            assert slot[:8] == memory.ptr.to_bytes(8, "little")
        (slot,) = echoed(device, [".u64"], None, parameters=["pointer", what])
        assert slot[:8] == bytes(8)


@pytest.mark.parametrize("what", ["int64", ctypes.c_longlong, ctypes.c_ssize_t])
def test_a_declared_signed_integer_of_8_bytes_takes_numbers_alone(device, what):
    """Where two arguments were exchanged, the address was taken for the number."""
    with device.allocate(8) as memory:
        for given in (memory, memory.view("int32"), rawcuda.In(memory), ctypes.create_string_buffer(8), None):
            with pytest.raises(TypeError, match="cannot be converted to an integer"):
                echoed(device, [".u64"], given, parameters=["pointer", what])
        for number in (memory.ptr, -1, -(2**63), 2**63 - 1):
            for given in (number, ctypes.c_longlong(number), number.to_bytes(8, "little", signed=True)):
                (slot,) = echoed(device, [".u64"], given, parameters=["pointer", what])
                assert slot[:8] == number.to_bytes(8, "little", signed=True)


def test_a_signed_integer_of_8_bytes_whose_type_is_in_the_name_takes_numbers_alone(device):
    code = kernels.HEAD + ".visible .entry _Z4waitPyx(.param .u64 out, .param .u64 n) { ret; }"
    with device.load(code) as loaded, device.allocate(8) as memory:
        launch = loaded["_Z4waitPyx"].configure(grid=1, block=1)
        for given in (memory, None):
            with pytest.raises(TypeError, match="parameter 'n' is long long: .* cannot be converted to an integer"):
                launch(memory, given)
        launch(None, -1)


# -- refused arguments

REFUSED = [
    (".u8", 256, ValueError, r"-128 \.\. 255"),
    (".u8", 300, ValueError, "300 does not fit"),
    (".u8", -129, ValueError, "does not fit"),
    (".u32", 2**40, ValueError, "does not fit"),
    (".u64", 2**64, ValueError, "does not fit"),
    (".u64", -(2**63) - 1, ValueError, "does not fit"),
    (".u32", 1.0, TypeError, "cannot be converted to an integer"),
    (".u32", "1", TypeError, "cannot be converted to an integer"),
    (".u32", None, TypeError, "cannot be converted to an integer"),
    (".u32", bytearray(4), TypeError, "cannot be converted to an integer"),
    (".u64", 1.0, TypeError, "cannot be converted to an integer"),
    (".u64", "x", TypeError, "cannot be converted"),
    (".f32", 1e39, ValueError, "does not fit"),
    (".f32", 10**400, ValueError, "does not fit"),
    (".f32", 1j, TypeError, "cannot be converted to a float"),
    (".f32", None, TypeError, "cannot be converted to a float"),
    (".f32", "1", TypeError, "cannot be converted to a float"),
    (".f32", ctypes.c_double(1), ValueError, "has 8 bytes, not 4"),
    (".f32", ctypes.c_int(1), TypeError, "another kind"),
    (".u32", ctypes.c_float(1), TypeError, "another kind"),
    (".u32", b"abc", ValueError, "has 3 bytes, not 4"),
    (".u32", ctypes.c_longlong(1), ValueError, "has 8 bytes, not 4"),
    (12, b"abc", ValueError, "has 3 bytes, not 12"),
    (12, 5, TypeError, "declare the type"),
    (".b32", 5, TypeError, "declare the type"),
    (".b32", 1.5, TypeError, "declare the type"),
    (".b64", 5, TypeError, "declare the type"),
    (12, Pair(), ValueError, "has 8 bytes, not 12"),
    (12, None, TypeError, "12 bytes"),
    (12, "x", TypeError, "12 bytes"),
]


@pytest.mark.parametrize("kind, argument, error, words", REFUSED)
def test_refused_before_anything_is_launched(device, kind, argument, error, words):
    calls = []
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        with pytest.raises(error, match=words) as raised:
            echoed(device, [kind], argument)
    assert "kernel echo" in str(raised.value) and "'p0'" in str(raised.value)
    assert not [name for name in calls if name.startswith("cuLaunch")]


@pytest.mark.parametrize("argument", [bytearray(8), array.array("f", [1]), memoryview(bytearray(4))])
def test_host_memory_out_of_reach(device, argument):
    if device.attribute("PAGEABLE_MEMORY_ACCESS"):
        pytest.skip("this device reaches all host memory")
    with pytest.raises(ValueError, match=r"host memory, which device 0 cannot access: x = device\.upload\(it\) before"):
        echoed(device, [".u64"], argument)


def test_memory_of_a_device_out_of_reach(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with rawcuda.Device(1).allocate(8) as far:
        with pytest.raises(ValueError, match="enable_peer_access"):
            echoed(device, [".u64"], far)


def test_wrong_number_of_arguments(device):
    with device.load(kernels.ADD) as loaded:
        add = loaded["add"].configure(grid=1, block=1)
        with pytest.raises(TypeError, match=r"add\(\) takes 4 arguments .* 0 were given"):
            add()
        with pytest.raises(TypeError, match=r"add\(\) takes 4 arguments .* 3 were given"):
            add(1, 2, 3)
        with pytest.raises(
            TypeError, match=r"add\(\) takes 4 arguments \(a \.u64, b \.u64, c \.u64, n \.u32\) but 5 were given"
        ):
            add(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(grid=0, block=1), "at least 1"),
        (dict(grid=1, block=0), "at least 1"),
        (dict(grid=(1, 0, 1), block=1), "at least 1"),
        (dict(grid=1, block=-1), "at least 1"),
        (dict(grid=1, block=1025), "at most 1024"),
        (dict(grid=1, block=(1, 1, 65)), "z is at most 64"),
        (dict(grid=1, block=(64, 64, 1)), "4096 threads"),
        (dict(grid=2**31, block=1), "x is at most"),
        (dict(grid=(1, 65536), block=1), "y is at most 65535"),
        (dict(grid=(1, 1, 65536), block=1), "z is at most 65535"),
        (dict(grid=(1, 1, 1, 1), block=1), "one to three"),
        (dict(grid=(), block=1), "one to three"),
        (dict(grid=1, block=1, shared_bytes=-1), "shared_bytes"),
        (dict(grid=1, block=1, shared_bytes=2**40), "shared_bytes"),
        (dict(grid=3, block=1, cluster=2), "is not a multiple of"),
        (dict(grid=1, block=1, stream=0), "ambiguous"),
        (dict(grid=1, block=1, stream=2**64), "18446744073709551616"),
        (dict(grid=1, block=1, stream=-1), "NO_SYNC"),
    ],
)
def test_configurations_that_cannot_be(device, options, words):
    with device.load(kernels.GLOBALS) as loaded:
        with pytest.raises(ValueError, match=words):
            loaded["nothing"].launch(**options)


@pytest.mark.parametrize(
    "options",
    [
        dict(grid=1.0, block=1),
        dict(grid=1, block=True),
        dict(grid="1", block=1),
        dict(grid=1, block=1, shared_bytes=1.0),
        dict(grid=1, block=1, stream="x"),
    ],
)
def test_configurations_of_wrong_type(device, options):
    with device.load(kernels.GLOBALS) as loaded:
        with pytest.raises(TypeError):
            loaded["nothing"].launch(**options)


def test_more_shared_memory_than_the_default(device):
    limit = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    with device.load(kernels.REVERSE) as loaded:
        out = device.empty(32, "uint32")
        loaded["reverse"].launch(out, grid=1, block=32, shared_bytes=limit)
        assert out.tolist() == list(range(31, -1, -1))


def test_what_a_kernel_tells(device):
    with device.load(kernels.ADD) as loaded:
        add = loaded["add"]
        assert [(p.name, p.offset, p.size, p.type) for p in add.parameters] == [
            ("a", 0, 8, "u64"),
            ("b", 8, 8, "u64"),
            ("c", 16, 8, "u64"),
            ("n", 24, 4, "u32"),
        ]
        assert add.attributes["max_threads_per_block"] == 1024 and add.attributes["shared_bytes"] == 0
        assert add.attributes["ptx_version"] >= 50
        assert 1 <= add.max_active_blocks(256) <= 32 and add.max_active_blocks((32, 8)) == add.max_active_blocks(256)
        assert add.device == device and add.module is loaded


def test_declared_parameters_that_nothing_else_describes_lie_as_in_c():
    declared = module("gpu.kernels.declared_parameters")
    wanted = [declared.declared(what) for what in ("int8", "float64", "int16", "pointer")]
    assert [(one.offset, one.size) for one in declared.agree("k", None, wanted)] == [(0, 1), (8, 8), (16, 2), (24, 8)]


def test_declarations_that_do_not_fit(device):
    with device.load(kernels.ADD) as loaded:
        with pytest.raises(ValueError, match="4 parameters, but 3 were declared"):
            loaded.kernel("add", parameters=["pointer"] * 3)
        with pytest.raises(ValueError, match="parameter 3 has 4 bytes, but it was declared with 8"):
            loaded.kernel("add", parameters=["pointer"] * 3 + ["int64"])
        for what in ("float", int, float, "float31", 3, None):
            with pytest.raises(TypeError, match="declares no parameter"):
                loaded.kernel("add", parameters=["pointer"] * 3 + [what])
        for what in ("int4", "datetime64[ns]"):  # element types that no parameter has: the remedy names another one
            with pytest.raises(TypeError, match=r"declares no parameter: give a dtype \(int32\)"):
                loaded.kernel("add", parameters=["pointer"] * 3 + [what])


# -- modules


@pytest.mark.parametrize("parameters", ["pointer", 5, b"ab", None.__class__])
def test_declarations_that_are_no_list(device, parameters):
    with device.load(kernels.ADD) as loaded:
        with pytest.raises(TypeError, match="parameters must be a sequence of declarations|declares no parameter"):
            loaded.kernel("add", parameters=parameters)


@pytest.mark.parametrize("name", [5, None, b"scale"])
def test_a_variables_name_is_a_str(device, name):
    with device.load(kernels.ADD) as loaded:
        with pytest.raises(TypeError, match="a variable's name must be a str, not an? "):
            loaded.global_(name)


def test_names(device):
    with device.load(kernels.GLOBALS) as loaded:
        assert list(loaded) == ["twice", "nothing"] and "twice" in loaded and "nope" not in loaded and len(loaded) == 2
        with pytest.raises(errors.NotFound, match="no kernel 'nope' in this module: it has twice, nothing") as raised:
            loaded["nope"]
        assert isinstance(raised.value, KeyError) and isinstance(raised.value, ValueError)
        with pytest.raises(errors.NotFound):
            loaded["a\0b"]
        with pytest.raises(TypeError):
            loaded[0]


def test_bytes_and_paths(device, tmp_path):
    (tmp_path / "k.ptx").write_text(kernels.ADD)
    for code in (kernels.ADD.encode(), bytearray(kernels.ADD.encode()), tmp_path / "k.ptx"):
        with device.load(code) as loaded:
            assert list(loaded) == ["add"]
    with pytest.raises(ValueError, match="pathlib.Path"):
        device.load(str(tmp_path / "k.ptx"))
    with pytest.raises(FileNotFoundError):
        device.load(tmp_path / "nope.ptx")
    with pytest.raises(TypeError):
        device.load(None)


def test_ptx_that_does_not_compile_shows_the_log(device):
    broken = kernels.ADD.replace("add.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1;")
    line = broken[: broken.index("add.f32")].count("\n") + 1
    with pytest.raises(errors.CompileFailed) as raised:
        device.load(broken)
    error = raised.value
    assert error.code == 218 and f"line {line}" in error.log and error.log in str(error) and error.source == broken


def test_ptx_of_a_newer_isa(device):
    with pytest.raises(errors.Unsupported, match="newer than this driver"):
        device.load(kernels.ADD.replace(".version 6.3", ".version 99.0"))


def test_ptx_for_a_newer_architecture(device):
    with pytest.raises(errors.CudaError) as raised:
        device.load(kernels.ADD.replace(".version 6.3", ".version 8.0").replace("sm_50", "sm_999"))
    assert raised.value.code in (209, 218, 222)


def test_used_after_close(device):
    loaded = device.load(kernels.GLOBALS)
    kernel, launch = loaded["nothing"], loaded["nothing"].configure(grid=1, block=1)
    loaded.close()
    for use in (
        lambda: loaded["nothing"],
        launch,
        lambda: kernel.launch(grid=1, block=1),
        lambda: loaded.global_("table"),
        lambda: kernel.handle,
    ):
        with pytest.raises(errors.Closed):
            use()


def test_memory_that_was_closed(device):
    with device.load(kernels.ADD) as loaded:
        launch = loaded["add"].configure(grid=1, block=1)
        memory, array_ = device.allocate(8), device.empty(2, "float32")
        view = memory.view()
        memory.close()
        array_.owner.close()
        for argument in (memory, view, array_, rawcuda.In(memory)):
            with pytest.raises(errors.Closed, match="kernel add: parameter 'a': this Memory is closed"):
                launch(argument, None, None, 0)


def test_a_cubin_that_is_not_for_this_device(device):
    from tests.null.test_image import CUBIN

    with pytest.raises(errors.CudaError) as raised:
        device.load(CUBIN)
    assert isinstance(raised.value, (errors.Unsupported, errors.InvalidUse)) and raised.value.code in (200, 209)
    with pytest.raises(ValueError, match="truncated cubin"):
        device.load(CUBIN[:-1])


def test_a_launch_whose_stream_was_closed(device):
    with device.load(kernels.GLOBALS) as loaded:
        stream = device.stream()
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        launch()
        stream.close()
        with pytest.raises(errors.Closed, match="stream"):
            launch()


def test_the_trace_shows_the_launch(device):
    events = []
    with device.load(kernels.GLOBALS) as loaded:
        with rawcuda.trace(events.append):
            loaded["nothing"].launch(grid=(2, 3), block=4)
    (launch,) = [event for event in events if event.name.startswith("cuLaunchKernel")]
    assert launch.arguments["gridDim"] == "(2, 3, 1)" and launch.result == "CUDA_SUCCESS" and "nothing" in str(launch)
