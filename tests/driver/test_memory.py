"""Memory: kinds, sizes, closing, and copies by address."""

import array
import copy
import ctypes
import gc
import pickle
import threading

import pytest

from tests.subject import module, rawcuda

errors, memory_module, transfer = module("errors"), module("gpu.memory.memory"), module("gpu.copies.transfer")


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_bytes_go_there_and_back(device, kind):
    with device.allocate(1000, kind=kind) as memory:
        assert (memory.nbytes, memory.kind, len(memory)) == (1000, kind, 1000) and memory.ptr == memory.handle
        source, target = bytes(range(250)) * 4, bytearray(1000)
        memory.copy_from(source)
        memory.copy_to(target)
        assert target == source
        memory.fill(7)
        memory.copy_to(target)
        assert target == b"\7" * 1000
    with pytest.raises(errors.Closed):
        memory.ptr


def test_stream_ordered(device):
    with device.stream() as stream:
        memory = device.allocate(64, stream=stream)
        memory.copy_from(b"x" * 64, stream=stream)
        target = bytearray(64)
        memory.copy_to(target, stream=stream)
        assert target == b"x" * 64
        memory.close()
        kept = device.allocate(64, stream=stream)
    kept.close()  # its stream is closed, but the memory is freed
    dropped_stream = device.stream()
    device.allocate(64, stream=dropped_stream)  # dropped at once
    gc.collect()
    module("ownership").drain()
    dropped_stream.close()


def test_stream_ordered_memory_after_its_stream_was_closed(device):
    stream = device.stream()
    with device.allocate(8, stream=stream) as memory:
        memory.copy_from(b"12345678", stream=stream)
        stream.close()
        got = bytearray(8)
        memory.copy_to(got)
        memory.fill(7)
        assert got == b"12345678" and memory.__cuda_array_interface__["data"][0] == memory.ptr
        rawcuda.view(memory, protocol="dlpack").copy_to(got)
        assert got == b"\7" * 8


def test_sizes(device):
    with device.allocate(0) as nothing:
        assert nothing.nbytes == 0 and nothing.ptr == 0
        nothing.copy_from(b"").copy_to(bytearray())
    for size in (-1, 2**63, 2**64):
        with pytest.raises(ValueError, match="nbytes"):
            device.allocate(size)
    for size in (1.0, "8", None, True):
        with pytest.raises(TypeError, match="nbytes"):
            device.allocate(size)
    with pytest.raises(errors.OutOfMemory) as raised:
        device.allocate(2**62)
    assert (
        isinstance(raised.value, MemoryError)
        and "cuMemAlloc_v2(dptr=&" in str(raised.value)
        and ("Free memory" in str(raised.value) or "more than the" in str(raised.value))
    )


def test_memory_is_not_made_by_its_class(device):
    with pytest.raises(TypeError, match=r"Device\.allocate\(\)"):
        rawcuda.Memory()
    for address, nbytes, error in (
        (1.5, 8, TypeError),
        (None, 8, TypeError),
        (8, 1.0, TypeError),
        (True, 8, TypeError),
        (10**5000, 8, ValueError),
    ):
        with pytest.raises(error, match="address|nbytes"):
            memory_module.Memory.borrow(device, address, nbytes)
    with pytest.raises(ValueError, match="nbytes=an int of 16610 bits: a size must be in"):
        device.allocate(10**5000)


def test_between_two_memories(device):
    with (
        device.allocate(8) as a,
        device.allocate(8, kind="pinned") as b,
        device.allocate(8, kind="managed") as c,
        device.stream() as stream,
    ):
        a.copy_from(b"12345678")
        a.copy_to(b, stream=stream)
        c.copy_from(b, stream=stream)
        got = bytearray(8)
        c.copy_to(got, stream=stream)
        assert got == b"12345678"
        with pytest.raises(ValueError, match="8 bytes cannot hold 9"):
            a.copy_from(device.allocate(9))


def test_pinned_and_device_memory_copy_while_recorded(device):
    with device.allocate(8) as memory, device.allocate(8, kind="pinned") as pinned, device.stream() as stream:
        pinned.copy_from(b"12345678")
        with stream.capture() as graph:
            memory.copy_from(pinned, stream=stream)
            memory.copy_to(pinned, stream=stream)
        pinned.copy_from(b"abcdefgh")
        graph.launch(stream)
        stream.synchronize()
        got = bytearray(8)
        memory.copy_to(got)
        assert got == b"abcdefgh"  # the graph reads the memory when it runs
        graph.close()


