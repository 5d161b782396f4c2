"""Device.reset(): every object of the old context is closed and says so, and the next launch works."""

import array
import ctypes
import gc
import linecache
import sys
import weakref

import pytest

from tests.driver import kernels
from tests.subject import module, rawcuda

errors = module("errors")


@pytest.fixture
def own(library):
    """Return a Device on the last device, which is reset."""
    return rawcuda.devices()[-1]


pytestmark = pytest.mark.usefixtures("only_new_objects")


def test_objects_that_the_collector_has_set_aside_say_so_too(own, monkeypatch):
    monkeypatch.undo()
    stream, event = own.stream(), own.event()
    gc.freeze()
    try:
        own.reset(force=True)
    finally:
        gc.freeze()
    for use in (stream.query, event.query):
        with pytest.raises(errors.Closed, match="that reset\\(\\) ended"):
            use()
    assert works(own)


def works(device):
    with device.load(kernels.ADD) as loaded, device.stream() as stream:
        ones, out = device.upload(array.array("f", [1.0] * 4)), device.empty(4, "float32")
        device.synchronize()
        loaded["add"].launch(ones, ones, out, 4, grid=1, block=4, stream=stream)
        stream.synchronize()
        return out.tolist() == [2.0] * 4


def test_objects_say_so_after_a_reset_that_was_interrupted(own):
    """Whatever line an exception comes from, the next reset() works, and no object keeps an old handle."""
    resetting = module("gpu.devices.resetting")

    class Injected(BaseException):
        pass

    def trace(frame, event, _):
        if frame.f_code.co_filename != resetting.__file__:
            return trace if event == "call" else None
        if event == "line" and frame.f_lineno not in seen and linecache.getline(*place(frame)).strip() not in last:
            seen.add(frame.f_lineno)
            sys.settrace(None)
            raise Injected
        return trace

    def place(frame):
        return frame.f_code.co_filename, frame.f_lineno

    last = "try:", "finally:", "primary._open()"  # lines after which nothing would go on
    seen, complete, was = set(), False, sys.gettrace()
    while not complete:
        stream, event, memory = own.stream(), own.event(), own.allocate(16)
        sys.settrace(trace)
        try:
            own.reset(force=True)
            complete = True
        except Injected:
            pass
        finally:
            sys.settrace(was)
        own.reset(force=True)
        for use in (stream.query, event.query, memory.view):
            with pytest.raises(errors.Closed, match="that reset"):
                use()
    assert len(seen) > 60 and works(own)


def test_objects_of_the_old_context_say_so(own):
    assert works(own)
    stream, event, code = own.stream(), own.event(), own.load(kernels.ADD)
    launch = code["add"].configure(grid=1, block=4, stream=stream)
    memory = {kind: own.allocate(16, kind=kind) for kind in ("device", "pinned", "managed")}
    memory["ordered"] = own.allocate(16, stream=stream)
    view = own.upload(array.array("f", [1.0] * 4))
    launch(view, view, view, 4)
    with stream.capture() as graph:
        launch(view, view, view, 4)
    graph.launch(stream)
    stream.call(int)
    number = own.context
    own.reset(force=True)
    assert own.context and works(own) and number
    for use in (
        stream.synchronize,
        stream.query,
        stream.record,
        lambda: stream.call(int),
        lambda: own.stream().wait(stream),
        event.query,
        event.record,
        lambda: code["add"],
        lambda: launch(view, view, view, 4),
        lambda: graph.launch(None),
        lambda: view.tolist(),
        lambda: view.fill(1),
        lambda: launch(memory["device"], 1, 1, 4),
        *(lambda one=one: one.ptr for one in memory.values()),
        *(lambda one=one: one.fill(1) for one in memory.values()),
        *(lambda one=one: one.handle for one in (stream, event, code, graph, *memory.values())),
    ):
        with pytest.raises(errors.Closed, match=r"the context of device \d that reset\(\) ended|load it again"):
            use()
    for thing in (stream, event, code, graph, *memory.values()):
        assert thing.closed
        thing.close()
        with pytest.raises(errors.Closed):
            thing.detach()
    gc.collect()
    assert works(own)


def test_what_was_reset_is_still_a_key_of_a_dict(own):
    things = [own.stream(), own.stream(priority=-1), own.event(), own.graph()]
    table, numbers = dict.fromkeys(things, 1), [hash(thing) for thing in things]
    own.reset(force=True)
    assert [hash(thing) for thing in things] == numbers
    assert [table.pop(thing) for thing in things] == [1, 1, 1, 1] and not table


