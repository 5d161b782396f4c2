"""Virtual memory: reserved, mapped, grown in place, made accessible, and taken apart again."""

import array
import copy
import gc
import pickle
import random
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors, owned, virtual = module("errors"), module("ownership"), module("gpu.memory.virtual")


@pytest.fixture(autouse=True)
def supported(device):
    if not device.attribute("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"):
        pytest.skip("this device has no virtual memory management")


@pytest.fixture
def grain(device):
    with device.virtual_memory(1) as memory:
        return memory.granularity


@pytest.fixture
def other():
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    return rawcuda.Device(1)


def test_it_grows_in_place(device, grain):
    with device.virtual_memory(1000, reserve=5 * grain) as memory:
        assert (memory.nbytes, memory.reserved, memory.kind, len(memory)) == (grain, 5 * grain, "device", grain)
        address = memory.ptr
        memory.fill(7)
        first = memory.view("uint32")
        assert memory.grow(grain + 1) is memory and memory.nbytes == 2 * grain and memory.ptr == address
        assert first.shape == (grain // 4,) and memory.view("uint32").shape == (grain // 2,)
        memory.view()[grain:].fill(9)
        assert [memory.view()[at].tolist() for at in (0, grain - 1, grain, 2 * grain - 1)] == [7, 7, 9, 9]
        assert first[0].tolist() == 0x07070707  # an old view is still valid
        memory.grow(5 * grain)
        assert memory.mappings == ((0, grain, 0), (grain, grain, 0), (2 * grain, 3 * grain, 0))
        memory.grow(grain)  # it is larger already
        assert memory.nbytes == 5 * grain
    assert memory.closed
    with pytest.raises(errors.Closed):
        first.ptr
    for use in (
        lambda: memory.ptr,
        lambda: memory.grow(grain),
        lambda: memory.map(0, grain),
        lambda: memory.unmap(0, grain),
        lambda: memory.shrink(0),
        lambda: memory.view(),
        lambda: memory.set_access(0, "read"),
        lambda: memory.access(0),
        lambda: memory.peer_accessible_by,
    ):
        with pytest.raises(errors.Closed):
            use()


def test_copies_and_fills_over_several_mappings(device, grain):
    with device.virtual_memory(grain, reserve=3 * grain) as memory, device.stream() as stream:
        memory.grow(2 * grain).grow(3 * grain)
        pattern = bytes(range(256)) * (3 * grain // 256)
        memory.copy_from(pattern, stream=stream)
        got = bytearray(3 * grain)
        memory.copy_to(got, stream=stream)
        assert got == pattern
        part = memory.view()[grain - 100 : grain + 100]
        part.fill(5, stream=stream)
        assert part.tolist() == [5] * 200
        with device.allocate(3 * grain) as plain:
            plain.copy_from(memory)
            plain.view()[: 2 * grain].copy_to(memory.view()[grain:])
            device.synchronize()
            assert memory.view()[grain : grain + 4].tolist() == [0, 1, 2, 3]
        rows = memory.view()[grain - 512 : grain + 512].reshape((4, 256))
        rows[:, 100:200].fill(1)
        assert rows[:, 99:101].tolist() == [[99, 1]] * 4


def test_a_kernel_uses_it(device, grain):
    with device.virtual_memory(grain, reserve=2 * grain) as memory, device.load(kernels.ADD) as code:
        memory.grow(2 * grain)
        numbers = memory.view("float32")[grain // 4 - 50 : grain // 4 + 50]  # across both mappings
        numbers.copy_from(array.array("f", range(100)))
        code["add"].launch(numbers, numbers, numbers, 100, grid=1, block=128)
        device.synchronize()
        assert numbers.tolist() == [2.0 * n for n in range(100)]
        code["add"].launch(memory, memory, memory, 0, grid=1, block=128)
        device.synchronize()


def test_exports_keep_it(device, grain):
    memory = device.virtual_memory(grain)
    memory.fill(3)
    exported = rawcuda.view(memory, protocol="dlpack")
    second = memory.view()
    assert exported.device == ("cuda", 0) and memory.__cuda_array_interface__["shape"] == (grain,)
    memory.close()
    assert exported[:2].tolist() == [3, 3]
    with pytest.raises(errors.Closed):
        second.tolist()
    del memory, exported, second
    gc.collect()
    owned.drain()


@pytest.mark.parametrize("how", ["shrink", "unmap"])
def test_a_view_that_is_made_during_the_wait_is_noticed(device, grain, monkeypatch, how):
    reservation, views = module("gpu.core.reservation").Reservation, []
    wait = reservation.wait

    def meanwhile(self, what="", is_locked=False):
        waited = wait(self, what, is_locked)
        if is_locked:
            views.append(memory.view())  # another thread makes it
        return waited

    with device.virtual_memory(2 * grain, reserve=3 * grain) as memory:
        memory.grow(3 * grain)
        with monkeypatch.context() as patched:
            patched.setattr(reservation, "wait", meanwhile)
            with pytest.raises(ValueError, match="there is a view"):
                memory.shrink(grain) if how == "shrink" else memory.unmap(2 * grain, grain)
        assert memory.nbytes == 3 * grain == views.pop().nbytes
        memory.shrink(grain)


def in_another_thread(call):
    """Tell whether a call ends in another thread while this one goes on waiting for it."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


@pytest.mark.parametrize("how", ["shrink", "unmap"])
def test_a_finalizer_of_what_work_has_used_may_wait_for_who_uses_the_memory(device, grain, how):
    """As that of an array of an allocator with a lock: it does not run while the lock of the memory is held."""
    plain, found = device.zeros(4, "int32"), []
    device.synchronize()

    class Array:
        __cuda_array_interface__ = {"version": 3, "shape": (4,), "typestr": "<i4", "data": (plain.ptr, False)}

        def __del__(self):
            found.append(in_another_thread(lambda: memory.grow(1)))

    with device.virtual_memory(grain, reserve=2 * grain) as memory, device.stream() as stream:
        memory._lease_for_work()  # which has ended
        device.empty(4, "int32").copy_from(Array(), stream=stream)
        while not stream.query():
            pass
        found.clear()  # (it may have been released)
        device.empty(4, "int32").copy_from(Array(), stream=stream)
        assert not found
        memory.shrink(0) if how == "shrink" else memory.unmap(0, grain)
        assert found and all(found)


@pytest.mark.parametrize("how", ["grow", "map", "unmap", "shrink", "set_access"])
def test_arguments_are_read_before_the_lock_is_taken(device, grain, how):
    found = []

    class Number:
        def __init__(self, number):
            self.number = number

        def __index__(self):
            found.append(in_another_thread(lambda: memory.grow(1)))
            return self.number

    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        here = Number(device.ordinal)
        if how == "grow":
            memory.grow(Number(2 * grain), device=here)
        elif how == "map":
            memory.map(Number(grain), Number(grain), device=here)
        elif how == "unmap":
            memory.unmap(Number(0), Number(grain))
        elif how == "shrink":
            memory.shrink(Number(0))
        else:
            memory.set_access(here, "read")
        assert found and all(found)


@pytest.mark.parametrize("how", ["shrink", "unmap", "set_access"])
def test_what_was_dropped_during_a_capture_is_not_released_while_the_lock_is_held(device, grain, monkeypatch, how):
    """Its release may run a finalizer; a capture that an interrupt left is ended in this way."""
    points, found = module("gpu.core.points"), []

    class Dropped:
        def release(self, late):
            found.append(in_another_thread(lambda: memory.grow(1)))
            return False  # it is tried again

    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        monkeypatch.setitem(points.capturing, -5, points.Capture([], -5))  # on another device
        owned.dropped.append(Dropped())
        try:
            if how == "set_access":
                memory.set_access(device, "read")
            else:
                memory.shrink(0) if how == "shrink" else memory.unmap(0, grain)
        finally:
            owned.dropped.clear()
        assert found and all(found)


@pytest.mark.parametrize("how", ["shrink", "unmap"])
def test_a_view_that_is_made_during_the_change_shows_what_stays(device, grain, monkeypatch, how):
    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        memory.grow(2 * grain)
        lend, measure, views = virtual.VirtualMemory._lend, virtual.VirtualMemory._measure, []

        def lends(self, window):  # a view was begun before the change
            monkeypatch.setattr(virtual.VirtualMemory, "_lend", lend)
            memory.shrink(grain) if how == "shrink" else memory.unmap(grain, grain)
            lend(self, window)

        monkeypatch.setattr(virtual.VirtualMemory, "_lend", lends)
        views.append(memory.view())
        memory.grow(2 * grain)

        def measures(self):  # one is begun when the change has looked for views
            if len(self._reservation.mapped()) == 1:
                views.append(memory.view())
            measure(self)

        monkeypatch.setattr(virtual.VirtualMemory, "_measure", measures)
        memory.shrink(grain) if how == "shrink" else memory.unmap(grain, grain)
        assert [view.nbytes for view in views] == [memory.nbytes] * 2 == [grain] * 2


def test_what_grows_during_a_fill_is_filled_as_a_whole_later(device, grain, monkeypatch):
    copying = module("arrays.copying")
    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        prepare = copying.as_argument

        def prepares(address):  # another thread runs when the fill has read the size
            monkeypatch.setattr(copying, "as_argument", prepare)
            memory.grow(2 * grain)
            return prepare(address)

        monkeypatch.setattr(copying, "as_argument", prepares)
        memory.fill(1)
        memory.fill(7)
        assert memory.nbytes == 2 * grain and memory.view()[-1].tolist() == 7


@pytest.mark.parametrize("part", ["wait", "undo"])
def test_close_goes_on_after_an_interrupt(device, library, grain, monkeypatch, part):
    """The most likely place of an interrupt is the wait for the work that may use the memory."""
    kind = module("gpu.core.reservation")
    kind = kind.Reservation if part == "wait" else kind.Piece
    real, interrupts = getattr(kind, part), [KeyboardInterrupt]

    def interrupted(*arguments):
        if interrupts:
            raise interrupts.pop()
        return real(*arguments)

    before = {} if library is None else library.live_handles()
    memory = device.virtual_memory(grain, reserve=2 * grain)
    memory.grow(2 * grain)
    with monkeypatch.context() as patched:
        patched.setattr(kind, part, interrupted)
        with pytest.raises(KeyboardInterrupt):
            memory.close()
        assert memory.closed
        owned.drain()
    assert not interrupts
    if library is not None:
        assert library.live_handles() == before


@pytest.mark.parametrize("how", ["shrink", "unmap"])
def test_what_a_reader_of_the_array_interface_uses_stays(device, grain, how):
    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        memory.grow(2 * grain)
        view = memory.view()
        assert view.__cuda_array_interface__["shape"] == (2 * grain,)
        del view  # with the object whose interface was read, its readers are gone
        memory.shrink(grain)
        assert memory.__cuda_array_interface__["shape"] == (grain,)
        with pytest.raises(ValueError, match=r"the array interface of this memory was read.*memory\.view\(\)"):
            memory.shrink(0) if how == "shrink" else memory.unmap(0, grain)
        assert memory.nbytes == grain


def test_mapping_with_gaps(device, grain):
    with device.virtual_memory(reserve=4 * grain) as memory:
        assert memory.nbytes == 0 and memory.mappings == () and memory.view().shape == (0,)
        memory.map(2 * grain, grain)
        assert memory.nbytes == 0
        memory.map(0, grain)
        assert memory.nbytes == grain
        memory.grow(4 * grain)  # closes the gap, and goes on
        assert memory.nbytes == 4 * grain and [each[0] for each in memory.mappings] == [0, grain, 2 * grain, 3 * grain]
        memory.unmap(grain, 2 * grain)
        assert memory.nbytes == grain and len(memory.mappings) == 2
        memory.shrink(1)
        assert memory.nbytes == grain and len(memory.mappings) == 1
        memory.shrink(0)
        assert memory.nbytes == 0 and not memory.mappings
        memory.grow(grain).fill(1)
        assert memory.view()[0].tolist() == 1


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_mapping_and_unmapping(device, grain, seed):
    """Against a model: which granules are mapped, by which mapping, and what their first bytes contain."""
    chance, most = random.Random(seed), 6
    with device.virtual_memory(reserve=most * grain) as memory:
        model = {}  # granule: [the mapping's (first, end), its content]
        for step in range(40):
            first = chance.randrange(most)
            end = chance.randrange(first, most) + 1
            action = chance.choice(("map", "unmap", "grow", "shrink", "fill"))
            pieces = {piece for piece, _ in model.values()}
            if action == "map":
                if any(granule in model for granule in range(first, end)):
                    with pytest.raises(ValueError, match="mapped already"):
                        memory.map(first * grain, (end - first) * grain)
                else:
                    memory.map(first * grain, (end - first) * grain)
                    model.update({granule: [(first, end), None] for granule in range(first, end)})
            elif action == "unmap":
                inside = [piece for piece in pieces if first <= piece[0] and piece[1] <= end]
                if sum(b - a for a, b in inside) == end - first:
                    memory.unmap(first * grain, (end - first) * grain)
                    model = {granule: fact for granule, fact in model.items() if not first <= granule < end}
                else:
                    with pytest.raises(ValueError, match="not whole mappings"):
                        memory.unmap(first * grain, (end - first) * grain)
            elif action == "grow":
                memory.grow(end * grain)
                at = 0
                while at < end:
                    if at in model:
                        at = model[at][0][1]
                        continue
                    until = min([g for g in model if g > at] + [end])
                    model.update({granule: [(at, until), None] for granule in range(at, until)})
                    at = until
            elif action == "shrink":
                memory.shrink(first * grain)
                model = {granule: fact for granule, fact in model.items() if fact[0][0] < first}
            elif memory.nbytes:
                granule = chance.randrange(memory.nbytes // grain)
                memory.view()[granule * grain : granule * grain + 8].fill(step)
                model[granule][1] = step
            prefix = next(granule for granule in range(most + 1) if granule not in model)
            assert memory.nbytes == prefix * grain
            assert {(a // grain, (a + n) // grain) for a, n, _ in memory.mappings} == {
                fact[0] for fact in model.values()
            }
            for granule, (_, content) in model.items():
                if content is not None and granule < prefix:
                    assert memory.view()[granule * grain].tolist() == content


def test_what_cannot_be_mapped(device, grain):
    with device.virtual_memory(2 * grain, reserve=4 * grain) as memory:
        before = memory.mappings
        for use, error, words in (
            (lambda: memory.grow(4 * grain + 1), ValueError, "bytes were reserved; make one with a larger reserve"),
            (lambda: memory.grow(2**63 - 1), ValueError, "bytes were reserved"),
            (lambda: memory.grow(-1), ValueError, "nbytes=-1"),
            (lambda: memory.grow(1.5), TypeError, "nbytes must be an int"),
            (lambda: memory.map(2 * grain, 3 * grain), ValueError, "end beyond"),
            (lambda: memory.map(2**62, grain), ValueError, "end beyond"),
            (lambda: memory.map(2 * grain, 1000), ValueError, rf"granularity of device 0, {grain} bytes: give {grain}"),
            (lambda: memory.map(2 * grain + 8, grain), ValueError, "offset=.* is not a multiple of the granularity"),
            (lambda: memory.map(2 * grain, 0), ValueError, "at least one multiple of the granularity"),
            (lambda: memory.map(grain, grain), ValueError, "mapped already; unmap"),
            (lambda: memory.map(0, 4 * grain), ValueError, "mapped already; unmap"),
            (lambda: memory.map(2 * grain, grain, device=99), ValueError, "no device 99"),
            (lambda: memory.map(2 * grain, grain, device="host"), TypeError, "must be a Device"),
            (lambda: memory.unmap(0, grain), ValueError, f"mapped are the bytes 0 to {2 * grain}"),
            (lambda: memory.unmap(2 * grain, grain), ValueError, "not whole mappings"),
            (lambda: memory.unmap(0, 0), ValueError, "not whole mappings"),
            (lambda: memory.set_access(0, "write"), ValueError, "'readwrite'"),
            (lambda: memory.set_access(None, "read"), TypeError, "must be a Device"),
        ):
            with pytest.raises(error, match=words):
                use()
            assert memory.mappings == before
    for arguments, error in (
        (dict(), ValueError),
        (dict(nbytes=2 * grain, reserve=grain), ValueError),
        (dict(nbytes=-1), ValueError),
        (dict(nbytes=2**63), ValueError),
        (dict(reserve="8"), TypeError),
        (dict(nbytes=8, peers=[5]), ValueError),
    ):
        with pytest.raises(error, match="nbytes|reserve|device 5"):
            device.virtual_memory(**arguments)
    with pytest.raises(ValueError, match="'none', 'read' or 'readwrite'"):
        rawcuda.VirtualMemory(device, 8, access="rw")
    with pytest.raises(TypeError, match="needs a Device"):
        rawcuda.VirtualMemory(0, 8)


def test_too_little_memory_leaves_what_was_there(device, grain):
    with device.virtual_memory(grain, reserve=1 << 44) as memory:
        memory.fill(4)
        with pytest.raises(errors.OutOfMemory):
            memory.grow(1 << 43)
        assert memory.nbytes == grain and memory.view()[0].tolist() == 4
    with pytest.raises(errors.OutOfMemory):
        device.virtual_memory(1 << 44)


def test_it_is_not_shrunk_under_what_uses_it(device, grain):
    with device.virtual_memory(grain, reserve=3 * grain) as memory:
        early = memory.view()
        memory.grow(3 * grain)
        late = memory.view("int32")[:4].T
        with pytest.raises(ValueError, match=f"there is a view of {3 * grain} bytes; drop it first"):
            memory.shrink(grain)
        with pytest.raises(ValueError, match="there is a view"):
            memory.unmap(grain, 2 * grain)
        del late
        exported = rawcuda.view(early, protocol="dlpack")
        with pytest.raises(ValueError, match="an export, a graph or work that is not done uses the memory"):
            memory.shrink(grain)
        del exported
        gc.collect()
        memory.shrink(grain)
        assert memory.nbytes == grain and early.shape == (grain,)
        early.fill(2)
        with pytest.raises(ValueError, match="there is a view"):
            memory.shrink(0)
        assert early[0].tolist() == 2


def test_it_waits_for_work(device, grain):
    with device.stream() as stream, device.virtual_memory(grain, reserve=2 * grain) as memory:
        memory.grow(2 * grain)
        view = memory.view()[grain:]
        view.fill(1, stream=stream)
        del view
        memory.shrink(grain)
        memory.view().fill(2, stream=stream)
        memory.close()
        stream.synchronize()


@pytest.mark.parametrize("kind", ["virtual", "pinned"])
def test_what_was_closed_and_is_exported_waits_for_work_at_its_end(device, grain, kind):
    """Work that was queued before close() may use it; close() left the release to the last export."""
    calls, ending = [], {"virtual": "cuMemUnmap", "pinned": "cuMemFreeHost"}[kind]
    memory = device.virtual_memory(grain) if kind == "virtual" else device.allocate(grain, kind="pinned")
    exported = memory.lease()  # as every export holds
    memory.fill(1)
    memory.close()
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        owned.drain()
        assert ending not in calls
        del exported
        gc.collect()
        owned.drain()
    assert calls.index("cuCtxSynchronize") < calls.index(ending)


@pytest.mark.parametrize("as_view", [False, True])
def test_what_is_collected_waits_for_work(device, grain, as_view):
    """A launch does not retain our own memory, and cuMemUnmap need not wait for the work that uses it."""
    calls = []
    memory = device.virtual_memory(grain)
    memory.fill(0)
    with device.load(kernels.ADD) as code, rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        given = memory.view("float32") if as_view else memory
        code["add"].launch(given, given, given, 4, grid=1, block=4)
        del memory, given
        gc.collect()
        owned.drain()
        assert calls.index("cuCtxSynchronize") < calls.index("cuMemUnmap")


def test_across_devices(device, other, grain):
    assert device.can_reach(other)
    with device.virtual_memory(grain, reserve=3 * grain, peers=[other]) as memory, other.load(kernels.ADD) as code:
        memory.grow(2 * grain, device=other)
        assert memory.mappings == ((0, grain, 0), (grain, grain, 1))
        assert memory.access(device) == memory.access(1) == "readwrite"
        assert list(memory.peer_accessible_by) == [other] and memory.is_accessible_from(other)
        memory.fill(0)
        device.synchronize()
        numbers = memory.view("float32")[grain // 4 - 50 : grain // 4 + 50]
        with other.stream() as stream:
            code["add"].launch(numbers, memory, numbers, 100, grid=1, block=128, stream=stream)
            memory.view()[grain:].fill(1, stream=stream)
        assert numbers[:50].tolist() == [0.0] * 50
        memory.peer_accessible_by = []
        assert memory.access(other) == "none" and not memory.is_accessible_from(other)
        with other.stream() as stream:
            for argument in (memory, numbers):
                with pytest.raises(ValueError, match=r"VirtualMemory.set_access\(Device\(1\)"):
                    code["add"].launch(argument, argument, argument, 100, grid=1, block=128, stream=stream)
            with pytest.raises(ValueError, match="cannot access memory of device 0"):
                memory.view().fill(1, stream=stream)
        memory.set_access(other, "read")
        memory.grow(3 * grain)
        assert memory.access(other) == "read" and memory.is_accessible_from(other)
        with pytest.raises(ValueError, match="is the device of this memory"):
            memory.peer_accessible_by.add(device)


@pytest.mark.emulator_only("the devices of a machine usually reach each other, or there is only one")
def test_devices_that_cannot_reach_each_other(python):
    """Neither a pool nor virtual memory gives them access; copies work all the same."""
    told = python(
        """
        from tests.subject import rawcuda
        rawcuda.use("emulator")
        device, other = rawcuda.devices()
        pool, memory = device.memory_pool(), device.virtual_memory(1, reserve=1 << 24)
        before = memory.mappings
        for use in (
            lambda: pool.set_access(other, "read"),
            lambda: pool.peer_accessible_by.add(other),
            lambda: memory.set_access(other, "read"),
            lambda: memory.grow(1 << 23, device=other),
            lambda: device.virtual_memory(1, peers=[other]),
        ):
            try:
                use()
            except rawcuda.Unsupported as error:
                print("cannot reach the memory of device" in str(error))
        assert memory.mappings == before and pool.access(other) == memory.access(other) == "none"
        pool.set_access(other, "none")
        there = other.empty((100,), "uint8")
        memory.fill(6)
        there.copy_from(memory.view()[:100])
        print(there[99].tolist())
        memory.close(); pool.close()
        left = rawcuda.cu.libcuda.live_handles()
        print(left["pool"], left["physical"], left["reservation"])
        """,
        env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=2,peers=off"},
        check=True,
    ).stdout.splitlines()
    assert told == ["True"] * 5 + ["6", "0 0 0"]


@pytest.mark.emulator_only("a kernel that uses what is not mapped, or not accessible, is stopped with a report")
@pytest.mark.parametrize(
    "prepare, offset, words",
    [
        ("pass", "2 * grain", "2 * granules bytes into a 8 * granules reservation|where no memory is mapped"),
        ("memory.shrink(grain)", "grain", "where no memory is mapped"),
        ("memory.set_access(device, 'none')", "0", "to which this device was given no access"),
        ("memory.set_access(device, 'read')", "0", "which this device may only read"),
    ],
)
def test_an_access_that_faults(python, prepare, offset, words):
    told = python(
        f"""
        from tests.subject import rawcuda
        from tests.driver import kernels
        device = rawcuda.Device(0)
        memory = device.virtual_memory(1, reserve=1 << 24)
        grain = memory.granularity
        memory.grow(2 * grain)
        code = device.load(kernels.ADD)
        {prepare}
        with device.stream() as stream:
            at = memory.ptr + {offset}
            code["add"].launch(at, at, at, 100, grid=1, block=128, stream=stream)
            try:
                stream.synchronize()
            except rawcuda.ContextLost as error:
                print(error)
        """
    ).stdout
    assert any(word in told for word in words.split("|")) and "kernel add" in told, told


@pytest.mark.parametrize("access", ["none", "read"])
def test_a_view_of_memory_whose_access_is_taken_away_is_refused(device, grain, access):
    """What a parameter takes is remembered for other memory, which always has access."""
    with device.virtual_memory(grain) as memory, device.load(kernels.ADD) as loaded, device.allocate(grain) as plain:
        view, launch = memory.view("float32")[:8], loaded["add"].configure(grid=1, block=8)
        for each in (view, plain.view("float32")[:8], memory):
            launch(each, each, each, 8)
        memory.set_access(device, access)
        for each in (view, memory):
            launch(plain, plain, plain, 8)
            with pytest.raises(ValueError, match="access" if access == "none" else "read-only"):
                launch(plain, plain, each, 8)
        memory.set_access(device, "readwrite")
        launch(view, view, view, 8)
        device.synchronize()


def test_it_is_an_owned_thing(device, grain, library):
    memory = device.virtual_memory(grain)
    with pytest.raises(TypeError):
        copy.copy(memory)
    memory.fill(5)
    copied = pickle.loads(pickle.dumps(memory))  # the bytes, in memory that does not grow
    assert type(copied) is rawcuda.Memory and copied.nbytes == grain and copied.view()[-1].tolist() == 5
    copied.close()
    assert "VirtualMemory" in repr(memory) and f"{grain} of {grain} bytes" in repr(memory)
    memory.fill(1)
    device.synchronize()
    address = memory.detach()
    assert memory.closed and "closed" in repr(memory)
    memory.close()
    with device.current():
        rawcuda.cu.cuMemUnmap(address, grain)
        rawcuda.cu.cuMemAddressFree(address, grain)
    calls = []
    with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
        device.virtual_memory(grain)  # dropped at once
        gc.collect()
        owned.drain()
    wanted = "cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressFree".split()
    assert [name for name in calls if name in wanted] == wanted


@pytest.mark.codes("cuMemUnmap returned 1")  # nothing tells whether the interrupted call has mapped the memory
@pytest.mark.parametrize("call", ["cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_in_the_middle_leaves_nothing(device, grain, monkeypatch, call, after):
    calls = device._primary.calls
    made = getattr(calls, call)

    def interrupted(*arguments):
        if after:
            made(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setitem(calls.__dict__, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.virtual_memory(grain)
    monkeypatch.undo()
    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        if call != "cuMemAddressReserve":
            monkeypatch.setitem(calls.__dict__, call, interrupted)
            with pytest.raises(KeyboardInterrupt):
                memory.grow(2 * grain)
            monkeypatch.undo()
            assert memory.nbytes == grain and len(memory.mappings) == 1
        memory.grow(2 * grain).fill(1)


def test_a_refused_change_of_access_is_taken_back(device, other, grain, monkeypatch):
    with device.virtual_memory(grain, reserve=2 * grain) as memory:
        memory.grow(2 * grain)
        calls, asked = device._primary.calls, []
        made = calls.cuMemSetAccess

        def second_fails(*arguments):
            asked.append(arguments)
            if len(asked) == 2:
                raise errors.OutOfMemory("no")
            made(*arguments)

        monkeypatch.setitem(calls.__dict__, "cuMemSetAccess", second_fails)
        with pytest.raises(errors.OutOfMemory):
            memory.set_access(other, "readwrite")
        monkeypatch.undo()
        assert memory.access(other) == "none" and len(asked) == 4


def test_closed_by_many_threads_at_once(device, grain):
    for _ in range(5):
        memory = device.virtual_memory(grain, reserve=3 * grain).grow(2 * grain)
        barrier = threading.Barrier(4)

        def close(memory=memory, barrier=barrier):
            barrier.wait()
            memory.close()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_growing_over_many_gaps_is_done_or_undone(device, grain, monkeypatch):
    calls, sorts = device._primary.calls, []
    mapped = virtual.Reservation.mapped
    with device.virtual_memory(0, reserve=110 * grain) as memory:
        for at in range(1, 100, 2):
            memory.map(at * grain, grain)
        before, apply = memory.mappings, calls.cuMemSetAccess
        made = []

        def fail_later(*arguments):
            made.append(arguments)
            if len(made) == 30:
                raise errors.OutOfMemory("no")
            return apply(*arguments)

        monkeypatch.setattr(calls, "cuMemSetAccess", fail_later)
        with pytest.raises(errors.OutOfMemory):
            memory.grow(110 * grain)
        assert memory.mappings == before and memory.nbytes == 0
        monkeypatch.undo()
        monkeypatch.setattr(
            virtual.Reservation, "mapped", lambda reservation: [sorts.append(reservation), mapped(reservation)][1]
        )
        memory.grow(110 * grain)
        assert memory.nbytes == 110 * grain and len(sorts) < 10
        gaps = [(at * grain, grain, 0) for at in range(100)]
        assert list(memory.mappings) == [*gaps, (100 * grain, 10 * grain, 0)]


def test_grown_by_many_threads_at_once(device, grain):
    with device.virtual_memory(reserve=16 * grain) as memory:
        barrier, failed = threading.Barrier(4), []

        def grow(number):
            barrier.wait()
            try:
                for size in range(number, 17, 4):
                    memory.grow(size * grain)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=grow, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed and memory.nbytes == 16 * grain
        assert sum(size for _, size, _ in memory.mappings) == 16 * grain


def test_less_than_full_access_in_a_launch(device, grain):
    with device.virtual_memory(grain) as memory, device.load(kernels.ADD) as code, device.allocate(400) as there:
        memory.fill(0)
        memory.set_access(device, "read")
        with pytest.raises(ValueError, match="is read-only here: wrap it in In"):
            code["add"].launch(memory, memory, there, 100, grid=1, block=128)
        code["add"].launch(rawcuda.In(memory), rawcuda.In(memory), there, 100, grid=1, block=128)
        device.synchronize()
        assert there.view("float32").tolist() == [0.0] * 100
        memory.set_access(device, "none")
        with pytest.raises(ValueError, match="was not given access"):
            code["add"].launch(rawcuda.In(memory), rawcuda.In(memory), there, 100, grid=1, block=128)
        memory.set_access(0, "readwrite")
        memory.fill(1)


def test_during_a_capture(device, grain):
    """Neither making nor dropping it disturbs a capture; it stays mapped until the work that may use it is done."""
    calls = []
    with device.stream() as stream, device.allocate(8) as plain:
        memory = device.virtual_memory(grain)
        with stream.capture() as graph:
            plain.fill(3, stream=stream)
            for change in (
                lambda: memory.shrink(0),
                lambda: memory.unmap(0, grain),
                lambda: memory.set_access(device, "none"),
            ):
                with pytest.raises(errors.InvalidUse, match="is being captured"):
                    change()
            assert memory.nbytes == grain
            with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
                memory.close()
                owned.drain()
            assert memory.closed and "cuMemUnmap" not in calls
            device.virtual_memory(grain)  # dropped at once
            gc.collect()
            owned.drain()
        graph.launch(stream)
        stream.synchronize()
        assert plain.view().tolist() == [3] * 8
        graph.close()


def test_a_view_begins_with_the_stream_of_the_memory(device):
    with device.virtual_memory(16) as memory, device.stream() as stream:
        for value in (1, 2):
            memory.fill(value, stream=stream)
            view = memory.view()
            assert view.stream is stream and memory.__cuda_array_interface__["stream"] == stream.handle
            assert view[:4].tolist() == pickle.loads(pickle.dumps(memory)).view()[:4].tolist() == [value] * 4
