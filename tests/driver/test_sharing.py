"""Memory and events that two real processes share."""

from __future__ import annotations

import copy
import gc
import linecache
import os
import pickle
import signal
import socket
import sys
import threading
import time

import pytest

from tests.driver import kernels
from tests.driver.sharing_worker import Failed, Worker
from tests.subject import module, rawcuda

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes share memory on Linux only"),
]
KINDS = ("plain", "pool", "virtual")


@pytest.fixture(scope="module")
def settings(pytestconfig, library):
    option = pytestconfig.getoption
    return None if library is None else {"mode": option("mode"), "seed": option("seed"), "devices": 2}


@pytest.fixture(scope="module")
def worker(settings):
    made = Worker(settings)
    yield made
    made.stop()


@pytest.fixture
def victim(settings):
    """A process that a test may kill."""
    made = Worker(settings)
    yield made
    made.stop()


@pytest.fixture(params=KINDS)
def memory(request, device):
    made, pool = None, None
    if request.param == "plain":
        made = device.allocate(4096)
    elif request.param == "pool":
        pool = device.memory_pool(shareable=True)
        made = device.allocate(4096, pool=pool)
    else:
        made = device.virtual_memory(1, reserve=1 << 23, shareable=True)
        made.grow(made.nbytes + 1)  # two mappings
    made.fill(1)
    device.synchronize()
    yield made
    made.close()
    if pool is not None:
        pool.close()


def test_two_processes_use_the_same_bytes(device, worker, memory):
    with memory.share() as handle:
        assert handle.kind == "memory" and handle.nbytes == memory.nbytes and handle.pid == os.getpid()
        assert not handle.closed and str(os.getpid()) in repr(handle)
        assert worker.do("open_memory", "m", handle) == (memory.nbytes, "device", 0)
        assert worker.do("read", "m") == [1] * 4
        memory.view()[:2].fill(2)
        device.synchronize()
        assert worker.do("read", "m") == [2, 2, 1, 1]
        worker.do("fill", "m", 3, memory.nbytes - 2, 2)
        assert memory.view()[-4:].tolist() == [1, 1, 3, 3]
        worker.do("close", "m")
    assert handle.closed and "closed" in repr(handle)
    assert memory.view()[-1].item() == 3  # it is ours as before


def test_kernels_of_both_processes_use_it(device, worker, memory):
    view = memory.view("int32")
    device.upload(memoryview(bytearray(memory.nbytes)).cast("i")).copy_to(view)
    ours = device.load(kernels.GLOBALS)["nothing"]
    ours.launch(grid=1, block=1)
    with memory.share() as handle:
        worker.do("open_memory", "m", handle)
        for expected in (1, 2):
            worker.do("run_kernel", "m", ADD_ONE, "add_one")
            assert view[:64].tolist() == [2 * expected - 1] * 64
            device.load(ADD_ONE)["add_one"].launch(view, 64, grid=1, block=64)
            assert view[:65].tolist() == [2 * expected] * 64 + [0]
        worker.do("close", "m")


ADD_ONE = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 n)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r3, %r2, 1;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""


@pytest.mark.parametrize("shareable", [True, False])
def test_an_event_orders_two_processes(device, worker, shareable):
    event, memory = device.event(shareable=shareable), device.allocate(64)
    memory.fill(0)
    device.synchronize()
    with memory.share() as handle, event.share() as point:
        assert point.kind == "event"
        worker.do("open_memory", "m", handle)
        worker.do("open_event", "e", point)
        stream = device.stream()
        for value in (5, 6):
            memory.fill(value, stream=stream)
            stream.record(event)
            assert worker.do("wait_and_read", "e", "m") == [value] * 4
            assert worker.do("synchronize", "e") is True
        worker.do("fill_and_record", "m", 7, "e")
        other = device.stream()
        other.wait(event)
        host = device.allocate(4, kind="pinned")
        rawcuda.copy(host, memory.view()[:4], stream=other)
        other.synchronize(timeout=60)
        assert host.view().tolist() == [7] * 4
        event.synchronize()
        assert event.query()
        worker.do("close", "m", "e", "stream")
        host.close()
    event.close()
    memory.close()


def test_what_an_event_waited_for_stays_so_when_it_is_shared(device, worker):
    """Sharing replaces the driver's event, whose recorded point stays the same."""
    event, stream, flag = device.event(), device.stream(), device.allocate(4, kind="pinned")
    flag.fill(0)
    flag = flag.view("uint32")
    stream.wait_value(flag, 1)
    stream.record(event)
    before = event.handle
    with event.share() as point:
        assert event.handle != before and not event.query()
        worker.do("open_event", "e", point)
        with pytest.raises(Failed, match="0.05 seconds") as caught:
            worker.do("synchronize", "e", 0.05)
        assert "TimeoutError" in caught.value.bases
        flag[0] = 1
        stream.synchronize(timeout=60)
        assert worker.do("synchronize", "e", 60)
        worker.do("close", "e")
    event.close()