def test_freed_in_another_thread_than_its_per_thread_stream(device):
    import threading

    made = []
    thread = threading.Thread(target=lambda: made.append(device.allocate(64, stream=2)))
    thread.start()
    thread.join()
    calls = []
    with rawcuda.trace(lambda event: calls.append(event.name)):
        made.pop().close()
    assert "cuMemFree_v2" in calls and "cuMemFreeAsync" not in calls


def test_kinds_that_are_none(device):
    with pytest.raises(ValueError, match="'device', 'pinned', 'managed'"):
        device.allocate(8, kind="shared")
    with device.stream() as stream, pytest.raises(ValueError, match="stream-ordered only if it comes from a pool"):
        device.allocate(8, kind="pinned", stream=stream)


def test_a_copy_past_either_end(device):
    with device.allocate(8) as memory:
        for use in (
            lambda: memory.copy_from(b"123456789"),
            lambda: memory.copy_from(b"1234567"),
            lambda: memory.copy_to(bytearray(9)),
            lambda: memory.copy_to(bytearray(7)),
        ):
            with pytest.raises(ValueError):
                use()
        with pytest.raises((ValueError, errors.ProtocolError, TypeError)):
            memory.copy_to(b"12345678")  # read-only


def test_used_after_close(device):
    memory = device.allocate(8)
    view = memory.view()
    memory.close()
    for use in (
        lambda: memory.copy_from(b"12345678"),
        lambda: memory.copy_to(bytearray(8)),
        lambda: memory.fill(1),
        lambda: memory.view(),
        lambda: memory.__cuda_array_interface__,
        lambda: memory.__dlpack__(),
        lambda: view.download(),
        lambda: view.fill(1),
        memory.detach,
    ):
        with pytest.raises(errors.Closed):
            use()


def test_detach_and_borrow(device):
    memory = device.allocate(8)
    address = memory.detach()
    borrowed = memory_module.Memory.borrow(device, address, 8)
    borrowed.copy_from(b"12345678")
    borrowed.close()
    with device.current():
        rawcuda.cu.cuMemFree_v2(address)
    with pytest.raises(ValueError):
        memory_module.Memory.borrow(device, -1, 8)
    with pytest.raises(ValueError):
        memory_module.Memory.borrow(device, 2**64 - 4, 8)
    with pytest.raises(ValueError, match="kind 'host': give one of 'device', 'pinned', 'managed'"):
        memory_module.Memory.borrow(device, address, 8, kind="host")


def test_dropped_memory_is_freed_by_the_next_release(device):
    for _ in range(100):
        device.allocate(1 << 20)
    gc.collect()
    module("ownership").drain()


def test_pitched_copies(device):
    source = bytes(range(24))  # 4 rows of 6 bytes
    keep = (None, bytearray(source), bytearray(24))
    view, back = rawcuda.view(keep[1]), rawcuda.view(keep[2])
    common = dict(device=device, stream=1)
    with device.allocate(64) as memory:
        memory.fill(0xFF)
        transfer.copy_2d(memory.ptr, 16, view.ptr, 6, 6, 4, target_kind="device", source_kind="host", **common)
        whole = bytearray(64)
        memory.copy_to(whole)
        assert whole == b"".join(source[row * 6 : row * 6 + 6] + b"\xff" * 10 for row in range(4))
        transfer.copy_2d(back.ptr, 6, memory.ptr, 16, 6, 4, target_kind="host", source_kind="device", **common)
        assert keep[2] == source
        rows, seen = memory.view().reshape(4, 16), []
        with rawcuda.trace(seen.append):
            rows[:3, 2:6].reinterpret("uint16").fill(0x0201)
        memory.copy_to(whole)
        assert whole[2:6] == whole[18:22] == whole[34:38] == b"\1\2\1\2" and whole[50:54] == source[20:24]
        assert "cuMemsetD2D16Async" in [call.name for call in seen]
        rows[:3, 9:13].reinterpret("uint16").fill(0x0403)  # not aligned to its elements
        memory.copy_to(whole)
        assert whole[9:13] == whole[25:29] == whole[41:45] == b"\3\4\3\4" and whole[8] == whole[13] == 0xFF
        transfer.copy_3d(memory.ptr, 8, 2, view.ptr, 6, 2, 6, 2, 2, target_kind="device", source_kind="host", **common)
        memory.copy_to(whole)
        assert whole[:6] == source[:6] and whole[8:14] == source[6:12] and whole[16:22] == source[12:18]
        with pytest.raises(ValueError, match="pitch"):
            transfer.copy_2d(memory.ptr, 5, view.ptr, 6, 6, 4, target_kind="device", source_kind="host", **common)
        with pytest.raises(ValueError, match="rows"):
            transfer.copy_3d(
                memory.ptr, 8, 1, view.ptr, 6, 2, 6, 2, 2, target_kind="device", source_kind="host", **common
            )


