"""Work of one device that uses our memory of another: it keeps the memory, and is refused without access."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.conftest import Python
from tests.subject import rawcuda

DELAYED = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,devices=2"}
START = '''
from tests.subject import rawcuda
home, other = rawcuda.Device(0), rawcuda.Device(1)
other.enable_peer_access(home)
HEAD = ".version 7.0 .target sm_70 .address_size 64 .visible .entry k"
store = other.load(HEAD + "(.param .u64 a) { .reg .u64 %a; ld.param.u64 %a, [a]; st.global.u32 [%a], 7; ret; }")["k"]
fetch = other.load(HEAD + """(.param .u64 t, .param .u64 a) { .reg .u64 %a, %t; .reg .f32 %f<4>; .reg .s32 %i;
ld.param.u64 %t, [t]; ld.param.u64 %a, [a]; mov.s32 %i, 1; tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%i}];
st.global.f32 [%a], %f0; ret; }""")["k"]
image, out, zeros = other.array(16, "uint32"), other.zeros(4, "float32"), other.zeros(16, "uint32")

def use(memory, stream):
    view = memory.view("uint32")
    WAY

for kind in KINDS:
    with other.allocate(64, kind=kind) as near:
        store.launch(near.view("uint32"), grid=1, block=1)
    for end in "close", "drop", "reset":
        memory, stream = home.allocate(64, kind=kind), other.stream()
        memory.fill(0)
        home.synchronize(), other.synchronize()
        use(memory, stream)
        if end == "close":
            memory.close()
        if end == "reset":
            home.reset()
            other.enable_peer_access(home)
        del memory
        for _ in range(3):
            home.allocate(64, kind=kind).fill(1)
        stream.synchronize()  # raises ContextLost after an access to freed memory
        other.synchronize()
print("right")
'''
WAYS = {  # and the kinds of memory that it takes
    "a launch with the memory": ("store.launch(memory, grid=1, block=1, stream=stream)", "device pinned managed"),
    "a launch with a view": ("store.launch(view, grid=1, block=1, stream=stream)", "device pinned managed"),
    "a launch with In": ("store.launch(rawcuda.In(view), grid=1, block=1, stream=stream)", "device pinned managed"),
    "a launch with a texture": (
        "fetch.launch(other.texture(memory.view('float32')), out, grid=1, block=1, stream=stream)",
        "pinned managed",
    ),
    "a value that is written": ("stream.write_value(view[0], 5)", "device pinned"),
    "a batch of values": ("stream.batch([('write', view[0], 5), ('wait', view[0], 5)])", "device pinned"),
    "a value on a default stream": (
        "with other.current(): rawcuda.Stream.legacy.write_value(view[0], 5)",
        "device pinned",
    ),
    "a value on a per-thread stream": (
        "with other.current(): rawcuda.Stream.per_thread.batch([('write', view[0], 5)])",
        "device pinned",
    ),
    "a copy to an array": ("image.copy_from(view, stream=stream)", "pinned managed"),
    "a copy from an array": ("image.copy_from(zeros); image.copy_to(view, stream=stream)", "pinned managed"),
    "a copy to an array on the default stream": ("image.copy_from(view)", "pinned managed"),
    "a fill": ("view.fill(3, stream=stream)", "device pinned managed"),
    "a prefetch": ("memory.prefetch(other, stream=stream)", "managed"),
    "a discard": ("memory.discard(stream=stream)", "managed"),
}


@pytest.mark.parametrize("way", WAYS)
def test_memory_is_kept_for_another_device(python: Python, way: str) -> None:
    line, kinds = WAYS[way]
    result = python(START.replace("WAY", line).replace("KINDS", repr(kinds.split())), env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


FOREIGN = """
import ctypes, gc, weakref
from tests.subject import rawcuda
home, other = rawcuda.Device(0), rawcuda.Device(1)
other.enable_peer_access(home)
class Array:
    pass
for stream in rawcuda.Stream.legacy, rawcuda.Stream.per_thread:
    given, memory = Array(), home.allocate(64)
    given.__cuda_array_interface__ = dict(version=3, shape=(1,), typestr="<u4", data=(memory.ptr, False), stream=None)
    watched = weakref.ref(given)
    with other.current():
        stream.write_value(given, 5)
    del given
    home.synchronize()
    gc.collect()
    print(watched() is not None, end=" ")
    other.synchronize()
    print(watched() is not None)
context = rawcuda.cu.CUcontext()
rawcuda.cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
try:
    rawcuda.Stream.legacy.write_value(memory.view("uint32")[0], 6)
except ValueError as error:
    assert "belongs to another context than the primary context" in str(error), error