def test_other_devices_and_other_objects_of_the_device_are_not_touched(own):
    same, other = rawcuda.Device(own.ordinal), rawcuda.Device(0)
    assert works(same)
    if other.ordinal != own.ordinal:
        values = other.upload(array.array("f", [3.0]))
    own.reset(force=True)
    assert works(same) and works(own) and works(other)
    if other.ordinal != own.ordinal:
        assert values.tolist() == [3.0]


def test_twice_and_with_nothing(own):
    own.reset(force=True)
    own.reset(force=True)
    fresh = rawcuda.Device(own.ordinal)
    fresh.reset(force=True)
    fresh.close()
    with pytest.raises(errors.Closed):
        fresh.reset(force=True)
    assert works(own)


def test_while_the_context_is_current(own):
    with own.current():
        own.reset(force=True)
        assert works(own)
    assert works(own)


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_during_a_capture(own):
    with own.stream() as stream:
        with stream.capture() as graph:
            with pytest.raises(errors.InvalidUse, match="is being captured"):
                own.reset(force=True)
        graph.close()
    assert works(own)


def test_exports_of_old_memory_release_nothing_new(own):
    memory = own.allocate(64)
    export = rawcuda.view(memory.__dlpack__(max_version=(1, 0)), stream=-1)
    memory.close()
    own.reset(force=True)
    new = own.allocate(64)
    new.fill(5)
    del export
    gc.collect()
    own.stream().close()
    assert new.view().tolist() == [5] * 64


def test_all_kinds_of_memory(own):
    host = bytearray(4096)
    things = [
        own.virtual_memory(4096),
        own.register(host),
        own.empty_pitched((4, 5), "float32"),
        own.array((4, 5), "float32"),
        own.allocate(4096, kind="pinned"),
    ]
    own.reset(force=True)
    for thing in things:
        owner = getattr(thing, "owner", thing)
        assert owner.closed, owner
        with pytest.raises(errors.Closed, match="reset"):
            owner.handle
        owner.close()
    host.append(1)  # nobody holds its bytes any more
    assert works(own)


def test_what_exists_beside_the_context(own):
    pool = own.memory_pool()
    with pool:
        own.reset(force=True)
        assert pool.closed
    if rawcuda.cu.has("cuGreenCtxStreamCreate"):
        (part,) = own.split(1)
        stream = part.stream()
        own.reset(force=True)
        assert part.closed and stream.closed
        with pytest.raises(errors.Closed, match="reset"):
            stream.synchronize()
        with own.split(1) as (part,):
            part.stream().synchronize()
    if len(rawcuda.devices()) > 1 and own.can_reach(0):
        access = own.peer_access(0)
        own.enable_peer_access(0)
        own.reset(force=True)
        assert access.closed
        theirs = rawcuda.Device(0).upload(array.array("f", [1.0] * 4))
        with own.load(kernels.ADD) as loaded, pytest.raises(ValueError, match="enable_peer_access"):
            loaded["add"].launch(theirs, theirs, theirs, 4, grid=1, block=4)
        with own.peer_access(0):
            pass
    assert works(own)


def test_a_lost_context(python, library):
    result = python("""
        from tests.driver import kernels
        from tests.subject import rawcuda
        import array
        device = rawcuda.Device(0)
        stream, code = device.stream(), device.load(kernels.FAULT)
        try:
            code["fault"].launch(grid=1, block=1, stream=stream)
            stream.synchronize()
        except rawcuda.ContextLost as error:
            print("reset()" in str(error))
        try:
            device.allocate(4)
        except rawcuda.ContextLost:
            print("lost")
        device.reset(force=True)
        try:
            stream.synchronize()
        except rawcuda.Closed as error:
            print(error)
        values = device.upload(array.array("f", [1, 2]))
        print(values.tolist())
        with device.load(kernels.ADD) as loaded:
            loaded["add"].launch(values, values, values, 2, grid=1, block=2)
        print(values.tolist())
    """)
    assert result.returncode == 0, result.stderr
    first, *others = result.stdout.splitlines()
    assert others[0] == "lost" and "reset() ended" in others[1] and others[2:] == ["[1.0, 2.0]", "[2.0, 4.0]"]
    assert first == ("True" if library is not None else "False")


