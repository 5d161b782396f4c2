"""Our context is pushed where it is needed, whichever context is current, and an error leaves no context pushed."""

import array
import contextlib
import ctypes
import threading

import pytest

from tests.driver import kernels
from tests.shared import each_opcode
from tests.subject import module, rawcuda

cuda_h, errors = module("headers.cuda_h"), module("errors")


def current():
    context = cuda_h.CUcontext()
    rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
    return context.value


def every_call(device):
    """Use every public call that needs a context, and check after each that the current context is unchanged."""
    before, stages = current(), []

    def same(stage, *results):
        stages.append(stage)
        assert current() == before, f"another context is current after {stage}"

    stream, event, end = device.stream(), device.event(timing=True), device.event(timing=True)
    same("streams and events")
    plain, ordered = device.allocate(400), device.allocate(400, stream=stream)
    pinned, managed = device.allocate(400, kind="pinned"), device.allocate(400, kind="managed")
    same("memory")
    code, more = device.load(kernels.ADD), device.load(kernels.GLOBALS)
    same("load")
    for queue in (None, stream, 1, 2, rawcuda.Stream.legacy, rawcuda.Stream.per_thread):
        code["add"].launch(plain, pinned, managed, 4, grid=1, block=4, stream=queue)
        same(
            "launch",
            plain.copy_from(pinned, stream=queue),
            pinned.copy_to(plain, stream=queue),
            plain.fill(3, stream=queue),
        )
        same("copies", plain.copy_from(bytes(400), stream=queue), event.record(queue))
    same("waits", event.record(stream), stream.record(end), stream.wait(event), rawcuda.Stream.legacy.wait(event))
    same(
        "waits",
        stream.wait(None),
        rawcuda.Stream.per_thread.wait(stream),
        stream.priority,
        rawcuda.Stream.from_handle(stream.handle).synchronize(),
    )
    same(
        "done",
        device.synchronize(),
        event.query(),
        event.synchronize(),
        end.elapsed_ms(event),
        stream.record().query(),
        stream.query(),
        stream.synchronize(),
    )
    same(
        "facts",
        device.free_memory,
        device.name,
        device.uuid,
        device.total_memory,
        more.names,
        more["twice"].attributes,
        more["twice"].max_active_blocks(32),
        more["twice"].parameters,
        more.global_("table").view().tolist(),
    )
    with stream.capture() as graph:
        code["add"].launch(plain, pinned, managed, 4, grid=1, block=4, stream=stream)
    same("graph", graph.launch(), graph.launch(stream))
    array_ = device.upload(array.array("f", [1, 2, 3]))
    same(
        "views",
        array_.download(),
        array_.tolist(),
        rawcuda.view(plain, stream=stream),
        rawcuda.view(plain).copy_to(pinned),
        rawcuda.view(managed, protocol="cuda_array_interface"),
    )
    refusals = [
        lambda: device.load("x .version"),
        lambda: device.allocate(2**60),
        lambda: code["nope"],
        lambda: plain.copy_from(b"1"),
        lambda: code["add"].launch(1, grid=1, block=1),
        lambda: code["add"].launch(plain, 1, 1, 2**40, grid=1, block=1),
        lambda: more.global_("nope"),
        lambda: event.elapsed_ms(device.event()),
        lambda: rawcuda.cu.cuMemFree_v2(12345),
    ]
    for refusal in refusals:
        with pytest.raises((errors.RawCudaError, TypeError, ValueError)):
            refusal()
        same("a refusal")
    for thing in (graph, ordered, stream, event, end, plain, pinned, managed, code, more):
        same("close", thing.close())
    same("everything", rawcuda.synchronize(), rawcuda.devices())
    with device.stream(priority=-1, nonblocking=False) as stream, device.allocate(8) as memory:
        same("facts of streams", stream.id, stream.is_nonblocking, stream.priority, device.stream_priorities)
        stream.attributes.synchronization_policy = "spin"
        same("attributes", stream.attributes.synchronization_policy, dict(device.attributes), device.pci_bus_id)
        for queue in (stream, rawcuda.Stream.from_handle(stream.handle)):
            same("functions", queue.call(int), queue.write_value(memory, 1), queue.wait_value(memory, 1), queue.id)
        with device.current():
            rawcuda.Stream.legacy.call(int)
            rawcuda.Stream.per_thread.write_value(memory.ptr + 4, 1)
            rawcuda.Stream.per_thread.synchronize()
        same("default streams", stream.batch([("write", memory, 3), ("wait", memory, 3)]), stream.synchronize())
        same("limits", dict(device.limits), device.limits.cache_config, device.limits.reset_persisting_l2_cache())
        device.limits.stack_size = device.limits.stack_size
        same("a limit was set", rawcuda.profile.start(), rawcuda.profile.stop())
        for refusal in (
            lambda: setattr(device.limits, "stack_size", 2**50),
            lambda: setattr(stream.attributes, "priority", 77),
            lambda: stream.wait_value(16, 1),
            lambda: device.split(10**6),
        ):
            with pytest.raises((errors.RawCudaError, ValueError)):
                refusal()
            same("a refusal")
    if rawcuda.cu.has("cuGreenCtxStreamCreate"):
        with device.split(1) as (part,):
            with part.stream() as stream, stream.record() as event:
                same("a green context", part.wait(event), part.synchronize(), part.id, stream.synchronize())
        same("a closed green context")
    if len(rawcuda.devices()) > 1 and device.can_reach(1):
        with device.peer_access(1):
            same("peer access", device.peer_attributes(1))
        same("no peer access")


