"""Several devices: access to each other's memory, and nothing that assumes device 0."""

import array
import contextlib
import copy
import ctypes
import gc
import pickle
import threading

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")
ONES = array.array("f", [1.0] * 4)


@pytest.fixture
def pair(device):
    """Return two devices that can reach each other, with no access enabled."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    one, two = rawcuda.Device(0), rawcuda.Device(1)
    if not (one.can_reach(two) and two.can_reach(one)):
        pytest.skip("these devices cannot reach each other")
    return one, two


def add(loaded, a, b, out, **options):
    loaded["add"].launch(a, b, out, 4, grid=1, block=4, **options)


def test_can_reach(pair):
    one, two = pair
    assert one.can_reach(1) is one.can_reach(two) is True
    assert one.can_reach(one) is True and one.can_reach(0) is True
    for wrong in (None, "1", 1.0, True, b"", [two]):
        with pytest.raises(TypeError, match="must be a Device or its ordinal"):
            one.can_reach(wrong)
    with pytest.raises(ValueError, match="this driver sees"):
        one.can_reach(99)
    closed = rawcuda.Device(1)
    closed.close()
    for use in (one.can_reach, one.enable_peer_access, one.disable_peer_access, one.peer_access, one.peer_attributes):
        with pytest.raises((errors.Closed, ValueError)):
            use(closed)


def test_attributes_of_the_connection(pair):
    one, two = pair
    found = one.peer_attributes(two)
    assert found.access_supported is True and found.performance_rank >= 0
    assert found == one.peer_attributes(1) and found.native_atomics_supported in (True, False)
    with pytest.raises(ValueError, match="not connected to itself"):
        one.peer_attributes(one)


def test_a_kernel_with_another_devices_memory(pair):
    one, two = pair
    theirs, out = two.upload(ONES), one.empty(4, "float32")
    with one.load(kernels.ADD) as loaded:
        with pytest.raises(ValueError, match="enable_peer_access"):
            add(loaded, theirs, theirs, out)
        with one.peer_access(two):
            add(loaded, theirs, theirs, out)
            assert out.tolist() == [2.0] * 4
        with pytest.raises(ValueError, match="enable_peer_access"):
            add(loaded, theirs, theirs, out)
        one.enable_peer_access(two)
        one.enable_peer_access(1)
        add(loaded, out, theirs, out)
        assert out.tolist() == [3.0] * 4
        one.disable_peer_access(two)
        with pytest.raises(ValueError, match="enable_peer_access"):
            add(loaded, theirs, theirs, out)
        launch = loaded["add"].configure(grid=1, block=4)
        with one.peer_access(two):
            launch(theirs, theirs, out, 4)
        with pytest.raises(ValueError, match="enable_peer_access"):
            launch(theirs, theirs, out, 4)


@pytest.mark.parametrize("as_view", [True, False])
def test_another_devices_memory_is_kept_until_the_kernel_has_used_it(pair, as_view):
    """close() waits for the work of the memory's own device, and the kernel runs on the other one."""
    one, two = pair
    out = one.empty(4, "float32")
    with one.load(kernels.ADD) as loaded, one.peer_access(two), one.stream() as stream:
        for _ in range(4):
            memory = two.allocate(16)
            memory.copy_from(ONES)
            two.synchronize()
            theirs = memory.view("float32") if as_view else memory
            add(loaded, theirs, theirs, out, stream=stream)
            memory.close()
            two.allocate(16).fill(7).close()  # which may get the same bytes
            stream.synchronize()
            assert out.tolist() == [2.0] * 4


def test_access_has_a_direction(pair):
    one, two = pair
    mine, theirs = one.upload(ONES), two.upload(ONES)
    with one.load(kernels.ADD) as here, two.load(kernels.ADD) as there, one.peer_access(two):
        add(here, theirs, theirs, mine)
        with pytest.raises(ValueError, match=r"Device\(1\).enable_peer_access\(Device\(0\)\)"):
            add(there, mine, mine, theirs)
        assert mine.tolist() == [2.0] * 4


def enabled(one, two):
    with one.load(kernels.ADD) as loaded:
        theirs, out = two.upload(ONES), one.empty(4, "float32")
        try:
            add(loaded, theirs, theirs, out)
        except ValueError:
            return False
        return out.tolist() == [2.0] * 4


