"""Memory.register: host memory of somebody else, page-locked where it is."""

import array
import ctypes
import gc
import mmap
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors, owned = module("errors"), module("ownership")


class Buffer(bytearray):
    """An array that can be watched."""


def kind_of(address):
    found = module("gpu.for_arrays").locate(address)
    return found and found[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(400),
        lambda: array.array("f", [0] * 100),
        lambda: mmap.mmap(-1, 400),
        lambda: rawcuda.view(bytearray(500))[100:],
        lambda: rawcuda.view(bytearray(400)).reshape((20, 20)).T,
    ],
    ids=["bytearray", "array", "mmap", "part", "transposed"],
)
def test_an_array_is_page_locked_where_it_is(device, make):
    exporter = make()
    address = rawcuda.view(exporter).ptr
    with rawcuda.Memory.register(exporter) as memory:
        assert (memory.kind, memory.nbytes, memory.ptr) == ("pinned", 400, address)
        assert not memory.borrowed and not memory.readonly and memory.is_accessible_from(device)
        assert kind_of(address) == kind_of(address + 399) == "cuda_host"
        with device.load(kernels.ADD) as code, device.allocate(400) as there:
            numbers = memory.view("float32")
            numbers.fill(2)
            code["add"].launch(memory, numbers, numbers, 100, grid=1, block=128)
            there.copy_from(memory)  # in stream order
            device.synchronize()
            assert there.view("float32").tolist() == [4.0] * 100
        assert ctypes.string_at(address, 4) == b"\0\0\x80\x40"
    assert memory.closed and kind_of(address) is None
    memory.close()


def test_it_keeps_the_exporter_until_it_is_closed(device):
    exporter = Buffer(64)
    watched = weakref.ref(exporter)
    memory = device.register(exporter)
    with pytest.raises(BufferError):
        exporter.append(0)  # it cannot move while it is page-locked
    del exporter
    gc.collect()
    assert watched() is not None
    memory.fill(1)
    memory.close()
    assert watched() is None  # the closed Memory does not keep it


def test_it_is_undone_when_it_is_dropped(device):
    exporter = Buffer(64)
    watched, address = weakref.ref(exporter), rawcuda.view(exporter).ptr
    memory = device.register(exporter)
    exported = rawcuda.view(memory, protocol="dlpack")
    memory.close()
    assert kind_of(address) == "cuda_host"  # while it is exported
    exported.fill(5)
    del exported, memory
    gc.collect()
    owned.drain()
    assert kind_of(address) is None and exporter == bytes([5]) * 64
    device.register(exporter)  # dropped at once
    del exporter
    gc.collect()
    owned.drain()
    assert watched() is None


def test_twice(device):
    exporter = bytearray(400)
    for again in (exporter, rawcuda.view(exporter)[100:200], rawcuda.view(exporter)[:1]):
        with rawcuda.Memory.register(exporter) as memory:
            with pytest.raises(errors.InvalidUse, match="already registered"):
                rawcuda.Memory.register(again)
            with pytest.raises(ValueError, match="it is already"):
                rawcuda.Memory.register(memory)
        rawcuda.Memory.register(again).close()
    with device.allocate(64, kind="pinned") as pinned, pytest.raises(errors.InvalidUse):
        rawcuda.Memory.register(pinned.view().memoryview())


def test_a_read_only_exporter(device):
    text = bytes(range(100)) * 4
    for given in (text, rawcuda.view(bytearray(text), writable=False)):
        with pytest.raises(errors.ProtocolError, match="read_only=True"):
            rawcuda.Memory.register(given)
    with rawcuda.Memory.register(text, read_only=True) as memory, device.load(kernels.ADD) as code:
        assert memory.readonly and memory.view().readonly and "<Memory" in repr(memory)
        with device.allocate(400) as there:
            there.copy_from(memory)
            assert there.view().tolist() == [*range(100)] * 4
            with pytest.raises(errors.ProtocolError, match="must not be written"):
                memory.copy_from(there)
            with pytest.raises(errors.ProtocolError, match="must not be written"):
                memory.fill(0)
            with pytest.raises(errors.ProtocolError, match="must not be written"):
                memory.view().fill(0)
            for argument in (memory, memory.view("float32")):
                with pytest.raises(ValueError, match=r"is read-only.*: wrap it in In"):
                    code["add"].launch(argument, there, there, 100, grid=1, block=128)
            read = rawcuda.In(memory)
            code["add"].launch(read, read, there, 100, grid=1, block=128)
            device.synchronize()
        assert rawcuda.view(memory, protocol="dlpack").readonly
        assert memory.__cuda_array_interface__["data"][1] is True


