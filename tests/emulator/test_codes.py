"""The code for each mistake: in a call that does nothing, and after a kernel failed."""

from __future__ import annotations

import ctypes
import functools
import struct
import weakref

import pytest

from tests.emulator.emulator_client import HEAD, KERNELS, Client
from tests.subject import module

codes = module("emulator.machine.codes")
OUT = ctypes.c_uint64()
LAST_Y = 65535


@pytest.fixture
def client():
    made = Client()
    yield made
    assert not made.emulator.kept_exceptions


# -- before anything else


@pytest.mark.parametrize(
    "call",
    [
        ("cuDeviceGetCount", OUT),
        ("cuDeviceGet", OUT, 0),
        ("cuMemAlloc_v2", OUT, 16),
        ("cuCtxSynchronize",),
        ("cuStreamCreate", OUT, 0),
        ("cuDevicePrimaryCtxRetain", OUT, 0),
        ("cuModuleLoadData", OUT, b"x"),
        ("cuCtxGetCurrent", OUT),
        ("cuMemcpy", 0, 0, 0),
    ],
)
def test_before_init_it_is_3(call):
    assert Client(start=False).code(*call) == 3


@pytest.mark.parametrize(
    "call",
    [
        ("cuDriverGetVersion", OUT),
        ("cuGetErrorName", 1, OUT),
        ("cuGetErrorString", 1, OUT),
        ("cuGetProcAddress", b"cuInit", OUT, 12000, 0),
    ],
)
def test_some_calls_need_no_init(call):
    assert Client(start=False).code(*call) == 0


def test_init_takes_no_flags():
    assert Client(start=False).code("cuInit", 1) == 1


