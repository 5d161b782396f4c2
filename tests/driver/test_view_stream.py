"""Ordering: which stream waits, if we consume and if we export; section 3, 5.9 to 5.15 and 7 of docs/protocols.md."""

from __future__ import annotations

import array
import ctypes
import gc
import time
import weakref

import pytest

from tests.null.producers import Exporter, Tensor, interface
from tests.subject import module, rawcuda

from . import kernels

errors = module("errors")
view, ProtocolError = rawcuda.view, errors.ProtocolError


class Watched:
    """Collect the driver calls of a with block that order streams, as ("record", stream) and ("wait", stream)."""

    def __enter__(self):
        self.events = []
        self.trace = rawcuda.trace(self.events.append)
        self.trace.__enter__()
        return self

    def __exit__(self, *_):
        self.trace.__exit__(None, None, None)

    @property
    def waits(self):
        """Tell whether the CPU waited for an event."""
        return any(getattr(event, "name", "") == "cuEventSynchronize" for event in self.events)

    @property
    def order(self):
        kinds = {
            "cuEventRecord": "record",
            "cuStreamWaitEvent": "wait",
            "cuStreamSynchronize": "synchronize",
            "cuCtxSynchronize": "all",
        }
        return [
            (kinds[e.name], number(e.arguments.get("hStream", "0")))
            for e in self.events
            if getattr(e, "name", "") in kinds
        ]


def number(text):
    return int(text[text.index("(") + 1 : -1], 16) if "(" in text else int(text, 0)


@pytest.fixture
def two(device):
    """Two streams of the device."""
    with device.stream() as first, device.stream() as second:
        yield first, second


def made(device, stream=None):
    v = device.upload(array.array("f", range(6)))
    v.stream = stream
    return v


def test_3_1_the_consumers_stream_waits_for_ours(device, two):
    first, second = two
    v = made(device, first)
    with Watched() as watched:
        v.__dlpack__(stream=second.handle, max_version=(1, 0))
    assert watched.order == [("record", first.handle), ("wait", second.handle)]
    with Watched() as watched:
        v.__dlpack__(stream=first.handle)  # the same stream: no wait is needed
    assert watched.order == []


def test_3_2_minus_one_asks_for_nothing(device, two):
    v = made(device, two[0])
    with Watched() as watched:
        v.__dlpack__(stream=-1)
    assert watched.order == []


@pytest.mark.parametrize("wrote", ["own", "legacy", "none", "closed"])
@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_page_locked_memory_that_is_viewed_for_another_stream_is_ready(device, two, whose, wrote):
    """That of other libraries belongs to no device."""
    first, second = two
    memory, sevens = device.allocate(24, kind="pinned"), device.full(6, 7, "float32")
    out = device.zeros(6, "float32")
    v = memory.view("float32").fill(0)
    if whose == "theirs":
        v = view(interface(v))
    device.synchronize()
    out.stream = None  # its work is done, so a copy to it waits for nothing else
    stream = {"own": first, "closed": device.stream()}.get(wrote, rawcuda.Stream.legacy)
    with device.current():
        v.copy_from(sevens, stream=stream)
        if wrote == "none":
            v.stream = None
        elif wrote == "closed":
            stream.close()
        out.copy_from(view(v, stream=second), stream=second)
    assert out.download(stream=second).tolist() == [7] * 6


@pytest.mark.parametrize("stream, waits", [(None, 1), (1, 1), (2, 2)])
def test_3_3_3_10_the_default_streams(device, two, stream, waits):
    v = made(device, two[0])
    with Watched() as watched:
        v.__dlpack__(stream=stream)
    assert watched.order == [("record", two[0].handle), ("wait", waits)]
    with Watched() as watched:
        v.__dlpack__()  # no argument means None: the legacy default stream waits
    assert watched.order == [("record", two[0].handle), ("wait", 1)]
    plain = made(device)
    with Watched() as watched:
        plain.__dlpack__(stream=stream)  # a view without a stream is in the order of the legacy stream
    assert watched.order == [] if waits == 1 else [("record", 1), ("wait", 2)]