def test_uses_are_counted(pair):
    one, two = pair
    first, second = one.peer_access(two), one.peer_access(two)
    first.close()
    first.close()
    assert enabled(one, two)
    second.close()
    assert not enabled(one, two)
    with one.peer_access(two):
        one.enable_peer_access(two)
    assert enabled(one, two)
    with one.peer_access(two):
        one.disable_peer_access(two)
        assert enabled(one, two)
        with pytest.raises(ValueError, match="a PeerAccess is open"):
            one.disable_peer_access(two)
    assert not enabled(one, two)
    with pytest.raises(ValueError, match="was not enabled"):
        one.disable_peer_access(two)


def test_access_does_not_end_during_a_capture(pair):
    """Kernels may be using the memory, and a wait would break the capture."""
    one, two = pair
    calls = []
    access = one.peer_access(two)
    one.enable_peer_access(two)
    with one.stream() as stream, one.allocate(4) as memory:
        with stream.capture() as graph, rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            memory.fill(1, stream=stream)
            with pytest.raises(errors.InvalidUse, match="disable_peer_access.*is being captured"):
                one.disable_peer_access(two)
            access.close()
            assert "cuCtxDisablePeerAccess" not in calls
        one.disable_peer_access(two)
        graph.close()
        access = one.peer_access(two)
        with stream.capture() as graph, rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            memory.fill(1, stream=stream)
            calls.clear()
            access.close()
            assert "cuCtxDisablePeerAccess" not in calls
        graph.close()
    assert not enabled(one, two)


@pytest.mark.parametrize("where, how", [(0, "close"), (0, "collect"), (1, "close"), (1, "collect"), (1, "disable")])
def test_access_that_is_given_up_during_a_capture_ends_after_it(pair, where, how):
    one, two = pair
    access = [one.peer_access(two)]
    with pair[where].stream() as stream, pair[where].allocate(4) as memory:
        with stream.capture() as graph:
            memory.fill(1, stream=stream)
            if how == "disable":
                one.enable_peer_access(two)
            if how == "collect":
                access.clear(), gc.collect()
            else:
                access[0].close()
            if how == "disable":
                one.disable_peer_access(two)
        graph.close()
    assert not enabled(one, two)
    with pytest.raises(ValueError, match="was not enabled"):
        one.disable_peer_access(two)


@pytest.mark.codes("cuCtxSynchronize returned 900")
def test_access_that_is_given_up_while_other_software_captures_ends_after_it(pair):
    """The driver refuses to wait then."""
    one, two = pair
    cuda_h, access, calls = module("headers.cuda_h"), one.peer_access(two), []
    with one.stream() as stream, one.current():
        queue, graph = cuda_h.CUstream(stream.handle), cuda_h.CUgraph()
        rawcuda.cu.cuStreamBeginCapture_v2(queue, 0)
        with rawcuda.trace(lambda event: calls.append(getattr(event, "name", ""))):
            access.close()
        assert "cuCtxSynchronize" in calls and "cuCtxDisablePeerAccess" not in calls
        with contextlib.suppress(errors.CudaError):
            rawcuda.cu.cuStreamEndCapture(queue, ctypes.byref(graph))
            rawcuda.cu.cuGraphDestroy(graph)
    assert not enabled(one, two)
    there = cuda_h.CUcontext(two.context)
    with one.current(), pytest.raises(errors.InvalidUse):
        rawcuda.cu.cuCtxDisablePeerAccess(there)


def test_what_other_software_enabled_stays(pair):
    one, two = pair
    there = module("headers.cuda_h").CUcontext(two.context)
    with one.current():
        rawcuda.cu.cuCtxEnablePeerAccess(there, 0)
    with one.peer_access(two):
        assert enabled(one, two)
    one.enable_peer_access(two)
    one.disable_peer_access(two)
    with one.current():
        rawcuda.cu.cuCtxDisablePeerAccess(there)  # it was still enabled
        with pytest.raises(errors.InvalidUse):
            rawcuda.cu.cuCtxDisablePeerAccess(there)