def test_none_is_current(device):
    assert current() is None
    every_call(device)


def test_ours_is_current(device):
    with device.current():
        every_call(device)
    assert current() is None


def test_another_devices_primary_context_is_current(device):
    if len(rawcuda.devices()) < 2:
        pytest.skip("one device only")
    with rawcuda.Device(1).current():
        every_call(device)
    assert current() is None


def test_a_context_of_somebody_else_is_current(device):
    theirs = cuda_h.CUcontext()
    rawcuda.cu.cuCtxCreate_v2(ctypes.byref(theirs), 0, device.ordinal)
    try:
        every_call(device)
        assert current() == theirs.value
    finally:
        rawcuda.cu.cuCtxDestroy_v2(theirs)
    assert current() is None


@pytest.mark.filterwarnings("ignore:nothing was captured")
@pytest.mark.parametrize("captured", [False, True])
def test_a_new_event_is_of_the_streams_context_whichever_is_current(device, captured):
    """Stream.record() makes it without asking first: the driver refuses to record an event of another context."""
    theirs = cuda_h.CUcontext()
    with device.stream() as stream, device.stream() as other:
        rawcuda.cu.cuCtxCreate_v2(ctypes.byref(theirs), 0, device.ordinal)
        try:
            if captured:
                with stream.capture():
                    event = stream.record()
                    other.wait(event)
                    joined = other.record()
                    stream.wait(joined)
                joined.close()
            else:
                event = stream.record()
                other.wait(event)
                assert event.query() in (True, False)
            assert current() == theirs.value
        finally:
            rawcuda.cu.cuCtxDestroy_v2(theirs)  # with what was made in it
        event.record(stream)
        event.synchronize()
        event.close()