@pytest.mark.parametrize("stream", [0, True, False, -2, 2**64, 1.0, "1", int, object()])
def test_3_3_streams_that_are_refused(device, stream):
    v = made(device)
    with pytest.raises(ProtocolError) as caught:
        v.__dlpack__(stream=stream)
    assert (caught.value.protocol, caught.value.field) == ("dlpack", "stream")


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_2_12_a_copy_is_of_the_kind_that_was_asked_for(device, kind):
    with device.allocate(24, kind=kind) as memory:
        v = memory.view().fill(5)
        rawcuda.synchronize()
        for dl_device in (None, v.__dlpack_device__()):
            w = view(v.__dlpack__(copy=True, dl_device=dl_device, max_version=(1, 0)))
            assert w.device == v.device and w.ptr != v.ptr and not w.readonly
            rawcuda.synchronize()
            assert w.tolist() == [5] * 24
            del w
        w = view(v.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
        assert w.device == ("cpu", 0) and (w.ptr == v.ptr) == (kind == "pinned") and w.tolist() == [5] * 24
        del v, w


def test_3_7_a_copy_to_the_host_is_ready_on_return(device, two):
    v = made(device, two[0])
    for stream in (None, -1):
        w = view(v.__dlpack__(dl_device=(1, 0), stream=stream, max_version=(1, 0)))
        assert w.device == ("cpu", 0) and w.tolist() == list(range(6))
    for stream in (1, 2, two[0].handle):
        with pytest.raises(ProtocolError, match="None"):
            v.__dlpack__(dl_device=(1, 0), stream=stream)
    with pytest.raises(ProtocolError, match="copy=False"):
        v.__dlpack__(dl_device=(1, 0), copy=False)


@pytest.mark.parametrize("kind", ["managed", "pinned"])
@pytest.mark.parametrize("stream", [None, -1])
@pytest.mark.parametrize("late", ["the array", "the default stream"])
def test_2_12_a_copy_that_the_host_can_read_is_complete(device, kind, stream, late):
    """NumPy takes it, and names no stream; who gives -1 does not know of the copy."""
    with device.current(), device.allocate(24, kind=kind) as memory, device.stream() as behind:
        v = memory.view().fill(5)
        device.synchronize()
        if late == "the array":
            behind.call(time.sleep, 0.05)
            v.fill(6, stream=behind)
        else:
            rawcuda.Stream.legacy.call(time.sleep, 0.05)
            v.fill(6)
        w = view(v.__dlpack__(copy=True, stream=stream, max_version=(1, 0)), stream=-1)
        assert bytes(module("interpreter.cpython").bytes_at(w.ptr, 24)) == b"\6" * 24
        del v, w


def test_2_12_a_copy_on_the_device_runs_on_the_consumers_stream(device, two):
    v = made(device)
    with Watched() as watched:
        capsule = v.__dlpack__(copy=True, stream=two[1].handle, max_version=(1, 0))
    assert ("wait", two[1].handle) in watched.order or not watched.order
    w = view(capsule)
    assert w.device == ("cuda", 0) and w.ptr != v.ptr
    two[1].synchronize()
    assert w.tolist() == v.tolist()
    del w, capsule


def test_3_9_a_stream_is_always_sent_for_cuda_memory(device, two):
    there = made(device).reshape(2, 3)
    for stream, sent in (
        (None, 1),
        (1, 1),
        (2, 2),
        (-1, -1),
        (two[0], two[0].handle),
        (two[0].handle, two[0].handle),
        (rawcuda.Stream.per_thread, 2),
    ):
        for kind, dl in ((there, (2, 0)),):
            exporter = Exporter(Tensor(kind.ptr, device=dl))
            v = view(exporter, stream=stream)
            assert exporter.asked == [{"max_version": (1, 3), "stream": sent}]
            assert v.stream in (1 if stream is None else stream, 2)


def test_3_6_pinned_gets_none_and_managed_gets_one(device):
    with device.allocate(24, kind="pinned") as pinned, device.allocate(24, kind="managed") as managed:
        exporter = Exporter(Tensor(pinned.ptr, device=(3, 0)))
        assert view(exporter, stream=2).device == ("cuda_host", 0) and exporter.asked == [{"max_version": (1, 3)}]
        exporter = Exporter(Tensor(managed.ptr, device=(13, 0)))
        assert view(exporter, stream=2).device == ("cuda_managed", 0) and exporter.asked == [
            {"max_version": (1, 3), "stream": 2}
        ]


def test_3_8_3_12_a_refused_minus_one_is_asked_again_as_none(device):
    there = made(device)
    for error in (
        RuntimeError("invalid handle"),
        AssertionError(),
        ValueError(),
        NotImplementedError(),
        BufferError(),
        Exception("jax"),
    ):
        exporter = Exporter(Tensor(there.ptr, device=(2, 0)), raises={("stream", -1): error})
        assert view(exporter, stream=-1).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert exporter.asked[-1] == {"max_version": (1, 3), "stream": None}


def test_3_8_device_memory_is_never_taken_unsynchronised(device, two):
    there = made(device)
    error = RuntimeError("no streams here")
    for stream in (None, two[0]):
        exporter = Exporter(
            Tensor(there.ptr, device=(2, 0)), raises={("stream", 1): error, ("stream", two[0].handle): error}
        )
        with pytest.raises(RuntimeError) as caught:
            view(exporter, stream=stream)
        assert caught.value is error and all("stream" in asked for asked in exporter.asked)


def test_managed_memory_that_is_labelled_as_device_memory_is_relabelled(device):
    """As PyTorch labels what an allocator of managed memory gave it."""
    with device.allocate(24, kind="managed") as memory:
        memory.view().fill(7)
        device.synchronize()
        exporter = Exporter(Tensor(memory.ptr, device=(2, 0)))
        found = view(exporter, stream=2)
        assert found.device == ("cuda_managed", 0) and found.is_host_accessible
        assert view(found).device == ("cuda_managed", 0)
        copy = device.empty(found.shape, found.dtype)
        copy.copy_from(exporter)
        assert copy.tolist() == found.tolist()
        del found


def test_device_memory_that_is_labelled_as_managed_is_refused(device):
    with device.allocate(24) as memory, pytest.raises(rawcuda.ProtocolError, match="the exporter is at fault"):
        view(Exporter(Tensor(memory.ptr, device=(13, 0))), stream=2)


def test_3_6_managed_memory_is_taken_without_a_stream_after_a_wait(device):
    with device.allocate(24, kind="managed") as memory:
        exporter = Exporter(Tensor(memory.ptr, device=(13, 0)), raises={("stream", 1): RuntimeError("no streams here")})
        with Watched() as watched:
            v = view(exporter)
        assert exporter.asked[-1] == {"max_version": (1, 3)} and ("all", 0) in watched.order
        del v


def test_3_11_3_13_the_exporter_is_asked_with_its_device_current(device):
    def current():
        context = module("headers.cuda_h").CUcontext()
        rawcuda.cu.cuCtxGetCurrent(ctypes.byref(context))
        return context.value

    seen = []

    class Looks(Exporter):
        def __dlpack__(self, **keywords):
            seen.append(current())
            return super().__dlpack__(**keywords)

    for each in rawcuda.devices():
        there, before = made(each), current()
        view(Looks(Tensor(there.ptr, device=(2, each.ordinal))))
        assert seen.pop() == each.context  # torch exports only from the current device
        assert current() == before
        with pytest.raises(RuntimeError, match="mine"):
            view(Looks(Tensor(there.ptr, device=(2, each.ordinal)), raises={True: RuntimeError("mine")}))
        assert current() == before
        with rawcuda.devices()[-1].current():  # the current context may be another one: it is restored
            before = current()
            view(Looks(Tensor(there.ptr, device=(2, each.ordinal))))
            assert seen.pop() == each.context and current() == before
        del there


# -- the CUDA array interface


def test_5_9_5_10_using_waits_for_exporting(device, two):
    first, second = two
    v = made(device)
    with Watched() as watched:
        view(interface(v, stream=first.handle), stream=second)
    assert watched.order == [("record", first.handle), ("wait", second.handle)]
    for stream in (first, rawcuda.NO_SYNC):
        with Watched() as watched:
            view(interface(v, stream=first.handle), stream=stream)
        assert watched.order == []
    with Watched() as watched:
        view(interface(v, stream=None), stream=second)
    assert watched.order == []  # None: no wait is needed
    for default in (1, 2):
        with Watched() as watched:
            view(interface(v, stream=default), stream=second)
        assert watched.order == [("record", default), ("wait", second.handle)]


def test_memory_that_is_viewed_for_a_stream(device, two):
    first, second = two
    with device.allocate(8, stream=first) as memory:
        with Watched() as watched:
            v = view(memory, stream=second)
        assert v.stream is second and watched.order == [("record", first.handle), ("wait", second.handle)]
        with Watched() as watched:
            assert view(memory).stream is first and watched.order == []


def test_5_10_exporting_is_held_back_until_our_use_is_done(device, two):
    first, second = two
    v, target = made(device), device.empty(6, "float32")
    w = view(interface(v, stream=first.handle), stream=second)[::2]
    with Watched() as watched:
        target[::2].copy_from(w, stream=second)
    wait = watched.order.index(("wait", first.handle))
    assert watched.order[wait - 1] == ("record", second.handle)
    names = [getattr(event, "name", "") for event in watched.events]
    waits = names.index("cuStreamWaitEvent")
    assert not any(
        name.startswith(("cuMemcpy", "cuLaunchKernel")) for name in names[names.index("cuEventRecord") : waits]
    )
    assert any(
        name.startswith(("cuMemcpy", "cuLaunchKernel")) for name in names[: names.index("cuEventRecord")]
    )  # after our use, not before it
    second.synchronize()
    first.synchronize()
    assert target[::2].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("use", ["array", "view", "part", "value"])
def test_5_10_exporting_is_held_back_by_a_kernel_too(device, two, use):
    first, second = two
    v = made(device)
    code = (
        ".version 6.3\n.target sm_50\n.address_size 64\n"
        ".visible .entry nothing(.param .u64 .ptr .global .align 4 p)\n{\n    ret;\n}\n"
    )
    with device.load(code) as loaded:
        with Watched() as watched:
            exporter = interface(v, stream=first.handle)
            if use != "array":
                exporter = view(exporter, stream=second)
            if use == "value":
                second.write_value(exporter.reinterpret("uint32").reshape(6)[0], 1)
            else:
                loaded["nothing"].launch(exporter[1:] if use == "part" else exporter, grid=1, block=1, stream=second)
        second.synchronize()
    waits = [entry for entry in watched.order if entry[0] == "wait"]
    assert waits == [("wait", second.handle), ("wait", first.handle)]
    rawcuda.synchronize()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_5_15_before_version_3_nobody_says_what_pends(device, two, version):
    v = made(device)
    with Watched() as watched:
        view(interface(v, version=version), stream=two[0])
    assert watched.order == [("all", 0)]  # so it waits for the whole device
    with Watched() as watched:
        view(interface(v, version=version), stream=rawcuda.NO_SYNC)
    assert watched.order == []


def test_a_view_that_waits_for_the_device_leaves_the_exceptions_of_functions(device):
    """It is no synchronization: the exception of a function of a graph belongs to the next one."""
    v = made(device)
    with device.stream() as stream:
        with stream.capture() as graph:
            stream.call(lambda: 1 / 0)
        graph.launch(stream)
        stream.record().synchronize()
        assert view(interface(v, version=2)).tolist() == v.tolist()
        with pytest.raises(ZeroDivisionError):
            stream.synchronize()


def test_5_11_5_14_what_we_export(device, two):
    v = made(device)
    for stream, said in (
        (None, 1),
        (two[0], two[0].handle),
        (two[0].handle, two[0].handle),
        (2, 2),
        (rawcuda.NO_SYNC, None),
        (rawcuda.Stream.legacy, 1),
    ):
        v.stream = stream
        interface = v.__cuda_array_interface__
        assert interface["stream"] == said and interface["version"] == 3


def test_copies_wait_for_the_streams_that_views_were_made_for(device, two):
    first, second = two
    v, target = made(device, first), device.empty(6, "float32")
    with Watched() as watched:
        target.copy_from(v, stream=second)
    assert watched.order[:2] == [("record", first.handle), ("wait", second.handle)] and target.stream is second
    with Watched() as watched:
        target.__dlpack__()
    assert watched.order == [("record", second.handle), ("wait", 1)]  # its elements are ready in that stream's order
    rawcuda.synchronize()


@pytest.mark.parametrize("part", [slice(None), slice(None, None, 2)], ids=["a run", "a walk"])
def test_a_copy_waits_once_for_one_stream_and_for_each_of_two(device, two, part):
    first, second = two
    with device.stream() as third:
        for of, times in ((first, 1), (third, 2)):
            source, target = made(device, of), made(device, first)
            with Watched() as watched:
                rawcuda.copy(target[part], source[part], stream=second)
            waits = [("record", first.handle), ("wait", second.handle), ("record", of.handle), ("wait", second.handle)]
            assert watched.order == waits[: 2 * times]
            rawcuda.synchronize()


@pytest.mark.filterwarnings("ignore:nothing was captured")
def test_3_10_an_export_while_the_stream_is_captured(device, two):
    first, second = two
    v = made(device, first)
    with first.capture():
        with pytest.raises(ProtocolError, match="captured"):
            v.__dlpack__(stream=second.handle)
        assert v.__dlpack__(stream=-1) is not None


def test_7_1_stream_objects_of_others(device, two):
    class Foreign:
        def __init__(self, handle):
            self.handle = handle

        def __cuda_stream__(self):
            return 0, self.handle

    v = made(device, Foreign(two[0].handle))
    with Watched() as watched:
        view(v, stream=Foreign(two[1].handle))
    assert watched.order == [("record", two[0].handle), ("wait", two[1].handle)]
    target = device.empty(6, "float32").copy_from(v, stream=Foreign(0))
    rawcuda.synchronize()
    assert target.tolist() == v.tolist()


def test_7_4_a_views_stream_object_lives_as_long_as_the_view(device, two):
    class Foreign:
        def __cuda_stream__(self):
            return 0, two[0].handle

    stream = Foreign()
    alive = weakref.ref(stream)
    v = view(made(device), stream=stream)[::2]
    del stream
    gc.collect()
    assert v.stream == two[0].handle and alive() is v.stream.owner  # the handle is used when the view is exported
    del v
    gc.collect()
    assert alive() is None


class Current:
    """An object that stands for the stream that is current."""

    def __cuda_stream__(self):
        return 0, self.now.handle


def filled(v, stream):
    return v.fill(1, stream=stream)


def batch(v, source, stream):
    rawcuda.copy_batch([(v[:2], source[:2]), (last := v[2:], source[2:])], stream=stream)
    return last


def loaded(v, stream):
    with v.owner.device.array(6, "float32") as other:
        other.copy_to(v, stream=stream)
    return v


WRITTEN = {
    "fill": lambda v, source, stream: filled(v, stream),
    "fill of a part": lambda v, source, stream: filled(v[::2], stream),
    "fill of wide elements": lambda v, source, stream: filled(v.reinterpret("float64")[::2], stream)[:1].reinterpret(
        "f4"
    ),
    "fill of another's memory": lambda v, source, stream: filled(view(v, protocol="cuda_array_interface"), stream),
    "copy": lambda v, source, stream: v.copy_from(source, stream=stream),
    "copy of a part": lambda v, source, stream: v[::2].copy_from(source[::2], stream=stream),
    "copy to another's memory": lambda v, source, stream: view(v, protocol="dlpack").copy_from(source, stream=stream),
    "batch": batch,
    "view": lambda v, source, stream: view(v, stream=stream),
    "view of another's memory": lambda v, source, stream: view(v, protocol="cuda_array_interface", stream=stream),
    "new memory": lambda v, source, stream: v.owner.device.allocate(24, stream=stream).view("float32"),
    "CUDA array": lambda v, source, stream: loaded(v, stream),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("what", WRITTEN)
def test_a_stream_object_that_stands_for_another_stream_later(device, two, what, again):
    """A view knows the stream that it was written on. That may be destroyed now, so all work is waited for."""
    first, second = two
    v, source, target, current = made(device), made(device), made(device), Current()
    current.now = first
    written = WRITTEN[what](v, source, current)
    assert written.stream == first.handle
    current.now = second
    with Watched() as watched:
        target.reshape(-1)[: written.size].copy_from(written.reshape(-1), stream=current if again else second)
    assert watched.order[0][0] == "all"
    device.synchronize()


def test_a_late_write_is_never_missed(device, two):
    """If a producer's work is pending on its stream, every consumer of the array reads the result of this work."""
    first, second = two
    for turn in range(20):
        v = device.empty(1000, "int32").fill(-1)
        rawcuda.synchronize()
        v.fill(turn, stream=first)
        for consumer in (
            view(v, protocol="dlpack", stream=second),
            view(v, protocol="cuda_array_interface", stream=second),
        ):
            target = device.empty(1000, "int32")
            target.copy_from(consumer, stream=second)
            second.synchronize()
            assert target.tolist() == [turn] * 1000
        rawcuda.synchronize()


def test_3_6_pinned_and_managed_memory_is_settled_before_the_host_reads_it(device, two):
    for kind in ("pinned", "managed"):
        with device.allocate(24, kind=kind) as memory:
            v = memory.view().reinterpret("float32")
            v.stream = two[0]
            for export in (lambda v=v: v.__array_interface__, v.memoryview, v.tolist):
                with Watched() as watched:
                    export()
                theirs = two[0].handle  # the CPU waits for an event there, or a stream for which the CPU waits
                assert watched.order[0] == ("record", theirs)
                assert watched.waits or watched.order[1:3] == [("wait", 1), ("synchronize", 1)]
            if kind == "pinned":
                with Watched() as watched:
                    v.__dlpack__()
                assert watched.order == [("record", theirs)] and watched.waits
            del v


@pytest.mark.parametrize("way", ["launch", "configure"])
def test_a_view_waits_for_the_launches_of_its_closed_stream(device, way):
    """The interface names no stream, so nothing is ordered when the view is made: the view alone knows the stream."""
    kernel = device.load(kernels.ADD)["add"]
    x = device.upload(array.array("f", [1] * 1000))
    device.synchronize()
    interface = {name: value for name, value in x.__cuda_array_interface__.items() if name != "stream"}
    stream = device.stream()
    v = view(type("Array", (), {"__cuda_array_interface__": interface})(), stream)
    if way == "launch":
        kernel.launch(x, x, v, 1000, grid=4, block=256, stream=stream)
    else:
        kernel.configure(grid=4, block=256, stream=stream)(x, x, v, 1000)
    heard = []
    with rawcuda.trace(heard.append):
        stream.close()
    assert "cuStreamQuery" in [call.name for call in heard if hasattr(call, "name")]  # it looks for the end of its work
    assert v.tolist() == [2] * 1000


def test_an_index_that_fails_is_a_buffer_error(device):
    """Consumers swallow a TypeError of `__dlpack__`, and try again without a stream."""

    class Several:  # as an array of several numbers
        def __index__(self):
            raise TypeError("only integer scalar arrays can be converted to a scalar index")

    with pytest.raises(BufferError, match="stream .* must be None, or an int: -1, 1, 2 or a handle"):
        device.empty(4, "int32").__dlpack__(stream=Several(), max_version=(1, 0))