@pytest.mark.parametrize("kind", ["device", "pinned", "managed", "ordered"])
def test_leased_memory_is_freed_when_the_last_lease_goes(device, library, kind):
    def live():
        module("ownership").drain()
        return None if library is None else library.live_handles()["memory"]

    with device.stream() as stream:
        before = live()
        memory = device.allocate(64, stream=stream) if kind == "ordered" else device.allocate(64, kind=kind)
        during = live()
        first, second = memory.lease(), memory.lease()
        assert first is second
        memory.close()
        memory.close()
        assert memory.closed and live() == during
        with pytest.raises(errors.Closed):
            memory.lease()
        del first
        assert live() == during
        thread = threading.Thread(target=lambda given: given.clear(), args=([second],))
        del second
        thread.start()
        thread.join()
        del thread
        gc.collect()
        assert live() == before
        memory = device.allocate(64)
        memory.lease()  # released at once
        memory.close()
        assert live() == before


@pytest.mark.parametrize("export_ends_first", [True, False])
@pytest.mark.parametrize("close", ["close", "drop"])
def test_memory_that_an_export_and_work_of_ours_use(device, library, close, export_ends_first):
    def live():
        module("ownership").drain()
        return None if library is None else library.live_handles()["memory"]

    before = live()
    memory = device.allocate(64, kind="pinned")
    during = live()
    leases = [memory.lease(), memory._lease_for_work()]
    assert leases[0] is not leases[1] and leases[1] is memory._lease_for_work()
    if close == "close":
        memory.close()
    del memory
    assert live() == during
    del leases[0 if export_ends_first else 1]
    assert live() == during
    leases.clear()
    gc.collect()
    assert live() == before


EXPORTS = {  # everything by which another library gets the bytes of memory that the CPU can access
    "a capsule": lambda memory: memory.__dlpack__(max_version=(1, 0)),
    "a legacy capsule of a view": lambda memory: memory.view("uint32")[1:].__dlpack__(),
    "a consumed capsule": lambda memory: rawcuda.view(memory.__dlpack__(max_version=(1, 0))),
    "the exchange table": lambda memory: rawcuda.view(memory.view(), protocol="dlpack_c_exchange"),
    "a memoryview": lambda memory: memory.view().memoryview(),
    "a part of a memoryview": lambda memory: memory.view("uint32").memoryview()[2:4],
    "the array interface": lambda memory: rawcuda.view(memory.view(), protocol="array_interface"),
    "the CUDA array interface": lambda memory: rawcuda.view(memory.view(), protocol="cuda_array_interface"),
}


@pytest.mark.parametrize("export_name", EXPORTS)
def test_an_export_keeps_the_bytes_of_closed_memory(device, library, export_name):
    def live():
        module("ownership").drain()
        return None if library is None else library.live_handles()["memory"]

    before = live()
    memory = device.allocate(64, kind="pinned").fill(7)
    during, export = live(), EXPORTS[export_name](memory)
    memory.close()
    assert memory.closed and live() == during
    with pytest.raises(errors.Closed):
        EXPORTS[export_name](memory)
    if hasattr(export, "tolist"):
        assert set(export.tolist()) <= {7, 0x07070707}
    del export
    gc.collect()
    assert live() == before


@pytest.mark.parametrize(
    "interface, kind",
    [("__array_interface__", "pinned"), ("__cuda_array_interface__", "pinned"), ("__cuda_array_interface__", "device")],
)
def test_an_array_interface_of_a_memory_keeps_its_bytes(device, library, interface, kind):
    """Its user has a reference to the Memory, and to nothing else."""

    def live():
        module("ownership").drain()
        return None if library is None else library.live_handles()["memory"]

    for exports in 0, 1:
        before = live()
        memory = device.allocate(64, kind=kind).fill(7)
        during, address = live(), getattr(memory, interface)["data"][0]
        export = memory.__dlpack__() if exports else None
        memory.close()
        memory.close()
        with pytest.raises(errors.Closed):
            getattr(memory, interface)
        del export
        gc.collect()
        assert memory.closed and live() == during
        assert kind == "device" or ctypes.string_at(address, 64) == b"\7" * 64
        del memory
        gc.collect()
        assert live() == before