def test_what_other_software_disabled_is_no_error(pair):
    one, two = pair
    access = one.peer_access(two)
    with one.current():
        rawcuda.cu.cuCtxDisablePeerAccess(module("headers.cuda_h").CUcontext(two.context))
    access.close()
    assert not enabled(one, two)


def test_life_of_an_access(pair):
    one, two = pair
    access = one.peer_access(two)
    assert access.device == one and access.other == two and "device 0 to device 1" in repr(access)
    for refused in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="PeerAccess"):
            refused(access)
    del access
    gc.collect()
    one.stream().close()  # what was collected is released by the next call that may
    assert not enabled(one, two)
    access = one.peer_access(two)
    access.detach()
    assert access.closed and enabled(one, two)
    with pytest.raises(errors.Closed):
        access.handle
    one.disable_peer_access(two)
    assert not enabled(one, two)
    with one.peer_access(one) as own:
        assert own.device is own.other
    one.enable_peer_access(one)


@pytest.mark.parametrize("devices_first", [True, False])
def test_closing_in_both_orders(pair, devices_first):
    one, two = pair
    access = one.peer_access(two)
    for thing in (one, two, access) if devices_first else (access, two, one):
        thing.close()
    assert not enabled(rawcuda.Device(0), rawcuda.Device(1))


def test_threads_share_the_access(pair):
    one, two = pair
    failed = []

    def work():
        try:
            for _ in range(20):
                with one.peer_access(two):
                    pass
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and not enabled(one, two)


LOCK_NEEDED = """
import faulthandler, queue, sys, threading, time
from tests.subject import module, rawcuda
faulthandler.dump_traceback_later(20, exit=True)
how, user = sys.argv[1:]
one, two = rawcuda.Device(0), rawcuda.Device(1)
stream, items = one.stream(), queue.Queue()
one.enable_peer_access(two) if how == "disable" else None
access = one.peer_access(two) if how == "close" else None
two.context, one.synchronize()

def use():
    time.sleep(0.3)
    try:
        two.peer_access(one).close()
    except module("errors").InvalidUse:
        print("refused", end=" ")
    items.put(1)

stream.call(use if user == "inside" else items.get)
if user == "thread":
    threading.Thread(target=use, daemon=True).start()
one.disable_peer_access(two) if how == "disable" else access.close()
print("done")
"""


@pytest.mark.parametrize("how", ["disable", "close"])
@pytest.mark.parametrize("user", ["inside", "thread"])
def test_no_lock_is_held_while_the_end_of_the_access_waits_for_work(pair, python, how, user):
    """A host function, or a thread for which it waits, asks for the access of another pair of devices."""
    result = python(LOCK_NEEDED, how, user)
    assert result.stdout == "refused " * (user == "inside") + "done\n", result.stdout + result.stderr


def test_a_last_user_does_not_end_the_access_of_one_that_came_during_its_wait(pair):
    one, two = pair
    begun, end, theirs, out = threading.Event(), threading.Event(), two.upload(ONES), one.empty(4, "float32")
    one.synchronize(), two.synchronize()
    with one.load(kernels.ADD) as loaded, one.stream() as later, one.stream() as stream:
        stream.call(begun.wait, 30)
        earlier = threading.Thread(target=one.peer_access(two).close)
        earlier.start()
        earlier.join(0.2)
        with one.peer_access(two):
            later.call(end.wait, 30)
            add(loaded, theirs, theirs, out, stream=later)
            threading.Timer(0.2, begun.set).start()  # the earlier user ends its wait in the end of this one
            threading.Timer(0.7, end.set).start()
        earlier.join(30)
        later.synchronize()
        assert out.tolist() == [2.0] * 4
    assert not enabled(one, two)


# -- nothing assumes device 0


