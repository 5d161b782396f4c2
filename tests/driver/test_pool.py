"""Memory pools: allocating from them, what they keep, the access of other devices, pools of host memory."""

import array
import copy
import gc
import pickle
import threading
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors, owned = module("errors"), module("ownership")
MIB = 1 << 20


@pytest.fixture
def pool(device):
    with device.memory_pool() as made:
        yield made


@pytest.fixture
def other():
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    return rawcuda.Device(1)


def kinds(device):
    """List the kinds of pools that the device has."""
    found = []
    for kind in ("device", "pinned", "managed"):
        try:
            device.memory_pool(kind=kind).close()
            found.append(kind)
        except errors.Unsupported as error:
            assert kind != "device" and ("attribute" in str(error) or "CUDA" in str(error))
    return found


def test_memory_from_a_pool_is_memory(device):
    for kind in kinds(device):
        with device.memory_pool(kind=kind) as pool, device.stream() as stream:
            with pool.allocate(400, stream=stream) as memory, device.allocate(400, pool=pool) as second:
                assert (memory.kind, memory.nbytes, memory.stream) == (kind, 400, stream)
                assert second.stream == 1 and isinstance(memory, rawcuda.ManagedMemory) is (kind == "managed")
                memory.copy_from(bytes(range(200)) * 2, stream=stream)
                second.copy_from(memory)  # waits for the stream of the first
                assert second.view().tolist() == [*range(200)] * 2
                memory.fill(7, stream=stream)
                view = rawcuda.view(memory.view("int32"), protocol="dlpack")
                assert view.tolist() == [0x07070707] * 100
                del view
            with pytest.raises(errors.Closed):
                memory.ptr
        rawcuda.synchronize()


def test_memory_of_a_pool_in_a_launch(device, pool):
    with device.stream() as stream, device.load(kernels.ADD) as code:
        a, b, c = (pool.allocate(400, stream=stream) for _ in range(3))
        a.view("float32").copy_from(array.array("f", range(100)), stream=stream)
        b.view("float32").fill(2, stream=stream)
        code["add"].launch(a, b, c, 100, grid=1, block=128, stream=stream)
        first = c.view("float32").download(stream=stream).tolist()
        assert first in ([n + 2.0 for n in range(100)],)
        for memory in (a, b, c):
            memory.close()


@pytest.mark.parametrize("wrong", ["abc", -1, 0, 2**64, "closed"])
@pytest.mark.parametrize("how", ["device", "pool", "empty"])
def test_a_stream_is_checked_also_for_no_bytes(device, pool, how, wrong):
    stream, expected = wrong, (TypeError, ValueError)
    if wrong == "closed":
        stream, expected = device.stream(), errors.Closed
        stream.close()
    allocate = {
        "device": lambda: device.allocate(0, stream=stream),
        "pool": lambda: pool.allocate(0, stream=stream),
        "empty": lambda: device.empty((0,), "float32", stream=stream),
    }[how]
    with pytest.raises(expected):
        allocate()


def test_sizes(device, pool):
    with pool.allocate(0) as nothing:
        assert (nothing.ptr, nothing.nbytes) == (0, 0)
    for wrong in (-1, 2**63, 10**5000):
        with pytest.raises(ValueError, match="nbytes"):
            pool.allocate(wrong)
        with pytest.raises(ValueError, match="max_size"):
            device.memory_pool(max_size=wrong)
        with pytest.raises(ValueError, match="keep"):
            pool.trim(wrong)
    for wrong in (1.0, None, "8", True):
        with pytest.raises(TypeError):
            pool.allocate(wrong)
        with pytest.raises(TypeError):
            device.memory_pool(max_size=wrong)
    with pytest.raises(errors.OutOfMemory):
        pool.allocate(2**60)
    with device.memory_pool(max_size=64 * MIB) as small:
        with pytest.raises(errors.OutOfMemory):
            small.allocate(200 * MIB)
        small.allocate(32 * MIB).close()