def test_the_owner_may_close_first(device, worker):
    memory, event = device.allocate(64), device.event()
    memory.fill(9)
    device.synchronize()
    with memory.share() as handle, event.share() as point:
        worker.do("open_memory", "m", handle)
        worker.do("open_event", "e", point)
        memory.close()
        event.close()
        device.stream().close()  # another release, which frees what can be freed
        assert worker.do("read", "m") == [9] * 4
        assert worker.do("synchronize", "e")
        worker.do("close", "m", "e")
        with pytest.raises(rawcuda.Closed):
            memory.share()
        with pytest.raises(rawcuda.Closed):
            event.share()


def test_an_event_that_is_shared_twice_lives_as_long_as_both_handles(device, worker):
    event = device.event(shareable=True)
    with event.share() as point:
        with event.share():
            event.close()
        device.stream().close()
        worker.do("open_event", "e", point)
        assert worker.do("synchronize", "e")
        worker.do("close", "e")


def test_the_end_of_the_block_waits_and_has_a_limit(device, worker, victim):
    memory = device.allocate(64)
    with (
        pytest.raises(TimeoutError, match=rf"open in process {worker.process.pid}"),
        memory.share(timeout=0.1) as handle,
    ):
        worker.do("open_memory", "m", handle)
    assert handle.closed
    with pytest.raises(Failed, match="does not share this any more") as caught:
        victim.do("open_memory", "m", handle)
    assert caught.value.kind == "Closed"
    memory.close()
    worker.do("fill", "m", 4)  # kept until the other process closes it
    assert worker.do("read", "m") == [4] * 4
    worker.begin("close", "m")
    handle.close(timeout=60)
    worker.end()


@pytest.mark.usefixtures("only_new_objects")
def test_a_reset_of_the_owner_ends_the_sharing_first(worker, victim):
    """Memory that was freed while another process had it open was used there on."""
    own = rawcuda.devices()[0]
    memory, event = own.allocate(64), own.event(shareable=True)
    memory.fill(7)
    own.synchronize()
    handle, point = memory.share(timeout=0.1), event.share(timeout=0.1)
    kept = own.allocate(64).share(timeout=0.1)  # its memory is closed, but another process opens it
    for name, shared in (("m", handle), ("k", kept)):
        worker.do("open_memory", name, shared)
    worker.do("open_event", "e", point)
    del shared, kept  # a handle that is dropped ends the sharing, but the others keep it open
    for closed in ("m", "e", "k"):
        with pytest.raises(rawcuda.InvalidUse, match=rf"shares: .* open in process {worker.process.pid}"):
            own.reset(force=True)
        if closed == "m":
            assert worker.do("read", "m") == memory.view()[:4].tolist() == [7] * 4
        worker.do("close", closed)
    own.reset(force=True)
    assert memory.closed and event.closed and handle.closed and point.closed
    for what, shared in (("open_memory", handle), ("open_event", point)):
        with pytest.raises(Failed, match="does not share this any more") as caught:
            victim.do(what, "m", shared)
        assert caught.value.kind == "Closed"


@pytest.mark.usefixtures("only_new_objects")
def test_a_reset_that_is_refused_ends_no_sharing(worker):
    own = rawcuda.devices()[0]
    memory, pinned = own.allocate(64), own.allocate(64, kind="pinned")
    with memory.share() as handle:
        used = pinned.lease()
        with pytest.raises(rawcuda.InvalidUse, match="arrays still use"):
            own.reset(force=True)
        del used
        worker.do("open_memory", "m", handle)
        worker.do("close", "m")
    pinned.close()
    memory.close()


def test_an_exception_in_the_block_does_not_wait(device, worker):
    memory, began = device.allocate(64), time.monotonic()
    with pytest.raises(ZeroDivisionError), memory.share(timeout=300) as handle:
        worker.do("open_memory", "m", handle)
        1 / 0
    assert time.monotonic() - began < 200
    worker.do("close", "m")
    handle.close(timeout=60)
    memory.close()


def test_a_handle_that_is_dropped_ends_the_sharing(device, worker):
    memory = device.allocate(64)
    data = bytes(memory.share())
    with pytest.raises(Failed, match="does not share this any more"):
        worker.do("open_memory", "m", data)
    memory.close()


def test_several_processes_open_one_handle(device, worker, victim):
    with device.allocate(64) as memory, memory.share() as handle:
        for each in (worker, victim):
            each.do("open_memory", "m", handle)
        worker.do("fill", "m", 3)
        assert victim.do("read", "m") == [3] * 4
        for each in (worker, victim):
            each.do("close", "m")


def test_a_handle_is_sent_in_other_ways(device, worker):
    with device.allocate(64) as memory, memory.share() as handle:
        for sent in (bytes(handle), bytearray(bytes(handle)), pickle.loads(pickle.dumps(handle, 2)), copy.copy(handle)):
            worker.do("open_memory", "m", sent)
            worker.do("close", "m")
        made = rawcuda.SharedHandle.from_bytes(bytes(handle))
        assert bytes(made) == bytes(handle) and not made.closed
        made.close()  # only its owner ends it
        with made:
            pass
        worker.do("open_memory", "m", made)
        worker.do("close", "m")
    with pytest.raises(TypeError, match="share"):
        rawcuda.SharedHandle()