def test_everything_on_the_second_device(pair):
    _, two = pair
    with two.load(kernels.ADD) as loaded, two.stream() as stream:
        a, out = two.upload(ONES), two.empty(4, "float32")
        add(loaded, a, a, out, stream=stream)
        stream.synchronize()
        add(loaded, out, a, out)
        assert out.tolist() == [3.0] * 4 and out.device == ("cuda", 1)
        for kind in ("device", "pinned", "managed"):
            with two.allocate(16, kind=kind) as memory:
                memory.copy_from(out, stream=stream)
                stream.synchronize()
                assert memory.device == two and memory.view("float32").tolist() == [3.0] * 4
        with two.allocate(16, stream=stream) as memory:
            memory.copy_from(out, stream=stream)
            stream.synchronize()
        with stream.capture() as graph:
            add(loaded, out, a, out, stream=stream)
        graph.launch(stream)
        stream.synchronize()
        assert out.tolist() == [4.0] * 4
        start, end = two.event(timing=True), two.event(timing=True, blocking=True)
        stream.record(start), end.record(stream)
        end.synchronize()
        assert end.elapsed_ms(start) >= 0
        assert rawcuda.view(out).device == ("cuda", 1)
        rawcuda.copy(out, a)
        assert out[1:3].tolist() == [1.0] * 2 and out[::2].tolist() == [1.0] * 2
        graph.close()


@pytest.mark.parametrize("current", [0, 1, None])
@pytest.mark.parametrize("streams", ["own", "legacy", "per_thread", "none"])
def test_whichever_context_is_current(pair, current, streams):
    def work(device):
        with device.load(kernels.ADD) as loaded, device.stream() as own:
            stream = {
                "own": own,
                "legacy": rawcuda.Stream.legacy,
                "per_thread": rawcuda.Stream.per_thread,
                "none": None,
            }[streams]
            a, out = device.upload(ONES, stream=stream), device.empty(4, "float32")
            add(loaded, a, a, out, stream=stream)
            out.fill(0.5, stream=stream) if streams == "own" else None
            out.copy_from(a, stream=stream)
            device.synchronize()
            assert out.tolist() == [1.0] * 4

    for device in pair:
        if current is None:
            work(device)
        else:
            with pair[current].current():
                work(device)


def test_copies_between_devices(pair):
    one, two = pair
    values = array.array("f", range(24))
    with one.stream() as stream, two.stream() as other:
        here = one.upload(values).reshape(4, 6)
        there = two.empty((4, 6), "float32")
        rawcuda.synchronize()
        there.copy_from(here, stream=stream)
        stream.synchronize()
        assert there.tolist() == here.tolist()
        there.fill(0)
        rawcuda.synchronize()
        there.copy_from(here, stream=other)
        other.synchronize()
        assert there.tolist() == here.tolist()
        there.T.copy_from(here.T)
        rawcuda.synchronize()
        assert there.tolist() == here.tolist()


def test_streams_of_two_devices_wait_for_each_other(pair):
    one, two = pair
    seen = []
    gate = threading.Event()
    with one.stream() as here, two.stream() as there:
        here.call(gate.wait, 60)
        here.call(seen.append, "first")
        there.wait(here)
        there.call(seen.append, "second")
        here.wait(there)
        here.wait(there.handle)  # a foreign handle, whose device is not known
        here.call(seen.append, "third")
        assert not here.query() and not there.query()
        gate.set()
        here.synchronize()
        there.synchronize()
        assert seen == ["first", "second", "third"]
        with two.event() as event:
            event.record(there)
            here.wait(event)
            for refused in (lambda: here.record(event), lambda: event.record(here)):
                with pytest.raises(ValueError, match="recorded only on its own device"):
                    refused()
        here.synchronize()


def test_a_view_in_the_order_of_the_other_devices_stream(pair):
    """A stream of one device works on the memory of the other one; what comes afterwards waits for it."""
    one, two = pair
    seen, gate = [], threading.Event()
    with one.stream() as here, two.stream() as there, one.peer_access(two):
        memory = two.upload(ONES)
        rawcuda.synchronize()
        here.call(gate.wait, 60)
        here.call(seen.append, "written")
        view = rawcuda.view(memory, stream=here)
        out = two.empty(4, "float32")
        threading.Timer(0.05, gate.set).start()
        out.copy_from(view, stream=there)
        there.synchronize()
        assert seen == ["written"] and out.tolist() == [1.0] * 4