@pytest.mark.parametrize(
    "call",
    [
        ("cuMemAlloc_v2", OUT, 16),
        ("cuMemFree_v2", 2**49),
        ("cuCtxSynchronize",),
        ("cuStreamCreate", OUT, 0),
        ("cuEventCreate", OUT, 0),
        ("cuStreamQuery", 0),
        ("cuStreamSynchronize", 2),
        ("cuModuleLoadData", OUT, KERNELS.encode()),
        ("cuMemcpyHtoD_v2", 2**49, b"1234", 4),
        ("cuMemsetD8_v2", 2**49, 0, 4),
        ("cuMemGetInfo_v2", OUT, OUT),
        ("cuCtxGetDevice", OUT),
        ("cuMemHostAlloc", OUT, 16, 0),
        ("cuCtxPopCurrent_v2", OUT),
        ("cuLaunchHostFunc", 0, 1, 0),
        ("cuMemAllocAsync", OUT, 16, 0),
        ("cuCtxGetLimit", OUT, 0),
        ("cuPointerGetAttribute", OUT, 2, 2**49),
        ("cuLaunchKernel", 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
        ("cuEventQuery", 1),
    ],
)
def test_without_a_context_it_is_201(client, call):
    client.do("cuCtxSetCurrent", 0)
    assert client.code(*call) == 201


# -- arguments


@pytest.mark.parametrize(
    "call, code",
    [
        (("cuDeviceGet", OUT, 1), 101),
        (("cuDeviceGet", OUT, -1), 101),
        (("cuDeviceGetName", b"12345", 5, 3), 101),
        (("cuDevicePrimaryCtxRetain", OUT, 1), 101),
        (("cuDeviceGetAttribute", OUT, 0, 0), 1),
        (("cuDeviceGetAttribute", OUT, 148, 0), 1),
        (("cuMemAlloc_v2", OUT, 0), 1),
        (("cuMemHostAlloc", OUT, 0, 0), 1),
        (("cuMemAllocManaged", OUT, 0, 1), 1),
        (("cuMemAllocManaged", OUT, 16, 0), 1),
        (("cuMemAlloc_v2", OUT, 1 << 40), 2),
        (("cuMemAllocPitch_v2", OUT, OUT, 10, 10, 3), 1),
        (("cuMemAllocPitch_v2", OUT, OUT, 0, 10, 4), 1),
        (("cuMemFree_v2", 0), 1),
        (("cuMemFree_v2", 2**49), 1),
        (("cuMemFreeHost", 12345), 1),
        (("cuMemFreeAsync", 2**49, 0), 1),
        (("cuStreamCreate", OUT, 2), 1),
        (("cuEventCreate", OUT, 8), 1),
        (("cuEventCreate", OUT, 4), 1),
        (("cuMemHostAlloc", OUT, 16, 8), 1),
        (("cuStreamQuery", 77), 400),
        (("cuStreamDestroy_v2", 0), 400),
        (("cuStreamDestroy_v2", 2), 400),
        (("cuEventRecord", 77, 0), 400),
        (("cuEventDestroy_v2", 77), 400),
        (("cuEventQuery", 77), 400),
        (("cuModuleUnload", 77), 400),
        (("cuStreamWaitEvent", 0, 77, 0), 400),
        (("cuModuleGetFunction", OUT, 77, b"x"), 400),
        (("cuFuncGetAttribute", OUT, 0, 77), 400),
        (("cuGraphDestroy", 77), 400),
        (("cuLaunchKernel", 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0), 400),
        (("cuCtxPushCurrent_v2", 77), 201),
        (("cuCtxSetCurrent", 77), 201),
        (("cuMemPoolDestroy", 77), 1),
        (("cuCtxSetLimit", 99, 1), 215),
        (("cuCtxGetLimit", OUT, 7), 215),
        (("cuFuncSetAttribute", 77, 8, 1), 400),
        (("cuMemHostUnregister", 12345), 713),
        (("cuMemGetAddressRange_v2", OUT, OUT, 12345), 500),
        (("cuModuleLoad", OUT, b"/no/file"), 301),
        (("cuDeviceGetByPCIBusId", OUT, b"0000:77:00.0"), 101),
        (("cuDeviceGetPCIBusId", b"1234", 4, 0), 1),
        (("cuLaunchHostFunc", 0, 0, 0), 1),
        (("cuGetErrorName", 12345, OUT), 1),
        (("cuMemHostRegister_v2", 0, 16, 0), 1),
        (("cuStreamEndCapture", 0, OUT), 401),
        (("cuGetProcAddress", b"cuNoSuchThing", OUT, 12000, 0), 500),
        (("cuCtxDisablePeerAccess", 77), 201),
    ],
)
def test_a_mistake_has_its_code(client, call, code):
    assert client.code(*call) == code


def test_handles_that_are_gone_are_400(client):
    stream, event = client.stream(), client.event()
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuEventDestroy_v2", event)
    for call in (
        ("cuStreamQuery", stream),
        ("cuStreamDestroy_v2", stream),
        ("cuEventQuery", event),
        ("cuEventDestroy_v2", event),
        ("cuMemsetD8Async", client.allocate(4), 0, 4, stream),
        ("cuEventRecord", event, 0),
    ):
        assert client.code(*call) == 400, call


def test_a_handle_of_another_kind_is_400(client):
    stream, event = client.stream(), client.event()
    assert client.code("cuEventQuery", stream) == 400
    assert client.code("cuStreamQuery", event) == 400
    assert client.code("cuModuleUnload", event) == 400
    assert "it refers to an event" in client.emulator.explain(400)


@pytest.mark.parametrize("nbytes, code", [(16, 0), (17, 1), (1 << 40, 1), (0, 0)])
def test_a_copy_past_the_end_is_1(client, nbytes, code):
    source, target = client.allocate(16), client.allocate(16)
    host = ctypes.create_string_buffer(64)
    assert client.code("cuMemcpyDtoD_v2", target, source, nbytes) == code
    assert client.code("cuMemcpyDtoDAsync_v2", target, source, nbytes, 0) == code
    if nbytes < 64:
        assert client.code("cuMemcpyHtoD_v2", target, host, nbytes) == code
        assert client.code("cuMemcpyDtoH_v2", host, source, nbytes) == code
        assert client.code("cuMemsetD8_v2", target, 0, nbytes) == code
    assert client.code("cuMemcpyDtoD_v2", target + 8, source, 9) == 1
    assert client.code("cuMemcpyDtoD_v2", target - 1, source, 4) == 1


# -- launches


@pytest.mark.parametrize(
    "name, grid, block, shared, code",
    [
        ("nothing", (0, 1, 1), (1, 1, 1), 0, 1),
        ("nothing", (1, 0, 1), (1, 1, 1), 0, 1),
        ("nothing", (1, 1, 1), (1, 1, 0), 0, 1),
        ("nothing", (1, 1, 1), (1024, 1, 1), 0, 0),
        ("nothing", (1, 1, 1), (1025, 1, 1), 0, 1),
        ("nothing", (1, 1, 1), (32, 33, 1), 0, 1),
        ("nothing", (1, 1, 1), (1, 1, 65), 0, 1),
        ("nothing", (1, LAST_Y + 1, 1), (1, 1, 1), 0, 1),
        ("nothing", (1, 1, LAST_Y + 1), (1, 1, 1), 0, 1),
        ("nothing", (2**31, 1, 1), (1, 1, 1), 0, 1),
        ("nothing", (1, 1, 1), (1, 1, 1), 48 << 10, 0),
        ("nothing", (1, 1, 1), (1, 1, 1), (48 << 10) + 1, 1),
        ("small", (1, 1, 1), (64, 1, 1), 0, 0),
        ("small", (1, 1, 1), (65, 1, 1), 0, 1),
        ("exact", (1, 1, 1), (32, 2, 1), 0, 0),
        ("exact", (1, 1, 1), (64, 1, 1), 0, 1),
        ("exact", (1, 1, 1), (32, 1, 1), 0, 1),
    ],
)
def test_a_launch_that_cannot_be(client, name, grid, block, shared, code):
    assert client.launch(client.kernels()(name), [], grid=grid, block=block, shared=shared) == code
    assert client.code("cuCtxSynchronize") == 0


def test_arguments_must_be_given_once(client):
    store, at = client.kernels()("store"), client.allocate(4)
    where, value = ctypes.c_uint64(at), ctypes.c_uint32(41)
    parameters = (ctypes.c_uint64 * 2)(ctypes.addressof(where), ctypes.addressof(value))
    block = ctypes.create_string_buffer(struct.pack("<QI", at, 42))
    size = ctypes.c_size_t(12)
    extra = (ctypes.c_uint64 * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
    launch = ("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, 0)
    assert client.code(*launch, 0, 0) == 1
    assert client.code(*launch, parameters, extra) == 1
    assert client.code(*launch, parameters, 0) == 0 and client.number(at) == 41
    assert client.code(*launch, 0, extra) == 0 and client.number(at) == 42
    size.value = 11
    assert client.code(*launch, 0, extra) == 1
    extra[0] = 7
    assert client.code(*launch, 0, extra) == 1


def test_a_cooperative_launch_must_fit_on_the_device(client):
    nothing = client.kernels()("nothing")
    blocks, fits = ctypes.c_int(), client.get_int("cuDeviceGetAttribute", 16, 0)
    client.do("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks, nothing, 256, 0)
    fits *= blocks.value
    assert client.code("cuLaunchCooperativeKernel", nothing, fits, 1, 1, 256, 1, 1, 0, 0, 0) == 0
    assert client.code("cuLaunchCooperativeKernel", nothing, fits + 1, 1, 1, 256, 1, 1, 0, 0, 0) == 720


# -- modules


@pytest.mark.parametrize(
    "image, code",
    [
        (b"this is no PTX", 200),
        (HEAD.encode() + b".visible .entry k() { nonsense.u32 %r1; ret; }", 218),
        (b"", 200),
        (b".version 6.6\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }", 222),
        (b"\x7fELF" + bytes(60), 209),
        (b"\x50\xed\x55\xba\x01\0\x10\0" + bytes(8), 209),
    ],
)
def test_an_image_that_cannot_be_loaded(client, image, code):
    got = client.code("cuModuleLoadData", OUT, image)
    assert got == code or (code == 209 and got == 200)
    assert client.emulator.explain(got)
    assert not client.live()


def test_unknown_names_are_500_and_the_report_lists_those_there_are(client):
    loaded = client.load(KERNELS)
    assert client.code("cuModuleGetFunction", OUT, loaded, b"no_such") == 500
    assert "store" in client.emulator.explain(500)
    assert client.code("cuModuleGetGlobal_v2", OUT, OUT, loaded, b"no_such") == 500
    assert "table" in client.emulator.explain(500)


# -- after a kernel failed

STICKY = sorted(codes.STICKY)


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
@pytest.mark.parametrize("wait", [("cuCtxSynchronize",), ("cuStreamSynchronize", 0), ("cuStreamSynchronize", "stream")])
@pytest.mark.parametrize("name, expected", [("wild", (700,)), ("trap", (715, 719))])
def test_an_error_in_a_kernel_is_told_later_and_stays(mode, wait, name, expected):
    client = Client(mode)
    kernel, stream, memory, event = client.kernels()(name), client.stream(), client.allocate(16), client.event()
    assert client.launch(kernel, [], stream=stream if wait[-1] == "stream" else 0) == 0  # the launch itself succeeds
    code = client.code(*[stream if word == "stream" else word for word in wait])
    assert code in expected
    for call in (
        ("cuCtxSynchronize",),
        ("cuMemAlloc_v2", OUT, 16),
        ("cuMemFree_v2", memory),
        ("cuStreamQuery", stream),
        ("cuMemcpyHtoD_v2", memory, b"1234", 4),
        ("cuEventRecord", event, stream),
        ("cuStreamDestroy_v2", stream),
        ("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0),
        ("cuEventQuery", event),
        ("cuStreamCreate", OUT, 0),
        ("cuModuleLoadData", OUT, KERNELS.encode()),
        ("cuDevicePrimaryCtxRetain", OUT, 0),
    ):
        assert client.code(*call) == code, call
    report = client.emulator.explain(code)
    assert report and report == client.emulator.explain(code)  # the reason why the context is lost can always be read
    assert report in client.emulator.reports
    assert client.code("cuDeviceGetCount", OUT) == 0
    assert client.code("cuCtxGetCurrent", OUT) == 0
    assert not client.live().get("memory")  # the objects of a lost context need not be released


def test_an_illegal_address_is_reported_with_its_place(client):
    client.launch(client.kernels()("wild"), [])
    client.code("cuCtxSynchronize")
    report = client.emulator.explain(700)
    assert "0x10" in report


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_work_after_the_error_is_not_done(mode):
    client = Client(mode)
    get = client.kernels()
    pinned, store = client.pinned(b"\x05\0\0\0"), get("store")
    client.launch(get("wild"), [])
    client.launch(store, [pinned, struct.pack("<I", 6)])
    assert client.code("cuCtxSynchronize") == 700
    assert ctypes.string_at(pinned, 4) == b"\x05\0\0\0"


def test_a_lost_context_can_be_reset_and_other_devices_go_on():
    client = Client(devices=2)
    other = client.get("cuDevicePrimaryCtxRetain", 1)
    client.launch(client.kernels()("wild"), [])
    assert client.code("cuCtxSynchronize") == 700
    client.do("cuCtxPushCurrent_v2", other)
    client.do("cuMemFree_v2", client.allocate(16))
    client.do("cuCtxPopCurrent_v2", OUT)
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert client.code("cuCtxSynchronize") == 709
    assert client.get("cuDevicePrimaryCtxRetain", 0) == client.context
    client.do("cuMemFree_v2", client.allocate(16))


@pytest.mark.parametrize("code", STICKY)
def test_every_sticky_code_loses_the_context(client, code):
    machine, Fault = client.emulator._machine, module("emulator.machine.space").Fault

    def fail():
        raise Fault(code, f"report of {code}")

    with machine.lock:
        machine.queues.submit(machine.handles[client.context].legacy, fail, "something")
    assert client.code("cuCtxSynchronize") == code
    assert client.emulator.explain(code) == f"report of {code}"


def test_a_bug_of_the_emulator_in_a_kernel_is_kept_and_loses_the_context():
    client = Client()
    machine = client.emulator._machine
    with machine.lock:
        machine.queues.submit(machine.handles[client.context].legacy, functools.partial(divmod, 1, 0), "something")
    assert client.code("cuCtxSynchronize") == 719
    assert [type(kept) for kept in client.emulator.kept_exceptions] == [ZeroDivisionError]


def test_an_exception_that_is_kept_keeps_nothing_of_its_callers():
    client, machine = Client(), Client().emulator._machine

    class Held:
        pass

    def fail():
        held = Held()
        found.append(weakref.ref(held))
        raise ZeroDivisionError("in the emulator")

    found = []
    for _ in range(150):
        try:
            fail()
        except ZeroDivisionError as error:
            machine.keep(error)
    assert not any(each() for each in found) and len(machine.kept_exceptions) == 100
    (told,) = {str(each.__cause__).splitlines()[-1] for each in machine.kept_exceptions}
    assert told == "ZeroDivisionError: in the emulator" and "in fail" in str(machine.kept_exceptions[0].__cause__)
    assert not client.emulator.kept_exceptions


# -- messages for users


def test_the_newest_thousand_are_kept_and_places_only_of_loaded_modules():
    client = Client(strict=False)
    machine = client.emulator._machine
    reports, findings = machine.reports, machine.findings
    for n in range(1000):
        findings.append(f"older {n}")
    body = ".visible .entry add(.param .u64 a) { .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [a];\n"
    loaded = client.load(f"{HEAD}{body}ld.global.u32 %r, [%d]; add.u32 %r, %r, 1; st.global.u32 [%d], %r; ret; }}")
    kernel = client.get("cuModuleGetFunction", loaded, b"add")
    assert client.launch(kernel, [client.allocate(4)]) == 0
    assert "never written" in reports[-1] and reports[-1] is findings[-1] and machine.space.told
    assert client.launch(kernel, [8]) in (0, 700) and client.code("cuCtxSynchronize") == 700
    assert "of 4 bytes" in reports[-1] and reports[-1] is findings[-1]
    assert (reports[0], findings[0], len(reports), len(findings)) == ("older 2", "older 2", 1000, 1000)
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert not machine.space.told


def test_names_and_texts(client):
    for code, name in codes.NAMES.items():
        for call, expected in (("cuGetErrorName", name), ("cuGetErrorString", codes.TEXTS[code])):
            out = ctypes.c_char_p()
            client.do(call, code, out)
            assert out.value == expected
    out = ctypes.c_char_p(b"untouched")
    assert client.code("cuGetErrorName", 77777, out) == 1
    assert out.value is None


def test_an_old_report_does_not_explain_a_new_error(client):
    assert client.code("cuMemcpyDtoD_v2", client.allocate(4), client.allocate(4), 5) == 1
    assert client.code("cuStreamCreate", 0, 0) == 1  # no call asked for the first report
    assert client.emulator.explain(1) is None
    assert client.code("cuMemcpyDtoD_v2", client.allocate(4), client.allocate(4), 5) == 1
    assert "5 bytes" in client.emulator.explain(1)
    assert client.emulator.explain(1) is None
