"""Answers of the driver on which other people's programs depend: each is the smallest form of what one of them does."""

from __future__ import annotations

import array
import ctypes
import struct
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from tests.conftest import Python
from tests.driver import kernels
from tests.subject import module, rawcuda

cuda_h = module("headers.cuda_h")
HEAD = ".version 8.3\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .b64 %d<8>; .reg .b32 %r<8>; .reg .b16 %h<4>; .reg .f32 %f<8>; .reg .f64 %g<4>; .reg .pred %p<2>;\n"
Run = Callable[..., bytes]


@pytest.fixture
def run(device: Any) -> Run:
    """Run a kernel on `threads` threads: %d1 is the address of 8192 bytes of results, %d2 that of the given bytes."""

    def run(body: str, given: Any = bytes(64), declared: str = "", threads: int = 1, size: int = 8192) -> bytes:
        text = (
            f"{HEAD}.visible .entry k(.param .u64 out, .param .u64 in) {{\n{REGISTERS}{declared}\n"
            f"ld.param.u64 %d1, [out];\nld.param.u64 %d2, [in];\nmov.u32 %r0, %tid.x;\n"
            f"mad.wide.u32 %d1, %r0, 8, %d1;\n{body}\nret;\n}}\n"
        )
        with device.load(text) as made, device.upload(bytearray(size)).owner as out:
            with device.upload(bytearray(given)).owner as source:
                made["k"].launch(out, source, grid=1, block=threads)
                device.synchronize()
            back = bytearray(8 * threads)
            rawcuda.copy(back, out.view("uint8")[: 8 * threads])
            return bytes(back)

    return run


@pytest.fixture
def current(device: Any, driver: Any) -> Iterator[None]:
    """Make the primary context current, which raw calls of the driver need."""
    primary, popped = cuda_h.CUcontext(), cuda_h.CUcontext()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0)
    driver.cuCtxPushCurrent_v2(primary)
    yield
    driver.cuCtxPopCurrent_v2(ctypes.byref(popped))
    driver.cuDevicePrimaryCtxRelease_v2(0)


# executors: a launch of few threads runs thread after thread, one of many runs as arrays
both = pytest.mark.parametrize("threads", [1, 1024])


@both
@pytest.mark.parametrize("mask", ["4095", "0xfff", "0x0F0F", "0xf000"])
def test_bytes_that_a_load_does_not_use_may_lie_outside(run: Run, mask: str, threads: int) -> None:
    """Compilers over-read under this pragma, and name the bytes that they use."""
    used = [bool(int(mask, 0) >> 4 * at & 15) for at in range(4)]
    last = max(at for at in range(4) if used[at])
    given = array.array("f", range(4 + last + 1)).tobytes()
    body = (
        f'.pragma "used_bytes_mask {mask}";\nld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d2+16];\n'
        f"st.global.f32 [%d1], %f{last + 1};"
    )
    assert run(body, given, threads=threads) == struct.pack("<fi", 4.0 + last, 0) * threads


@both
def test_shared_bytes_that_a_load_does_not_use_may_lie_outside(run: Run, threads: int) -> None:
    body = (
        "mov.u64 %d3, tile; st.shared.f32 [%d3+24], 0f40000000; bar.sync 0;\n"
        '.pragma "used_bytes_mask 4095";\nld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%d3+16];\nst.global.f32 [%d1], %f3;'
    )
    assert run(body, declared=".shared .align 16 .b8 tile[28];", threads=threads)[:4] == struct.pack("<f", 2.0)


