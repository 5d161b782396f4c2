"""Devices, primary contexts, the stack of current contexts, two devices, addresses by name."""

from __future__ import annotations

import ctypes
import gc
import re
import struct
import sys
import threading
import weakref

import pytest

from tests.emulator.emulator_client import HEAD, Client
from tests.subject import NAME, module

OUT = ctypes.c_uint64()


@pytest.fixture
def client():
    made = Client(devices=2)
    yield made
    assert not made.emulator.kept_exceptions


# -- devices


def test_facts_of_a_device(client):
    name = ctypes.create_string_buffer(100)
    client.do("cuDeviceGetName", name, 100, 0)
    assert name.value.decode() == f"{NAME.rpartition('.')[2]} emulator"
    client.do("cuDeviceGetName", name, 5, 0)
    assert len(name.value) == 4
    assert client.get_int("cuDeviceGetCount") == 2
    assert client.get("cuDeviceTotalMem_v2", 0) == 4 << 30
    first, second = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
    client.do("cuDeviceGetUuid_v2", first, 0)
    client.do("cuDeviceGetUuid_v2", second, 1)
    assert first.raw != second.raw and any(first.raw)
    Client(devices=2).do("cuDeviceGetUuid", second, 0)
    assert first.raw == second.raw  # the same in every process


def test_every_attribute_has_a_value_and_some_are_known(client):
    cuda_h = module("headers.cuda_h")
    values = {
        name: client.get_int("cuDeviceGetAttribute", number, 0)
        for name, number in cuda_h.enum("CUdevice_attribute").items()
        if not name.endswith("_MAX") and number <= 147
    }
    assert len(values) > 50
    prefix = "CU_DEVICE_ATTRIBUTE_"
    assert values[prefix + "COMPUTE_CAPABILITY_MAJOR"] == 9
    assert values[prefix + "MAX_THREADS_PER_BLOCK"] == 1024
    assert values[prefix + "WARP_SIZE"] == 32
    assert values[prefix + "UNIFIED_ADDRESSING"] == 1
    assert client.get_int("cuDeviceGetAttribute", 33, 0) != client.get_int("cuDeviceGetAttribute", 33, 1)  # the bus


def test_a_device_is_found_by_its_bus(client):
    text = ctypes.create_string_buffer(20)
    for device in (0, 1):
        client.do("cuDeviceGetPCIBusId", text, 20, device)
        assert client.get_int("cuDeviceGetByPCIBusId", text.value) == device


def test_names_give_the_newest_address_that_a_version_has(client):
    address, status = ctypes.c_uint64(), ctypes.c_int()

    def find(name, version):
        code = client.code("cuGetProcAddress_v2", name, address, version, 0, status)
        return code, address.value, status.value

    of = client.emulator.address
    assert find(b"cuMemAlloc", 13000) == (0, of("cuMemAlloc_v2"), 0)
    assert find(b"cuCtxCreate", 13000) == (0, of("cuCtxCreate_v4"), 0)
    assert find(b"cuCtxCreate", 11030) == (0, of("cuCtxCreate_v2"), 0)
    assert find(b"cuCtxGetDevice", 12080) == (0, of("cuCtxGetDevice"), 0)
    assert find(b"cuInit", 2000) == (0, of("cuInit"), 0)
    assert find(b"cuMemAlloc", 2000) == (0, 0, 1)  # the ABI of 32 bits, which the emulator lacks
    assert find(b"cuCtxGetId", 11080) == (0, 0, 2)  # the version is not sufficient
    assert find(b"cuNoSuchThing", 13000) == (0, 0, 1)
    assert client.code("cuGetProcAddress_v2", b"cuNoSuchThing", address, 13000, 0, 0) == 0 and not address.value
    address.value = 7
    assert client.code("cuGetProcAddress", b"cuNoSuchThing", address, 13000, 0) == 500 and address.value == 7
    assert client.code("cuGetProcAddress", b"cuMemFree", address, 12000, 0) == 0 and address.value == of("cuMemFree_v2")


