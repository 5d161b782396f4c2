"""What is closed with its owner, and what exports keep: variables of modules and libraries, and borrowed memory."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from tests.conftest import Python
from tests.subject import rawcuda

numpy = pytest.importorskip("numpy")

pytestmark = pytest.mark.usefixtures("only_new_objects")

WAYS = {
    "DLPack": numpy.from_dlpack,
    "the array interface": numpy.asarray,
    "a memoryview": lambda view: numpy.frombuffer(view.memoryview(), "u4"),
}
COUNT = 1 << 16


def code(managed: bool) -> str:
    return (
        ".version 7.0 .target sm_70 .address_size 64 .visible .global "
        f"{'.attribute(.managed) ' * managed}.align 4 .u32 G[{COUNT}];\n"
        ".visible .entry k(.param .u64 x) { .reg .b64 %x; .reg .b32 %r; ld.param.u64 %x, [x];\n"
        "cvta.to.global.u64 %x, %x; ld.global.u32 %r, [%x]; st.global.u32 [%x], %r; ret; }"
    )


def lent(device: Any, kind: str, where: str) -> tuple[Any, Any]:
    """Return an owner and memory that it lends: a variable of a module or a library, or a part of a Memory.

    In the case of "view", the memory is borrowed from a view of the Memory.
    """
    if kind in ("memory", "view"):
        owner = device.allocate(4 * COUNT, kind=where)
        shown = owner if kind == "memory" else owner.view()[:]
        return owner, rawcuda.Memory.borrow(device, owner.ptr, owner.nbytes, kind=where, owner=shown)
    text = code(where == "managed")
    if kind == "module":
        owner = device.load(text)
        return owner, owner.global_("G")
    owner = rawcuda.Library(text)
    return owner, owner.module(device).global_("G")


def taken(device: Any, where: str) -> None:
    """Allocate what was freed, so that somebody else's bytes stand there."""
    for _ in range(8):
        with device.allocate(4 * COUNT, kind=where) as memory:
            memory.fill(7)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind, where",
    [
        ("module", "managed"),
        ("library", "managed"),
        ("memory", "managed"),
        ("memory", "pinned"),
        ("view", "managed"),
        ("view", "pinned"),
    ],
)
def test_an_export_keeps_the_bytes_after_the_close_of_their_owner(device: Any, kind: str, where: str, way: str) -> None:
    owner, memory = lent(device, kind, where)
    memory.fill(1)
    device.synchronize()
    array = WAYS[way](memory.view("u4"))
    with pytest.raises(rawcuda.InvalidUse, match=rf"^Device\.reset\(\) frees the {where} memory of {4 * COUNT} bytes"):
        device.reset()
    owner.close()
    assert memory.closed
    taken(device, where)
    assert array[0] == array[-1] == 0x01010101
    del array
    gc.collect()
    device.synchronize()
    device.reset()  # is not refused any more


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize(
    "kind, where",
    [
        ("module", "device"),
        ("module", "managed"),
        ("library", "device"),
        ("memory", "device"),
        ("view", "device"),
        ("view", "pinned"),
    ],
)
def test_a_view_is_closed_with_the_owner_of_the_bytes(device: Any, kind: str, where: str, end: str) -> None:
    owner, memory = lent(device, kind, where)
    view, other = memory.view("u4"), device.zeros(COUNT, "u4")
    kernel = device.load(code(False))["k"]
    kernel.launch(view, grid=1, block=1)
    device.synchronize()
    if end == "close":
        owner.close()
    else:
        del other
        device.reset()
        kernel = device.load(code(False))["k"]
        other = device.zeros(COUNT, "u4")
    for use in (
        lambda: kernel.launch(view, grid=1, block=1),
        lambda: kernel.launch(memory, grid=1, block=1),
        lambda: rawcuda.copy(other, view),
        lambda: view.fill(1),
        lambda: view.tolist(),
        lambda: view.__dlpack__(),
        lambda: memory.ptr,
        lambda: memory.lease(),
    ):
        with pytest.raises(rawcuda.Closed):
            use()
    device.synchronize()


