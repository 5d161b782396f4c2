"""Every public function, method and property as a call that can be made again and again.

What it is   `calls_of`: functions of a World, by name. Those with parameters come from CASES in test_wrong_objects.py;
             properties and methods without parameters are found by asking the classes, on an object of each.
Read next    test_every_call.py
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

from tests.driver.test_wrong_objects import CASES, World, attempt, settle
from tests.subject import rawcuda

Call = Callable[[World], object]

# an object of each class that a program gets from the package
OBJECTS: dict[str, Callable[[World], Any]] = {
    "Device": lambda w: w.device, "Stream": lambda w: w.stream, "Event": lambda w: w.event,
    "Memory": lambda w: w.memory, "pinned Memory": lambda w: w.pinned, "ManagedMemory": lambda w: w.managed,
    "MemoryPool": lambda w: w.pool, "VirtualMemory": lambda w: w.virtual, "Graph": lambda w: w.graph,
    "Module": lambda w: w.module, "Library": lambda w: w.code_library, "Kernel": lambda w: w.kernel,
    "Launch": lambda w: w.launch, "In": lambda w: rawcuda.In(w.view), "StridedView": lambda w: w.view,
    "host StridedView": lambda w: rawcuda.view(bytearray(b"abcd")), "item": lambda w: rawcuda.view(bytearray(8))[0],
    "OpaqueArray": lambda w: w.array, "MipmappedArray": lambda w: w.mipmapped, "TextureObject": lambda w: w.texture,
    "SurfaceObject": lambda w: w.surface, "TensorMap": lambda w: w.tensor_map, "ArrayRegion": lambda w: w.array[0],
    "SharedHandle": lambda w: w.device.allocate(64).share(), "profile": lambda w: rawcuda.profile(),
    "range": lambda w: rawcuda.range("x"), "progress": lambda w: rawcuda.progress([1]),
    "receive_on": lambda w: rawcuda.receive_on(0), "Node": lambda w: w.first,
    "kernel Node": lambda w: w.kernel_node, "Executable": lambda w: w.executable,
    "ExecutableNode": lambda w: w.executable[w.first], "Condition": lambda w: w.graph.create_condition(),
    "ConditionalNode": lambda w: (g := w.device.graph()).if_then(g.create_condition()),
    "ChildNode": lambda w: w.device.graph().embed(w.device.graph()),
    "AllocationNode": lambda w: w.device.graph().allocate(16), "Variable": lambda w: w.module.global_("counter"),
    "Flags": lambda w: w.view.flags, "KernelAttributes": lambda w: w.kernel.attributes,
    "DeviceAttributes": lambda w: w.device.attributes, "Limits": lambda w: w.device.limits,
    "PoolAttributes": lambda w: w.pool.attributes, "StreamAttributes": lambda w: w.stream.attributes,
    "TextureOptions": lambda w: w.texture.options, "Explanation": lambda w: rawcuda.explain(w.view),
    "Trace": lambda w: rawcuda.trace([]), "GreenContext": lambda w: green(w)[0], "Split": lambda w: green(w),
    "peer access": lambda w: w.device.peer_access(w.other),
}  # fmt: skip

# a new object, for methods that end one or change the program
FRESH: dict[str, Callable[[World], Any]] = {
    "Device": lambda w: rawcuda.Device(0), "Stream": lambda w: w.device.stream(), "Event": lambda w: w.device.event(),
    "Memory": lambda w: w.device.allocate(16), "pinned Memory": lambda w: w.device.allocate(16, kind="pinned"),
    "ManagedMemory": lambda w: w.device.allocate(16, kind="managed"), "MemoryPool": lambda w: w.device.memory_pool(),
    "VirtualMemory": lambda w: w.device.virtual_memory(1), "Graph": lambda w: w.device.graph(),
    "Module": lambda w: w.device.load(NOTHING), "Library": lambda w: rawcuda.Library(NOTHING),
    "OpaqueArray": lambda w: w.device.array((2, 2), "uint8"),
    "MipmappedArray": lambda w: w.device.mipmapped_array((2, 2), "uint8"),
    "TextureObject": lambda w: w.device.texture(w.array), "SurfaceObject": lambda w: w.device.surface(w.array),
    "Executable": lambda w: w.graph.instantiate(), "Node": lambda w: w.device.graph().empty(),
    "kernel Node": lambda w: w.device.graph().empty(),
}  # fmt: skip
NOTHING = ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n"
ENDING = {"close", "detach", "destroy", "make_current", "__enter__", "release", "lease"}
PLAIN = (
    "__repr__ __str__ __len__ __iter__ __bytes__ __bool__ __index__ __int__ __float__ __complex__ __copy__ __sizeof__"
)
PLAIN += " __array__ __cuda_stream__ __dlpack_device__ __dlpack__ __await__ __length_hint__ __hash__ _repr_html_"
DESTROY = {
    "Stream": ("CUstream", "cuStreamDestroy_v2"),
    "Event": ("CUevent", "cuEventDestroy_v2"),
    "Memory": ("CUdeviceptr", "cuMemFree_v2"),
}

# What no call here makes, and why
LEFT_OUT = {
    "Device.reset": "it ends the objects of the other calls: test_reset.py",
    **dict.fromkeys(
        (f"{name}.detach" for name in OBJECTS if name not in DESTROY),
        "the method of Owned, as that of Stream, Event and Memory",
    ),
    "In.owner": "a slot", "In.start": "a slot",
    "profile.start": "with stop(), by the block", "profile.stop": "with start(), by the block",
}  # fmt: skip


def green(w: World) -> Any:
    """Return the green contexts of a device that is divided once."""
    if not hasattr(w, "_green"):
        w._green = w.device.split(2, rest=True)  # type: ignore[attr-defined]
    return w._green  # type: ignore[attr-defined]


def public_names(kind: type) -> list[str]:
    """Return the properties and the methods without parameters that a class offers, and what Python calls."""
    found = []
    for name in dir(kind):
        thing = inspect.getattr_static(kind, name)
        function = getattr(thing, "__func__", thing)
        if isinstance(thing, property):
            found += [name] if not name.startswith("_") or name.endswith("__") else []
        elif inspect.isfunction(function) and (not name.startswith("_") or name in PLAIN.split()):
            needed = [
                each
                for each in list(inspect.signature(function).parameters.values())[not isinstance(thing, staticmethod) :]
                if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            ]
            found += [name] if not needed else []
    return [*found, *(["__enter__"] if hasattr(kind, "__enter__") else [])]


def with_block(thing: Any) -> None:
    with thing:
        pass


def ended(label: str, name: str, w: World) -> object:
    """Call a method that ends its object."""
    made = FRESH.get(label, OBJECTS[label])(w)
    if name == "__enter__":
        return with_block(made)
    if name != "detach":
        return getattr(made, name)()
    kind, function = DESTROY[label]
    with w.device.current():
        return getattr(rawcuda.cu, function)(getattr(rawcuda.cu, kind)(made.detach()))


def plain(label: str, name: str, w: World) -> object:
    """Read a property, or call a method without arguments."""
    thing = OBJECTS[label](w)
    if name in ("__await__",):
        return [*thing.__await__()] if thing.query() else None
    value = getattr(thing, name)
    if isinstance(inspect.getattr_static(type(thing), name), property):
        return value
    made = value()
    return [*made] if name == "__iter__" else made


def of_cases(name: str, w: World) -> object:
    """Make the right call of CASES."""
    call, given = CASES[name](w)
    result = attempt(call, given)
    settle(w, name, given, result)
    return None


OTHERS: dict[str, Call] = {
    "devices": lambda w: rawcuda.devices(),
    "synchronize": lambda w: rawcuda.synchronize(),
    "Device.current, with": lambda w: with_block(w.device.current()),
    "trace, with": lambda w: with_block(rawcuda.trace([])),
}


def group_of(name: str) -> str:
    """Return the first word of a case: the class."""
    return name.replace(":", ".").replace(" ", ".").split(".")[0]


GROUPS = sorted({*map(group_of, CASES), *map(group_of, OTHERS), *OBJECTS})


def calls_of(group: str, w: World) -> dict[str, Call]:
    """Return the calls of a group by their names."""
    made: dict[str, Call] = {name: call for name, call in OTHERS.items() if group_of(name) == group}
    for name in CASES:
        if group_of(name) == group and not (w.other is None and "other" in CASES[name](w)[1]):
            made[name] = lambda w, name=name: of_cases(name, w)  # type: ignore[misc]
    if group in OBJECTS and not (w.other is None and group == "peer access"):
        for name in public_names(type(OBJECTS[group](w))):
            if f"{group}.{name}" not in LEFT_OUT:
                way = ended if name in ENDING else plain
                made[f"{group}.{name}()"] = lambda w, n=name, way=way: way(group, n, w)  # type: ignore[misc]
    return made