def test_the_attributes_tell_what_is_used_and_kept(device, pool):
    told = pool.attributes
    assert told.used_mem_current == 0 and pool.release_threshold == 0
    pool.release_threshold = 2**64 - 1
    assert told.release_threshold == pool.release_threshold == 2**64 - 1
    with device.stream() as stream:
        memory = pool.allocate(3 * MIB, stream=stream)
        stream.synchronize()
        assert told.used_mem_current >= 3 * MIB and told.reserved_mem_current >= told.used_mem_current
        memory.close()
        stream.synchronize()
        assert told.used_mem_current == 0 and told.used_mem_high >= 3 * MIB
        assert told.reserved_mem_current >= 3 * MIB  # kept
        told.used_mem_high = told.reserved_mem_high = 0
        assert told.used_mem_high == 0 and told.reserved_mem_high == told.reserved_mem_current
        pool.trim(2 * MIB)
        assert told.reserved_mem_current <= told.reserved_mem_high
        pool.trim()
        assert told.reserved_mem_current == 0
    assert told.reuse_allow_opportunistic is True
    told.reuse_allow_opportunistic = False
    assert told["reuse_allow_opportunistic"] is False and set(dict(told)) == set(told) <= set(dir(told))
    assert "release_threshold=18446744073709551615" in repr(told)


def test_attributes_that_are_none(pool):
    told = pool.attributes
    for change, error, words in (
        (lambda: told.nope, AttributeError, "it has reuse_"),
        (lambda: setattr(told, "nope", 1), AttributeError, "it has reuse_"),
        (lambda: setattr(told, "used_mem_current", 0), AttributeError, "cannot be set"),
        (lambda: setattr(told, "used_mem_high", 5), ValueError, "only be set to 0"),
        (lambda: setattr(told, "reuse_allow_opportunistic", 2), TypeError, "True or False"),
        (lambda: setattr(told, "reuse_allow_opportunistic", "no"), TypeError, "True or False"),
        (lambda: setattr(pool, "release_threshold", -1), ValueError, "release_threshold=-1"),
        (lambda: setattr(pool, "release_threshold", 2**64), ValueError, "from 0 to 2"),
        (lambda: setattr(pool, "release_threshold", 1.5), TypeError, "must be an int"),
    ):
        with pytest.raises(error, match=words):
            change()
    pool.close()
    assert "closed" in repr(told)
    with pytest.raises(errors.Closed):
        told.used_mem_high


def test_the_current_pool_of_a_device(device, pool):
    default = device.default_pool
    assert device.pool == default != pool and hash(device.pool) == hash(default) and default.borrowed
    try:
        device.pool = pool
        assert device.pool == pool
        with device.stream() as stream:
            before = pool.attributes.used_mem_current
            with device.allocate(MIB, stream=stream):
                stream.synchronize()
                assert pool.attributes.used_mem_current >= before + MIB
    finally:
        device.pool = default
    default.close()  # a borrowed pool stays
    assert device.default_pool == device.pool
    with device.memory_pool() as short:
        device.pool = short
    assert device.pool == device.default_pool  # the driver goes back to it
    with pytest.raises(errors.Closed):
        device.pool = short
    with pytest.raises(TypeError, match="must be a MemoryPool"):
        device.pool = 5


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_a_pool_that_was_made_current_is_kept(device, kind):
    """Nothing else keeps it, and the driver would go back to the default pool in silence."""

    def current():
        return rawcuda.MemoryPool.current(device, kind)

    try:
        default = rawcuda.MemoryPool.default(device, kind)
    except (errors.Unsupported, errors.SymbolNotFound):
        pytest.skip(f"no pools of {kind} memory")
    made = device.memory_pool(kind=kind, max_size=32 * MIB)
    watched = weakref.ref(made)
    made.make_current()
    del made
    gc.collect()
    device.event().close()  # what was dropped is released
    try:
        assert current() != default and current().max_size == 32 * MIB
        again = current()
        again.make_current()
        current().make_current()
        again.close()  # it is borrowed
        held = current()
        with held.allocate(MIB, stream=rawcuda.Stream.legacy):
            assert held.attributes.used_mem_current >= MIB
        with device.memory_pool(kind=kind) as other:
            other.make_current()
            gc.collect()
            assert held.attributes.reserved_mem_current >= 0  # `held` keeps it, which is no longer current
        assert watched() is not None
        watched().close()
        with pytest.raises(errors.Closed):
            held.trim()
        with pytest.raises(errors.Closed):
            held.allocate(8)
        with pytest.raises(errors.Closed):
            held.attributes.used_mem_high
        with pytest.raises(errors.Closed):
            held.handle
        del held, again
        gc.collect()
        assert watched() is None
    finally:
        default.make_current()
    assert current() == default


