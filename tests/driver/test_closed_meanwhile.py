"""Memory that user code closes in the middle of a copy or a fill: this raises Closed, and nothing is copied.

The number that an element is set to, and a stream of other software, are asked by methods of theirs, and these may
close the memory: its address may then belong to other memory.
"""

import pytest

from tests.subject import module, rawcuda

errors = module("errors")
SIZE = 4096


class Closing:
    """A number or a stream with a method that closes memory; `call` says in which call, counted from 1."""

    def __init__(self, memory, call=1, handle=1):
        self.memory, self.left, self.handle = memory, call, handle

    def _meet(self):
        self.left -= 1
        if not self.left:
            self.memory.close()

    def __float__(self):
        self._meet()
        return 1.0


class ClosingInt(Closing):
    def __index__(self):
        self._meet()
        return 1


class ClosingStream(Closing):
    def __cuda_stream__(self):
        self._meet()
        return 0, self.handle


FILLS = {
    "a view": lambda memory, value, stream: memory.view("float32").fill(value, stream=stream),
    "with gaps": lambda memory, value, stream: memory.view("float32")[::2].fill(value, stream=stream),
    "many calls": lambda memory, value, stream: memory.view("float64")[::3].fill(value, stream=stream),
    "bytes": lambda memory, value, stream: memory.fill(value, stream=stream),
    "an element": lambda memory, value, stream: memory.view("float32").__setitem__(3, value),
}
COPIES = {
    "from the host": lambda memory, other, stream: memory.copy_from(bytes(SIZE), stream=stream),
    "to the host": lambda memory, other, stream: memory.copy_to(bytearray(SIZE), stream=stream),
    "from memory": lambda memory, other, stream: memory.copy_from(other, stream=stream),
    "to memory": lambda memory, other, stream: memory.copy_to(other, stream=stream),
    "from the host, with gaps": lambda memory, other, stream: rawcuda.copy(
        memory.view()[::2], bytes(SIZE)[::2], stream=stream
    ),
    "to memory, with gaps": lambda memory, other, stream: rawcuda.copy(
        other.view()[::2], memory.view()[1::2], stream=stream
    ),
    "a batch": lambda memory, other, stream: rawcuda.copy_batch(
        [(memory.view()[:8], other.view()[:8]), (memory.view()[8:16], other.view()[8:16])], stream=stream
    ),
}


@pytest.fixture
def untouched(device, monkeypatch):
    """Fail if a call of the driver or of Python writes after the memory was closed."""
    wrong, watched = [], []

    def spied(name, call):
        def spy(*arguments):
            if any([memory.closed for memory in watched]):
                wrong.append(name)
            return call(*arguments)

        return spy

    host_copy, calls = module("arrays.host_copy"), device._primary.calls
    for name in ("fill", "copy"):
        monkeypatch.setattr(host_copy, name, spied(name, getattr(host_copy, name)))
    for name in (
        "cuMemsetD8Async", "cuMemsetD32Async", "cuMemsetD2D8Async", "cuMemsetD2D32Async", "cuMemcpyAsync",
        "cuMemcpy2DAsync_v2", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", "cuLaunchKernelEx", "cuLaunchKernel",
    ):  # fmt: skip
        if rawcuda.cu.has(name):
            monkeypatch.setattr(calls, name, spied(name, getattr(calls, name)), raising=False)

    def watch(memory):
        watched[:] = [] if memory is None else [memory]

    yield watch
    assert not wrong


@pytest.mark.parametrize("kind", ["pinned", "managed", "device"])
@pytest.mark.parametrize("name", FILLS)
def test_by_the_value(device, untouched, name, kind):
    memory = device.allocate(SIZE, kind=kind).fill(3)
    untouched(memory)
    value = (ClosingInt if name == "bytes" else Closing)(memory)
    with pytest.raises(errors.Closed):
        FILLS[name](memory, value, None)


@pytest.mark.parametrize("kind", ["pinned", "managed", "device"])
@pytest.mark.parametrize("name", [name for name in FILLS if name != "an element"] + [*COPIES])
@pytest.mark.parametrize("queue", ["the legacy stream", "a stream"])
def test_by_the_stream(device, untouched, name, kind, queue):
    """In whichever call of its method."""
    own = device.stream()
    handle = own.handle if queue == "a stream" else 1
    for call in range(1, 9):
        memory, other = device.allocate(SIZE, kind=kind).fill(3), device.allocate(SIZE, kind=kind).fill(4)
        untouched(memory)
        stream = ClosingStream(memory, call, handle)
        try:
            if name in FILLS:
                FILLS[name](memory, 1, stream)
            else:
                COPIES[name](memory, other, stream)
            assert stream.left > 0, "it was closed, and no error was raised"
        except errors.Closed:
            pass
        untouched(None)
        memory.close()
        if stream.left > 0:
            own.synchronize()
            own.close()
            return
    raise AssertionError("more calls than expected")


@pytest.mark.parametrize("kind", ["pinned", "device"])
@pytest.mark.parametrize("side", ["the target", "the source"])
@pytest.mark.parametrize("name", ["a run", "with gaps", "the host"])
def test_by_the_stream_of_a_view(device, untouched, name, side, kind):
    """The stream that a view was made for is asked when another stream uses the view."""
    step = 2 if name == "with gaps" else 1
    memory, other = device.allocate(SIZE, kind=kind).fill(3), device.allocate(SIZE, kind=kind).fill(4)
    untouched(memory)
    target, source = memory.view()[::step], other.view()[::step]
    closing = target if side == "the target" else source
    if name == "the host":
        target, source = (target, bytes(SIZE)) if closing is target else (bytearray(SIZE), source)
        memory = closing.owner
        untouched(memory)
    with device.stream() as stream:
        closing.stream = ClosingStream(memory)
        with pytest.raises(errors.Closed):
            rawcuda.copy(target, source, stream=stream)
        untouched(None)
        if side == "the target":
            memory = device.allocate(SIZE, kind=kind)
            untouched(memory)
            target = memory.view()[::step]
            target.stream = ClosingStream(memory)
            with pytest.raises(errors.Closed):
                target.fill(5, stream=stream)


def test_a_stream_of_other_software_stays_the_stream_of_a_view(device):
    stream = ClosingStream(None, -1)
    with device.stream() as own, device.allocate(SIZE) as memory:
        for view in (memory.view(), memory.view()[::2], memory.view("float64")[::3]):
            view.fill(7, stream=stream)
            assert view.stream == 1
            view.stream = None
            rawcuda.copy(view, view.copy(), stream=stream)
            assert view.stream == 1
            view.stream = None
        stream.handle = own.handle
        halves = memory.view()[:8], memory.view()[8:16]
        rawcuda.copy_batch([(half, memory.view()[64:72]) for half in halves], stream=stream)
        assert all(half.stream == own.handle and half.stream.owner is stream for half in halves)
        own.synchronize()