@pytest.mark.parametrize("owner", ["memory", "view", "borrowed", "read-only view"])
def test_what_borrows_from_read_only_memory_is_read_only(device, owner):
    """It could be written, which changed a bytes object."""
    text = bytes(range(100)) * 4
    with device.load(kernels.ADD) as code, device.zeros(100, "float32").owner as there:
        if owner == "read-only view":
            lender = rawcuda.view(device.allocate(400, kind="pinned"), writable=False)
        else:
            memory = rawcuda.Memory.register(text, read_only=True)
            lender = memory.view() if owner == "view" else memory
        borrowed = rawcuda.Memory.borrow(device, lender.ptr, 400, kind="pinned", owner=lender)
        if owner == "borrowed":
            borrowed = rawcuda.Memory.borrow(device, lender.ptr, 400, kind="pinned", owner=borrowed)
        assert borrowed.readonly and borrowed.view().readonly
        for use in (
            lambda: borrowed.fill(0),
            lambda: borrowed.copy_from(there),
            lambda: borrowed.view("float32")[::2].fill(1),
            lambda: device.graph().fill(borrowed, 0),
            lambda: device.stream().write_value(borrowed, 1),
        ):
            with pytest.raises(errors.ProtocolError, match="must not be written|read-only"):
                use()
        for argument in (borrowed, borrowed.view("float32")):
            with pytest.raises(ValueError, match=r"is read-only.*: wrap it in In"):
                code["add"].launch(there, there, argument, 100, grid=1, block=128)
        read = rawcuda.In(borrowed)
        code["add"].launch(read, read, there, 100, grid=1, block=128)
        device.synchronize()
    with pytest.raises(AttributeError):
        borrowed.readonly = False


def test_what_cannot_be_page_locked(device):
    numbers = rawcuda.view(bytearray(100))
    with device.allocate(64) as memory, device.allocate(64, kind="managed") as managed:
        for given, error, words in (
            (numbers[::2], ValueError, "not one run of bytes"),
            (numbers[::-1], ValueError, "not one run of bytes"),
            (numbers.reshape((10, 10))[:, :5], ValueError, "not one run of bytes"),
            (numbers[:1].broadcast_to((10,)), errors.ProtocolError, "readonly"),
            (memory, ValueError, "give one in host memory"),
            (managed, ValueError, "give one in host memory"),
            (5, TypeError, None),
            (None, TypeError, None),
            ([1, 2], TypeError, None),
        ):
            with pytest.raises(error, match=words):
                rawcuda.Memory.register(given)
    with pytest.raises(TypeError, match="device must be a Device"):
        rawcuda.Memory.register(bytearray(8), device=0)
    with rawcuda.Memory.register(b"") as nothing, rawcuda.Memory.register(numbers[:0]) as none:
        assert (nothing.ptr, nothing.nbytes, none.nbytes) == (0, 0, 0)


def test_the_flags(device):
    exporter = bytearray(64)
    flags = []
    with rawcuda.trace(lambda event: flags.append(event)):
        for options in ({}, dict(portable=False), dict(read_only=True)):
            rawcuda.Memory.register(exporter, device=device, **options).close()
        try:
            rawcuda.Memory.register(exporter, io_memory=True).close()
        except errors.CudaError:
            pass  # it is no such memory
    calls = [event for event in flags if getattr(event, "name", "") == "cuMemHostRegister_v2"]
    assert [event.arguments["Flags"] for event in calls] == ["3", "2", "11", "7"]