# -- primary contexts


def _green(client):
    """Make a green context of all multiprocessors of the first device."""
    resource = ctypes.create_string_buffer(512)
    client.do("cuDeviceGetDevResource", 0, resource, 1)
    return client.get("cuGreenCtxCreate", client.get("cuDevResourceGenerateDesc", resource, 1), 0, 1)


def _state(client, device=0):
    flags, active = ctypes.c_uint(), ctypes.c_int()
    client.do("cuDevicePrimaryCtxGetState", device, flags, active)
    return flags.value, active.value


def test_a_primary_context_lives_from_first_retain_to_last_release():
    client = Client(start=False)
    client.do("cuInit", 0)
    assert _state(client) == (0, 0)
    assert client.code("cuDevicePrimaryCtxRelease_v2", 0) == 201
    client.do("cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    context = client.get("cuDevicePrimaryCtxRetain", 0)
    assert client.get("cuDevicePrimaryCtxRetain", 0) == context
    assert _state(client) == (4, 1)
    assert client.emulator.live_handles()["context"] == 2
    client.do("cuCtxPushCurrent_v2", context)
    memory, stream = client.allocate(64), client.stream()
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert client.code("cuCtxSynchronize") == 0
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert _state(client) == (4, 0)
    assert client.code("cuCtxSynchronize") == 709
    assert client.get("cuDevicePrimaryCtxRetain", 0) == context  # the same handle, empty
    assert client.code("cuStreamQuery", stream) == 400
    assert client.code("cuMemFree_v2", memory) == 1
    assert client.code("cuCtxSynchronize") == 0
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert not any(client.emulator.live_handles().values())


def test_a_context_that_is_retained_during_its_last_release_stays(client):
    """The last release waits for the work; then it is no longer the last one."""
    client.do("cuCtxSetFlags", 4)
    release, retain = (
        lambda: client.code("cuDevicePrimaryCtxRelease_v2", 0), lambda: client.code("cuDevicePrimaryCtxRetain", OUT, 0),
    )  # fmt: skip
    assert client.during_a_kernel(release, retain) == [0, 0]
    assert OUT.value == client.context and _state(client) == (4, 1)
    client.do("cuMemAlloc_v2", OUT, 16)
    assert sorted(client.during_a_kernel(release, release)) == [0, 201]
    assert _state(client) == (4, 0)


def _resource(client):
    """Return all multiprocessors of device 0."""
    resource = ctypes.create_string_buffer(512)
    client.do("cuDeviceGetDevResource", 0, resource, 1)
    return resource


def test_a_green_context_that_goes_leaves_a_context_that_is_retained_meanwhile(client):
    """Destroying the last green context releases the primary context, which waits for the work."""
    descriptor = ctypes.c_uint64()
    client.do("cuDevResourceGenerateDesc", descriptor, _resource(client), 1)
    green = client.get("cuGreenCtxCreate", descriptor.value, 0, 1)

    green = _green(client)
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    destroy = lambda: client.code("cuGreenCtxDestroy", green)  # noqa: E731
    assert client.during_a_kernel(destroy, lambda: client.code("cuDevicePrimaryCtxRetain", OUT, 0)) == [0, 0]
    assert _state(client) == (0, 1) and client.code("cuMemAlloc_v2", OUT, 16) == 0


def test_the_streams_of_a_destroyed_green_context_can_only_be_destroyed(client):
    """And what they capture is invalidated: nobody could end the capture, which forbids allocations."""
    context = client.emulator._machine.devices[0].primary
    number = len(context.streams)
    green = _green(client)
    captures, joined, idle = (client.get("cuGreenCtxStreamCreate", green, 1, 0) for _ in range(3))
    client.do("cuStreamBeginCapture_v2", captures, 0)
    event = client.event()
    client.do("cuEventRecord", event, captures)
    client.do("cuStreamWaitEvent", joined, event, 0)
    client.do("cuGreenCtxDestroy", green)
    client.allocate(16)
    for stream in (captures, joined, idle):
        assert client.code("cuStreamEndCapture", stream, OUT) == client.code("cuStreamSynchronize", stream) == 400
        assert "green context" in client.emulator.explain(400)
        client.do("cuStreamDestroy_v2", stream)
        assert client.code("cuStreamDestroy_v2", stream) == 400
    assert len(context.streams) == number


def test_a_stream_of_a_green_context_has_a_priority_of_the_device(client):
    client.emulator._machine.answers.priorities = 0, -2  # as a report of `check` can say
    descriptor, found = ctypes.c_uint64(), ctypes.c_int()
    client.do("cuDevResourceGenerateDesc", descriptor, _resource(client), 1)
    green = client.get("cuGreenCtxCreate", descriptor.value, 0, 1)
    for asked, expected in ((-9, -2), (-1, -1), (9, 0)):
        client.do("cuStreamGetPriority", client.get("cuGreenCtxStreamCreate", green, 1, asked), found)
        assert found.value == expected


def test_what_a_green_context_may_wait_for(client):
    """Also for events of other contexts, but not for what is captured; a refusal breaks the capture."""
    green = _green(client)
    event, stream = client.event(), client.stream()
    client.do("cuStreamBeginCapture_v2", stream, 2)
    client.do("cuEventRecord", event, stream)
    assert client.code("cuGreenCtxWaitEvent", green, event) == 900
    assert client.code("cuStreamEndCapture", stream, OUT) == 901
    client.do("cuCtxSetCurrent", client.get("cuDevicePrimaryCtxRetain", 1))
    foreign = client.event()
    client.do("cuEventRecord", foreign, 0)
    client.do("cuGreenCtxWaitEvent", green, foreign)
    assert client.code("cuGreenCtxRecordEvent", green, foreign) == 400


def test_a_mark_of_a_green_context_waits_for_no_work_in_the_legacy_stream():
    """All streams of a green context are non-blocking."""
    client, descriptor = Client("lazy"), ctypes.c_uint64()
    client.do("cuDevResourceGenerateDesc", descriptor, _resource(client), 1)
    green = client.get("cuGreenCtxCreate", descriptor.value, 0, 1)
    memory, event = client.allocate(4), client.event(2)
    client.do("cuMemsetD8_v2", memory, 1, 4)
    client.do("cuGreenCtxRecordEvent", green, event)
    client.do("cuEventSynchronize", event)
    assert client.code("cuStreamQuery", 0) == 600
    client.do("cuStreamSynchronize", 0)
    client.do("cuGreenCtxRecordEvent", green, event)
    client.do("cuMemsetD8_v2", memory, 2, 4)
    client.do("cuStreamSynchronize", 0)
    assert client.code("cuEventQuery", event) == 600  # nor does the legacy stream wait for the mark


def test_reset_takes_everything_and_leaves_the_retains(client):
    client.allocate(64)
    client.stream()
    client.kernels()
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert _state(client) == (0, 0)
    assert client.code("cuMemAlloc_v2", OUT, 4) == 709
    assert client.code("cuCtxPushCurrent_v2", client.context) == 709
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert not any(client.emulator.live_handles().values())


def test_a_reset_ends_the_retains_of_green_contexts(client):
    """Their handles are gone, so that nobody could release them."""
    for _ in range(3):
        green = _green(client)
        client.do("cuDevicePrimaryCtxReset_v2", 0)
        assert client.code("cuGreenCtxDestroy", green) == 400
        assert client.emulator.live_handles()["context"] == 1 and _state(client) == (0, 0)
    green = _green(client)
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert _state(client) == (0, 1)  # the green context retains it
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert _state(client) == (0, 0) and client.code("cuDevicePrimaryCtxRelease_v2", 0) == 201
    assert client.code("cuGreenCtxDestroy", green) == 400 and not client.emulator.live_handles()["context"]


@pytest.mark.parametrize("mode", ["lazy", "random"])
def test_pending_work_is_done_before_a_context_goes(mode):
    client = Client(mode)
    other = ctypes.create_string_buffer(4)
    client.do("cuMemHostRegister_v2", other, 4, 0)  # so that the copy does not wait
    source = client.upload(b"done")
    client.do("cuMemcpyDtoHAsync_v2", other, source, 4, client.stream())
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    assert other.raw == b"done"


# -- the stack


def test_push_pop_and_set(client):
    first, second = client.context, client.get("cuDevicePrimaryCtxRetain", 1)
    get = client.get
    assert get("cuCtxGetCurrent") == first
    client.do("cuCtxPushCurrent_v2", second)
    client.do("cuCtxPushCurrent_v2", first)
    assert get("cuCtxPopCurrent_v2") == first
    assert get("cuCtxGetCurrent") == second and client.get_int("cuCtxGetDevice") == 1
    client.do("cuCtxSetCurrent", first)  # replaces the top
    assert get("cuCtxPopCurrent_v2") == first
    assert get("cuCtxPopCurrent_v2") == first
    assert client.code("cuCtxPopCurrent_v2", OUT) == 201
    assert get("cuCtxGetCurrent") == 0
    client.do("cuCtxSetCurrent", second)
    client.do("cuCtxSetCurrent", 0)  # pops
    assert get("cuCtxGetCurrent") == 0
    client.do("cuDevicePrimaryCtxRelease_v2", 1)


def test_a_context_of_one_s_own(client):
    own = client.get("cuCtxCreate_v2", 0, 1)
    assert client.get("cuCtxGetCurrent") == own != client.context
    assert client.get_int("cuCtxGetDevice") == 1
    assert client.emulator.live_handles()["context"] == 2
    stream, memory = client.stream(), client.allocate(16)
    assert client.get_int("cuCtxGetDevice_v2", own) == 1
    client.do("cuCtxDestroy_v2", own)
    assert client.get("cuCtxGetCurrent") == client.context
    assert client.code("cuStreamQuery", stream) == 400 and client.code("cuMemFree_v2", memory) == 1
    assert client.code("cuCtxPushCurrent_v2", own) == 709
    assert client.code("cuCtxDestroy_v2", own) == 709
    assert client.code("cuCtxDestroy_v2", client.context) == 201  # a primary one is released instead
    assert not client.live()


@pytest.mark.parametrize("disables", [False, True])
def test_nothing_stays_of_a_destroyed_context(client, disables):
    """Only its handle is known, also if it had access to another device's memory."""
    machine = client.emulator._machine
    before = len(machine.handles)
    own = client.get("cuCtxCreate_v2", 0, 1)
    context = weakref.ref(machine.handles[own])
    client.do("cuCtxEnablePeerAccess", client.context, 0)
    if disables:
        client.do("cuCtxDisablePeerAccess", client.context)
    client.do("cuCtxDestroy_v2", own)
    gc.collect()
    assert context() is None and len(machine.handles) == before
    assert client.code("cuCtxSetCurrent", own) == client.code("cuMemcpyPeer", 0, own, 0, own, 0) == 709


def test_a_library_keeps_nothing_of_destroyed_contexts(client):
    image = f"{HEAD}.visible .entry k() {{ ret; }}".encode()
    library = client.get("cuLibraryLoadData", image, 0, 0, 0, 0, 0, 0)
    kernel = client.get("cuLibraryGetKernel", library, b"k")
    first = client.get("cuLibraryGetModule", library)
    own = client.get("cuCtxCreate_v2", 0, 1)
    module = client.get("cuLibraryGetModule", library)
    context = weakref.ref(client.emulator._machine.handles[own])
    client.do("cuCtxDestroy_v2", own)
    gc.collect()
    assert context() is None and client.get("cuLibraryGetModule", library) == first != module
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    client.do("cuCtxSetCurrent", client.get("cuDevicePrimaryCtxRetain", 0))
    assert client.get("cuLibraryGetModule", library) not in (first, module)
    assert client.get("cuFuncGetModule", client.get("cuKernelGetFunction", kernel))
    client.do("cuLibraryUnload", library)
    client.do("cuDevicePrimaryCtxRelease_v2", 0)
    assert not client.live()


def test_a_context_destroyed_elsewhere_stays_on_the_stack_and_is_709(client):
    own = client.get("cuCtxCreate_v4", bytes(24), 0, 0)  # parameters that say nothing
    client.do("cuCtxDestroy_v2", own)
    for byte in (0, 8, 16):
        assert client.code("cuCtxCreate_v4", OUT, bytes(byte) + b"\1" + bytes(23 - byte), 0, 0) == 801
    own = client.get("cuCtxCreate_v4", 0, 0, 0)

    def destroy():
        client.do("cuCtxDestroy_v2", own)

    thread = threading.Thread(target=destroy)
    thread.start()
    thread.join()
    assert client.get("cuCtxGetCurrent") == own
    assert client.code("cuCtxSynchronize") == 709
    client.do("cuCtxPopCurrent_v2", OUT)
    assert client.code("cuCtxSynchronize") == 0


@pytest.mark.parametrize("flags", [*range(16), 0x80, 0x83, 0xFC, 0xFF, 0x100])
def test_flags_of_a_context(client, flags):
    """Of the ways to wait (CU_CTX_SCHED_*, the bits 1, 2 and 4), a context has one at most."""
    code = 0 if flags < 0x100 and flags & 7 in (0, 1, 2, 4) else 1
    assert client.code("cuDevicePrimaryCtxSetFlags_v2", 0, flags) == code
    assert client.code("cuCtxSetFlags", flags) == code
    assert client.code("cuCtxCreate_v2", OUT, flags, 0) == client.code("cuCtxCreate_v4", OUT, 0, flags, 0) == code


def test_facts_of_a_context(client):
    least, greatest = ctypes.c_int(), ctypes.c_int()
    client.do("cuCtxGetStreamPriorityRange", least, greatest)
    assert (least.value, greatest.value) == (0, -5)
    client.do("cuCtxGetStreamPriorityRange", 0, 0)
    client.do("cuCtxSetLimit", 0, 4096)
    assert client.get("cuCtxGetLimit", 0) == 4096
    ident = ctypes.c_uint64()
    client.do("cuCtxGetId", client.context, ident)
    assert ident.value


@pytest.mark.parametrize("limit, name", [(1, "vprintf"), (2, "malloc")])
def test_a_limit_is_set_before_a_kernel_needs_it(client, limit, name):
    call = {
        "malloc": "{.param .b64 n; .param .b64 r; st.param.b64 [n], 64; call.uni (r), malloc, (n);}",
        "vprintf": "{.param .b64 n; .param .b64 m; .param .b32 r; st.param.b64 [n], 0; st.param.b64 [m], 0; "
        "call.uni (r), vprintf, (n, m);}",
    }[name]
    loaded = client.load(
        HEAD
        + ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        + ".extern .func (.param .b32 r) vprintf(.param .b64 n, .param .b64 m);\n"
        + f".func inner() {{ .reg .pred %p; setp.ne.u32 %p, 0, 0; @%p bra CALL; ret; CALL: {call} ret; }}\n"
        + ".visible .entry outer() { call.uni inner; ret; }\n.visible .entry idle() { ret; }\n"
    )
    kernels = [client.get("cuModuleGetFunction", loaded, each) for each in (b"idle", b"outer")]
    for kernel, code in zip(kernels, (0, 1)):
        assert client.launch(kernel, []) == 0
        client.do("cuCtxSynchronize")
        assert client.code("cuCtxSetLimit", limit, 4 << 20) == code
        assert client.code("cuCtxSetLimit", 3 - limit, 4 << 20) == 0
    client.do("cuDevicePrimaryCtxReset_v2", 0)
    client.do("cuDevicePrimaryCtxRetain", OUT, 0)
    client.do("cuCtxSetLimit", limit, 4 << 20)


# -- two devices


def test_peers(client):
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    assert client.get_int("cuDeviceCanAccessPeer", 0, 1) == 1
    assert client.get_int("cuDeviceCanAccessPeer", 0, 0) == 0
    assert client.code("cuCtxEnablePeerAccess", client.context, 0) == 101
    client.do("cuCtxEnablePeerAccess", second, 0)
    assert client.code("cuCtxEnablePeerAccess", second, 0) == 704
    client.do("cuCtxDisablePeerAccess", second)
    assert client.code("cuCtxDisablePeerAccess", second) == 705
    client.do("cuDevicePrimaryCtxRelease_v2", 1)


def test_peer_access_ends_with_the_context_of_the_peer(client):
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    client.do("cuCtxEnablePeerAccess", second, 0)
    client.do("cuDevicePrimaryCtxReset_v2", 1)
    assert client.get("cuDevicePrimaryCtxRetain", 1) == second
    client.do("cuCtxSetCurrent", second)
    memory = client.allocate(4)
    client.do("cuCtxSetCurrent", client.context)
    assert client.get_int("cuPointerGetAttribute", 16, memory) == 0  # what kernels may do: nothing
    assert client.code("cuCtxDisablePeerAccess", second) == 705
    client.do("cuCtxEnablePeerAccess", second, 0)
    assert client.get_int("cuPointerGetAttribute", 16, memory) == 3


@pytest.mark.parametrize("how", ["node", "capture"])
@pytest.mark.parametrize("flags", [0, 1, 3])
def test_access_to_memory_that_a_graph_allocates(client, how, flags):
    """An allocation node lists the devices that may access its memory; in a capture, they are those of the pool."""
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    access = struct.pack("<3i", 1, 1, flags)
    if how == "node":
        listed = ctypes.create_string_buffer(access)
        words = struct.pack("<4iQQH54x", 1, 0, 1, 0, 0, 0, 0)
        words += struct.pack("<4Q", ctypes.addressof(listed), int(flags > 0), 64, 0)
        node, graph = ctypes.create_string_buffer(words, 120), client.get("cuGraphCreate", 0)
        client.get("cuGraphAddMemAllocNode", graph, 0, 0, node)
        (memory,) = struct.unpack_from("<Q", node.raw, 112)
    else:
        stream, end = client.stream(), ctypes.c_uint64()
        client.do("cuMemPoolSetAccess", client.get("cuDeviceGetDefaultMemPool", 0), access, 1)
        client.do("cuStreamBeginCapture_v2", stream, 2)
        memory = client.get("cuMemAllocAsync", 64, stream)
        client.do("cuStreamEndCapture", stream, end)
        graph = end.value
    client.do("cuGraphLaunch", client.get("cuGraphInstantiateWithFlags", graph, 0), 0)
    client.do("cuCtxSynchronize")
    assert client.get_int("cuPointerGetAttribute", 16, memory) == 3
    client.do("cuCtxSetCurrent", second)
    assert client.get_int("cuPointerGetAttribute", 16, memory) == flags
    assert client.launch(client.kernels()("store"), [memory, 1]) == 0
    assert client.code("cuCtxSynchronize") == (0 if flags == 3 else 700)


@pytest.mark.parametrize("devices", [1, 2])
def test_kernels_use_the_memory_of_their_own_context(devices):
    """Memory of another context of the device does not exist there, but pools, pinned and managed memory do."""
    client = Client(devices=devices)
    shared = [client.get("cuMemAllocAsync", 4, 0), client.pinned(bytes(4)), client.get("cuMemAllocManaged", 4, 1)]
    theirs = client.upload(bytes(4))
    client.do("cuCtxSynchronize")
    context = client.get("cuCtxCreate_v2", 0, 0)
    store, own = client.kernels()("store"), client.allocate(4)
    for memory in (own, *shared):
        assert client.launch(store, [memory, 5]) == 0
        client.do("cuCtxSynchronize")
        assert client.number(memory) == 5
    assert client.get("cuPointerGetAttribute", 16, own) == 3 and client.get("cuPointerGetAttribute", 16, theirs) == 0
    assert client.number(theirs) == 0  # copies reach it
    client.launch(store, [theirs, 5])
    assert client.code("cuCtxSynchronize") == 700 and "another context" in client.emulator.reports[-1]
    client.do("cuCtxDestroy_v2", context)
    assert client.number(theirs) == 0


def test_peer_access_is_to_one_context(client):
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    other = client.get("cuCtxCreate_v2", 0, 1)
    memory = client.upload(bytes(4))
    client.do("cuCtxSetCurrent", client.context)
    client.do("cuCtxEnablePeerAccess", second, 0)
    assert client.get("cuPointerGetAttribute", 16, memory) == 0
    client.do("cuCtxEnablePeerAccess", other, 0)
    assert client.get("cuPointerGetAttribute", 16, memory) == 3
    assert client.launch(client.kernels()("store"), [memory, 5]) == 0
    client.do("cuCtxSynchronize")


def test_each_device_has_its_own_memory(client):
    free, total = ctypes.c_uint64(), ctypes.c_uint64()

    def free_now():
        client.do("cuMemGetInfo_v2", free, total)
        return free.value

    second = client.get("cuDevicePrimaryCtxRetain", 1)
    before = free_now()
    memory = client.allocate(1 << 20)
    assert free_now() == before - (1 << 20)
    client.do("cuCtxPushCurrent_v2", second)
    assert free_now() == before
    assert client.code("cuMemAlloc_v2", OUT, total.value + 1) == 2
    there = client.allocate(16)
    assert client.get_int("cuPointerGetAttribute", 9, there) == 1
    assert client.get("cuPointerGetAttribute", 1, there) == second
    client.do("cuMemFree_v2", there)
    client.do("cuCtxPopCurrent_v2", OUT)
    client.do("cuMemFree_v2", memory)
    assert free_now() == before
    client.do("cuDevicePrimaryCtxRelease_v2", 1)


def test_a_stream_and_an_event_of_another_context_are_refused(client):
    second = client.get("cuDevicePrimaryCtxRetain", 1)
    get, event = client.kernels(), client.event()
    nothing = get("nothing")
    client.do("cuCtxPushCurrent_v2", second)
    stream = client.stream()
    assert client.launch(nothing, [], stream=stream) == 400  # the kernel was loaded in the first device's context
    assert client.launch(nothing, []) == 400
    assert client.code("cuEventRecord", event, stream) == 400
    assert client.code("cuStreamWaitEvent", stream, event, 0) == 0  # waiting is allowed across devices
    client.do("cuStreamDestroy_v2", stream)
    client.do("cuDevicePrimaryCtxRelease_v2", 1)


# -- the emulator as a library object


def test_what_is_asked_of_an_emulator():
    Emulator = module("emulator").Emulator
    with pytest.raises(ValueError, match="mode 'quick'"):
        Emulator("quick")
    for count in (0, 65):
        with pytest.raises(ValueError, match="devices"):
            Emulator(devices=count)
    for seconds in (10**400, float("inf"), float("nan"), -1):
        with pytest.raises(ValueError, match="must be a number of seconds"):
            Emulator(timeout=seconds)
    assert "random seed 3" in repr(Emulator("random", 3))
    assert set(Emulator().symbols) > {"cuInit", "cuMemAlloc_v2"}


@pytest.mark.parametrize(
    "setting",
    [
        {"cuda": "12.4"},
        {"cuda": 12.4},
        {"sm": "sm_90"},
        {"sm": ""},
        {"devices": True},
        {"seed": None},
        {"checked": "no"},
        {"cma": None},
        {"keep_status": 2},
        {"checks": 3},
        {"progress": 3},
        {"timeout": "3"},
        {"report": 3},
    ],
)
def test_a_setting_of_another_type_is_named_in_the_error(setting):
    [(name, given)] = setting.items()
    with pytest.raises(TypeError, match=re.escape(f"{name}={given!r}: ")):
        module("emulator").Emulator(**setting)


@pytest.mark.parametrize(
    "text, mode, seed, devices, dump",
    [
        ("", "eager", 0, 1, False),
        ("lazy", "lazy", 0, 1, False),
        ("random=7", "random", 7, 1, False),
        ("random", "random", 0, 1, False),
        ("devices=2, lazy", "lazy", 0, 2, False),
        ("dump,random=12,devices=3", "random", 12, 3, True),
        ("eager", "eager", 0, 1, False),
    ],
)
def test_the_environment_chooses(monkeypatch, text, mode, seed, devices, dump):
    emulator = module("emulator")
    monkeypatch.setenv("RAWCUDA_EMULATOR", text)
    made = emulator.Emulator.from_environment()
    assert (made.mode, made.seed, len(made._machine.devices), made._machine.dump) == (mode, seed, devices, dump)


def test_the_architecture_is_chosen(monkeypatch):
    monkeypatch.setenv("RAWCUDA_EMULATOR", "sm=120")
    assert module("emulator").Emulator.from_environment()._machine.architecture == 120
    client = Client(sm=120)
    assert [client.get_int("cuDeviceGetAttribute", number, 0) for number in (75, 76)] == [12, 0]
    client.get("cuModuleLoadData", b".version 8.7\n.target sm_120\n.address_size 64\n\0")
    for sm in (0, 49, 1000):
        with pytest.raises(ValueError, match="sm="):
            module("emulator").Emulator(sm=sm)


@pytest.mark.parametrize("text", ["quick", "devices=two", "random=x", "lazy=1", "devices=0", "sm=12.0"])
def test_the_environment_is_read_strictly(monkeypatch, text):
    emulator = module("emulator")
    monkeypatch.setenv("RAWCUDA_EMULATOR", text)
    with pytest.raises(ValueError, match="devices"):
        emulator.Emulator.from_environment()


def test_gaps_are_pairs_of_what_and_why():
    gaps = module("emulator").GAPS
    assert len(gaps) > 15
    for what, why in gaps:
        assert what and len(why) > 15
    assert len({what for what, _ in gaps}) == len(gaps)


# -- threads that C code starts


class NativeThread:
    """A thread of the system, in which one function runs as a callback."""

    def __init__(self, work):
        self.libc = ctypes.CDLL(None)
        self.work = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: work())
        self.handle = ctypes.c_ulong()
        assert self.libc.pthread_create(ctypes.byref(self.handle), None, self.work, None) == 0

    def join(self):
        assert self.libc.pthread_join(self.handle, None) == 0