# -- wrong handles


def test_a_handle_that_is_used_twice(device, worker):
    with device.allocate(64) as memory, memory.share() as handle:
        worker.do("open_memory", "m", handle)
        with pytest.raises(Failed, match="open in this process already") as caught:
            worker.do("open_memory", "again", handle)
        assert caught.value.kind == "ValueError"
        worker.do("close", "m")
        worker.do("open_memory", "m", handle)
        worker.do("close", "m")


def test_a_handle_in_the_process_that_made_it(device):
    with device.allocate(64) as memory, memory.share() as handle, device.event().share() as point:
        for given in (handle, bytes(handle), pickle.loads(pickle.dumps(handle))):
            with pytest.raises(ValueError, match="made by this process"):
                rawcuda.Memory.from_handle(given)
        with pytest.raises(ValueError, match="made by this process"):
            rawcuda.Event.from_handle(point)


def test_damaged_and_foreign_handles(device):
    with device.allocate(64) as memory, memory.share() as handle:
        good = bytes(handle)
        for data, message in (
            (b"", "has 0 bytes"),
            (good[:-1], "send all of it"),
            (good + b"\0", "send all of it"),
            (bytes(len(good)), "not a handle"),
            (os.urandom(len(good)), "not a handle"),
            (good[:50] + bytes([good[50] ^ 1]) + good[51:], "checksum"),
            (_with(good, 4, b"\x02\x00"), "version 2"),
            (_with(good, 6, b"\x07"), "version"),
            (_with(good, 36, bytes(16)), "another machine"),
        ):
            for kind in (rawcuda.Memory, rawcuda.Event):
                with pytest.raises(ValueError, match=message):
                    kind.from_handle(data)
        for wrong in (None, 5, "text", object(), memory):
            with pytest.raises(TypeError, match="bytes"):
                rawcuda.Memory.from_handle(wrong)
        with pytest.raises(ValueError, match=r"use Memory\.from_handle"):
            rawcuda.Event.from_handle(handle)
        for wrong, error in ((-1, ValueError), (float("nan"), ValueError), ("5", TypeError), (None, TypeError)):
            with pytest.raises(error, match="timeout"):
                rawcuda.Memory.from_handle(handle, timeout=wrong)
            with pytest.raises(error, match="timeout"):
                memory.share(timeout=wrong)


def _with(data, at, changed):
    """Change a handle, and correct its checksum."""
    import struct
    import zlib

    data = data[:at] + changed + data[at + len(changed) :]
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def test_a_device_that_the_other_process_does_not_see(device, worker):
    with device.allocate(64) as memory, memory.share() as handle:
        strange = _with(bytes(handle), 20, b"\x01" * 16)
        with pytest.raises(Failed, match="GPU-01010101.*does not see") as caught:
            worker.do("open_memory", "m", strange)
        assert caught.value.kind == "Unsupported"
        worker.do("open_memory", "m", handle)  # the failure left nothing open
        worker.do("close", "m")