def test_memory_dropped_while_it_is_leased(device, library):
    lease = device.allocate(64).lease()
    gc.collect()
    assert not lease.memory.closed
    del lease
    module("ownership").drain()


def test_memory_copies_bytes_and_views_have_elements(device):
    with device.allocate(24) as memory, device.allocate(24, kind="pinned") as pinned:
        rawcuda.copy(memory, array.array("f", range(6)))  # without a dtype: bytes
        assert memory.view("float32").tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        rawcuda.copy(pinned, memory)
        rawcuda.synchronize()
        assert pinned.view(dtype="int32").shape == (6,) and memory.view().dtype == pinned.view("uint8").dtype
        target = array.array("d", [0] * 3)
        rawcuda.copy(target, memory)
        assert target.tobytes() == array.array("f", range(6)).tobytes()
        for wrong in (lambda: rawcuda.copy(memory, bytes(23)), lambda: rawcuda.copy(bytearray(25), memory)):
            with pytest.raises(ValueError, match="all bytes are copied"):
                wrong()
        with pytest.raises(TypeError, match="converts nothing"):
            rawcuda.copy(memory.view(), array.array("f", range(6)))
    with device.allocate(10) as odd:
        with pytest.raises(ValueError, match="10 bytes are not a whole number of float32 elements of 4 bytes"):
            odd.view("float32")


@pytest.mark.parametrize("stream", ["none", "ours", "legacy", "per-thread", "handle"])
@pytest.mark.parametrize(
    "kinds", [("device", "device"), ("device", "pinned"), ("pinned", "device"), ("managed", "device")]
)
def test_plain_copies_and_fills_on_any_stream(device, kinds, stream):
    with (
        device.stream() as ours,
        device.allocate(64, kind=kinds[0]) as target,
        device.allocate(64, kind=kinds[1]) as source,
    ):
        given = {
            "none": None,
            "ours": ours,
            "legacy": 1,
            "per-thread": rawcuda.Stream.per_thread,
            "handle": ours.handle,
        }[stream]
        t, s = target.view("int16"), source.view("int16")
        for number in (1, 2, 0x0303):
            s.fill(number, stream=given)
            rawcuda.copy(t, s, stream=given)
            rawcuda.synchronize()
            assert t.tolist() == [number] * 32
            target.fill(0, stream=given)
            target.copy_from(source, stream=given)
            rawcuda.synchronize()
            assert target.view("int16").tolist() == [number] * 32
        t[4:8].copy_from(s[:4], stream=given)
        with pytest.raises(errors.ProtocolError, match="readonly"):
            rawcuda.copy(rawcuda.view(t, writable=False), s, stream=given)
        source.close()
        with pytest.raises(errors.Closed):
            rawcuda.copy(t, s, stream=given)


def test_an_owned_thing_is_not_copied(device):
    with device.allocate(8) as memory, device.stream() as stream:
        for thing in (memory, stream, device):
            for way in (copy.copy,) if thing is memory else (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="one owner|cannot be pickled"):
                    way(thing)


def test_a_stream_that_another_thread_closes_now_does_not_make_close_raise(device, monkeypatch):
    """`queue()` reads the handle once: if the stream is closed right after that, no Closed reaches Memory.close()."""
    stream = device.stream()
    memory = device.allocate(64, stream=stream)

    def closed_just_now(self):
        raise AssertionError("queue() must not look at the handle a second time")

    monkeypatch.setattr(type(stream), "_prepare", closed_just_now)
    stream._argument = None
    memory.close()
    assert memory.closed
    monkeypatch.undo()
    stream.close()


def test_an_empty_array_may_be_allocated_in_the_order_of_a_stream(device):
    stream = device.stream()
    made = device.empty((2, 3), "float32", stream=stream)
    made.fill(2, stream=stream)
    assert made.owner.stream == stream and made.stream == stream and made.download(stream=stream).tolist()[1] == [2] * 3