needs_pthreads = pytest.mark.skipif(sys.platform != "linux", reason="threads are made by pthread_create of Linux")


@needs_pthreads
def test_a_thread_with_the_number_of_an_ended_one_has_a_state_of_its_own(client, monkeypatch):
    monkeypatch.setattr(threading, "get_native_id", lambda: 7)  # after 32,768 threads, the system gives it again
    context, current = client.get("cuDevicePrimaryCtxRetain", 1), []

    def work():
        current.append(client.get("cuCtxGetCurrent"))
        client.do("cuCtxSetCurrent", context)
        current.append(client.get("cuCtxGetCurrent"))

    for _ in range(3):
        NativeThread(work).join()
    assert current == [0, context] * 3


@needs_pthreads
def test_the_states_of_ended_threads_of_c_do_not_stay(client):
    begin, end, machine = threading.Event(), threading.Event(), client.emulator._machine
    kept = []

    def stay():
        kept.append(machine.thread())
        begin.set(), end.wait()

    staying = NativeThread(stay)
    begin.wait()
    for _ in range(300):
        NativeThread(lambda: client.code("cuCtxSynchronize")).join()
    known = [thread for _, thread in machine._native_threads._known.values()]
    assert len(known) < 150 and kept[0] in known
    end.set()
    staying.join()