@both
@pytest.mark.emulator_only("an error that ends the context, which the GPU of a test run should not lose")
@pytest.mark.parametrize("offset, code", [(16, 700), (8, 716)])
def test_bytes_that_a_load_uses_are_checked(
    run: Run, device: Any, offset: int, code: int, threads: int, library: Any
) -> None:
    from tests.emulator.emulator_client import Client

    client = Client(executor="numpy" if threads > 1 else "scalar")
    text = (
        f"{HEAD}.visible .entry k(.param .u64 in) {{\n{REGISTERS}ld.param.u64 %d2, [in];\n"
        f'.pragma "used_bytes_mask 4095";\nld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d2+{offset}];\nret;\n}}\n'
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    memory = client.allocate(27)
    answer = client.launch(function, [memory], grid=(1, 1, 1), block=(threads, 1, 1))
    assert (answer or client.code("cuCtxSynchronize")) == code


@pytest.mark.emulator_only("a report of the emulator")
@pytest.mark.parametrize(
    "start,space,words",
    [
        ("ld.param.u64 %d2, [in]", ".global", "8 bytes into a 32-byte device allocation"),
        ("ld.param.u64 %d2, [in]", "", "8 bytes into a 32-byte device allocation"),
        ("mov.u64 %d2, tile", ".shared", "8 bytes into the 64-byte shared variable 'tile'"),
        ("mov.u64 %d2, own", ".local", "8 bytes into a function's 64 bytes of variables"),
        ("mov.u64 %d2, own; cvta.local.u64 %d2, %d2", "", "8 bytes into a function's 64 bytes of variables"),
    ],
)
def test_a_vector_of_which_a_part_is_loaded_is_misaligned_as_a_whole(start: str, space: str, words: str) -> None:
    from tests.emulator.emulator_client import Client

    client = Client()
    text = (
        f"{HEAD}.visible .entry k(.param .u64 in) {{\n{REGISTERS}.shared .align 16 .b8 tile[64];\n"
        f".local .align 16 .b8 own[64];\n{start};\n"
        f'.pragma "used_bytes_mask 0xff00";\nld{space}.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d2+8];\nret;\n}}\n'
    )
    function = client.get("cuModuleGetFunction", client.load(text), b"k")
    assert (client.launch(function, [client.allocate(32)]) or client.code("cuCtxSynchronize")) == 716
    assert f"is not a multiple of 16: {words}" in client.emulator.reports[-1]


def test_the_mask_concerns_only_the_next_load(run: Run) -> None:
    body = (
        '.pragma "used_bytes_mask 15";\nld.global.v2.u32 {%r1, %r2}, [%d2];\nld.global.v2.u32 {%r3, %r4}, [%d2];\n'
        "st.global.v2.u32 [%d1], {%r1, %r4};"
    )
    assert run(body, struct.pack("<2I", 5, 6)) == struct.pack("<2I", 5, 6)


def test_a_masked_load_may_replace_its_own_address(run: Run) -> None:
    body = '.pragma "used_bytes_mask 0xffff";\nld.global.v2.u64 {%d2, %d3}, [%d2];\nst.global.u64 [%d1], %d3;'
    assert run(body, struct.pack("<2Q", 5, 6)) == struct.pack("<Q", 6)
    body = '.pragma "used_bytes_mask 0xf00f";\nld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2];\n'
    assert run(body + "st.global.v2.u32 [%d1], {%r1, %r4};", struct.pack("<4I", 5, 6, 7, 8)) == struct.pack("<2I", 5, 8)


@both
@pytest.mark.parametrize("opcode, power", [("rcp", -1.0), ("rsqrt", -0.5)])
@pytest.mark.parametrize("value", [1e300, 1e-300, 3.0, 2.0**-130])
def test_approximations_of_doubles_have_the_range_of_doubles(
    run: Run, opcode: str, power: float, value: float, threads: int
) -> None:
    body = f"ld.global.f64 %g1, [%d2];\n{opcode}.approx.ftz.f64 %g2, %g1;\nst.global.f64 [%d1], %g2;"
    (found,) = set(struct.unpack(f"<{threads}d", run(body, struct.pack("<d", value), threads=threads)))
    assert abs(found / value**power - 1) < 1e-5


COPIES = {
    "a load and a store": "st.global.f32 [%d1], %f1;",
    "a move": "mov.f32 %f2, %f1; st.global.f32 [%d1], %f2;",
    "bits in an integer register": "mov.b32 %r1, %f1; st.global.u32 [%d1], %r1;",
    "a register that is computed with, too": "add.f32 %f3, %f1, %f1; st.global.f32 [%d1], %f1;",
    "a move of one that is computed with": "mov.f32 %f2, %f1; mul.f32 %f3, %f2, %f1; st.global.f32 [%d1], %f2;",
    "a selection": "setp.eq.u32 %p0, %r0, %r0; selp.f32 %f2, %f1, %f3, %p0; add.f32 %f3, %f2, %f2; "
    "st.global.f32 [%d1], %f2;",
    "bits that become a float": "mov.b32 %r1, %f1; mov.b32 %f2, %r1; add.f32 %f3, %f2, %f2; mov.b32 %r2, %f2; "
    "st.global.u32 [%d1], %r2;",
    "a lane": "mov.b32 %r1, %f1; shfl.sync.bfly.b32 %r2, %r1, 0, 31, -1; mov.b32 %f2, %r2; add.f32 %f3, %f2, %f2; "
    "st.global.f32 [%d1], %f2;",
}


@both
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FC01234])
def test_a_copied_nan_keeps_its_bits(run: Run, way: str, bits: int, threads: int) -> None:
    """A loop of compare-and-swap on floats compares the bits that it loaded."""
    if threads == 1 and way == "a lane":
        threads = 32
    found = run("ld.global.f32 %f1, [%d2];\n" + COPIES[way], struct.pack("<2I", bits, 0), threads=threads)
    assert found == struct.pack("<2I", bits, 0) * threads