def test_after_the_owner_has_ended(device, python):
    result = python(
        """
        import sys
        from tests.subject import rawcuda
        memory = rawcuda.Device(0).allocate(64)
        handle = memory.share()
        print(bytes(handle).hex())
        sys.stdout.flush()
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    data = bytes.fromhex(result.stdout)
    with pytest.raises(rawcuda.Closed, match="has ended"):
        rawcuda.Memory.from_handle(data)


def test_an_owner_that_does_not_answer(device):
    """A socket at which nobody answers, as if the owner was stopped."""
    with device.allocate(64) as memory, memory.share() as handle:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        address = os.urandom(16)
        listener.bind(b"\0cuda-sharing-" + address.hex().encode())
        listener.listen(0)
        other = _with(_with(bytes(handle), 52, address), 84, b"\1" * 8)
        began, before = time.monotonic(), len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(TimeoutError, match=r"has not answered for 0\.1 seconds"):
                rawcuda.Memory.from_handle(other, timeout=0.1)
        assert time.monotonic() - began < 60 and len(os.listdir("/proc/self/fd")) == before
        listener.close()
        with pytest.raises(rawcuda.Closed):
            rawcuda.Memory.from_handle(other, timeout=0.1)


def test_nobody_else_gets_an_answer(device):
    """A connection without the key is closed, and the owner goes on."""
    with device.allocate(64) as memory, memory.share() as handle:
        for said in (b"x", os.urandom(16), b"\0" * 64):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(30)
            connection.connect(b"\0cuda-sharing-" + bytes(handle)[52:68].hex().encode())
            connection.send(said)
            assert connection.recv(64) == b""
            connection.close()
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        silent.connect(b"\0cuda-sharing-" + bytes(handle)[52:68].hex().encode())
    silent.close()


# -- who is at the other end


def impostor(address, answer=b""):
    """Listen at an address in a thread; return the socket, the thread, and the list of what is received there."""
    listener, heard = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), []
    end = time.monotonic() + 30
    while True:
        try:
            listener.bind(b"\0cuda-sharing-" + address.hex().encode())
            break
        except OSError:  # the owner has not ended yet
            assert time.monotonic() < end
            time.sleep(0.01)
    listener.listen(5)

    def accept():
        connection, _ = listener.accept()
        connection.settimeout(30)
        heard.append(connection.recv(64))
        if heard != [b""]:
            connection.send(answer)
        connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    return listener, thread, heard


@pytest.mark.parametrize("other", ["process", "user"])
def test_the_key_is_sent_to_nobody_who_took_over_the_address(device, python, monkeypatch, other):
    """Another process, or one of another user, that listens where the owner did: it hears nothing."""
    result = python(
        """
        import os, signal, sys
        from tests.subject import rawcuda
        handle = rawcuda.Device(0).allocate(64).share()
        print(bytes(handle).hex())
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    data = bytes.fromhex(result.stdout)
    if other == "user":
        data = _with(data, 8, os.getpid().to_bytes(4, "little"))
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    listener, thread, heard = impostor(data[52:68])
    with pytest.raises(rawcuda.Closed, match=f"process {os.getpid()} of user {os.getuid()} listens at its address"):
        rawcuda.Memory.from_handle(data)
    thread.join(30)
    assert heard == [b""]
    listener.close()


def test_the_owner_answers_no_process_of_another_user(device, monkeypatch):
    with device.allocate(64) as memory, memory.share() as handle:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(30)
        connection.connect(b"\0cuda-sharing-" + bytes(handle)[52:68].hex().encode())
        try:
            connection.send(handle._key)
            assert connection.recv(64) == b""
        except (BrokenPipeError, ConnectionResetError):  # it was closed before
            pass
        connection.close()
        monkeypatch.undo()


def test_a_signal_handler_may_share_while_the_server_starts(device, worker, monkeypatch):
    from tests.subject import module

    server, starts, inner = module("gpu.processes.server").Server, [], []
    start = server._start

    def interrupted(self):
        starts.append(1)
        if len(starts) == 1:
            memory.share().close(0)
            inner.append(memory.share())
        start(self)

    monkeypatch.setattr(server, "_start", interrupted)
    with device.allocate(64) as memory:
        with memory.share() as handle:
            assert len(starts) == 1
            for each in (handle, inner[0]):
                worker.do("open_memory", "m", each)
                worker.do("close", "m")
        inner[0].close(60)


def test_the_owner_waits_without_work_while_too_many_files_are_open(device, monkeypatch):
    import resource

    from tests.subject import module

    server, tries = module("gpu.processes.server"), []
    accept = server.Server._accept
    monkeypatch.setattr(server.Server, "_accept", lambda self: (tries.append(1), accept(self)))
    with device.allocate(64) as memory, memory.share() as handle:
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
        try:
            with pytest.raises(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            asking.connect(server._path(handle._address))
            time.sleep(0.5)
            count = len(tries)
        finally:
            for each in held:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert 1 <= count <= 12
        asking.settimeout(20)
        asking.send(b"0" * 16)
        assert asking.recv(10) == b""  # it is accepted, and its wrong key is answered
        asking.close()


def test_what_the_owner_says_must_fit_what_it_sends(device, worker, memory):
    """Offsets, counts and sizes in the answer are checked against the handle, the descriptors and the driver."""
    import struct

    with memory.share() as handle:
        offer = handle._offer
        good = offer.payload
        how, offset, count = struct.unpack_from("<cQQ", good)
        lies = [good[:cut] for cut in (0, 1, 16, len(good) - 1)]
        lies += [good + b"\0", b"?" + good[1:], b"V" + bytes(16)]
        lies += [struct.pack("<cQQ", how, wrong, count) + good[17:] for wrong in (memory.nbytes, 1 << 63, 2**64 - 1)]
        if how == b"V":
            lies += [struct.pack("<cQQ", how, offset, wrong) + good[17:] for wrong in (0, 1, 3, 1 << 60, 2**64 - 1)]
            lies += [good[:17] + struct.pack("<2Q", *sizes) for sizes in ((0, 0), (2**64 - 1, 1), (1 << 21, 0))]
        for lie in lies:
            offer.payload = lie
            with pytest.raises(Failed, match=f"process {os.getpid()} sent") as caught:
                worker.do("open_memory", "m", handle)
            assert caught.value.kind == "ValueError"
        offer.payload = good
        worker.do("open_memory", "m", handle)  # nothing is left open
        worker.do("close", "m")
    with device.event(shareable=True).share() as point:
        point._offer.payload = point._offer.payload[:-1]
        with pytest.raises(Failed, match="does not describe an event"):
            worker.do("open_event", "e", point)


@pytest.mark.emulator_only("the files are the emulator's")
def test_nobody_can_make_shared_files_smaller(device, worker):
    """A receiver would die at its next access to a page that is gone."""
    with device.virtual_memory(1, shareable=True) as memory, memory.share() as handle:
        (descriptor,) = handle._offer.descriptors
        worker.do("open_memory", "m", handle)
        for size in (0, 1, 1 << 40):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        worker.do("close", "m")


@pytest.mark.emulator_only("the files are the emulator's")
@pytest.mark.parametrize("wrong", ["no seal", "another kind", "another user", "empty"])
def test_a_descriptor_that_is_not_of_the_emulator_is_refused(device, monkeypatch, tmp_path, wrong):
    import ctypes
    import fcntl

    name = "cuda-" + "ab" * 16 + "-0"
    if wrong == "another kind":
        fd = os.open(tmp_path / name, os.O_RDWR | os.O_CREAT)
    else:
        fd = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 0 if wrong == "empty" else 1 << 21)
    if wrong in ("another user", "empty"):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    if wrong == "another user":
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    handle = ctypes.c_uint64()
    device.context
    files = len(os.listdir("/proc/self/fd"))
    with device.current():
        with pytest.raises(rawcuda.CudaError) as caught:
            rawcuda.cu.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd), 1)
    assert caught.value.code == 400 and len(os.listdir("/proc/self/fd")) == files
    os.close(fd)


