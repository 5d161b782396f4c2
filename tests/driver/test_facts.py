"""Facts about objects can be read, but not set or deleted: a false size would lead out of the memory."""

from __future__ import annotations

import array

import pytest

from tests.subject import rawcuda

PTX = """
.version 6.3
.target sm_50
.address_size 64
.visible .global .align 4 .f32 numbers[4];
.visible .entry nothing(.param .u64 a, .param .u32 n)
{
    ret;
}
"""

# the attributes that are there to be set: a class of the public names, and its attributes
SETTABLE = {
    # the stream in whose order the elements are ready: it is set by who wrote them by other means
    **dict.fromkeys(("StridedView", "Memory", "Variable"), {"stream"}),
    "Device": {"pool"},
    "MemoryPool": {"peer_accessible_by", "release_threshold"},
    "VirtualMemory": {"peer_accessible_by", "stream"},
    "KernelAttributes": {
        "cluster_scheduling_policy",
        "max_dynamic_shared_bytes",
        "non_portable_cluster_size_allowed",
        "preferred_shared_carveout",
        "required_cluster",
        "required_cluster_depth",
        "required_cluster_height",
        "required_cluster_width",
    },
}


@pytest.fixture
def things(device):
    """Return an object of each kind."""
    module = device.load(PTX)
    kernel, memory, stream = module["nothing"], device.allocate(64), device.stream()
    view = memory.view("float32")
    with device.stream() as captured:
        with captured.capture() as graph:
            kernel.launch(memory, 1, grid=1, block=1, stream=captured)
        made = {
            "device": device,
            "module": module,
            "library": rawcuda.Library(PTX),
            "kernel": kernel,
            "parameter": kernel.parameters[0],
            "kernel's attributes": kernel.attributes,
            "launch": kernel.configure(grid=1, block=1),
            "variable": module.global_("numbers"),
            "stream": stream,
            "borrowed stream": rawcuda.Stream.from_handle(stream),
            "legacy stream": rawcuda.Stream.legacy,
            "event": stream.record(),
            "event with timing": device.event(timing=True),
            "memory": memory,
            "stream-ordered memory": device.allocate(64, stream=stream),
            "pinned memory": device.allocate(64, kind="pinned"),
            "borrowed memory": rawcuda.Memory.borrow(device, memory.ptr, 8),
            "virtual memory": device.virtual_memory(1 << 21),
            "pool": device.memory_pool(),
            "view": view,
            "slice": view[1:],
            "view of host memory": rawcuda.view(array.array("f", [1, 2])),
            "dtype": view.dtype,
            "graph": graph,
            "executable": graph.instantiate(),
            "node": next(iter(graph.nodes)),
        }
        yield made
    for each in made.values():
        if hasattr(each, "close"):
            each.close()


def _facts(thing):
    """Yield the public attributes that are no methods, each with its value."""
    for name in dir(thing):
        if not name.startswith("_"):
            try:
                value = getattr(thing, name)
            except Exception:  # what this device or object does not have
                continue
            if not callable(value) or isinstance(value, type):
                yield name, value


def test_facts_cannot_be_changed(things):
    changed = set()
    for what, thing in things.items():
        settable = SETTABLE.get(type(thing).__name__, set())
        for name, value in _facts(thing):
            if name in settable:
                continue
            for change in (lambda: setattr(thing, name, value), lambda: delattr(thing, name)):
                try:
                    change()
                except (AttributeError, TypeError):
                    continue
                changed.add(f"{what}.{name}")
    assert not changed


def test_memory_keeps_its_size(device):
    memory = device.allocate(4)
    with pytest.raises(AttributeError):
        memory.nbytes = 1 << 20
    with pytest.raises(ValueError):
        memory.copy_from(bytes(1 << 20))
    assert memory.nbytes == 4


def test_the_type_of_a_view_is_not_changed_for_all(device):
    view = device.empty(4, "float32")
    with pytest.raises(AttributeError):
        view.dtype.itemsize = 1
    assert device.empty(4, "float32").nbytes == 16