@both
def test_a_constant_nan_keeps_its_bits(run: Run, threads: int) -> None:
    body = "mov.f32 %f1, 0fFFC00001; st.global.f32 [%d1], %f1;"
    assert run(body, threads=threads) == struct.pack("<2I", 0xFFC00001, 0) * threads


@both
def test_a_nan_of_arithmetic_is_always_the_same(run: Run, threads: int) -> None:
    body = (
        "ld.global.f32 %f1, [%d2]; mov.f32 %f2, %f1;\nloop:\nadd.f32 %f3, %f1, %f1; mov.f32 %f2, %f3;\n"
        "setp.ne.u32 %p0, %r0, %r0; @%p0 bra loop;\nst.global.f32 [%d1], %f2;"
    )
    assert run(body, struct.pack("<I", 0xFFC01234), threads=threads) == struct.pack("<2I", 0x7FFFFFFF, 0) * threads


@both
def test_compare_and_swap_of_a_nan_ends(run: Run, threads: int) -> None:
    """An atomic maximum of floats, as compilers write it."""
    body = (
        "ld.global.f32 %f1, [%d2];\nagain:\nmax.f32 %f2, %f1, 0f40000000; mov.b32 %r1, %f1; mov.b32 %r2, %f2;\n"
        "atom.global.cas.b32 %r3, [%d2], %r1, %r2; setp.ne.u32 %p0, %r3, %r1; mov.b32 %f1, %r3; @%p0 bra again;\n"
        "ld.global.f32 %f3, [%d2]; st.global.f32 [%d1], %f3;"
    )
    found = run(body, struct.pack("<I", 0xFFC00000), threads=threads)
    assert found == struct.pack("<fi", 2.0, 0) * threads


@both
@pytest.mark.parametrize("alignment", [64, 128, 256, 1024])
def test_local_variables_are_aligned_as_they_ask(run: Run, alignment: int, threads: int) -> None:
    body = (
        "mov.u64 %d3, small; mov.u64 %d3, own; cvta.local.u64 %d3, %d3; st.local.u8 [small], 1; "
        "st.global.u64 [%d1], %d3;"
    )
    declared = f".local .align 1 .b8 small[3]; .local .align {alignment} .b8 own[64];"
    for address in struct.unpack(f"<{threads}Q", run(body, declared=declared, threads=threads)):
        assert address and address % alignment == 0


@both
@pytest.mark.parametrize(
    "declared, body",
    [
        (".u32 A[32]", "mov.u64 %d3, A[4]; mov.u64 %d4, A+16; sub.u64 %d5, %d3, %d4; st.global.u64 [%d1], %d5;"),
        (".b8 A[32]", "mov.u64 %d3, A[4]; mov.u64 %d4, A+4; sub.u64 %d5, %d3, %d4; st.global.u64 [%d1], %d5;"),
        (".u64 A[8]", "mov.u32 %r1, A[2]; mov.u32 %r2, A; sub.u32 %r3, %r1, %r2; sub.u32 %r3, %r3, 16; "
         "st.global.u32 [%d1], %r3;"),
        (".u32 A[32]", "mov.u64 %d3, A; st.shared.u32 A[3], 0; ld.shared.u32 %r1, [%d3+12]; st.global.u32 [%d1], %r1;"),
        (".u32 A[32]", "st.shared.u32 [A+8], 0; ld.shared.u32 %r1, A[2]; st.global.u32 [%d1], %r1;"),
    ],
)  # fmt: skip
def test_an_element_of_an_array_is_an_address(run: Run, declared: str, body: str, threads: int) -> None:
    declared = f".shared .align 8 {declared};"
    assert run(body, declared=declared, threads=threads) == bytes(8 * threads)