# -- what cannot be shared


def test_memory_that_cannot_be_shared(device):
    for kind in ("pinned", "managed"):
        with device.allocate(64, kind=kind) as memory, pytest.raises(ValueError, match="shared_memory"):
            memory.share()
    with device.allocate(0) as memory, pytest.raises(ValueError, match="no bytes"):
        memory.share()
    with device.memory_pool() as pool, device.allocate(64, pool=pool) as memory:
        with pytest.raises(rawcuda.Unsupported, match="shareable=True"):
            memory.share()
    with device.allocate(64, stream=device.stream()) as memory, pytest.raises(rawcuda.Unsupported, match="pool"):
        memory.share()
    with device.virtual_memory(64) as memory, pytest.raises(rawcuda.Unsupported, match="shareable=True"):
        memory.share()
    for kind in ("pinned", "managed"):
        with pytest.raises(ValueError, match="shareable"):
            device.memory_pool(kind=kind, shareable=True)
    with pytest.raises(ValueError, match="timing"):
        device.event(timing=True, shareable=True)
    with pytest.raises(ValueError, match="timing"):
        device.event(timing=True).share()


@pytest.mark.parametrize("how", ["closed", "dropped", "current"])
def test_memory_of_a_pool_that_was_destroyed_cannot_be_shared(device, how):
    """The driver does not get the handle of the pool, which may be that of another one by now."""
    calls, pool, before = [], device.memory_pool(shareable=True), device.pool
    with device.stream() as stream:
        if how == "current":
            device.pool = pool
            memory = device.allocate(64, stream=stream)
            device.pool = before
        else:
            memory = pool.allocate(64, stream=stream)
        with memory.share():
            pass
        if how == "closed":
            pool.close()
        del pool
        gc.collect()
        module("ownership").drain()
        with rawcuda.trace(lambda call: calls.append(getattr(call, "name", ""))):
            with pytest.raises(rawcuda.Closed, match="its MemoryPool was closed.*Keep the pool open"):
                memory.share()
        assert "cuMemPoolExportToShareableHandle" not in calls
        assert memory.fill(1).view()[:2].tolist() == [1, 1]
        memory.close()


def test_only_the_owner_shares(device, worker):
    event = device.event()
    with device.allocate(64) as memory, memory.share() as handle, event.share() as point:
        worker.do("open_memory", "m", handle)
        worker.do("open_event", "e", point)
        for name, kind in (("m", "Unsupported"), ("e", "ValueError")):
            with pytest.raises(Failed, match="only") as caught:
                worker.do("share_again", name)
            assert caught.value.kind == kind
        worker.do("close", "m", "e")
    event.close()


def test_a_part_of_an_allocation_is_shared_with_its_offset(device, worker):
    with device.allocate(4096) as whole:
        whole.fill(1)
        whole.view()[1000:1004].fill(8)
        device.synchronize()
        part = rawcuda.Memory.borrow(device, whole.ptr + 1000, 8, owner=whole)
        with part.share() as handle:
            assert worker.do("open_memory", "m", handle)[0] == 8
            assert worker.do("read", "m", 0, 8) == [8] * 4 + [1] * 4
            worker.do("close", "m")


# -- processes that end


def test_a_process_that_dies_with_a_handle_open(device, victim, memory):
    event = device.event()
    files = len(os.listdir("/proc/self/fd"))
    with memory.share(timeout=60) as handle, event.share(timeout=60) as point:
        victim.do("open_memory", "m", handle)
        victim.do("open_event", "e", point)
        victim.do("fill", "m", 6)
        victim.begin("sleep", 600)
        victim.kill()
    assert memory.view()[:4].tolist() == [6] * 4
    event.close()
    assert len(os.listdir("/proc/self/fd")) <= files + 2  # of the memory, which is ours as before


def test_a_stopped_process_has_a_time_limit(device, victim):
    memory = device.allocate(64)
    handle = memory.share()
    victim.do("open_memory", "m", handle)
    os.kill(victim.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError, match=str(victim.process.pid)):
            handle.close(timeout=0.2)
    finally:
        os.kill(victim.process.pid, signal.SIGCONT)
    victim.do("close", "m")
    handle.close(timeout=60)
    memory.close()