def test_every_call_after_a_lost_context_says_the_same(python):
    """The error, the remedy and the report of the first error, also in another thread."""
    result = python("""
        import re, threading
        from tests.driver import kernels
        from tests.subject import rawcuda
        device = rawcuda.Device(0)
        stream, event, code, memory = device.stream(), device.event(), device.load(kernels.FAULT), device.allocate(64)
        said = []
        def tell(use):
            try:
                use()
                said.append("no error")
            except rawcuda.ContextLost as error:
                said.append(re.search("CUDA_ERROR_.*", str(error), re.S)[0])
        def in_a_thread():
            thread = threading.Thread(target=tell, args=[stream.synchronize])
            thread.start()
            thread.join()
        def fail():
            code["fault"].launch(grid=1, block=1, stream=stream)
            stream.synchronize()
        tell(fail)
        for use in (
            stream.synchronize, device.synchronize, lambda: device.allocate(4), lambda: stream.record(event),
            stream.query, lambda: memory.fill(1), memory.view().download, lambda: device.load(kernels.ADD),
            device.stream, event.synchronize,
            lambda: code["fault"].launch(grid=1, block=1, stream=stream), lambda: stream.call(print),
        ):
            tell(use)
        in_a_thread()
        print(len(said), len(set(said)))
        print(said[0])
        if len(set(said)) > 1:
            print(said)
    """)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "14 1", result.stdout
    assert "(700): " in result.stdout and "estart this process" in result.stdout


def test_other_drivers_need_force(own, monkeypatch):
    """The context of a real driver belongs to other libraries as well."""
    loaded = own._primary.driver

    class Other:
        address = staticmethod(loaded.libcuda.address)

    monkeypatch.setattr(loaded, "libcuda", Other())
    stream = own.stream()
    with pytest.raises(errors.InvalidUse, match=r"PyTorch, CuPy .* device\.reset\(force=True\)"):
        own.reset()
    assert stream.query()
    stream.close()


HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
WRONG = {  # the code, and a kernel with one pointer
    "outside": (700, "ld.param.u64 %d1, [p]; st.global.u32 [%d1+4096], 1;"),
    "misaligned": (716, "ld.param.u64 %d1, [p]; st.global.u32 [%d1+2], 1;"),
    "trap": (719, "trap;"),
    "barrier": (719, "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; bar.sync 1; A: bar.sync 2, 64;"),
    "race": (719, ".shared .b32 s; mov.u32 %r1, %tid.x; st.shared.u32 [s], %r1;"),
    "no function": (718, ".reg .b64 %f; mov.u64 %f, 12; P: .callprototype _ (); call %f, P;"),
}


@pytest.mark.emulator_only("a GPU does not tell these errors apart, and need not find them all")
@pytest.mark.parametrize("name", WRONG)
def test_after_each_kind_of_error_the_next_launch_works(own, name):
    code, body = WRONG[name]
    text = f"{HEAD}.entry k(.param .u64 p){{ .reg .b64 %d<3>; .reg .b32 %r<3>; .reg .pred %p<2>;\n{body}\nret;\n}}\n"
    loaded, memory, view = own.load(text), own.allocate(64), own.empty(4, "float32")
    with pytest.raises(errors.ContextLost) as caught:
        loaded["k"].launch(memory, grid=1, block=64)
        own.synchronize()
    assert caught.value.code == code, caught.value
    said = str(caught.value)
    assert "Call reset() of the Device" in said and "compute-sanitizer" not in said and "at ptx line" in said
    with pytest.raises(errors.ContextLost):
        own.synchronize()
    own.reset()
    assert works(own)
    for use in (lambda: memory.ptr, lambda: view.tolist(), lambda: loaded["k"]):
        with pytest.raises(errors.Closed, match="reset"):
            use()
    for thing in (loaded, memory):
        thing.close()