SETTERS = {"device": "cuDeviceSetMemPool", "pinned": "cuMemSetMemPool", "managed": "cuMemSetMemPool"}


@pytest.mark.parametrize("kind", SETTERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_pool_that_is_current_after_an_interrupt_is_kept(device, monkeypatch, kind, when):
    """Whether the call had an effect is not known: the earlier one was destroyed, and the default pool was current."""
    try:
        default = rawcuda.MemoryPool.default(device, kind)
    except (errors.Unsupported, errors.SymbolNotFound):
        pytest.skip(f"no pools of {kind} memory")
    try:
        device.memory_pool(kind=kind, max_size=32 * MIB).make_current()
        set_pool = getattr(device._primary.calls, SETTERS[kind])

        def interrupted(*arguments):
            if when == "after":
                set_pool(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setitem(vars(device._primary.calls), SETTERS[kind], interrupted)
            with pytest.raises(KeyboardInterrupt):
                device.memory_pool(kind=kind, max_size=64 * MIB).make_current()
        gc.collect()
        device.event().close()  # what was dropped is released
        current = rawcuda.MemoryPool.current(device, kind)
        assert current != default and current.max_size == (64 if when == "after" else 32) * MIB
    finally:
        default.make_current()


def test_the_pool_that_is_current_after_the_assignments_of_two_threads_is_kept(device, monkeypatch):
    assigned, begun, default = threading.Event(), threading.Event(), device.default_pool
    set_pool = device._primary.calls.cuDeviceSetMemPool

    def waits(*arguments):
        set_pool(*arguments)
        if not begun.is_set():
            begun.set()
            assigned.wait(0.3)

    def assign():
        device.pool = device.memory_pool(max_size=32 * MIB)

    def assign_second():
        begun.wait()
        assign()
        assigned.set()

    try:
        with monkeypatch.context() as patched:
            patched.setitem(vars(device._primary.calls), "cuDeviceSetMemPool", waits)
            threads = [threading.Thread(target=each) for each in (assign, assign_second)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        gc.collect()
        device.event().close()
        assert device.pool != default and device.pool.max_size == 32 * MIB
    finally:
        device.pool = default


@pytest.mark.parametrize("which", ["default", "current"])
def test_the_device_has_access_to_page_locked_memory_of_a_pool_of_the_driver(device, which):
    """At first only the host has it: a kernel, also that of a copy between layouts, failed."""
    try:
        pool = getattr(rawcuda.MemoryPool, which)(device, "pinned")
    except (errors.Unsupported, errors.SymbolNotFound):
        pytest.skip("no pools of page-locked memory")
    assert pool.access(device) == "readwrite"
    with device.load(kernels.ADD) as loaded, pool.allocate(64) as memory:
        values = memory.view("float32").reshape(4, 4)
        values.fill(1)
        device.synchronize()
        out = device.zeros((4, 4), "float32")
        out.T.copy_from(values)
        loaded["add"].launch(values, out, out, 4, grid=1, block=4)
        values[::-1, ::2].copy_from(out[:, :2])
        device.synchronize()
        assert out.tolist()[:2] == [[2.0] * 4, [1.0] * 4] and values.tolist()[3][::2] == [2.0, 2.0]


def test_the_current_pools_of_other_memory(device):
    assert device.pool.location == device and rawcuda.MemoryPool.default(device) == device.default_pool
    for kind, location, shown in (("pinned", None, "host"), ("pinned", "numa:0", "numa:0"), ("managed", None, None)):
        try:
            default = rawcuda.MemoryPool.default(device, kind, location)
        except (errors.Unsupported, errors.SymbolNotFound):
            continue
        assert default.location == shown and default.borrowed and default.kind == kind
        current = rawcuda.MemoryPool.current(device, kind, location)
        with device.memory_pool(kind=kind, location=location) as pool:
            assert pool.location == shown
            with pytest.raises(ValueError, match="cannot be the pool of a device"):
                device.pool = pool
            pool.make_current()
            assert rawcuda.MemoryPool.current(device, kind, location) == pool
            current.make_current()
            assert rawcuda.MemoryPool.current(device, kind, location) == current


def test_a_pool_of_another_kind_or_device_is_refused(device, pool, other):
    with pytest.raises(ValueError, match=r"belongs to device 0.*use Device\(0\)"):
        other.allocate(8, pool=pool)
    with pytest.raises(ValueError, match="belongs to device 0"):
        other.pool = pool
    with pytest.raises(ValueError, match="contains device memory: leave kind out"):
        device.allocate(8, kind="managed", pool=pool)
    with pytest.raises(TypeError, match="must be a MemoryPool"):
        device.allocate(8, pool=device)
    for bad, error in (
        (dict(kind="shared"), ValueError),
        (dict(kind=None), ValueError),
        (dict(location="host"), ValueError),
        (dict(kind="pinned", location=device), ValueError),
        (dict(kind="pinned", location="numa:x"), ValueError),
        (dict(kind="managed", location="numa:current"), ValueError),
        (dict(kind="managed", location=1.5), TypeError),
    ):
        with pytest.raises(error, match="location|kind"):
            device.memory_pool(**bad)
    with pytest.raises(TypeError, match="needs a Device"):
        rawcuda.MemoryPool(0)


def test_a_pool_closed_with_memory_left(device):
    """Its memory stays valid, and is freed where it is closed: close() never raises, and never frees what is used."""
    pool = device.memory_pool()
    memory, second = pool.allocate(8), pool.allocate(16)
    memory.copy_from(b"12345678")
    pool.close()
    pool.close()
    assert pool.closed and "closed" in repr(pool)
    for use in (
        lambda: pool.allocate(8),
        lambda: device.allocate(8, pool=pool),
        lambda: pool.trim(),
        lambda: pool.release_threshold,
        lambda: pool.access(0),
        lambda: pool.peer_accessible_by,
    ):
        with pytest.raises(errors.Closed, match="this MemoryPool is closed"):
            use()
    assert bytes(memory.view().download().memoryview()) == b"12345678"
    memory.close()
    second.close()


def test_a_pool_with_the_handle_of_one_that_was_destroyed_is_open(device, monkeypatch):
    discarded = []

    class Handles(set):
        def discard(self, handle):
            discarded.append(handle)
            super().discard(handle)

    device.context
    monkeypatch.setattr(device._primary, "destroyed", Handles())
    with device.memory_pool() as pool:
        assert discarded == [pool.handle] and not device._primary.destroyed
    assert device._primary.destroyed == set(discarded)


def test_a_pool_is_an_owned_thing(device):
    pool = device.memory_pool()
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            refused(pool)
    handle = pool.detach()
    assert pool.closed and pool != pool.default(device)
    with device.current():
        rawcuda.cu.cuMemPoolDestroy(module("headers.cuda_h").CUmemoryPool(handle))
    calls = []
    with rawcuda.trace(lambda event: calls.append(event.name)):
        device.memory_pool()  # dropped at once
        gc.collect()
        owned.drain()
    assert "cuMemPoolCreate" in calls and "cuMemPoolDestroy" in calls


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_which_device_is_asked_about(device, kind):
    class Ordinal:  # as an int of NumPy is
        def __index__(self):
            return 0

    with device.allocate(64, kind=kind) as memory:
        assert (
            memory.is_accessible_from(device) and memory.is_accessible_from(0) and memory.is_accessible_from(Ordinal())
        )
        for wrong in (99, -1):
            with pytest.raises(ValueError, match=f"there is no device {wrong}"):
                memory.is_accessible_from(wrong)
        for wrong in (True, "cuda", None, 0.0):
            with pytest.raises(TypeError, match="a device must be a Device"):
                memory.is_accessible_from(wrong)


def test_a_page_locked_pool_may_give_its_own_device_no_access(device):
    """A kernel node that copied it, and a value that was written there, ended the context."""
    try:
        pool = device.memory_pool(kind="pinned")
    except (errors.Unsupported, errors.SymbolNotFound) as error:
        pytest.skip(str(error))
    with pool.allocate(4096) as memory, device.stream() as stream:
        words = memory.fill(3).view("uint32").reshape(32, 32)
        device.synchronize()
        target, graph = device.zeros((32, 32), "uint32"), device.graph()
        assert memory.is_accessible_from(device)
        pool.set_access(device, "none")
        assert not memory.is_accessible_from(device) and not memory.is_accessible_from(device.ordinal)
        for use in (
            lambda: graph.copy(target.T, words),
            lambda: graph.fill(words[:, ::2], 3),
            lambda: stream.write_value(words[0, 0], 1),
            lambda: stream.wait_value(words[0, 0], 1),
        ):
            with pytest.raises(ValueError, match=r': (call )?its pool\.set_access\(Device\(0\), "readwrite"\)'):
                use()
        pool.set_access(device, "read")
        graph.copy(target.T, words)
        with pytest.raises(ValueError, match="cannot write memory of device 0: call its pool"):
            graph.copy(words, target.T)
        graph.launch(stream)
        stream.synchronize()
        assert target.tolist() == [[0x03030303] * 32] * 32


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_memory_of_a_pool_whose_access_is_taken_away_is_refused(device, kind):
    """Also after other memory of its kind, which always has access; each launch asks the pool."""
    with device.memory_pool(kind=kind) as pool, device.load(kernels.ADD) as loaded:
        memory, plain = pool.allocate(64), device.allocate(64, kind=kind)
        assert type(memory).__name__ == type(plain).__name__ and isinstance(memory, type(plain))
        launch = loaded["add"].configure(grid=1, block=8)
        for each in (memory, memory.view("float32"), plain, plain.view("float32")):
            launch(each, each, each, 8)
        device.synchronize()
        pool.set_access(device, "none")
        for each in (memory, memory.view("float32"), memory.view("float32")[2:]):
            launch(plain, plain.view("float32"), plain, 8)
            with pytest.raises(ValueError, match=r"its pool\.set_access\(Device\(0\)"):
                launch(plain, plain, each, 4)
        device.synchronize()
        memory.close()


def test_access_of_another_device(device, pool, other):
    with pool.allocate(400) as memory, other.load(kernels.ADD) as code, other.stream() as stream:
        memory.view("float32").fill(1)
        device.synchronize()
        launch = code["add"].configure(grid=1, block=128, stream=stream)
        assert pool.access(device) == "readwrite" and pool.access(other) == "none" and not pool.peer_accessible_by
        assert memory.is_accessible_from(device) and not memory.is_accessible_from(other)
        for argument in (memory, memory.view("float32")):
            with pytest.raises(ValueError, match=r"was not given access: its pool.set_access\(Device\(1\)"):
                launch(argument, argument, argument, 100)
        with pytest.raises(ValueError, match=r"cannot access memory of device 0.*set_access"):
            memory.fill(0, stream=stream)
        pool.peer_accessible_by.add(other)
        assert list(pool.peer_accessible_by) == [other] and other in pool.peer_accessible_by
        assert pool.access(1) == "readwrite" and memory.is_accessible_from(1)
        with other.allocate(400) as result:
            launch(memory, memory.view("float32"), result, 100)
            stream.synchronize()
            assert result.view("float32").tolist() == [2.0] * 100
        pool.peer_accessible_by = []
        assert len(pool.peer_accessible_by) == 0 and repr(pool.peer_accessible_by) == "{}"
        pool.peer_accessible_by = [1]
        pool.peer_accessible_by.discard(other)
        assert pool.access(other) == "none"
        for bad, error in (
            (lambda: pool.set_access(device, "none"), ValueError),
            (lambda: pool.set_access(other, "all"), ValueError),
            (lambda: pool.set_access(7, "read"), ValueError),
            (lambda: pool.set_access("cuda", "read"), TypeError),
            (lambda: pool.peer_accessible_by.add(device), ValueError),
        ):
            with pytest.raises(error):
                bad()


@pytest.mark.emulator_only("a kernel that gets past our checks is stopped with a report")
def test_a_kernel_without_access_is_stopped(python):
    told = python(
        """
        from tests.subject import rawcuda
        from tests.driver import kernels
        device, other = rawcuda.devices()
        pool = device.memory_pool()
        memory, code = pool.allocate(400), other.load(kernels.ADD)
        pool.set_access(other, "read")
        with other.stream() as stream:
            code["add"].launch(memory.ptr, memory.ptr, memory.ptr, 100, grid=1, block=128, stream=stream)
            try:
                stream.synchronize()
            except rawcuda.ContextLost as error:
                print(error)
        """
    ).stdout
    assert "out-of-bounds write of 4 bytes" in told and "which this device may only read" in told


def test_read_access_of_another_device(device, pool, other):
    with pool.allocate(400) as memory, other.load(kernels.ADD) as code, other.allocate(400) as there:
        memory.fill(0)
        device.synchronize()
        pool.set_access(other, "read")
        assert pool.access(other) == "read" and memory.is_accessible_from(other)
        with pytest.raises(ValueError, match="is read-only here"):
            code["add"].launch(memory, memory, there, 100, grid=1, block=128)
        code["add"].launch(rawcuda.In(memory), rawcuda.In(memory), there, 100, grid=1, block=128)
        other.synchronize()
        assert there.view("float32").tolist() == [0.0] * 100


def test_the_pool_of_a_closed_device(device):
    second = rawcuda.Device(0)
    pool, borrowed = second.memory_pool(), second.pool
    second.close()
    for use in (lambda: second.pool, lambda: second.memory_pool(), lambda: rawcuda.MemoryPool(second)):
        with pytest.raises(errors.Closed):
            use()
    assert borrowed.attributes.used_mem_current >= 0
    with pool.allocate(8) as memory, borrowed.allocate(8) as other:
        memory.fill(1)
        other.fill(1)
    pool.close()


def test_dropped_and_leased_memory_of_a_pool(device, library):
    pool = device.memory_pool()
    memory = pool.allocate(64)
    exported = rawcuda.view(memory, protocol="dlpack")
    exported.fill(3)
    memory.close()
    pool.close()
    assert exported.tolist() == [3] * 64  # an export keeps the bytes
    del exported, memory, pool
    gc.collect()
    owned.drain()


def test_memory_of_a_pool_while_a_stream_is_closed_first(device, pool):
    stream = device.stream()
    memory = pool.allocate(64, stream=stream)
    memory.fill(5, stream=stream)
    stream.close()
    assert memory.view().tolist() == [5] * 64
    memory.close()


def test_a_stream_of_another_device_can_order_an_allocation(device, pool, other):
    with other.stream() as stream:
        pool.set_access(other, "readwrite")
        memory = pool.allocate(64, stream=stream)
        assert memory.device == device and memory.stream is stream
        memory.fill(9, stream=stream)
        stream.synchronize()
        assert memory.view().tolist() == [9] * 64
        memory.close()
    for bad, error in ((0, ValueError), (-1, ValueError), ("x", TypeError)):
        with pytest.raises(error):
            pool.allocate(8, stream=bad)


def test_a_pool_that_is_full_says_so(device):
    with device.memory_pool(max_size=4 << 20) as pool:
        assert pool.max_size == 4 << 20 and device.pool.max_size == 0
        held = pool.allocate(3 << 20)
        with pytest.raises(rawcuda.OutOfMemory, match=r"max_size=4194304, of which 3145728 bytes are in use: close"):
            pool.allocate(2 << 20)
        held.close()
        device.synchronize()
        pool.allocate(2 << 20).close()