def test_a_forked_child_does_not_keep_it_open(device, victim):
    with device.allocate(64) as memory, memory.share(timeout=60) as handle:
        victim.do("open_memory", "m", handle)
        pid = victim.do("forks", "m")
    os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.emulator_only("what a GPU does with such an event, NVIDIA does not say")
def test_an_event_of_a_process_that_died(victim):
    """Waiting for what will never come is an error, and no wait without an end."""
    device = rawcuda.Device(1)
    event = device.event()
    with event.share(timeout=60) as point:
        victim.do("open_event", "e", point)
        victim.do("record_behind_a_wait", "e")
        assert not event.query()
        stream = device.stream()
        stream.wait(event)
        assert not stream.query()
        victim.kill()
        with pytest.raises(rawcuda.ContextLost, match=f"process {victim.process.pid}.*ended"):
            event.synchronize(timeout=60)
        with pytest.raises(rawcuda.ContextLost):
            stream.synchronize(timeout=60)
    device.reset()


def test_an_event_that_is_closed_before_it_is_reached_is_reached(device, worker):
    with device.event() as event, event.share(timeout=60) as point:
        worker.do("open_event", "e", point)
        worker.do("close_before_it_is_reached", "e")
        event.synchronize(timeout=60)
        assert event.query()


def test_nothing_is_left_in_either_process(device, worker):
    def cycle():
        with device.allocate(4096) as memory, device.event(shareable=True) as event:
            with memory.share() as handle, event.share() as point:
                worker.do("open_memory", "m", handle)
                worker.do("open_event", "e", point)
                worker.do("close", "m", "e")

    cycle()
    device.synchronize()
    files = len(os.listdir("/proc/self/fd")), worker.do("left")
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        cycle()
    device.synchronize()
    end = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) > threads:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert (len(os.listdir("/proc/self/fd")), worker.do("left")) == files
    assert not [name for name in os.listdir("/dev/shm") if "cuda" in name]


class Injected(BaseException):
    """What is raised instead of KeyboardInterrupt."""


def test_an_exception_at_any_line_of_a_share_leaves_no_server(device):
    """Tracing raises it at each line of the server that runs in this thread, once each."""
    memory = device.allocate(64)
    memory.share().close(60)
    seen = set()

    def settled():
        alone = len(os.listdir("/proc/self/task")) <= threads
        return (alone, len(os.listdir("/proc/self/fd"))) == (True, files)

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if not place[0].endswith(os.path.join("processes", "server.py")):
            return trace if event == "call" else None
        if event == "line" and place not in seen:
            seen.add(place)
            places.append(place)
            sys.settrace(None)
            raise Injected
        return trace

    places = []
    files, before, was = len(os.listdir("/proc/self/fd")), -1, sys.gettrace()
    threads = len(os.listdir("/proc/self/task"))
    while len(seen) > before:
        before = len(seen)
        sys.settrace(trace)
        try:
            memory.share().close(60)
        except Injected:
            pass
        finally:
            sys.settrace(was)
        end = time.monotonic() + 30
        while not settled():
            assert time.monotonic() < end, (threading.enumerate(), places[-1])
            gc.collect()
            time.sleep(0.001)
    assert len(seen) > 40
    memory.share().close(60)
    memory.close()


@pytest.mark.codes("cuMemUnmap returned 1")  # what was not mapped yet
@pytest.mark.parametrize("kind", ["plain", "pool", "virtual", "event"])
def test_an_exception_at_any_line_of_an_open_leaves_nothing(device, worker, kind):
    """The same handle can be opened again, and its owner need not wait."""
    data, seen = worker.do("lend", kind), set()
    opens = (rawcuda.Event if kind == "event" else rawcuda.Memory).from_handle
    drain = module("ownership").drain

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if os.path.basename(os.path.dirname(place[0])) != "processes":
            return trace if event == "call" else None
        if event == "line" and place not in seen:
            seen.add(place)
            if any(each in linecache.getline(*place) for each in ("in others:", "(level, kind)", "+= struct")):
                return trace  # nothing can know the descriptors before these lines
            places.append(place)
            sys.settrace(None)
            raise Injected
        return trace

    places = []
    opens(data).close()
    files, before, was = len(os.listdir("/proc/self/fd")), -1, sys.gettrace()
    while len(seen) > before:
        before = len(seen)
        sys.settrace(trace)
        opened = None
        try:
            opened = opens(data)
        except Injected:
            pass
        finally:
            sys.settrace(was)
        if opened is not None:
            opened.close()
        gc.collect()
        drain()
        assert len(os.listdir("/proc/self/fd")) == files, places[-1]
    assert len(seen) > 60
    opens(data).close()
    worker.do("take_back", 10)


def test_an_exception_while_an_event_becomes_one_that_can_be_shared(device):
    """The event keeps its own handle, or has the new one, at whatever line an exception comes, each time it runs."""
    lines, lived, complete = 0, 0, False
    events = module("gpu.processes.shared_events")
    codes = events.exchange.__code__, events._set.__code__

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code not in codes:
            return trace if event == "call" else None
        if event == "line":
            lines += 1
            if lines > lived:
                sys.settrace(None)
                raise Injected
        return trace

    was = sys.gettrace()
    while not complete:
        with device.event() as event, device.stream() as stream:
            event.record(stream)
            event.synchronize()
            lines = 0
            sys.settrace(trace)
            try:
                event.share().close(60)
                complete = True
            except Injected:
                lived += 1
            finally:
                sys.settrace(was)
            gc.collect()
            module("ownership").drain()
            event.record(stream)
            stream.wait(event)
            event.synchronize()
            event.share().close(60)
    assert lived > 20


