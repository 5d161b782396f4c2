"""Every public callable gets wrong objects for every parameter: what comes out is an error that names what is wrong.

For each callable, CASES has one call that is right. Each parameter in turn gets each object of `wrong_objects()`. The
call may accept it; else the error must be raised by a `raise` of the package, with a class that fits and in our own
words: Python's words do not say which argument is meant. Nothing may be left behind by a call that was refused.
"""

from __future__ import annotations

import array
import ctypes
import dis
import inspect
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from tests.driver.graph_kernels import CONDITIONS, STEP
from tests.driver.kernels import ADD
from tests.subject import FOLDER, rawcuda

GLOBALS = ADD.replace(".visible .entry", ".visible .global .u32 counter;\n.visible .entry")


class World:
    """The objects of the calls that are right, and those that make wrong ones."""

    def __init__(self) -> None:
        self.device, self.other = rawcuda.Device(0), rawcuda.Device(1) if len(rawcuda.devices()) > 1 else None
        device = self.device
        self.stream, self.event, self.timed = device.stream(), device.event(), device.event(timing=True)
        self.timed.record(self.stream)
        self.memory, self.pinned = device.allocate(64).fill(0), device.allocate(64, kind="pinned").fill(0)
        self.managed = device.allocate(4096, kind="managed").fill(0)
        self.view = device.empty((4, 4), "float32").fill(1)
        self.words = device.upload(array.array("I", [0, 0]))
        self.pool, self.virtual = device.memory_pool(), device.virtual_memory(1, reserve=1 << 24)
        self.module, self.step = device.load(GLOBALS), device.load(STEP)
        self.conditions = device.load(CONDITIONS)
        self.kernel = self.module["add"]
        self.launch = self.kernel.configure(grid=1, block=1)
        self.code_library = rawcuda.Library(STEP)
        self.array = device.array((4, 4), "float32", surface=True)
        self.mipmapped = device.mipmapped_array((4, 4), "float32")
        self.texture, self.surface = device.texture(self.array), device.surface(self.array)
        if ctypes.sizeof(ctypes.c_void_p) == 8:  # cuTensorMapEncodeTiled() takes a `void *`
            self.tensor_map = rawcuda.TensorMap.tiled(device.empty((64, 64), "float16"), box=(8, 64))
        self.graph = device.graph()
        self.first = self.graph.fill(self.view, 1)
        self.kernel_node = self.graph.kernel(self.step["step"], self.words, 1, grid=1, block=1, after=self.first)
        self.executable = self.graph.instantiate()
        self.foreign_node = device.graph().empty()
        self.closed = [device.allocate(4), device.stream(), device.event(), device.graph(), device.memory_pool()]
        self.closed += [device.load(STEP), device.array((2, 2), "uint8")]
        for thing in self.closed:
            thing.close()

    def close(self) -> None:
        device, names = self.device, list(self.__dict__)
        device.synchronize()
        for name in names:
            thing = getattr(self, name)
            if name not in ("device", "other", "closed") and hasattr(thing, "close"):
                thing.close()
        self.__dict__.clear()