rawcuda.cu.cuCtxDestroy_v2(context)
home.synchronize()
print(memory.view("uint32")[0].tolist())
"""


def test_a_value_on_a_default_stream_keeps_memory_until_the_stream_of_that_device_is_done(python: Python) -> None:
    result = python(FOREIGN, env=DELAYED)
    assert result.stdout.split() == [*["True", "False"] * 2, "5"], result.stdout + result.stderr


ACCESS = """
from tests.subject import rawcuda
home, other = rawcuda.Device(0), rawcuda.Device(1)
text = ".version 7.0 .target sm_70 .address_size 64 .visible .entry k(.param .u64 a) { ret; }"
kernel = other.load(text)["k"]
pool = home.memory_pool(kind="pinned")
memory, stream = pool.allocate(64, stream=home.stream()), other.stream()
plain = home.allocate(64, kind="pinned").view("uint32")
for access in "none", "readwrite", "none":
    if access != "none" or pool.access(other) != "none":
        pool.set_access(other, access)
    kernel.launch(plain, grid=1, block=1)
    for thing in memory, memory.view("uint32"), rawcuda.In(memory.view("uint32")):
        try:
            kernel.launch(thing, grid=1, block=1)
            print("launched", end=" ")
        except ValueError as error:
            assert "its pool.set_access(Device(1)" in str(error), error
            print("refused", end=" ")
    try:
        stream.write_value(memory.view("uint32")[0], 1)
        print("written")
    except ValueError as error:
        assert "its pool.set_access(Device(1)" in str(error), error
        print("refused")