def test_wrong_combinations_are_refused(pair):
    one, two = pair
    mine = one.upload(ONES)
    with one.load(kernels.ADD) as here, two.stream() as there, two.event(timing=True) as theirs:
        with pytest.raises(ValueError, match="on device 1, the kernel on device 0"):
            add(here, mine, mine, mine, stream=there)
        with pytest.raises(ValueError, match="on device 1, the kernel on device 0"):
            here["add"].configure(grid=1, block=1, stream=there)
        with one.stream() as stream, one.event(timing=True) as ours:
            stream.record(ours), there.record(theirs)
            ours.synchronize(), theirs.synchronize()
            with pytest.raises((ValueError, errors.InvalidUse)):
                ours.elapsed_ms(theirs)
    assert mine.tolist() == [1.0] * 4


def test_nothing_is_made_on_device_0_for_the_second_device(python):
    """No context of device 0 is created while only device 1 is used, also for addresses and streams from outside."""
    result = python(
        """
        import ctypes
        from tests.subject import module, rawcuda
        cuda_h = module("headers.cuda_h")
        context, stream = cuda_h.CUcontext(), cuda_h.CUstream()
        rawcuda.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)     # other software
        rawcuda.cu.cuCtxPushCurrent_v2(context)
        rawcuda.cu.cuStreamCreate(ctypes.byref(stream), 1)
        rawcuda.cu.cuCtxPopCurrent_v2(ctypes.byref(context))
        borrowed = rawcuda.Stream.from_handle(stream.value)
        assert borrowed.query() and borrowed.priority == 0 and borrowed.id
        borrowed.synchronize()
        device = rawcuda.Device(1)
        device.allocate(64).fill(1)
        device.synchronize()
        rawcuda.synchronize()
        flags, active = ctypes.c_uint(), ctypes.c_int()
        rawcuda.cu.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active))
        assert not active.value, "device 0 has a context"
    """,
    )
    if "there is no device 1" in result.stderr or "INVALID_DEVICE" in result.stderr:
        pytest.skip("one device only")
    assert result.returncode == 0, result.stderr