class Silent:
    """An object whose repr fails."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Word(str):
    """A str of another class."""


def wrong_objects(w: World) -> Iterator[tuple[str, Any]]:
    """Yield (a name, an object): some are right for one parameter or another."""
    for value in (None, True, -1, 0, 7, 2**31, 2**63, 2**64, -(2**63) - 1, 1 << 20000, 1.5, 1e300, float("nan"), 1j):
        yield repr(value) if not isinstance(value, int) or abs(value) < 2**70 else "huge", value
    yield from (("''", ""), ("'x'", "x"), ("a long str", "x" * 100_000), ("a surrogate", "\ud800"), ("a NUL", "a\0b"))
    yield from (
        ("a Word", Word("x")),
        ("b''", b""),
        ("b'x'", b"x"),
        ("bytearray", bytearray(8)),
        ("[]", []),
        ("()", ()),
    )
    yield from (("[None]", [None]), ("ten ints", (1,) * 10), ("[2**64]", [2**64]), ("{}", {}), ("a dict", {"a": 1}))
    yield from ((("set", {1}), ("object", object()), ("a class", int), ("a lambda", lambda *a, **k: None)))
    yield from ((("...", ...), ("a module", os), ("a slice", slice(None)), ("Silent", Silent()), ("pairs", [(1, 2)])))
    nested: list[Any] = []
    nested.append(nested)
    deep: Any = ()
    for _ in range(3000):
        deep = (deep,)
    yield from (("a list in itself", nested), ("a deep tuple", deep), ("an iterator", iter([1, 2])))
    for thing in w.closed:
        yield f"a closed {type(thing).__name__}", thing
    if w.other is not None:
        yield from (("another Device", w.other), ("a view of another device", w.other.empty(4, "float32")))
        yield "a stream of another device", w.other.stream()
        yield "memory of another device", w.other.allocate(4)
    yield from (("a view", w.view), ("a 0-d view", w.view[0, 0]), ("a texture", w.texture), ("a kernel", w.kernel))
    yield from (("an array", w.array), ("a foreign node", w.foreign_node), ("a node", w.first), ("a graph", w.graph))
    yield from (("a pool", w.pool), ("an Event", w.event), ("a Stream", w.stream), ("a Memory", w.memory))
    try:
        import numpy
    except ImportError:
        return
    yield from (("int64", numpy.int64(3)), ("int8", numpy.int8(-1)), ("float32", numpy.float32(1.5)))
    yield from (
        ("a 0-d array", numpy.array(3)),
        ("an ndarray", numpy.arange(3.0)),
        ("datetime", numpy.datetime64("2026-01-01")),
    )
    yield from (("objects", numpy.array([None, "x"])), ("a structure", numpy.zeros(2, "i4,f4")))


Case = Callable[[World], "tuple[Callable[..., Any], dict[str, Any]]"]
CASES: dict[str, Case] = {}


def case(name: str, make: Callable[[World], Any], /, **given: Callable[[World], Any] | Any) -> None:
    """Add a call: `make` returns the callable; parameters that begin with _ are given by position, the rest by name."""
    CASES[name] = lambda w: (make(w), {k: v(w) if callable(v) else v for k, v in given.items()})


S, D, V = (lambda w: w.stream), (lambda w: w.device), (lambda w: w.view)

# Device
case("Device", lambda w: rawcuda.Device, ordinal=0)
case("Device.allocate", lambda w: w.device.allocate, nbytes=16, kind="device", stream=S, pool=lambda w: w.pool)
case(
    "Device.array", lambda w: w.device.array, source=lambda w: (2, 2), dtype="uint8", channels=None, layered=False,
    cubemap=False, surface=False, gather=False, stream=S,
)  # fmt: skip
case("Device.attribute", lambda w: w.device.attribute, which="WARP_SIZE")
for name in ("can_reach", "enable_peer_access", "disable_peer_access", "peer_access", "peer_attributes"):
    case(f"Device.{name}", lambda w, name=name: getattr(w.device, name), other=lambda w: w.other)  # type: ignore[misc]
case(
    "Device.compile", lambda w: w.device.compile, source="__global__ void k() {}", options=(), headers=None, names=(),
    cache=None,
)  # fmt: skip
case("Device.empty", lambda w: w.device.empty, shape=(2, 2), dtype="float32", stream=S)
case("Device.empty_pitched", lambda w: w.device.empty_pitched, shape=(2, 2), dtype="float32")
case("Device.event", lambda w: w.device.event, timing=False, blocking=False)
case("Device.full", lambda w: w.device.full, shape=(2, 2), fill_value=1, dtype="float32", stream=None)
case("Device.from_pci_bus_id", lambda w: rawcuda.Device.from_pci_bus_id, address="0000:01:00.0")
case("Device.link", lambda w: w.device.link, inputs=lambda w: [STEP], options=())
case("Device.load", lambda w: w.device.load, code=STEP)
case("Device.memory_pool", lambda w: w.device.memory_pool, kind="device", max_size=0, location=None)
case("Device.memory_pool of pinned memory", lambda w: w.device.memory_pool, kind="pinned", max_size=0, location="host")
case(
    "Device.mipmapped_array", lambda w: w.device.mipmapped_array, source=lambda w: (2, 2), dtype="uint8", levels=1,
    channels=None, layered=False, cubemap=False, surface=False, stream=S,
)  # fmt: skip
case("Device.pool=", lambda w: setter(w.device, "pool"), pool=lambda w: w.device.default_pool)
case("Device.register", lambda w: w.device.register, exporter=lambda w: bytearray(8), read_only=False)
case("Device.split", lambda w: w.device.split, _sm_counts=2, rest=False)
case("Device.stream", lambda w: w.device.stream, priority=0, nonblocking=True)
case("Device.surface", lambda w: w.device.surface, array=lambda w: w.array)
case(
    "Device.texture", lambda w: w.device.texture, source=lambda w: w.array, channels=None, address_mode="clamp",
    filter_mode="point", read_mode="element_type", normalized_coords=False, srgb=False, border_color=None,
    max_anisotropy=0, mipmap_filter_mode="point", mipmap_level_bias=0, min_mipmap_level_clamp=0,
    max_mipmap_level_clamp=0,
)  # fmt: skip
case("Device.upload", lambda w: w.device.upload, exporter=lambda w: bytearray(8), stream=S)
case("Device.virtual_memory", lambda w: w.device.virtual_memory, nbytes=1, reserve=1 << 24, peers=())
case("Device.attributes[]", lambda w: w.device.attributes.__getitem__, _name="WARP_SIZE")
case("Device.limits.stack_size=", lambda w: setter(w.device.limits, "stack_size"), nbytes=1024)
case("Device.limits.cache_config=", lambda w: setter(w.device.limits, "cache_config"), value="none")
case("Device.zeros", lambda w: w.device.zeros, shape=(2, 2), dtype="float32", stream=None)

# Event
case("Event", lambda w: rawcuda.Event, device=D, timing=False, blocking=False)
case("Event.elapsed_ms", lambda w: w.timed.elapsed_ms, since=lambda w: w.timed)
case("Event.record", lambda w: w.event.record, stream=S, external=False)
case("Event.synchronize", lambda w: w.event.synchronize, timeout=1.0)

# Graph
case("Graph", lambda w: rawcuda.Graph, where=D, mode="thread_local")
case("Graph.add_edge", lambda w: fresh(w)[0].add_edge, first=lambda w: fresh(w)[1], second=lambda w: fresh(w)[2])
case("Graph.remove_edge", lambda w: fresh(w)[0].remove_edge, first=lambda w: fresh(w)[1], second=lambda w: fresh(w)[2])
case("Graph.allocate", lambda w: w.device.graph().allocate, nbytes=16, after=None)
case("Graph.callback", lambda w: w.graph.callback, _function=lambda w: int, _argument=0, after=lambda w: w.first)
case("Graph.copy", lambda w: w.graph.copy, dst=V, src=V, after=lambda w: w.first)
case("Graph.create_condition", lambda w: w.graph.create_condition, default=1)
case("Graph.debug_dot", lambda w: w.graph.debug_dot, verbose=False)
case("Graph.embed", lambda w: w.device.graph().embed, graph=lambda w: w.graph, after=None)
case("Graph.empty", lambda w: w.graph.empty, after=lambda w: w.first)
case("Graph.fill", lambda w: w.graph.fill, target=V, value=1, after=lambda w: w.first)
case("Graph.find", lambda w: w.graph.clone().find, node=lambda w: w.first)
case("Graph.free", lambda w: w.device.graph().free, allocation=lambda w: w.device.graph().allocate(4), after=None)
for name in ("if_then", "if_else", "while_loop"):
    case(
        f"Graph.{name}", lambda w, name=name: getattr(w.graph, name), after=None,  # type: ignore[misc]
        condition=lambda w: w.graph.create_condition(),
    )  # fmt: skip
case("Graph.switch", lambda w: w.graph.switch, condition=lambda w: w.graph.create_condition(), count=2, after=None)
case("Graph.instantiate", lambda w: w.graph.instantiate, auto_free=False, priorities=False)
case("Graph.join", lambda w: w.graph.join, _nodes=lambda w: w.first)
case(
    "Graph.kernel", lambda w: w.graph.kernel, _launch=lambda w: w.step["step"], _at=lambda w: w.words, _digit=1,
    after=lambda w: w.first, grid=1, block=1, shared_bytes=0, cooperative=False, cluster=None, priority=None,
)  # fmt: skip
case("Graph.launch", lambda w: w.graph.launch, stream=S)
case("Graph.record", lambda w: w.graph.record, event=lambda w: w.event, after=lambda w: w.first)
case("Graph.upload", lambda w: w.graph.upload, stream=S)
case("Graph.wait", lambda w: w.graph.wait, event=lambda w: w.event, after=lambda w: w.first)
case(  # with the kernel: after an interrupt, it is not known which one the node has
    "Node.update of a kernel", lambda w: w.kernel_node.update, _launch=lambda w: w.step["step"], _at=lambda w: w.words,
    _digit=1, grid=1, block=1,
)  # fmt: skip
case("Node.update of a fill", lambda w: w.first.update, _target=V, _value=1)
case("Executable.launch", lambda w: w.executable.launch, stream=S)
case("Executable.upload", lambda w: w.executable.upload, stream=S)
case("Executable.update", lambda w: w.executable.update, graph=lambda w: w.graph)
case("Executable[]", lambda w: w.executable.__getitem__, _node=lambda w: w.first)
case("ExecutableNode.update", lambda w: w.executable[w.first].update, _target=V, _value=1)

# Kernel, Launch, Module, Library
case("In", lambda w: rawcuda.In, exporter=V)
case("Kernel.available_dynamic_shared", lambda w: w.kernel.available_dynamic_shared, blocks=1, block=1)
OPTIONS = dict(
    programmatic_stream_serialization=None, preferred_cluster=None, cluster_scheduling_policy=None,
    portable_cluster_size_mode=None, programmatic_event=None, launch_completion_event=None, priority=None,
    mem_sync_domain=None, mem_sync_domain_map=None, access_policy_window=None, preferred_shared_carveout=None,
    shared_memory_mode=None, nvlink_util_centric_scheduling=None, device_updatable=None,
)  # fmt: skip
SHAPE = dict(grid=1, block=1, shared_bytes=0, stream=S, cooperative=False, cluster=None)
case("Kernel.configure", lambda w: w.kernel.configure, **SHAPE, **OPTIONS)
A = dict(_a=V, _b=V, _c=V, _n=0)  # the kernel does nothing for n = 0, so that the pointers may be anything
case("Kernel.launch", lambda w: w.kernel.launch, **A, **SHAPE, priority=None)
case("Kernel.max_active_blocks", lambda w: w.kernel.max_active_blocks, block=1, shared_bytes=0,
     disable_caching_override=False)  # fmt: skip
case("Kernel.max_active_clusters", lambda w: w.kernel.max_active_clusters, block=1, shared_bytes=0, cluster=1)
case("Kernel.max_potential_cluster_size", lambda w: w.kernel.max_potential_cluster_size, block=1, shared_bytes=0)
case("Kernel.set_cache_config", lambda w: w.kernel.set_cache_config, prefer="none")
case("Kernel.suggest_block", lambda w: w.kernel.suggest_block, shared_bytes=0, limit=0)
case("Kernel.attributes.max_dynamic=", lambda w: setter(w.kernel.attributes, "max_dynamic_shared_bytes"), nbytes=1024)
case("Kernel.attributes.carveout=", lambda w: setter(w.kernel.attributes, "preferred_shared_carveout"), carveout=50)
case("Kernel.attributes[]", lambda w: w.kernel.attributes.__getitem__, _name="num_regs")
case("Launch.__call__", lambda w: w.launch, **A)
case("Launch.pack_for_graph", lambda w: w.launch.pack_for_graph, arguments=lambda w: (w.view, w.view, w.view, 4))
case("Library", lambda w: rawcuda.Library, code=STEP, names=None)
case("Library.module", lambda w: w.code_library.module, device=D)
case("Module", lambda w: rawcuda.Module, device=D, code=STEP, names=None)
case("Module.__getitem__", lambda w: w.module.__getitem__, _name="add")
case("Module.global_", lambda w: w.module.global_, name="counter")
case("Module.kernel", lambda w: w.module.kernel, name="add", parameters=lambda w: ["float32*"] * 3 + ["uint32"])

# Memory, pools, virtual memory
case(
    "ManagedMemory.advise",
    lambda w: w.managed.advise,
    advice="set_preferred_location",
    location=D,
    offset=0,
    nbytes=None,
)
case("Memory.borrow", lambda w: rawcuda.Memory.borrow, device=D, address=lambda w: w.memory.ptr, nbytes=4,
     kind="device", owner=None)  # fmt: skip
case("Memory.copy_from", lambda w: w.memory.copy_from, source=lambda w: bytes(64), stream=S)
case("Memory.copy_to", lambda w: w.memory.copy_to, target=lambda w: bytearray(64), stream=S)
case("ManagedMemory.discard", lambda w: w.managed.discard, location=None, stream=S, offset=0, nbytes=None)
case("Memory.fill", lambda w: w.memory.fill, value=1, stream=S)
case("Memory.is_accessible_from", lambda w: w.memory.is_accessible_from, device=D)
case("ManagedMemory.prefetch", lambda w: w.managed.prefetch, location=D, stream=S, offset=0, nbytes=None)
case("ManagedMemory.range_attributes", lambda w: w.managed.range_attributes, offset=0, nbytes=None)
case("ManagedMemory.accessed_by=", lambda w: setter(w.managed, "accessed_by"), devices=())
case("ManagedMemory.preferred_location=", lambda w: setter(w.managed, "preferred_location"), location=None)
case("ManagedMemory.read_mostly=", lambda w: setter(w.managed, "read_mostly"), value=False)
case("Memory.register", lambda w: rawcuda.Memory.register, exporter=lambda w: bytearray(8), device=D, portable=True,
     read_only=False, io_memory=False)  # fmt: skip
case("Memory.view", lambda w: w.memory.view, dtype="float32")
case("Memory.share", lambda w: w.device.allocate(64).share, timeout=1.0)
case("Event.share", lambda w: w.device.event().share, timeout=1.0)
case("SharedHandle.close", lambda w: w.device.allocate(64).share().close, timeout=0.1)
case("SharedHandle.from_bytes", lambda w: rawcuda.SharedHandle.from_bytes, data=lambda w: bytes(w.memory.share()))
case("MemoryPool", lambda w: rawcuda.MemoryPool, device=D, kind="device", max_size=0, location=None)
case("MemoryPool.access", lambda w: w.pool.access, device=D)
case("MemoryPool.allocate", lambda w: w.pool.allocate, nbytes=8, stream=S)
case("MemoryPool.current", lambda w: rawcuda.MemoryPool.current, device=D, kind="device", location=None)
case("MemoryPool.default", lambda w: rawcuda.MemoryPool.default, device=D, kind="device", location=None)
case("MemoryPool.peer_accessible_by=", lambda w: setter(w.pool, "peer_accessible_by"), devices=())
case("MemoryPool.peer_accessible_by.add", lambda w: w.pool.peer_accessible_by.add, _device=lambda w: w.other)
case("MemoryPool.release_threshold=", lambda w: setter(w.pool, "release_threshold"), release_threshold=0)
case("MemoryPool.set_access", lambda w: w.pool.set_access, device=lambda w: w.other, access="readwrite")
case("MemoryPool.trim", lambda w: w.pool.trim, keep=0)
case("MemoryPool.attributes[]", lambda w: w.pool.attributes.__getitem__, _name="used_mem_high")
case("MemoryPool.attributes.reuse=", lambda w: setter(w.pool.attributes, "reuse_allow_opportunistic"), value=True)
case(
    "VirtualMemory", lambda w: rawcuda.VirtualMemory, device=D, nbytes=1, reserve=1 << 24, access="readwrite", peers=()
)
case("VirtualMemory.access", lambda w: w.virtual.access, device=D)
case("VirtualMemory.grow", lambda w: w.virtual.grow, nbytes=1, device=D)
case("VirtualMemory.map", lambda w: w.device.virtual_memory(0, reserve=1 << 24).map, offset=0, nbytes=1 << 21, device=D)
case("VirtualMemory.peer_accessible_by=", lambda w: setter(w.virtual, "peer_accessible_by"), devices=())
case("VirtualMemory.set_access", lambda w: w.virtual.set_access, device=D, access="readwrite")
case("VirtualMemory.shrink", lambda w: w.device.virtual_memory(1).shrink, nbytes=0)
case("VirtualMemory.unmap", lambda w: w.device.virtual_memory(1).unmap, offset=0, nbytes=1 << 21)

# arrays, textures, tensor maps
case("MipmappedArray.__getitem__", lambda w: w.mipmapped.__getitem__, _number=0)
case("MipmappedArray.get_level", lambda w: w.mipmapped.get_level, number=0)
case("MipmappedArray.level", lambda w: w.mipmapped.level, number=0)
case("MipmappedArray.stream=", lambda w: setter(w.device.mipmapped_array(4, "uint8"), "stream"), stream=S)
case("OpaqueArray.stream=", lambda w: setter(w.device.array(4, "uint8"), "stream"), stream=S)
case("OpaqueArray.__getitem__", lambda w: w.array.__getitem__, _key=0)
case("OpaqueArray.__setitem__", lambda w: w.array.__setitem__, _key=..., _value=V)
case("OpaqueArray.borrow", lambda w: rawcuda.OpaqueArray.borrow, device=D, handle=lambda w: w.array.handle, owner=None)
case("OpaqueArray.copy_from", lambda w: w.array.copy_from, source=V, stream=S)
case("OpaqueArray.copy_to", lambda w: w.array.copy_to, target=V, stream=S)
case("OpaqueArray.download", lambda w: w.array.download, stream=S)
case("TensorMap.tiled", lambda w: rawcuda.TensorMap.tiled, view=lambda w: w.tensor_map.view, box=(8, 64),
     element_strides=None, dtype=None, interleave=None, swizzle=None, l2_promotion=None, fill=None)  # fmt: skip
case("TensorMap.im2col", lambda w: rawcuda.TensorMap.im2col, view=lambda w: w.device.empty((2, 8, 8, 64), "float16"),
     lower=(0, 0), upper=(0, 0), channels=64, pixels=8, element_strides=None, dtype=None, interleave=None, swizzle=None,
     l2_promotion=None, fill=None)  # fmt: skip
case("TensorMap.replace_address", lambda w: w.tensor_map.replace_address, view=lambda w: w.tensor_map.view)

# Stream
case("Stream", lambda w: rawcuda.Stream, device=D, priority=0, nonblocking=True)
case("Stream.batch", lambda w: w.stream.batch, operations=lambda w: [("write", w.words[0], 0)])
for at, what in enumerate(("operation", "where", "value")):
    case(
        f"Stream.batch: {what}", lambda w, at=at: lambda x: w.stream.batch(  # type: ignore[misc]
            [tuple(x if n == at else part for n, part in enumerate(("write", w.words[0], 0)))]), _x=0,
    )  # fmt: skip
case("Stream.call", lambda w: w.stream.call, _function=lambda w: int, _argument=0)
case("Stream.capture", lambda w: w.stream.capture, mode="thread_local", into=None, after=None)
case("Stream.capture into", lambda w: w.stream.capture, mode="relaxed", into=lambda w: w.graph, after=lambda w: w.first)
case("Stream.from_handle", lambda w: rawcuda.Stream.from_handle, handle=lambda w: w.stream.handle)
case("Stream.record", lambda w: w.stream.record, event=lambda w: w.event)
case("Stream.synchronize", lambda w: w.stream.synchronize, timeout=1.0)
case("Stream.wait", lambda w: w.stream.wait, other=lambda w: w.event, external=False)
case("Stream.wait_value", lambda w: w.stream.wait_value, where=lambda w: w.words[0], value=0, how=">=", bits=32,
     flush=False)  # fmt: skip
case("Stream.write_value", lambda w: w.stream.write_value, where=lambda w: w.words[0], value=0, bits=32)
case("Stream.attributes.policy=", lambda w: setter(w.stream.attributes, "synchronization_policy"), value="auto")
case("Stream.attributes.window=", lambda w: setter(w.stream.attributes, "access_policy_window"), value=None)
case("Stream.attributes.copy_from", lambda w: w.device.stream().attributes.copy_from, other=S)
case("Stream.attributes.set_access_policy_window", lambda w: w.stream.attributes.set_access_policy_window,
     _array=V, hit_ratio=0.5)  # fmt: skip

# StridedView
VIEW = {
    "__getitem__": dict(_key=0), "__setitem__": dict(_key=..., _value=1), "astype": dict(dtype="float64", copy=True),
    "broadcast_to": dict(shape=(4, 4)), "copy": dict(stream=S), "copy_from": dict(source=V, stream=S),
    "copy_to": dict(target=V, stream=S), "download": dict(stream=S), "fill": dict(value=1, stream=S),
    "item": dict(_first=0, _second=0), "moveaxis": dict(source=0, destination=1), "reinterpret": dict(dtype="int32"),
    "reshape": dict(_first=2, _second=8), "squeeze": dict(axis=None), "swapaxes": dict(first=0, second=1),
    "tobytes": dict(order="C"), "transpose": dict(_first=1, _second=0),
}  # fmt: skip
for name, given in VIEW.items():
    case(f"StridedView.{name}", lambda w, name=name: getattr(w.view, name), **given)  # type: ignore[misc, arg-type]

# functions
case("compile", lambda w: rawcuda.compile, source="__global__ void k() {}", target="sm_90", output="ptx", options=(),
     headers=None, names=(), cache=None)  # fmt: skip
case("link", lambda w: rawcuda.link, inputs=lambda w: [STEP], target="sm_90", output="cubin", options=())
case("copy", lambda w: rawcuda.copy, dst=V, src=V, stream=S)
case("copy_batch", lambda w: rawcuda.copy_batch, pairs=lambda w: [(w.view, w.view)], stream=S, source_order="stream",
     prefer_overlap=False)  # fmt: skip
case("copy_batch: a pair", lambda w: lambda x: rawcuda.copy_batch([x], stream=w.stream), _x=lambda w: (w.view, w.view))
case("copy_batch: a side", lambda w: lambda x: rawcuda.copy_batch([(w.view, x)], stream=w.stream), _x=V)
case("prefetch_batch", lambda w: rawcuda.prefetch_batch, memories=lambda w: [w.managed], location=D, stream=S)
case("prefetch_batch: a run", lambda w: lambda x: rawcuda.prefetch_batch([x], w.device), _x=lambda w: w.managed)
case("discard_batch", lambda w: rawcuda.discard_batch, memories=lambda w: [w.managed], location=D, stream=S)
case("view", lambda w: rawcuda.view, obj=V, stream=S, protocol=None, writable=None)
case("explain", lambda w: rawcuda.explain, obj=V)
case("progress", lambda w: rawcuda.progress, iterable=lambda w: [1], total=1, label="x")
case("range", lambda w: rawcuda.range, name="x", color=None)
case("range.__call__", lambda w: rawcuda.range("x"), function=lambda w: int)
case("receive_on", lambda w: rawcuda.receive_on, where=D)
case(
    "step", lambda w: rawcuda.step, _kernel=lambda w: w.kernel, **A, **SHAPE, warp=0, block_index=(0, 0, 0),
    limit=10,
)  # fmt: skip
case("trace", lambda w: rawcuda.trace, to=lambda w: [], form=None)

# What is not called with wrong objects, and why. Methods without parameters are left out anyway.
LEFT_OUT = {
    "Device.reset": "on the emulator it ends the context, whatever it gets",
    "Kernel.__call__": "raises an error that shows launch()",
    "Kernel.__getitem__": "raises an error that shows launch()",
    **dict.fromkeys(
        [f"{name}.__setitem__" for name in ("ManagedMemory", "Memory", "VirtualMemory")],
        "raises an error that shows copy_from()",
    ),
    "Module.__setitem__": "raises an error that shows copy_from()",
    "Kernel.__init__": "not public: module[name] makes kernels",
    "MipmappedArray.create": "not public", "OpaqueArray.create": "not public", "SurfaceObject.create": "not public",
    "TextureObject.create": "not public", "use": "the driver is in use: it raises whatever it gets",
    **dict.fromkeys(
        ("Event.from_handle", *(f"{kind}Memory.from_handle" for kind in ("", "Virtual", "Managed"))),
        "only another process can open a handle: test_sharing.py has the wrong ones",
    ),
    "profile.__init__": "object's",
    **dict.fromkeys(
        [f"{name}.__init__" for name in ("Launch", "ManagedMemory", "Memory", "MipmappedArray", "OpaqueArray",
         "SharedHandle", "StridedView", "SurfaceObject", "TensorMap", "TextureObject")],
        "raises an error that says how such objects are made: test_first_tries.py",
    ),
}  # fmt: skip


def setter(thing: Any, name: str) -> Callable[..., None]:
    return lambda *args, **named: setattr(thing, name, *args, *named.values())


def fresh(w: World) -> tuple[Any, Any, Any]:
    """Return a graph and two nodes of it, without an edge or with one; the same for the parts of one call."""
    if getattr(w, "_calls", 0) % 3 == 0:
        graph = w.device.graph()
        first = graph.empty()
        w._fresh = graph, first, graph.empty(after=first)  # type: ignore[attr-defined]
    w._calls = getattr(w, "_calls", 0) + 1  # type: ignore[attr-defined]
    return w._fresh  # type: ignore[attr-defined, no-any-return]


def attempt(call: Callable[..., Any], given: dict[str, Any]) -> Any:
    by_position = [value for name, value in given.items() if name.startswith("_")]
    return call(*by_position, **{name: value for name, value in given.items() if not name.startswith("_")})


ALLOWED = (TypeError, ValueError, IndexError, rawcuda.RawCudaError)
# What Python says when an object lacks what an operation needs
PYTHONS = re.compile(
    r"unhashable|object has no attribute|not subscriptable|not iterable|cannot be interpreted as|required argument"
    r"|not supported between|unsupported operand|embedded null|positional argument|must be real number|too large to"
    r"|codec can't|expected .* got|missing \d|has no len|unexpected keyword|invalid literal|sequence index must"
)


def complaint(error: BaseException, parameter: str) -> str:
    """Return what is wrong with an error, or ""."""
    if isinstance(error, OSError) and parameter in ("cache", "to", "source", "code"):  # it is a path
        return ""
    if not isinstance(error, ALLOWED) or isinstance(error, (UnicodeError, RecursionError)):
        return "is of a class that does not fit"
    last = list(traceback.walk_tb(error.__traceback__))[-1][0]
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    assert tb is not None
    opcode = dis.opname[last.f_code.co_code[tb.tb_lasti]]
    if not last.f_code.co_filename.startswith(str(FOLDER)):
        return "comes from outside the package"
    if opcode not in ("RAISE_VARARGS", "RERAISE"):
        return "is Python's own"
    text = str(error)
    if PYTHONS.search(text):
        return "is worded by Python"
    if len(text) > 3000:
        return f"has {len(text)} characters"
    if not text.isprintable() and "\ud800" in text:
        return "cannot be printed"
    return ""


def attack(name: str, w: World, wrong: list[tuple[str, Any]]) -> list[str]:
    found = []
    parameters = list(CASES[name](w)[1])
    for parameter in parameters:
        for label, value in wrong:
            call, given = CASES[name](w)
            given[parameter] = value() if label == "an iterator" and callable(value) else value
            result, error = None, None
            try:
                result = attempt(call, given)
            except Exception as caught:
                error = caught
                wrongs = complaint(error, parameter)
                if wrongs:
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    found.append(
                        f"{name}({parameter}={label}) {wrongs}: {type(error).__name__}: {str(error)[:150]} "
                        f"[{os.path.basename(where.filename)}:{where.lineno}]"
                    )
            if error is None:
                settle(w, name, given, result)
            result = error = None
    return found


def settle(w: World, name: str, given: dict[str, Any], result: Any) -> None:
    """Undo what a call that went through did."""
    if name == "receive_on":
        rawcuda.receive_on(None)
    if name == "Stream.wait_value":  # let the stream continue
        w.device.stream().write_value(w.words[0], given["value"] if given["how"] in (">=", "==") else 0)
    if name == "Stream.call":
        try:
            w.stream.synchronize()
        except Exception:  # the function's own
            pass
    for each in (w.device, w.other):
        if each is not None:
            each.synchronize()  # the work may use what is let go of next
    if result is not None and not any(result is value for value in given.values()):
        if isinstance(result, tuple) and hasattr(result, "close"):
            result.close()
        elif hasattr(result, "close") and result not in (w.graph, w.managed, w.memory, w.array, w.virtual, w.event):
            result.close()


@pytest.fixture
def world(library: Any) -> Iterator[World]:
    made = World()
    yield made
    made.close()


# of an integer that is the handle of no stream
@pytest.mark.codes(
    "cuStreamSynchronize returned 400", "cuStreamGetCtx returned 400", "cuStreamIsCapturing returned 400"
)
@pytest.mark.filterwarnings("ignore:a trace that hears nothing")
@pytest.mark.parametrize("name", CASES)
def test_wrong_objects(world: World, name: str, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    if world.other is None and "other" in CASES[name](world)[1]:
        pytest.skip("one device")
    found = attack(name, world, list(wrong_objects(world)))
    assert not found, "\n" + "\n".join(found)


def test_a_word_is_no_bool(world: World) -> None:
    """Otherwise the answer "no" would mean True."""
    answers = {}
    for name, make in CASES.items():
        if world.other is None and "other" in make(world)[1]:
            continue
        for parameter in [each for each, value in make(world)[1].items() if type(value) is bool]:
            call, given = make(world)
            given[parameter] = "no"
            try:
                attempt(call, given)
                answers[name, parameter] = "nothing"
            except TypeError as error:
                answers[name, parameter] = str(error).partition("=")[2]
    assert len(answers) > 30 and set(answers.values()) == {"'no': give True or False"}, answers
    with pytest.raises(TypeError, match="writable='no': give True or False"):
        rawcuda.view(bytearray(4), writable="no")  # type: ignore[arg-type]


def test_each_public_callable_is_here() -> None:
    wanted = set()
    for name in {*rawcuda.__all__, "range"} - {"cu", "NO_SYNC"}:
        thing = getattr(rawcuda, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            continue
        if not isinstance(thing, type):
            wanted |= {name} if inspect.signature(thing).parameters else set()
            continue
        for part in dir(thing):
            method = inspect.getattr_static(thing, part)
            if isinstance(method, property):
                wanted |= {f"{name}.{part}="} if method.fset and name != "In" else set()
            elif part in ("__init__", "__getitem__", "__setitem__", "__call__") or not part.startswith("_"):
                function = getattr(method, "__func__", method)
                if inspect.isfunction(function) and len(inspect.signature(function).parameters) > 1:
                    wanted.add(name if part == "__init__" and name in CASES else f"{name}.{part}")
    inherited = {each for each in wanted if re.sub("^(Virtual|Managed)Memory", "Memory", each) in CASES}
    missing = wanted - inherited - set(CASES) - set(LEFT_OUT)
    assert not missing, " ".join(sorted(missing))