@both
def test_bytes_are_packed_and_unpacked(run: Run, threads: int) -> None:
    body = (
        "ld.global.u8 m, [%d2+1]; mov.b16 %h1, {m, 0}; st.global.u16 [%d1], %h1; mov.b16 %h1, {7, m}; "
        "st.global.u16 [%d1+2], %h1; ld.global.u32 %r1, [%d2]; mov.b32 {n, m, _, _}, %r1; mov.b32 %r1, {m, 9, n, m}; "
        "st.global.u32 [%d1+4], %r1;"
    )
    expected = bytes([5, 0, 7, 5, 5, 9, 4, 5])
    assert run(body, bytes([4, 5, 6, 7]), declared=".reg .b8 m, n;", threads=threads) == expected * threads


@both
def test_registers_may_be_vectors(run: Run, threads: int) -> None:
    body = (
        "ld.global.v2.u32 v, [%d2]; add.u32 %r1, v.x, v.g; mov.u32 v.x, %r1; mov.v2.u32 w1, v; mov.b64 %d3, w1; "
        "mov.v2.u32 {%r2, %r3}, w1; ld.global.v4.u16 q, [%d2]; mov.b16 q.w, q.x; st.global.v2.u32 [%d1], v; "
        "mov.b64 %d4, q; setp.ne.u64 %p0, %d4, 0x0003000200010003; @%p0 trap; setp.ne.u32 %p0, %r2, v.r; @%p0 trap;"
    )
    declared = ".reg .v2 .u32 v, w<3>; .reg .v4 .b16 q;"
    given = struct.pack("<4H", 3, 1, 2, 7)
    a, b = struct.unpack("<2I", given)
    body = body.replace("0x0003000200010003", str(3 | 1 << 16 | 2 << 32 | 3 << 48))
    assert run(body, given, declared=declared, threads=threads) == struct.pack("<2I", a + b, b) * threads


@pytest.mark.parametrize(
    "declared, body, words",
    [
        (".shared .u32 C;", "mov.u32 %r1, C[2];", "Array indexing on non-array"),
        (".shared .u32 A[4];", "ld.shared.u32 %r1, [A[2]];", "'\\['"),
        (".shared .u32 A[4];", "mov.u32 %r1, A[%r0];", "register"),
        (".shared .u32 A[4];", "add.u32 %r1, A[1], 3;", ""),
        ("", "mov.b16 %h1, {%h2, %h3};", "mismatch"),
        (".reg .v2 .u32 v;", "mov.u32 %r1, v;", "mismatch"),
        (".reg .v2 .u32 v;", "mov.u32 %r1, v.z;", "v.z"),
        (".reg .v4 .u64 v;", "", "vector"),
        (".reg .v2 .u32 v, w;", "mov.v4.u32 v, w;", "mismatch"),
        (".reg .v2 .u32 v;", "mov.v2.u32 v, %r1;", "mismatch"),
    ],
)
def test_what_ptxas_refuses_of_these_is_refused(device: Any, declared: str, body: str, words: str) -> None:
    text = f"{HEAD}.visible .entry k() {{\n{REGISTERS}{declared}\n{body}\nret;\n}}\n"
    with pytest.raises(rawcuda.CompileFailed, match=f"(?i){words}"):
        device.load(text)