def test_devices_that_cannot_reach_each_other(python, pytestconfig):
    if pytestconfig.getoption("driver") != "emulator":
        pytest.skip("the emulator can be told so")
    result = python(
        """
        import array
        from tests.subject import rawcuda
        one, two, three = rawcuda.devices()[:3]
        assert one.can_reach(two) and not one.can_reach(three) and not one.peer_attributes(three).access_supported
        for refused in (one.enable_peer_access, one.peer_access):
            try:
                refused(three)
            except rawcuda.Unsupported as error:
                assert "217" in str(error) and "copy through the host" in str(error), error
            else:
                raise AssertionError(refused)
        try:
            one.disable_peer_access(three)
        except ValueError:
            pass
        here, there = one.upload(array.array("f", [1, 2])), three.empty(2, "float32")
        rawcuda.synchronize()
        there.copy_from(here)      # the driver copies through the host
        assert there.tolist() == [1, 2]
    """,
        env={"RAWCUDA_EMULATOR": "devices=4,peers=pairs"},
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("what", ["ours", "borrowed", "of a graph", "of other software", "a view of that"])
def test_the_pool_of_memory_decides_on_its_access(pair, what):
    """Whoever has allocated it: enable_peer_access() has no effect on memory of pools."""
    one, two = pair
    if one.attributes.memory_pools_supported == 0:
        pytest.skip("no pools")
    pool, stream = one.memory_pool(), two.stream()
    ours = pool.allocate(16, stream=rawcuda.Stream.legacy)
    ours.fill(0)
    one.synchronize()

    class Theirs:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (ours.ptr, False), "version": 3}

    graph = one.graph()
    node = graph.allocate(16)
    graph.launch()
    one.synchronize()
    given = {
        "ours": lambda: ours,
        "borrowed": lambda: rawcuda.Memory.borrow(one, ours.ptr, 16, owner=ours),
        "of a graph": lambda: node.memory,
        "of other software": Theirs,
        "a view of that": lambda: rawcuda.view(Theirs()),
    }[what]()
    kernel = two.load(kernels.ADD)["add"].configure(grid=1, block=4, stream=stream)
    values, out = two.upload(ONES), two.zeros(4, "float32")
    two.synchronize()
    word = (given.view("float32") if isinstance(given, rawcuda.Memory) else rawcuda.view(given))[:1]
    uses = [
        lambda: kernel(values, given, out, 4),
        lambda: two.graph().kernel(kernel, values, given, out, 4),
        lambda: stream.write_value(word.reinterpret("uint32"), 1),
        lambda: word.fill(1, stream=stream),
    ]
    with two.peer_access(one):
        for use in uses:
            with pytest.raises(ValueError, match=r'its pool.set_access\(Device\(1\), "readwrite"\)'):
                use()
    if what != "of a graph":  # nobody can give that
        pool.set_access(two, "read")
        for use in uses:
            with pytest.raises(ValueError, match=r"read-only|readwrite"):
                use()
        kernel(values, rawcuda.In(given), out, 4)
        stream.wait_value(word.reinterpret("uint32"), 0)
        stream.synchronize()
        pool.set_access(two, "readwrite")
        for use in uses:
            use()
        stream.synchronize()
        assert rawcuda.view(word).tolist() == [1.0]
        two.synchronize()
    node.release()
    one.synchronize()
    ours.close()


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_copies_of_memory_of_a_pool_that_gives_the_device_no_access(pair, kind):
    """No kernel can copy it: the CPU gathers and scatters it."""
    one, two = pair
    try:
        pool = one.memory_pool(kind=kind)
    except (errors.Unsupported, errors.SymbolNotFound) as error:
        pytest.skip(str(error))
    words = pool.allocate(256).view("uint32")
    words.copy_from(array.array("I", range(64)))
    rows = words.reshape(16, 4)
    there, stream = two.zeros((4, 16), "uint32"), two.stream()
    one.synchronize(), two.synchronize()
    there.T.copy_from(rows, stream=stream)
    stream.synchronize()
    assert there.T.tolist() == rows.tolist()
    there.fill(7, stream=stream)
    rows.copy_from(there.T, stream=stream)
    stream.synchronize()
    assert set(sum(rows.tolist(), [])) == {7}
    if kind == "pinned":  # which can be given for reading only
        pool.set_access(two, "read")
        there.fill(8, stream=stream)
        rows.copy_from(there.T, stream=stream)
        there.T.copy_from(rows, stream=stream)
        stream.synchronize()
        assert set(sum(rows.tolist(), [])) == set(sum(there.tolist(), [])) == {8}
        pool.set_access(two, "none")
    if pool.access(two) == "none":
        with pytest.raises(ValueError, match=r'its pool.set_access\(Device\(1\), "readwrite"\)'):
            two.graph().copy(there.T, rows)
        with pytest.raises(errors.InvalidUse, match="whose pool gives the device no access"), stream.capture():
            there.T.copy_from(rows, stream=stream)


ALONE = """
import sys
from tests.subject import rawcuda
device, = rawcuda.devices()
try:
    pool = device.memory_pool(kind="pinned")
except (rawcuda.Unsupported, rawcuda.SymbolNotFound) as error:
    print("right")
    sys.exit()
rows = pool.allocate(4096).fill(3).view("uint32").reshape(32, 32)
target = device.zeros((32, 32), "uint32")
device.synchronize()
pool.set_access(device, "none")
rawcuda.copy(target.T, rows)
assert target.tolist() == [[0x03030303] * 32] * 32
rawcuda.copy(rows, target.fill(7).T)
device.synchronize()
assert rows.tolist() == [[7] * 32] * 32
print("right")
"""


def test_copies_of_memory_of_a_pool_that_gives_the_only_device_no_access(python):
    """The kernel that copied it ended the context."""
    result = python(ALONE, env={"CUDA_VISIBLE_DEVICES": "0"})
    assert result.stdout == "right\n", result.stderr


REFUSED = """
from tests.subject import rawcuda

first, second, third = rawcuda.devices()
for memory in (first.memory_pool(), first.virtual_memory(1)):
    memory.peer_accessible_by = [second]
    try:
        memory.peer_accessible_by = [third]
    except rawcuda.Unsupported:
        print(*memory.peer_accessible_by)
    memory.peer_accessible_by = []
    print(*memory.peer_accessible_by)
"""


def test_an_assignment_that_is_refused_takes_no_access_away(python):
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=3,peers=pairs"}
    assert python(REFUSED, env=env, check=True).stdout == "<Device 1>\n\n" * 2