@pytest.mark.parametrize("portable", [False, True])
def test_it_is_released_in_its_own_context(device, portable):
    """A driver may answer 713 if the memory was registered in another context than the current one."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("this needs two devices")
    memory = rawcuda.Memory.register(bytearray(64), device=device, portable=portable)
    address = memory.handle
    with rawcuda.Device(1).current():
        memory.close()
        assert kind_of(address) is None


def test_detached_it_stays_page_locked(device):
    exporter = bytearray(64)
    memory = device.register(exporter)
    address = memory.detach()
    assert memory.closed and kind_of(address) == "cuda_host"
    with device.current():
        rawcuda.cu.cuMemHostUnregister(address)
    assert kind_of(address) is None


def test_with_pending_work(device):
    exporter = array.array("I", range(100))
    with device.stream() as stream, device.allocate(400) as there:
        memory = device.register(exporter)
        there.copy_from(memory, stream=stream)
        memory.copy_from(there, stream=stream)
        memory.close()  # waits
        assert exporter.tolist() == [*range(100)] == there.view("uint32").tolist()


WAYS = ["another device", "a graph", "an export", "an array interface", "a capture"]


@pytest.mark.parametrize("way", WAYS)
def test_the_array_may_be_used_after_close(device, way):
    """Whatever keeps the bytes meanwhile: the exporter uses them again, in contrast to other memory."""
    if way == "another device" and len(rawcuda.devices()) < 2:
        pytest.skip("this needs two devices")
    home = rawcuda.Device(1) if way == "another device" else device
    exporter, other = array.array("I", [0] * 100), device.stream()
    source, stream = home.upload(array.array("I", range(100))), home.stream()
    home.synchronize()
    memory, kept = device.register(exporter), None
    if way == "a graph":
        kept = device.graph()
        kept.copy(memory.view("uint32"), source)
        kept.launch(stream)
    else:
        memory.copy_from(source, stream=stream)
    if way == "an export":
        kept = rawcuda.view(memory, protocol="dlpack")
    elif way == "an array interface":
        kept = memory.__cuda_array_interface__
    if way == "a capture":
        kept = device.empty(4, "uint32")
        with other.capture():
            kept.fill(1, stream=other)
            memory.close()
            assert exporter.tolist() == [*range(100)]
    memory.close()
    assert exporter.tolist() == [*range(100)]


def test_what_another_device_used_is_page_locked_no_more(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("this needs two devices")
    with rawcuda.Device(1).stream() as stream:
        source, exporter = rawcuda.Device(1).upload(bytes(100)), bytearray(100)
        memory = device.register(exporter)
        address = memory.ptr
        memory.copy_from(source, stream=stream)
        memory.close()
        assert kind_of(address) is None


def test_what_is_collected_waits_for_work(device):
    """Work does not retain it, and the exporter is let go of when it is unregistered."""
    calls = []
    with device.stream() as stream:
        memory = rawcuda.Memory.register(bytearray(400))
        memory.fill(1, stream=stream)
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            del memory
            gc.collect()
            owned.drain()
        assert calls.index("cuCtxSynchronize") < calls.index("cuMemHostUnregister")


def test_what_is_collected_waits_for_all_devices(device):
    """Any of them may use the memory, by its address."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("this needs two devices")
    exporter, calls = array.array("I", [0] * 100), []
    other = rawcuda.Device(1)
    with other.stream() as stream, other.allocate(400, kind="pinned") as source:
        source.view("uint32").copy_from(array.array("I", range(100)))
        memory = device.register(exporter)
        with other.current():
            queue = module("headers.cuda_h").CUstream(stream.handle)
            rawcuda.cu.cuMemcpyDtoDAsync_v2(memory.ptr, source.ptr, 400, queue)
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            del memory
            gc.collect()
            owned.drain()
        assert exporter.tolist() == [*range(100)]
        assert calls[: calls.index("cuMemHostUnregister")].count("cuCtxSynchronize") >= 2