def test_what_refuses_a_new_event_is_told(device, monkeypatch):
    """An error that no other context explains: nothing is tried again, and nothing is left."""
    with device.stream() as stream, device.current():
        refused = []
        error = errors.from_code(400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle", "cuEventRecord", [], "")

        def record(*arguments):
            refused.append(arguments)
            raise error

        monkeypatch.setitem(vars(device._primary.calls), "cuEventRecord", record)
        with pytest.raises(errors.InvalidUse):
            stream.record()
        assert len(refused) == 1


def test_none_is_current_on_top_of_another(device):
    theirs = cuda_h.CUcontext()
    rawcuda.cu.cuCtxCreate_v2(ctypes.byref(theirs), 0, device.ordinal)
    rawcuda.cu.cuCtxSetCurrent(None)  # removes it from the stack
    try:
        every_call(device)
    finally:
        rawcuda.cu.cuCtxDestroy_v2(theirs)


def test_in_another_thread(device):
    failed = []

    def work():
        try:
            every_call(device)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed, failed


def test_a_default_stream_is_that_of_our_context(device):
    """Work on the legacy stream goes to our context; a wait in another context would not include it."""
    theirs = cuda_h.CUcontext()
    n = 1000
    with device.load(kernels.ADD) as loaded:
        ones, out = device.upload(array.array("f", [1.0] * n)), device.empty(n, "float32")
        launch = loaded["add"].configure(grid=8, block=128)
        rawcuda.cu.cuCtxCreate_v2(ctypes.byref(theirs), 0, device.ordinal)
        try:
            calls = []
            with rawcuda.trace(lambda event: calls.append(event.name)):
                launch(ones, ones, out, n)
            assert calls.index("cuCtxPushCurrent_v2") < calls.index(
                "cuLaunchKernelEx" if "cuLaunchKernelEx" in calls else "cuLaunchKernel"
            )
            assert calls[-1] != "cuCtxPushCurrent_v2" and current() == theirs.value
        finally:
            rawcuda.cu.cuCtxDestroy_v2(theirs)
        assert out.tolist() == [2.0] * n


def test_a_launch_asks_for_the_context_first_so_that_no_call_fails(device):
    """Without a current context, or with another one, it is made current around the launch; nothing is tried twice."""
    with device.load(kernels.GLOBALS) as loaded, device.stream() as stream:
        launch = loaded["nothing"].configure(grid=1, block=1, stream=stream)
        call, contexts = launch._prepared.call, []

        def counted(*arguments):
            contexts.append(current())
            return call(*arguments)

        launch._prepared.call = counted
        launch()
        loaded["nothing"].launch(grid=1, block=1, stream=stream)
        with device.current():
            launch()
        assert contexts == [device.context] * 2 and current() is None
        for code in (201, 400):
            contexts.clear()
            launch._prepared.call = lambda *_, code=code: contexts.append(current()) or code
            with pytest.raises(errors.InvalidUse):
                launch()
            assert contexts == [device.context] and current() is None
        stream.synchronize()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("how", ["a call", "a with block"])
def test_a_pop_that_lacks_memory_is_made_again(device, monkeypatch, how, traced):
    primary, tries = device._primary, []
    pop = primary.pop

    def refused(*arguments):
        tries.append(1)
        return pop(*arguments) if len(tries) > 1 else 2

    refused.symbol, refused.parameters = pop.symbol, getattr(pop, "parameters", None)
    with device.event() as event, device.stream() as stream:
        before = current()
        monkeypatch.setattr(primary, "pop", refused)
        with rawcuda.trace(lambda event: None) if traced else contextlib.nullcontext():
            if how == "a call":
                event.record(stream)
            else:
                with device.current():
                    pass
        monkeypatch.undo()
        assert len(tries) >= 2 and current() == before


@pytest.mark.parametrize("how", ["a call", "a with block"])
def test_what_a_signal_handler_asks_is_no_answer_for_the_call_that_it_interrupts(device, second, how):
    """The handler works on the device of the call; the call must nevertheless make its context current."""
    there, calls = second._primary, second._primary.calls
    stream, handle, on = second.stream(), ctypes.c_uint64(), ctypes.c_int()
    argument = module("driver").as_argument(64)

    def meanwhile():
        with second.current():
            stream.query()

    def work():
        with device.current():
            if how == "a call":
                calls.cuMemAlloc_v2(ctypes.byref(handle), argument)
            else:
                with there.current():
                    rawcuda.cu.cuMemAlloc_v2(ctypes.byref(handle), 64)
        rawcuda.cu.cuPointerGetAttribute(ctypes.byref(on), 9, handle.value)  # ..._DEVICE_ORDINAL
        rawcuda.cu.cuMemFree_v2(handle.value)
        assert on.value == 1

    code = calls.cuStreamQuery.__code__ if how == "a call" else there.is_current.__code__
    with device.current():
        assert each_opcode({code}, work, meanwhile) > 10
    stream.close()


RELEASED = """
from tests.subject import rawcuda
for again in range(2):
    device, heard = rawcuda.Device(0), []
    array = device.zeros((8, 8, 8), "int32")
    rawcuda.copy(array[::2, ::2, ::2], array.T[1::2, 1::2, 1::2].copy())
    device.synchronize()
    array.owner.close()
    del array
    with rawcuda.trace(heard):
        device.close()
    assert "cuDevicePrimaryCtxRelease_v2" in [event.name for event in heard if hasattr(event, "name")]
print("right")
"""


def test_the_context_is_released_after_a_copy_by_a_kernel_of_ours(python):
    """The module of that kernel had a Device of its own, which was a user of the context for ever."""
    result = python(RELEASED)
    assert result.stdout == "right\n", result.stderr


NEEDED = """
import ctypes, sys
from tests.subject import module, rawcuda

cuda_h, what, cu = module("headers.cuda_h"), sys.argv[1], rawcuda.cu
context, stream, array = cuda_h.CUcontext(), cuda_h.CUstream(), ctypes.c_uint64()
cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
cu.cuCtxPushCurrent_v2(context)
cu.cuMemAlloc_v2(ctypes.byref(array), 64)
cu.cuStreamCreate(ctypes.byref(stream), 1)
cu.cuCtxPopCurrent_v2(ctypes.byref(cuda_h.CUcontext()))

class Theirs:
    __cuda_array_interface__ = {"shape": (64,), "typestr": "|u1", "data": (array.value, False), "version": 3}

other = rawcuda.Device(0)
if what != "any context":
    other.synchronize()
with rawcuda.Device(1) as device:
    device.synchronize()
    if what == "memory":
        rawcuda.copy(Theirs(), bytes(64))
    elif what == "stream":
        other.stream().wait(stream.value)
    elif what == "any context":
        rawcuda.Stream.from_handle(stream.value).query()
cu.cuDevicePrimaryCtxRelease_v2(1)
active = ctypes.c_int()
cu.cuDevicePrimaryCtxGetState(1, ctypes.byref(ctypes.c_uint()), ctypes.byref(active))
print(active.value)
"""


@pytest.mark.parametrize("what", ["nothing", "memory", "stream", "any context"])
def test_a_context_that_was_needed_for_others_stays_retained(python, what):
    """Another thread may close the last Device while memory or a stream of other software is used."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("only one device")
    assert python(NEEDED, what, check=True).stdout == f"{int(what != 'nothing')}\n"


INTERRUPTED = """
import ctypes, sys
from tests.subject import module, rawcuda

cuda_h, arguments, cu = module("headers.cuda_h"), module("gpu.core.stream_arguments"), rawcuda.cu
context, stream = cuda_h.CUcontext(), cuda_h.CUstream()
cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
cu.cuCtxPushCurrent_v2(context)
cu.cuStreamCreate(ctypes.byref(stream), 1)
cu.cuCtxPopCurrent_v2(ctypes.byref(cuda_h.CUcontext()))
waiting, lines = rawcuda.Device(0).stream(), 0

def trace(frame, event, argument):
    global lines
    if frame.f_code is not arguments._foreign_home.__code__:
        return None
    if event == "line":
        lines += 1
        if lines == number:
            sys.settrace(None)
            raise KeyboardInterrupt
    return trace

for number in range(1, 100):
    lines = 0
    sys.settrace(trace)
    try:
        waiting.wait(stream.value)
        break
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    assert cu.current_context() is None, number
print(number > 2)
"""


def test_an_interrupt_in_the_search_for_a_context_of_others_leaves_none_pushed(python):
    if len(rawcuda.devices()) < 2:
        pytest.skip("only one device")
    assert python(INTERRUPTED, check=True).stdout == "True\n"