other.synchronize()
"""


def test_access_to_memory_of_a_pool_is_asked_for_each_view(python: Python) -> None:
    result = python(ACCESS, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "devices=2"})
    refused, launched = "refused refused refused refused", "launched launched launched written"
    assert result.stdout.splitlines() == [refused, launched, refused], result.stderr


GRAPH = '''
from tests.subject import rawcuda
here, other = rawcuda.Device(0), rawcuda.Device(1)
HEAD = ".version 7.0 .target sm_70 .address_size 64 .global .u32 step = 1; .visible .entry k"
module = here.load(HEAD + """(.param .u64 a) { .reg .u64 %a; .reg .u32 %s; ld.param.u64 %a, [a];
ld.global.u32 %s, [step]; st.global.u32 [%a], %s; ret; }""")
fetch = here.load(HEAD + """(.param .u64 t, .param .u64 a) { .reg .u64 %a, %t; .reg .f32 %f<5>;
ld.param.u64 %t, [t]; ld.param.u64 %a, [a]; mov.f32 %f4, 0f00000000;
tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%f4}];
st.global.f32 [%a], %f0; ret; }""")["k"]
image = here.array(16, "float32")
image.copy_from(here.zeros(16, "float32"))
texture, out = here.texture(image), here.zeros(4, "float32")
memory, pinned = here.allocate(64), here.allocate(64, kind="pinned")
stream, far = here.stream(), other.stream()
words = memory.view("uint32")
here.synchronize()

def nodes(use):
    graph = here.graph()
    use(graph)
    return graph, far

def captured(use):
    with stream.capture() as graph:
        use(stream)
    return graph, far

def joined(use):
    with far.capture() as graph:
        stream.wait(far)
        use(stream)
        far.wait(stream)
    return graph, far

def updated(use):  # an Executable that was made of another graph
    first, second = (joined(use)[0] for _ in range(2))
    executable = first.instantiate()
    executable.update(second)
    return executable, far

def inside(use):  # a clone of another graph that contains it
    outer = other.graph()
    outer.embed(joined(use)[0])
    return outer.clone(), far

def again(use):  # in another capture
    inner, last = joined(use)[0], other.stream()
    with last.capture() as graph:
        inner.launch(last)
    return graph, last

def launch(on):
    module["k"].configure(grid=1, block=1, stream=on)(words)

graph, last = WAY
graph.launch(last)
END
last.synchronize()  # raises ContextLost after an access to what was released
print("right")
'''
ADD = "nodes(lambda graph: graph.kernel(module['k'], words, grid=1, block=1))"
FETCH = "nodes(lambda graph: graph.kernel(fetch, texture, out, grid=1, block=1))"


@pytest.mark.parametrize(
    "way, end",
    [
        (ADD, "module.close()"),
        (ADD, "graph.close(); here.close(); module.close(); memory.close()"),
        ("captured(launch)", "here.reset()"),
        (FETCH, "texture.close()"),
        (FETCH, "image.close()"),
        ("captured(launch)", "memory.close()"),
        ("captured(launch)", "del words, memory; here.allocate(64)"),
        ("captured(lambda on: pinned.fill(5, stream=on))", "pinned.close()"),
        ("joined(launch)", "memory.close()"),
        ("joined(launch)", "module.close()"),
        ("updated(launch)", "memory.close()"),
        ("inside(launch)", "memory.close()"),
        ("again(launch)", "memory.close()"),
    ],
)
def test_a_launch_of_a_graph_is_waited_for_on_each_device_that_works_for_it(python: Python, way: str, end: str) -> None:
    """What such a graph uses may be released right after its launch on a stream of another device."""
    result = python(GRAPH.replace("WAY", way).replace("END", end), env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


# -- the code of an argument closes memory whose address was read


class Closing:
    """A number or a stream whose code closes something."""

    def __init__(self, thing: Any, stream: Any) -> None:
        self.thing, self.stream = thing, stream

    def __index__(self) -> int:
        self.thing.close()
        return 3

    def __float__(self) -> float:
        return float(self.__index__())

    def __cuda_stream__(self) -> tuple[int, int]:
        self.thing.close()
        return 0, self.stream.handle


class ClosingFloat(float):
    thing: Any

    def __float__(self) -> float:
        self.thing.close()
        return 3.0


class ClosingArray:
    """An array whose code closes something."""

    def __init__(self, thing: Any, array: Any) -> None:
        self.thing, self.array = thing, array

    @property
    def __cuda_array_interface__(self) -> Any:
        self.thing.close()
        return self.array.__cuda_array_interface__


KERNEL = ".version 7.0 .target sm_70 .address_size 64 .visible .entry k(.param .u64 a, .param .{type} n) {{ ret; }}"


@pytest.mark.parametrize("given", ["memory", "view", "In"])
@pytest.mark.parametrize("type", ["u32", "f32", "float", "array"])
def test_an_argument_closes_the_memory_of_an_earlier_one(device: Any, type: str, given: str) -> None:
    text = KERNEL.format(type={"float": "f32", "array": "u64"}.get(type, type))
    kernel, memory = device.load(text)["k"], device.allocate(64)
    other: Any = Closing(memory, None)
    if type == "float":
        other = ClosingFloat()
        other.thing = memory
    if type == "array":
        other = ClosingArray(memory, device.zeros(4, "u4"))
    first: Any = {"memory": memory, "view": memory.view("u4")}.get(given)
    if given == "In":
        first = rawcuda.In(memory.view("u4"))
    with pytest.raises(rawcuda.Closed, match="^kernel k: parameter 'a': .* is closed"):
        kernel.launch(first, other, grid=1, block=1)
    gc.collect()
    device.synchronize()


@pytest.mark.parametrize("kind", ["texture", "surface"])
def test_an_argument_closes_the_texture_of_an_earlier_one(device: Any, kind: str) -> None:
    kernel = device.load(KERNEL.format(type="u64"))["k"]
    array = device.array(4, "f4", surface=True)
    passed = device.texture(array) if kind == "texture" else device.surface(array)
    with pytest.raises(rawcuda.Closed, match="^kernel k: parameter 'a': .* is closed"):
        kernel.launch(passed, ClosingArray(passed, device.zeros(4, "u4")), grid=1, block=1)
    device.synchronize()


CALLS = [
    ("device", lambda memory, stream: stream.write_value(memory, Closing(memory, stream))),
    ("device", lambda memory, stream: stream.wait_value(memory, Closing(memory, stream))),
    ("device", lambda memory, stream: stream.batch([("write", memory, 1), ("write", 8, Closing(memory, stream))])),
    ("managed", lambda memory, stream: memory.prefetch(memory.device, stream=Closing(memory, stream))),
    ("managed", lambda memory, stream: memory.discard(stream=Closing(memory, stream))),
    ("managed", lambda memory, stream: memory.advise("set_read_mostly", offset=Closing(memory, stream))),
    ("managed", lambda memory, stream: rawcuda.prefetch_batch([memory], "host", stream=Closing(memory, stream))),
]


@pytest.mark.parametrize("kind, call", CALLS)
def test_an_argument_closes_the_memory_of_the_call(device: Any, kind: str, call: Any) -> None:
    with device.stream() as stream, device.allocate(64, kind=kind) as memory:
        with pytest.raises(rawcuda.Closed):
            call(memory, stream)


def test_a_stream_closes_the_pool_of_an_allocation(device: Any) -> None:
    pool = device.memory_pool()
    with device.stream() as stream, pytest.raises(rawcuda.Closed):
        pool.allocate(64, stream=Closing(pool, stream))