def test_an_interrupt_of_close_leaves_it_closed(device, monkeypatch):
    """The array can be page-locked again, although the traceback keeps the memory."""
    exporter, calls = bytearray(64), vars(device._primary.calls)
    device.synchronize()  # binds the function

    def interrupted(*arguments):
        raise KeyboardInterrupt

    memory = device.register(exporter)
    with monkeypatch.context() as patched:
        patched.setitem(calls, "cuCtxSynchronize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.close()
    assert memory.closed
    device.register(exporter).close()


def test_the_array_stays_page_locked_until_the_capture_ends(device):
    exporter, stream, there = bytearray(64), device.stream(), device.empty(4, "uint32")
    memory = device.register(exporter)
    address = memory.ptr
    with stream.capture():
        there.fill(1, stream=stream)
        memory.close()
        with pytest.raises(BufferError):
            exporter.append(0)
        assert kind_of(address) == "cuda_host"
    device.register(exporter).close()
    exporter.append(0)


def test_in_a_child_of_fork(python):
    """The child must not unregister what belongs to the parent, and is told so if it registers."""
    told = python(
        """
        import os
        from tests.subject import rawcuda
        if not hasattr(os, "fork"):
            print("0"); raise SystemExit
        exporter = bytearray(64)
        memory = rawcuda.Memory.register(exporter)
        child = os.fork()
        if not child:
            memory.close()
            try:
                rawcuda.Memory.register(bytearray(64))
            except rawcuda.ForkedAfterInit:
                os._exit(0)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        memory.fill(1)
        memory.close()
        print(status)
        """,
        check=True,
    ).stdout
    assert told.strip() == "0"


def test_an_interrupt_leaves_nothing(device, monkeypatch):
    """However far the call has come: the memory is page-locked by a Memory, or not at all."""
    registered = module("gpu.memory.registered")
    exporter = bytearray(64)

    def interrupt(memory):
        raise KeyboardInterrupt

    monkeypatch.setattr(registered, "_check_same_address", interrupt)
    with pytest.raises(KeyboardInterrupt):
        device.register(exporter)
    monkeypatch.undo()
    gc.collect()
    owned.drain()
    device.register(exporter).close()


@pytest.mark.codes("cuMemHostUnregister returned 713")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_second_attempt_after_an_interrupt_stays_page_locked(device, monkeypatch, when):
    """The traceback still refers to the first attempt, which is released later."""
    exporter, calls = bytearray(64), vars(device._primary.calls)
    register = device._primary.calls.cuMemHostRegister_v2

    def interrupted(*arguments):
        if when == "after":
            register(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setitem(calls, "cuMemHostRegister_v2", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            device.register(exporter)
    with device.register(exporter) as memory:
        del caught
        gc.collect()
        owned.drain()
        assert kind_of(memory.ptr) == "cuda_host"
    assert kind_of(rawcuda.view(exporter).ptr) is None


@pytest.mark.emulator_only("a GPU may end the context instead")
@pytest.mark.codes("cuMemsetD8_v2 returned 1", "cuMemcpyDtoD_v2 returned 1", "cuStreamWriteValue32_v2 returned 1")
@pytest.mark.parametrize("kind", ["registered", "virtual"])
def test_no_call_writes_memory_that_devices_may_only_read(device, kind):
    given = bytes(64)
    cu, cuda_h = rawcuda.cu, module("headers.cuda_h")
    if kind == "registered":
        memory = rawcuda.Memory.register(given, read_only=True)
        pointer = memory.handle
    else:
        memory = device.virtual_memory(64)
        memory.set_access(device, "read")
        pointer = memory.ptr
    with memory, device.allocate(64) as there, device.stream() as stream, device.current():
        for write in (
            lambda: cu.cuMemsetD8_v2(pointer, 7, 4),
            lambda: cu.cuMemcpyDtoD_v2(pointer, there.ptr, 4),
            lambda: cu.cuStreamWriteValue32_v2(cuda_h.CUstream(stream.handle), pointer, 7, 0),
        ):
            with pytest.raises(errors.InvalidUse, match="which devices may only read"):
                write()
        there.copy_from(memory.view("uint8")[:64])
    assert given == bytes(64)