def test_a_copy_after_the_end_of_an_owner_that_lends_nothing(device: Any) -> None:
    """A copy remembers what it knows of memory, unless an owner that closes no borrowers may end."""
    owner, source = device.event(), device.allocate(64)
    memory, target = rawcuda.Memory.borrow(device, source.ptr, 64, owner=owner), device.allocate(64)
    view = memory.view()
    for _ in range(2):
        rawcuda.copy(target, memory)
        rawcuda.copy(target.view(), view)
    device.synchronize()
    owner.close()
    for thing in memory, view:
        with pytest.raises(rawcuda.Closed):
            rawcuda.copy(target.view(), thing)


def test_a_graph_keeps_a_variable(device: Any) -> None:
    module = device.load(code(False))
    graph, source = device.graph(), device.upload(numpy.arange(COUNT, dtype="u4"))
    target = device.zeros(COUNT, "u4")
    variable = module.global_("G")
    graph.copy(target, variable.view(), after=[graph.copy(variable.view(), source)])
    module.close()
    graph.launch()
    device.synchronize()
    assert target.tolist()[:3] == [0, 1, 2]


def test_a_module_with_many_variables_that_come_and_go(device: Any) -> None:
    with device.load(code(False)) as module:
        for _ in range(100):
            module.global_("G")
        assert len(module._borrowers) <= 1
        kept = [module.global_("G") for _ in range(10)]
        assert len(module._borrowers) == 10
    assert all(each.closed for each in kept)
    with pytest.raises(rawcuda.Closed):
        rawcuda.Memory.borrow(device, 16, 16, owner=module)


OLD = """
import gc, numpy
from tests.subject import rawcuda, module
from tests.driver.test_lenders import code
device, emulator = rawcuda.Device(0), module("emulator").shared()
library = rawcuda.Library(code(True))
variable = library.module(device).global_("G")
variable.fill(1)
device.synchronize()
array = numpy.from_dlpack(variable.view("u4"))
before = emulator.live_handles()["module"]
library.close()
assert array[0] == 0x01010101 and emulator.live_handles()["module"] == before == 1
del array, variable
gc.collect()
device.synchronize()
assert emulator.live_handles().get("module", 0) == 0, emulator.live_handles()
print("right")
"""


def test_a_library_of_an_old_driver_unloads_its_modules_after_the_last_export(python: Python) -> None:
    """The module is an owner, too: the export has to release both."""
    result = python(OLD, env={"RAWCUDA_DRIVER": "emulator", "RAWCUDA_EMULATOR": "cuda=11.4"})  # without libraries
    assert result.stdout == "right\n", result.stderr


OPENED = """
import gc, sys
from tests.subject import rawcuda
device = rawcuda.Device(0)
handles = [bytes.fromhex(each) for each in sys.argv[1:]]
openers = [rawcuda.Memory.from_handle, rawcuda.Event.from_handle]
for handle, opener in zip(handles, openers):
    for _ in range(3):  # what was dropped can be opened again at once
        opener(handle)
        gc.collect()
opened = [opener(handle) for handle, opener in zip(handles, openers)]
device.reset()
assert all(each.closed for each in opened)
again = [opener(handle) for handle, opener in zip(handles, openers)]
assert again[0].view().tolist()[0] == 7
print("right")
"""


def test_what_was_opened_by_a_handle_is_closed_by_reset_and_can_be_opened_again(device: Any, python: Python) -> None:
    memory, event = device.allocate(64), device.event(shareable=True)
    memory.fill(7)
    device.synchronize()
    with memory.share(timeout=5) as first, event.share(timeout=5) as second:
        result = python(OPENED, bytes(first).hex(), bytes(second).hex())
    assert result.stdout == "right\n", result.stderr


@pytest.mark.parametrize("owner", ["memory", "array"])
def test_what_is_pending_on_the_owner_is_pending_on_what_borrows_from_it(device: Any, owner: str) -> None:
    with device.stream() as writes, device.stream() as reads:
        memory = device.allocate(16).fill(0)
        device.synchronize()
        lender = (memory if owner == "memory" else memory.view()).fill(7, stream=writes)
        part = rawcuda.Memory.borrow(device, memory.ptr, 8, owner=lender)
        assert part.view().download(stream=reads).tolist() == [7] * 8
    assert rawcuda.Memory.borrow(device, 4096, 8, owner=object()).stream is None