def test_descriptors_that_arrive_are_not_inherited(device, worker, monkeypatch):
    data, server, kept = worker.do("lend", "pool"), module("gpu.processes.server"), []

    def look(answer):
        kept.extend(os.get_inheritable(each) for each in answer.descriptors)
        close_descriptors(answer)

    close_descriptors = server.Answer.close_descriptors
    monkeypatch.setattr(server.Answer, "close_descriptors", look)
    rawcuda.Memory.from_handle(data).close()
    assert kept == [False]
    worker.do("take_back", 10)


def test_a_child_of_fork_does_not_wait_for_the_thread_that_answers(device, python):
    result = python(
        """
        import os, time
        from tests.subject import rawcuda
        rawcuda.use("emulator")
        device = rawcuda.Device(0)
        memory = device.allocate(64)
        handle = memory.share()
        if not os.fork():
            start = time.monotonic()
            handle.close(60)
            os._exit(time.monotonic() - start > 20)
        status = os.wait()[1]
        handle.close(60)
        print(status)
        """
    )
    assert (result.stdout, result.returncode) == ("0\n", 0), result.stderr


def test_an_offer_beside_one_whose_server_did_not_start(device, worker, monkeypatch):
    from tests.subject import module

    serving, inner = module("gpu.processes.server"), []

    class Failing:
        get_ident, RLock = staticmethod(threading.get_ident), staticmethod(threading.RLock)

        @staticmethod
        def start_new_thread(function, arguments):
            monkeypatch.undo()
            inner.append(serving.Server.add(running[-1], b"", [], None))  # another thread is here before the lock
            raise RuntimeError("can't start new thread")

    running = serving._running
    with device.allocate(64) as memory:
        monkeypatch.setattr(serving, "_thread", Failing)
        with pytest.raises(RuntimeError, match="new thread"):
            memory.share()
        assert serving._thread is not Failing
        with memory.share() as handle:
            worker.do("open_memory", "m", handle)
            worker.do("close", "m")
        for offer in inner:
            offer.end(60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_interrupt_at_any_call_leaves_no_lock_held(device):
    """A signal handler may raise at the beginning and the end of each Python function, those of Python itself, too."""
    from tests.subject import FOLDER

    left, ours, emulator = 0, str(FOLDER / "gpu" / "processes"), str(FOLDER / "emulator")

    def counts(frame):
        """Tell whether it is a function of these modules, or of Python itself; of the rest, other tests show it."""
        name = frame.f_code.co_filename
        if name.startswith(str(FOLDER)) and not name.startswith(ours):
            return False
        while frame is not None and not frame.f_code.co_filename.startswith(emulator):
            frame = frame.f_back
        return frame is None

    def tracer(frame, event, argument):
        nonlocal left
        if event in ("call", "return") and counts(frame):
            left -= 1
            if not left:
                raise KeyboardInterrupt
        return tracer

    with device.allocate(64) as memory:
        memory.share().close(60)
        number = 0
        while left <= 0:
            number, left = number + 1, number + 1
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                memory.share().close(60)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            done = []
            other = threading.Thread(target=lambda: done.append(memory.share().close(60)), daemon=True)
            other.start()
            other.join(30)
            assert done, number
        assert number > 30


def test_a_finalizer_in_the_thread_that_answers_may_share(device, monkeypatch):
    """A collection may come before anything else that this thread does, while the first share waits."""
    serving, inner = module("gpu.processes.server"), []
    serve = serving.Server._serve

    def collects(self):
        if not inner:
            inner.append(memory.share())
            inner[0].close(60)
        serve(self)

    monkeypatch.setattr(serving.Server, "_serve", collects)
    with device.allocate(64) as memory:
        sharing = threading.Thread(target=lambda: memory.share().close(60), daemon=True)
        sharing.start()
        sharing.join(30)
        assert not sharing.is_alive() and inner[0].closed


@pytest.mark.parametrize("place", ["poll", "accept", "peer", "register", "send", "sent", "settle", "unregister"])
def test_the_owner_goes_on_when_its_memory_is_short(monkeypatch, place):
    serving, failed = module("gpu.processes.server"), []
    other = serving.publish(b"other", [], None)  # so that the server does not end
    offer = serving.publish(b"given", [], None)
    server = offer.server

    class Poll:
        poll, register, unregister = server._poll.poll, server._poll.register, server._poll.unregister

    monkeypatch.setattr(server, "_poll", Poll)
    owner = Poll if hasattr(Poll, place) else {"send": socket, "sent": socket, "peer": serving}.get(place, server)
    name = "send_fds" if owner is socket else place if owner is Poll else f"_{place}"
    call = getattr(owner, name)

    def fails_once(*arguments):
        if failed or threading.get_ident() != server._thread:
            return call(*arguments)
        failed.append(name)
        if place == "sent":
            call(*arguments)
        raise MemoryError

    monkeypatch.setattr(owner, name, fails_once)
    asked = [serving.Answer(), serving.Answer()]
    for answer in asked:
        try:
            serving.ask(answer, server.address, offer.key, os.getpid(), 10)
        except rawcuda.Closed:
            assert answer is asked[0] and place in ("peer", "register", "send")
    assert asked[1].payload == b"given"
    if place == "sent":
        assert asked[0].payload == b"given"
        asked.pop().close()
    else:
        asked.pop(0).close()
    with pytest.raises(TimeoutError):
        offer.end(0)
    asked.pop().close()
    offer.end(30)
    other.end(30)
    assert failed and not server._thread


@pytest.mark.codes("cuMemPoolExportToShareableHandle returned 304")  # whose name cannot be read without a descriptor
def test_a_share_without_a_free_descriptor_leaves_nothing(device):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with device.memory_pool(shareable=True) as pool:
        pool.allocate(64).share().close(60)
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for free in range(6):
            lowest = os.dup(0)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, limits[1]))
            try:
                pool.allocate(64).share().close(60)
            except (rawcuda.RawCudaError, OSError) as error:
                assert "the emulator itself failed" not in str(error)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        device.synchronize()
        gc.collect()
        pool.allocate(4).close()
        assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("traced", ["share", "close"])