@pytest.mark.emulator_only("a GPU reads whatever shared memory contains")
def test_a_read_of_shared_memory_that_was_never_written_is_only_reported(
    run: Run, library: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "mov.u64 %d3, tile; ld.shared.u32 %r1, [%d3]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1;"
    run(body, declared=".shared .align 4 .b8 tile[64];")
    assert "was never written: its content is undefined" in library.reports[-1] + capfd.readouterr().err


def test_the_devices_that_access_managed_memory_fill_the_whole_array(device: Any, driver: Any, current: None) -> None:
    invalid = -2  # CU_DEVICE_INVALID
    with device.allocate(4096, kind="managed") as memory:
        found = (ctypes.c_int * 3)(7, 7, 7)
        driver.cuMemRangeGetAttribute(found, 12, 3, memory.ptr, 4096)
        assert list(found) == [invalid] * 3
        driver.cuMemAdvise_v2(memory.ptr, 4096, 5, cuda_h.CUmemLocation(type=1, id=0))
        driver.cuMemRangeGetAttribute(found, 12, 3, memory.ptr, 4096)
        assert list(found) == [0, invalid, invalid]
        for attribute in (1, 2, 4, 5, 6, 7, 8):
            driver.cuMemRangeGetAttribute(found, 4, attribute, memory.ptr, 4096)


def test_every_code_of_the_drivers_version_has_a_name_and_a_text(driver: Any) -> None:
    place, codes = ctypes.c_char_p(), module("emulator.machine.codes")
    for code in codes.NAMES:
        for function in (driver.cuGetErrorName, driver.cuGetErrorString):
            function(code, ctypes.byref(place))
            assert place.value


def test_available_shared_memory_is_that_of_a_kernel_that_has_not_asked_for_more(
    device: Any, driver: Any, current: None
) -> None:
    size = ctypes.c_size_t()
    with device.load(f"{HEAD}.visible .entry k() {{ ret; }}\n") as made:
        function = cuda_h.CUfunction(made["k"].handle)
        driver.cuOccupancyAvailableDynamicSMemPerBlock(ctypes.byref(size), function, 1, 32)
        assert 0 < size.value <= 48 << 10


@pytest.mark.parametrize("by_option", [False, True])
def test_a_limit_of_registers_shows_in_the_attribute(device: Any, driver: Any, current: None, by_option: bool) -> None:
    names = [f"%f{at}" for at in range(200)]
    body = "".join(f"ld.global.f32 {name}, [%d2+{4 * at}];\n" for at, name in enumerate(names))
    body += "".join(f"st.global.f32 [%d2+{800 + 4 * at}], {name};\n" for at, name in enumerate(names))
    text = (
        f"{HEAD}.visible .entry k(.param .u64 in) {'' if by_option else '.maxnreg 32'} {{\n"
        f".reg .b64 %d<3>; .reg .f32 %f<200>;\nld.param.u64 %d2, [in];\n{body}ret;\n}}\n"
    )
    with device.load(text) as made:
        assert (made["k"].attributes.registers <= 32) is not by_option
    handle, function, found = cuda_h.CUmodule(), cuda_h.CUfunction(), ctypes.c_int()
    options, values = (ctypes.c_uint * 1)(0), (ctypes.c_void_p * 1)(32)  # CU_JIT_MAX_REGISTERS
    driver.cuModuleLoadDataEx(ctypes.byref(handle), text.encode() + b"\0", int(by_option), options, values)
    driver.cuModuleGetFunction(ctypes.byref(function), handle, b"k")
    driver.cuFuncGetAttribute(ctypes.byref(found), 4, function)
    assert found.value <= 32
    driver.cuModuleUnload(handle)


def test_zero_bytes_in_stream_order_are_a_null_pointer(device: Any, driver: Any, current: None) -> None:
    place = cuda_h.CUdeviceptr(5)
    with device.stream() as stream:
        driver.cuMemAllocAsync(ctypes.byref(place), 0, cuda_h.CUstream(stream.handle))
        assert place.value == 0
        driver.cuMemFreeAsync(place, cuda_h.CUstream(stream.handle))


def test_a_query_answers_with_a_bool(driver: Any, device: Any) -> None:
    cuda_h = module("headers.cuda_h")
    with device.stream() as stream, device.event() as event:
        stream.synchronize()
        driver.cuCtxPushCurrent_v2(cuda_h.CUcontext(device.context))
        try:
            answers = (
                driver.cuStreamQuery(cuda_h.CUstream(stream.handle)),
                driver.cuEventQuery(cuda_h.CUevent(event.handle)),
            )
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(cuda_h.CUcontext()))
        assert answers == (True, True)


def test_who_may_reset_a_lost_context_is_told_so(driver: Any, library: Any) -> None:
    said = str(driver.error(700, "cuCtxSynchronize", [], ()))
    assert ("Call reset() of the Device" in said) == (library is not None) and "restart this process" in said.lower()


def test_an_attribute_of_the_driver_may_be_the_first_that_is_asked_for(python: Python) -> None:
    result = python("from tests.subject import rawcuda; print(rawcuda.cu.version >= 11000)", check=True)
    assert result.stdout == "True\n"


def test_a_trace_names_what_a_launch_was_given(device: Any) -> None:
    with device.load(kernels.ADD) as loaded, rawcuda.trace([]) as trace:
        loaded["add"].launch(None, None, None, 0, grid=(2, 3), block=32, shared_bytes=64)
        device.synchronize()
    [launch] = [event for event in trace.events if event.name.startswith("cuLaunchKernel")]
    assert launch.arguments["gridDim"] == "(2, 3, 1)" and launch.arguments["blockDim"] == "(32, 1, 1)"
    assert launch.arguments["sharedMemBytes"] == "64" and launch.arguments["hStream"] == "CUstream(0x1)"