@pytest.mark.parametrize("kind", ["memory", "view", "module"])
@pytest.mark.parametrize("where", ["managed", "device"])
def test_memory_is_borrowed_for_the_device_of_its_owner(device: Any, kind: str, where: str) -> None:
    """The close() of the owner waits for the work of that device, whose default stream has the same number."""
    if len(rawcuda.devices()) < 2:
        pytest.skip("there is only one device")
    other = rawcuda.Device(1)
    owner, memory = lent(device, kind, where)
    shown = {"memory": owner, "view": memory.view(), "module": owner}[kind]
    for given in (shown, memory):
        with pytest.raises(ValueError, match=r"^the owner is on device 0: give Device\(0\) instead of Device\(1\)"):
            rawcuda.Memory.borrow(other, memory.ptr, 8, kind=where, owner=given)
    assert rawcuda.Memory.borrow(other, memory.ptr, 8, kind=where, owner=object()).device == other


def test_a_long_chain_of_borrowers_is_closed_with_its_owner(device: Any) -> None:
    """It may be longer than Python's stack."""
    chain = [device.allocate(16, kind="pinned").fill(5)]
    for _ in range(1500):
        chain.append(rawcuda.Memory.borrow(device, chain[-1].ptr, 8, kind="pinned", owner=chain[-1]))
    exported = numpy.from_dlpack(chain[-1].view())
    chain[0].close()
    assert all(memory.closed for memory in chain)
    assert exported.tolist() == [5] * 8  # the bytes are kept


def test_borrowers_that_are_equal_are_two(device: Any) -> None:
    """A subclass may define its comparison: the second borrower was not closed, and its export kept no bytes."""

    class Named(rawcuda.Memory):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and self.nbytes == other.nbytes

        def __hash__(self) -> int:
            return self.nbytes

    owner = device.allocate(2 * COUNT, kind="pinned").fill(5)
    device.synchronize()
    parts = [Named.borrow(device, owner.ptr + at, COUNT, kind="pinned", owner=owner) for at in (0, COUNT)]
    exported = numpy.from_dlpack(parts[1].view())
    owner.close()
    assert [part.closed for part in parts] == [True, True]
    taken(device, "pinned")
    assert set(exported.tolist()) == {5}


USES_OF_BORROWED = {
    "copied from": lambda memory, out, stream: memory.copy_to(out, stream=stream),
    "copied to": lambda memory, out, stream: memory.copy_from(out, stream=stream),
    "a view is copied": lambda memory, out, stream: rawcuda.copy(out, memory.view(), stream=stream),
    "copied with gaps": lambda memory, out, stream: rawcuda.copy(out[::3], memory.view()[::3], stream=stream),
    "filled": lambda memory, out, stream: memory.fill(7, stream=stream),
    "filled by words": lambda memory, out, stream: memory.view("float64").fill(0.1, stream=stream),
    "in a batch": lambda memory, out, stream: rawcuda.copy_batch([(out, memory), (memory, out)], stream=stream),
    "a value": lambda memory, out, stream: stream.write_value(memory.view("uint32")[0], 1),
}


@pytest.mark.parametrize("end", ["close", "drop"])
@pytest.mark.parametrize("of", ["an object", "a view", "another Memory"])
@pytest.mark.parametrize("use", USES_OF_BORROWED)
def test_the_owner_of_borrowed_bytes_outlives_the_work_that_uses_them(device: Any, use: str, of: str, end: str) -> None:
    """Another library may give the bytes to another array as soon as nobody holds their owner."""

    class Owner:
        def __init__(self) -> None:
            self.memory = device.allocate(64)
            self.__cuda_array_interface__ = self.memory.__cuda_array_interface__

    waits, out, stream, owner = threading.Event(), device.zeros(64, "uint8"), device.stream(), Owner()
    alive, given, address = weakref.ref(owner), rawcuda.view(owner) if of == "a view" else owner, owner.memory.ptr
    borrowed = rawcuda.Memory.borrow(device, address, 64, owner=given)
    if of == "another Memory":
        borrowed = rawcuda.Memory.borrow(device, address, 64, owner=borrowed)
    stream.call(waits.wait)
    try:
        USES_OF_BORROWED[use](borrowed, out, stream)
        if end == "close":
            borrowed.close()
        del borrowed, owner, given
        gc.collect()
        assert alive() is not None
    finally:
        waits.set()
    stream.synchronize()
    gc.collect()
    assert alive() is None
    stream.close()