def test_a_finalizer_that_ends_or_shares_at_any_line(device, traced):
    """At each line of a share in this thread, the only other one ends; at each line of its end, another begins."""
    memory = device.allocate(64)
    seen, handles = set(), []

    def at_line():
        if traced == "share":
            handles.pop().close(60)
        else:
            handles.append(memory.share())

    def trace(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        if not place[0].endswith(os.path.join("processes", "server.py")):
            return trace if event == "call" else None
        if event == "line" and place not in seen:
            seen.add(place)
            sys.settrace(None)
            at_line()
        return trace

    before, was = -1, sys.gettrace()
    while len(seen) > before:
        before = len(seen)
        first = memory.share()
        if traced == "share":
            handles.append(first)
        sys.settrace(trace)
        try:
            if traced == "share":
                handles.append(memory.share())
            else:
                first.close(0)
        finally:
            sys.settrace(was)
        server = handles[-1]._offer.server if handles else None
        assert server is None or not server.over, sorted(seen)[-1]
        while handles:
            handles.pop().close(60)
    assert len(seen) > 15
    memory.close()


def test_many_threads_share_at_once(device, worker):
    failed = []

    def work():
        try:
            for _ in range(5):
                with device.allocate(64) as memory, memory.share() as handle:
                    assert bytes(handle)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_a_page_of_the_other_process_can_be_closed_at_exit(device, python):
    """A process that ends while it shares, or has something open, ends at once and without a word."""
    result = python(
        """
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        memory, event = device.allocate(64), device.event()
        handles = memory.share(), event.share()
        print("ends")
        """
    )
    assert (result.stdout, result.stderr, result.returncode) == ("ends\n", "", 0)


@pytest.mark.parametrize("how", ["dropped", "closed"])
def test_the_end_of_the_interpreter_does_not_wait_for_the_thread_that_answers(python, how):
    """Python stops the other threads first, wherever they are: the one that answers may have the lock then."""
    result = python(
        """
        import sys, _thread, time
        from tests.subject import rawcuda

        class Closing:
            def __init__(self, handle):
                self.handle = handle

            def __del__(self):
                self.handle.close()
                print("closed")

        memory = rawcuda.Device(0).allocate(64)
        handle = memory.share(timeout=0.1)
        if sys.argv[1] == "closed":
            closing = Closing(handle)
        lock = handle._offer.server.lock
        _thread.start_new_thread(lock.acquire, ())  # as if this thread were stopped before it releases the lock
        while lock.acquire(False):
            lock.release()
            time.sleep(0.01)
        """,
        how,
        timeout=20,
    )
    assert (result.stdout, result.stderr, result.returncode) == ("closed\n" * (how == "closed"), "", 0)


def test_the_owner_is_told_when_all_is_released(device, monkeypatch):
    """A capture may forbid to wait for the work that uses what was opened."""
    told = []

    class Part:
        forbidden = True

        def release(self, late):
            told.append(late)
            return not self.forbidden

    with device.allocate(64) as memory, memory.share() as handle:
        shared = type(handle).from_bytes(bytes(handle))
    opening, part = module("gpu.processes.opening"), Part()
    monkeypatch.setattr(opening, "handle_from", lambda given, kind: given)
    opened = opening.Opened(shared, "memory", 30)
    opened.parts = [part]
    monkeypatch.setattr(type(opened), "leave", lambda self: told.append("told"))
    assert opened.release(False) is False and told == [False]
    opened.abandon()  # as if it could not be opened: the next drain() tries again
    assert told == [False, True]
    part.forbidden = False
    module("ownership").drain()
    assert told == [False, True, True, "told"]