EXPORTS = {
    "a memoryview": lambda memory: memory.view().memoryview(),
    "DLPack": lambda memory: memory.__dlpack__(max_version=(1, 0)),
    "a lease": lambda memory: memory.lease(),
    "the interface of a view": lambda memory: [view := memory.view(), view.__array_interface__],
    "the interface of the memory": lambda memory: [memory, memory.__array_interface__],
}


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("kind", ["pinned", "managed"])
@pytest.mark.parametrize("export", EXPORTS)
def test_host_memory_that_arrays_use(own, export, kind, is_closed):
    """Nothing can keep its bytes, so reset() ends nothing, also after an error of a kernel."""
    memory, stream = own.allocate(64, kind=kind).fill(5), own.stream()
    own.synchronize()
    used, address = EXPORTS[export](memory), memory.ptr
    if is_closed:
        memory.close()
    del memory
    wanted = rf"frees the {kind} memory of 64 bytes at {address:#x}, which arrays still use: drop them, or copy"
    with pytest.raises(errors.InvalidUse, match=wanted):
        own.reset(force=True)
    assert stream.query() and bytes((ctypes.c_char * 64).from_address(address)) == bytes([5]) * 64
    del used
    own.reset(force=True)
    assert works(own) and stream.closed


def test_garbage_that_uses_host_memory(own):
    cycle = [own.allocate(64, kind="pinned").view().memoryview()]
    cycle.append(cycle)
    del cycle
    own.reset(force=True)
    assert works(own)


def test_host_memory_that_only_ended_work_uses(own):
    """Graphs, and work on streams of other software, keep memory, but end with the context."""
    memory, there = own.allocate(64, kind="pinned"), own.empty(64, "uint8")
    graph = own.graph()
    graph.copy(there, memory)
    borrowed = own.stream()
    rawcuda.copy(there, memory, stream=borrowed.handle)
    own.reset(force=True)
    assert memory.closed and works(own)
    graph.close()


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("export", [name for name in EXPORTS if name != "a lease"])
def test_registered_memory_outlives_the_reset(own, export, is_closed):
    class Bytes(bytearray):  # with weak references
        pass

    host = Bytes([7] * 4096)
    gone = weakref.ref(host)
    memory = own.register(host)
    used, address = EXPORTS[export](memory), memory.ptr
    if is_closed:
        memory.close()
    own.reset(force=True)
    del memory, host
    gc.collect()
    assert gone() is not None and ctypes.string_at(address, 4096) == bytes([7]) * 4096
    del used
    gc.collect()
    own.stream().close()  # drains
    assert gone() is None and works(own)


PENDING = """
import mmap
from tests.subject import rawcuda
device = rawcuda.Device(0)
source, stream = device.full(1 << 20, 9, "uint8"), device.stream()
registered = device.register(mmap.mmap(-1, 1 << 20))
registered.view("uint8").copy_from(source, stream=stream)
device.reset()
print("done")
"""


