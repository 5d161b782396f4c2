"""Default streams of two devices: they have the same numbers, and each belongs to its device."""

from __future__ import annotations

import pytest

from tests.conftest import Python

DELAYED = {"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "lazy,devices=2"}
START = '''
import sys
from tests.subject import rawcuda
zero, one = rawcuda.Device(0), rawcuda.Device(1)
zero.enable_peer_access(one)
HEAD = ".version 7.0 .target sm_70 .address_size 64 .visible .entry "
fetch = zero.load(HEAD + """fetch(.param .u64 from, .param .u64 to) {
.reg .u64 %f, %t; .reg .u32 %v; ld.param.u64 %f, [from]; ld.param.u64 %t, [to];
ld.global.u32 %v, [%f]; st.global.u32 [%t], %v; ret; }""")["fetch"]
memory = one.allocate(16)
theirs = memory.view("uint32")

class Interface:
    """An array of another library on device 1, which works on this stream."""
    def __init__(self, stream):
        self.stream = stream
    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": (4,), "typestr": "<u4", "data": (memory.ptr, False), "strides": None,
                "stream": self.stream}

class Capsule:
    """The same by DLPack, whose exporter makes the given stream of its own device wait."""
    def __init__(self, stream):
        self.view = rawcuda.Memory.borrow(one, memory.ptr, 16, owner=memory).view("uint32")
        self.view.stream = stream
    def __dlpack_device__(self):
        return self.view.__dlpack_device__()
    def __dlpack__(self, *, stream=None, max_version=None, **options):
        return self.view.__dlpack__(stream=stream, max_version=max_version)

class Pinned:
    """Page-locked memory of another library."""
    def __init__(self):
        self.view = zero.allocate(16, kind="pinned").view("uint32").fill(1)
        zero.synchronize()
    def __dlpack_device__(self):
        return self.view.__dlpack_device__()
    def __dlpack__(self, **options):
        return self.view.__dlpack__(**options)

def both(first=zero, second=one):
    first.synchronize(), second.synchronize()
'''
EXPORTERS = """
kind, named, used = sys.argv[1:]
stream = 1 if named == "default" else one.stream()
exporter = (Interface if kind == "Interface" else Capsule)(stream if named == "default" else stream.handle)
use = {"zero": zero.stream, "one": one.stream}.get(used.split()[1], lambda: None)()
for after in (False, True) if kind == "Interface" else (False,):
    out = zero.zeros(4, "uint32")
    theirs.fill(1)
    both()
    if not after:
        theirs.fill(41, stream=stream)
    if used.startswith("kernel"):
        fetch.launch(exporter, out, grid=1, block=1, stream=use)
    else:
        out.copy_from(exporter, stream=use)
    if after:
        theirs.fill(99, stream=stream)
        both(one, zero)
    both()
    found = out.tolist()[0]
    assert found == (1 if after else 41), (after, found)
print("right")
"""


@pytest.mark.parametrize("used", ["kernel default", "kernel zero", "copy default", "copy zero", "copy one"])
@pytest.mark.parametrize("named", ["default", "own"])
@pytest.mark.parametrize("kind", ["Interface", "Capsule"])
def test_an_array_of_another_library_on_another_device_is_used_in_order(
    python: Python, kind: str, named: str, used: str
) -> None:
    """Its earlier work is waited for, and its stream waits for our use."""
    result = python(START + EXPORTERS, kind, named, used, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


WAITS = """
what, name = sys.argv[1:]
default = getattr(rawcuda.Stream, name)
x, y = zero.empty(4, "uint32").fill(1), one.empty(4, "uint32").fill(0)
both()
other = one.stream()
y.copy_from(x, stream=other)
with zero.current():
    default.wait(other.record() if what == "event" else other)
    x.fill(2, stream=default)
both()
assert y.tolist() == [1] * 4, y.tolist()
x.fill(3)
mine = one.stream()
with zero.current():
    mine.wait(rawcuda.Stream.legacy)
y.copy_from(x, stream=mine)
mine.synchronize()
assert y.tolist() == [3] * 4, y.tolist()
print("right")
"""


@pytest.mark.parametrize("name", ["legacy", "per_thread"])
@pytest.mark.parametrize("what", ["event", "stream"])
def test_a_default_stream_that_waits_is_that_of_the_current_context(python: Python, what: str, name: str) -> None:
    result = python(START + WAITS, what, name, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


PINNED = """
wrote, read, how = sys.argv[1:]
pinned = rawcuda.view(Pinned())
x, y = one.empty(4, "uint32").fill(41), zero.empty(4, "uint32").fill(0)
both()
DEFAULT = {"default": None, "object": rawcuda.Stream.legacy}
pinned.copy_from(x, stream=DEFAULT[wrote] if wrote in DEFAULT else one.stream())
stream = DEFAULT[read] if read in DEFAULT else zero.stream()
if how == "copy":
    y.copy_from(pinned, stream=stream)
elif how == "a part":
    y[1:].copy_from(pinned[1:], stream=stream)
    y[:1].fill(41)
else:
    y = zero.array((4,), "uint32").copy_from(pinned, stream=stream)
both()
assert y.tolist() == [41] * 4, y.tolist()
print("right")
"""


@pytest.mark.parametrize("how", ["copy", "a part", "an array"])
@pytest.mark.parametrize("read", ["default", "object", "own"])
@pytest.mark.parametrize("wrote", ["default", "object", "own"])
def test_page_locked_memory_of_others_is_ready_for_each_device(python: Python, wrote: str, read: str, how: str) -> None:
    """It does not tell on which device's default stream it was written."""
    result = python(START + PINNED, wrote, read, how, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


NODES = """
what, named = sys.argv[1:]
stream = 1 if named == "default" else one.stream()
exporter = Interface(1 if named == "default" else stream.handle)
theirs.fill(1)
out, graph, launched = zero.zeros(4, "uint32"), zero.graph(), zero.stream()
both()
theirs.fill(41, stream=stream)
if what == "copy":
    graph.copy(out, exporter)
elif what == "kernel":
    graph.kernel(fetch, exporter, out, grid=1, block=1)
else:
    graph.fill(rawcuda.view(exporter), 5)
graph.launch(launched)
launched.synchronize()
both()
found = (theirs if what == "fill" else out).tolist()[0]
assert found == (5 if what == "fill" else 41), found
print("right")
"""


@pytest.mark.parametrize("named", ["default", "own"])
@pytest.mark.parametrize("what", ["copy", "kernel", "fill"])
def test_a_node_waits_for_the_exporter_on_another_device(python: Python, what: str, named: str) -> None:
    result = python(START + NODES, what, named, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


MANAGED = """
what, used = sys.argv[1:]
shared = one.allocate(16, kind="managed")
theirs = shared.view("uint32").fill(1)
target = one if what == "import" else zero
y, stream = target.empty(4, "uint32").fill(0), one.stream()
both()
theirs.fill(41, stream=stream)
event = stream.record()

class Library:
    def __dlpack_device__(self):
        return 13, 0
    def __dlpack__(self, *, stream=None, max_version=None, **options):
        with zero.current():  # as DLPack says device 0
            rawcuda.Stream.from_handle(stream).wait(event)
        return rawcuda.Memory.borrow(one, shared.ptr, 16, kind="managed", owner=shared).view("uint32").__dlpack__(
            stream=-1, max_version=max_version)

default = {"legacy": 1, "per_thread": 2}.get(used)
if what == "import":
    made = rawcuda.view(Library(), stream=default)
    mine = default or (own := one.stream()).handle
    y.copy_from(made, stream=mine)
else:
    assert theirs.__dlpack_device__() == (13, 0)
    mine = default or (own := zero.stream()).handle
    capsule = theirs.__dlpack__(stream=mine, max_version=(1, 0))
    borrowed = rawcuda.Memory.borrow(zero, shared.ptr, 16, kind="managed", owner=capsule).view("uint32")
    borrowed.stream = None
    y.copy_from(borrowed, stream=mine)
with target.current():
    rawcuda.Stream.from_handle(mine).synchronize()
assert y.tolist() == [41] * 4, y.tolist()
print("right")
"""


@pytest.mark.parametrize("used", ["legacy", "per_thread", "own"])
@pytest.mark.parametrize("what", ["import", "export"])
def test_managed_memory_which_dlpack_says_is_of_device_0_is_used_in_order(python: Python, what: str, used: str) -> None:
    result = python(START + MANAGED, what, used, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


MAPPED = """
used = sys.argv[1]
pinned = one.allocate(16, kind="pinned")
theirs = pinned.view("uint32").fill(1)
x, y, stream = one.empty(4, "uint32").fill(41), one.empty(4, "uint32").fill(0), one.stream()
get = one.load(HEAD + '''get(.param .u64 from, .param .u64 to) {
.reg .u64 %f, %t; .reg .u32 %v; ld.param.u64 %f, [from]; ld.param.u64 %t, [to];
ld.global.u32 %v, [%f]; st.global.u32 [%t], %v; ret; }''')["get"]
both()
theirs.copy_from(x, stream=stream)

class Mapped:
    __cuda_array_interface__ = {"version": 3, "shape": (4,), "typestr": "<u4", "data": (pinned.ptr, False),
                                "strides": None, "stream": stream.handle}

if used == "copy":
    y.copy_from(Mapped())
elif used == "view":
    y.copy_from(rawcuda.view(Mapped()))
else:
    get.launch(Mapped(), y, grid=1, block=1)
both(one, zero)
assert y.tolist()[0] == 41, y.tolist()
print("right")
"""


@pytest.mark.parametrize("used", ["copy", "view", "kernel"])
def test_page_locked_memory_whose_exporter_names_a_stream_is_ready_for_each_device(python: Python, used: str) -> None:
    result = python(START + MAPPED, used, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


OTHER_THREAD = """
import threading
made, stream = sys.argv[1:]
stream = {"2": 2, "object": rawcuda.Stream.per_thread}[stream]
PUT = "put(.param .u64 to) { .reg .u64 %t; ld.param.u64 %t, [to]; st.global.u32 [%t], 42; ret; }"
put = zero.load(HEAD + PUT)["put"]
box, ready, done = [], threading.Event(), threading.Event()

def work():
    if made == "pool":
        memory = zero.memory_pool().allocate(4, stream=stream)
    else:
        memory = zero.allocate(4, stream=stream)
    put.launch(memory, grid=1, block=1, stream=stream)
    box.append(memory)
    ready.set()
    done.wait()

thread = threading.Thread(target=work)
thread.start()
ready.wait()
found = box[0].view("uint32").download(stream=zero.stream()).tolist()
done.set()
thread.join()
assert found == [42], found
print("right")
"""


@pytest.mark.parametrize("stream", ["2", "object"])
@pytest.mark.parametrize("made", ["device", "pool"])
def test_memory_of_a_per_thread_stream_is_ready_in_other_threads(python: Python, made: str, stream: str) -> None:
    result = python(START + OTHER_THREAD, made, stream, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


LOCKED = """
what = sys.argv[1]
pinned = one.allocate(16, kind="pinned")
theirs = pinned.view("uint32").fill(1)
x, y = one.empty(4, "uint32").fill(41), zero.empty(4, "uint32").fill(0)
both()

class Locked:
    def __init__(self, **version):
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<u4", "data": (pinned.ptr, False), **version}

stream = zero.stream()
if what == "before version 3":
    theirs.copy_from(x, stream=one.stream())
    y.copy_from(rawcuda.view(Locked(version=2), stream=stream), stream=stream)
    stream.synchronize()
elif what == "default streams of two devices":
    theirs.copy_from(x)
    fetch.launch(Locked(version=3, stream=1), y, grid=1, block=1)
    zero.synchronize()
else:
    theirs.copy_from(x)
    both()
    y.copy_from(rawcuda.view(Locked(version=3, stream=1), stream=stream), stream=stream)
    theirs.stream = None
    theirs.fill(99)  # the exporter goes on, on the default stream of its device
    both(one, zero)
assert y.tolist()[0] == 41, y.tolist()
print("right")
"""


@pytest.mark.parametrize("what", ["before version 3", "default streams of two devices", "held back"])
def test_page_locked_memory_of_others_belongs_to_no_device(python: Python, what: str) -> None:
    result = python(START + LOCKED, what, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr


TABLE = """
import ctypes
from tests.null.producers import Tensor
from tests.subject import module
kind, dlpack, cuda_h = sys.argv[1], module("dlpack"), module("headers.cuda_h")
bind = module("interpreter.cpython").bind
table = bind("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    rawcuda.StridedView.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
table = dlpack.DLPackExchangeAPI.from_address(table)
ask = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(table.current_work_stream)
hand_over = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(table.managed_tensor_to_py_object_no_sync)
shared, x = one.allocate(16, kind=kind), one.empty(4, "uint32").fill(41)
there = shared.view("uint32").fill(1)
both()
number, out = ctypes.c_size_t(), ctypes.c_size_t()
assert ask(2, 1, ctypes.addressof(number)) == 0
with one.current():  # what another library does between the two calls
    rawcuda.cu.cuMemcpyAsync(shared.ptr, x.ptr, 16, cuda_h.CUstream(number.value))
tensor = Tensor(shared.ptr, shape=(4,), dtype=(1, 32, 1), device={"device": (2, 1), "managed": (13, 0)}[kind])
assert hand_over(tensor.address, ctypes.addressof(out)) == 0
made = ctypes.cast(out.value, ctypes.py_object).value
assert made.device[1] == 1 and made.stream == 1, (made.device, made.stream)
y, stream = one.empty(4, "uint32"), one.stream()
y.copy_from(made, stream=stream)
stream.synchronize()
assert y.tolist() == [41] * 4, y.tolist()
memory = one.allocate(16)
wrong = Tensor(memory.ptr, shape=(4,), dtype=(1, 32, 1), device=(2, 0))
try:
    hand_over(wrong.address, ctypes.addressof(out))
except BufferError as error:
    said = str(error)
assert "the exporter is at fault" in said and wrong.freed == 1, said
print("right")
"""


@pytest.mark.parametrize("kind", ["device", "managed"])
def test_4_9_what_our_exchange_table_is_given_is_ready_on_the_stream_that_it_names(python: Python, kind: str) -> None:
    result = python(START + TABLE, kind, env=DELAYED)
    assert result.stdout == "right\n", result.stdout + result.stderr