def test_work_ends_before_what_it_uses_is_let_go_of(python):
    """Otherwise the pending copy would write where nothing is mapped any more."""
    result = python(PENDING, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy"})
    assert result.stdout == "done\n", result.stdout + result.stderr


LOCK_NEEDED = """
import faulthandler, queue, sys, threading, time
from tests.subject import module, rawcuda
faulthandler.dump_traceback_later(20, exit=True)
where, is_inside = int(sys.argv[1]), sys.argv[2] == "inside"
device, working = rawcuda.Device(0), rawcuda.Device(where)
memory, stream, items = device.zeros(4, "uint8"), working.stream(), queue.Queue()
other, fresh = working.zeros(4, "uint8"), rawcuda.Device(0)
device.synchronize(), working.synchronize()

def use():
    time.sleep(0.3)
    try:
        fresh.empty(3, "uint8")
    except module("errors").InvalidUse:
        print("refused", end=" ")
    items.put(1)

stream.call(use if is_inside else items.get)
memory.copy_from(other, stream=stream)
if not is_inside:
    threading.Thread(target=use, daemon=True).start()
device.reset()
if where:
    stream.synchronize()  # raises ContextLost if the memory was freed before the copy
print("done")
"""


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("user", ["inside", "thread"])
def test_no_lock_is_held_while_the_reset_waits_for_work(python, where, user):
    """A host function, or a thread for which it waits, uses a new Device meanwhile."""
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,devices=2"}
    result = python(LOCK_NEEDED, str(where), user, env=env)
    assert result.stdout == "refused " * (user == "inside") + "done\n", result.stdout + result.stderr


IN_A_WAIT = """
import threading
from tests.subject import module, rawcuda

device = rawcuda.Device(0)
device.context
calls, todo = device._primary.calls, [1]
wait = calls.cuStreamWaitEvent

def interrupted(*arguments):
    if todo:
        todo.pop()
        thread = threading.Thread(target=lambda: device.reset(force=True))
        thread.start()
        thread.join()
    return wait(*arguments)

vars(calls)["cuStreamWaitEvent"] = interrupted
try:
    device.stream().wait(device.stream())
except rawcuda.CudaError:
    print("refused")
for _ in range(3):
    device.stream().wait(device.stream())
print("done")
"""


def test_a_reset_in_another_thread_during_a_wait_leaves_no_event_behind(python):
    assert python(IN_A_WAIT, check=True).stdout == "refused\ndone\n"


NEVER_CALLED = """
import gc, sys, weakref
from tests.driver import kernels
from tests.subject import rawcuda

class Job:
    def done(self):
        print("called")

device, job = rawcuda.Device(0), Job()
alive, stream, code = weakref.ref(job), device.stream(nonblocking=False), device.load(kernels.FAULT)
code["fault"].launch(grid=1, block=1, stream=stream)
with device.current():
    (stream if sys.argv[1] == "ours" else rawcuda.Stream.from_handle(stream.handle)).call(job.done)
del job
try:
    stream.synchronize()
except rawcuda.ContextLost:
    print("lost", alive() is not None)
device.reset(force=True)
gc.collect()
print(alive())
device.stream().call(print, "called after the reset")
device.synchronize()
"""


@pytest.mark.parametrize("whose", ["ours", "borrowed"])
def test_functions_that_will_not_be_called_are_kept_until_the_reset(python, whose):
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,devices=2"}
    result = python(NEVER_CALLED, whose, env=env, check=True)
    assert result.stdout == "lost True\nNone\ncalled after the reset\n"


IN_A_GRAPH = """
import sys
from tests.subject import module, rawcuda
here, there = rawcuda.devices()
stream, far = here.stream(), there.stream()
HEAD = ".version 7.0 .target sm_70 .address_size 64 .visible .entry k(.param .u64 a) "
k = here.load(HEAD + "{ .reg .u64 %a; ld.param.u64 %a, [a]; st.global.u32 [%a], 7; ret; }")["k"]
near = here.zeros(4, "uint32")

def copy():
    graph = here.graph()
    graph.copy(near, memory)
    return graph

def kernel():
    graph = here.graph()
    graph.kernel(k, memory, grid=1, block=1)
    return graph

def child():
    graph = here.graph()
    graph.embed(kernel())
    return graph.clone()

def allocation():
    other, graph = there.graph(), here.graph()
    graph.copy(near, other.allocate(16).memory.view("uint32"))
    return graph

def captured():
    with stream.capture() as graph:
        k.launch(memory, grid=1, block=1, stream=stream)
    return graph

def closed():
    graph = copy()
    memory.owner.close()
    return graph

def joined():
    with stream.capture() as graph:
        far.wait(stream)
        memory.fill(3, stream=far)
        stream.wait(far)
    return graph

def again():
    inner = joined()
    with stream.capture() as graph:
        inner.launch(stream)
    return graph

for kind in "device", "pinned", "managed":
    for times in 0, 2:
        here.enable_peer_access(there)
        memory = there.allocate(16, kind=kind).fill(1).view("uint32")
        there.synchronize()
        graph = WAY
        for _ in range(times * ("allocation" not in "WAY")):
            graph.launch(stream)
        there.reset()
        far = there.stream()
        new = [there.allocate(16, kind=kind).fill(9) for _ in range(3)]
        for use in graph.launch, graph.upload:
            try:
                use(stream)
                print("launched", kind, times)
            except module("errors").Closed as error:
                assert "a node of this graph uses" in str(error) and "device 1" in str(error), error
        stream.synchronize()  # raises ContextLost after an access to freed memory
        near.tolist()
        if "WAY" == "copy()":
            graph.nodes[0].update(near, new[0].view("uint32"))
            graph.launch(stream)
            stream.synchronize()
            assert near.tolist() == [0x09090909] * 4
        del graph, new
print("right")
"""


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    "way",
    [
        *("copy()", "kernel()", "child()", "kernel().instantiate()", "allocation()", "captured()", "closed()"),
        *("joined()", "joined().instantiate()", "again()"),
    ],
)
def test_a_graph_of_another_device_does_not_use_what_a_reset_has_ended(python, way, mode):
    """It would read and write what has the same addresses now, or make the context of its own device unusable."""
    env = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": f"{mode},devices=2"}
    result = python(IN_A_GRAPH.replace("WAY", way), env=env)
    assert result.stdout == "right\n", result.stdout + result.stderr
