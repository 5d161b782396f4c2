"""Random sequences of views, copies, fills, launches and exports, of inputs that differ from each other in one thing.

Each sequence runs twice, in two equal worlds. In the first, everything is remembered as usual; in the second, all
tables are emptied before each step. Both must answer alike: an entry that answers for an input that it did not identify
makes a difference, whichever table it is in.
"""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import enum
import fractions
import gc
import random
import re
import sys
import types
from typing import Any, Callable

from tests.null import producers
from tests.subject import module, rawcuda

np: Any = None
try:
    import numpy

    np = numpy
except ImportError:  # the sequences have fewer inputs then
    pass

__all__ = ["Tables", "World", "compare", "drawn"]

# Stores all that it got into out: the address, two numbers, eight bytes, the grid and the shared memory.
PTX = """.version 6.3
.target sm_50
.address_size 64
.extern .shared .align 8 .b8 dynamic[];
.visible .entry note(.param .u64 out, .param .u64 p, .param .u32 n, .param .f32 f, .param .align 4 .b8 s[8]) {
  .reg .b64 %d<4>; .reg .b32 %r<8>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [p]; st.global.u64 [%d0], %d1;
  ld.param.u32 %r0, [n]; st.global.u32 [%d0+8], %r0;
  ld.param.u32 %r1, [f]; st.global.u32 [%d0+12], %r1;
  ld.param.u32 %r2, [s]; st.global.u32 [%d0+16], %r2;
  ld.param.u32 %r3, [s+4]; st.global.u32 [%d0+20], %r3;
  mov.u32 %r4, %nctaid.x; st.global.u32 [%d0+24], %r4;
  mov.u32 %r5, %dynamic_smem_size; st.global.u32 [%d0+28], %r5;
  mov.u32 %r6, %ntid.x; st.global.u32 [%d0+32], %r6;
  ret;
}"""
SIZE, MIDDLE = 1024, 512  # bytes of each memory; exporters show elements around the middle
NOTED = 40  # bytes that the kernel writes


class Tables:
    """All tables of remembered answers of the package, and what objects remember besides."""

    def __init__(self) -> None:
        self._kind = module("remembered").Remembered
        gc.unfreeze()  # tests/conftest.py hides all objects from collections
        self._found = {id(table): table for table in gc.get_objects() if isinstance(table, self._kind)}
        gc.freeze()
        self._init = self._kind.__init__
        self._alone = 0
        self._found[0] = self._kind(0)
        for number, table in list(self._found.items()):
            if number == 0:
                self._alone = sys.getrefcount(table)  # of one that only this object refers to

    def __enter__(self) -> Tables:
        """Note each table that is made from now on."""
        found, init = self._found, self._init

        def noting(table: Any, *given: Any) -> None:
            init(table, *given)
            found[id(table)] = table

        self._kind.__init__ = noting
        return self

    def __exit__(self, *_: object) -> None:
        self._kind.__init__ = self._init

    def forget(self, world: World) -> None:
        """Empty all tables, and drop what the objects of a world remember."""
        world.device.synchronize()
        for table in self._found.values():
            if table.answers:
                table.answers.clear()
        for number, table in list(self._found.items()):
            if sys.getrefcount(table) <= self._alone:  # it was in an answer
                del self._found[number]
        module("ownership").invalidate()
        for thing in world.examined:
            thing._side = None
        for kernel in world.kernels:
            kernel._known.limits = kernel._known.packing = None


# -- the inputs


class Number:
    """An integer by __index__ alone."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Level(enum.IntEnum):
    ONE = 1


class Words(str):
    pass


class Readable(dict):  # type: ignore[type-arg]
    """A dict whose strides are not those that it contains."""

    def __getitem__(self, key: Any) -> Any:
        return (8,) if key == "strides" else super().__getitem__(key)


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]


class Spec:
    """Something that names a dtype, and may name another later."""

    name = "float32"


def changes(world: World, host: bool) -> list[list[dict[str, Any]]]:
    """List the changes of an interface dict, each in one thing, in groups of one key."""
    at = world.host if host else world.device_at
    values: dict[str, list[Any]] = {
        "strides": [(8,), (4,), None, [8], (8.0,), (True,), (-4,), (4, 4), "8"],
        "shape": [(2,), (), (0,), [3], (3.0,), (3, 1), None, b"\3", (-1,), (True,)],
        "typestr": ["<i4", "<f2", "|V4", ">f4", b"<f4", Words("<f4"), "<u4", "|u1"],
        "descr": [[("", "<f4")], [("", "<i4")], None, (("", "<f4"),), [("a", "<i2"), ("b", "<i2")]],
        "mask": [None, object(), False],
        "version": [2, 0, 3.0, True, Number(3), "3"],
        "stream": [None, 1, 2, 0, True, 1.0, Number(1), world.stream.handle],
        "data": [[at, False], (at + 4, False), (at, True), (at, 1), {at: 1, True: 2}, (at, False, 0), None, at],
    }
    values["data"] += [(Number(at), False), (float(at), False), (-at, False)]
    values["data"] += [(memory.handle + MIDDLE, False) for memory in (world.pinned, world.managed)]
    if np is not None:
        values["strides"] += [(np.int64(8),), np.array([8]), np.array([8.0])]
        values["shape"] += [(np.bool_(True),), (np.int64(3),), np.array([3]), (np.float64(1.5e-323),)]
        values["typestr"].append(np.str_("<f4"))
        values["data"] += [(np.uint64(at), False), (at, np.bool_(False))]
        values["version"].append(np.int64(3))
        values["stream"].append(np.int64(1))
    groups = [[{key: value} for value in given] for key, given in values.items()]
    fields: list[Any] = [[("a", "<i2"), ("b", "<f2")], [("a", "<i2", (2,))], [("a", "<i2", (b"\2\0\0\0\0\0\0\0",))]]
    fields += [] if np is None else [[("a", "<i2", (np.int64(2),))]]
    groups.append([{"descr": descr, "typestr": "|V4"} for descr in fields])
    groups.append([{"note": 1}, {"__ref": world}, {"note": 1, "extra": 2}, {1: 2}, {"offset": 4}, {}])
    return groups


FORMS: list[Callable[[dict[str, Any]], Any]] = [
    dict,
    lambda interface: dict(reversed(list(interface.items()))),
    collections.OrderedDict,
    types.MappingProxyType,
    Readable,
    lambda interface: list(interface.items()),
]


def dlpack_with_keywords(self: Any, **keywords: Any) -> Any:
    tensor = self.tensor(not keywords.get("max_version"))
    return tensor.capsule()


def dlpack_without(self: Any, stream: Any = None) -> Any:
    tensor = self.tensor(True)
    return tensor.capsule()


class Work:
    """What reached the emulator's queues: the name of each piece of work and its stream, and attributes of launches."""

    def __init__(self, library: Any) -> None:
        self.done: list[Any] = []
        self._queues = library._machine.queues
        self._launches = module("emulator.entries.tasks.launch_entries")
        self._submit, self._attributes = self._queues.submit, self._launches.attributes_at

    def __enter__(self) -> Work:
        def submit(stream: Any, run: Any, name: str, *rest: Any, **more: Any) -> Any:
            self.done.append((name, stream))
            return self._submit(stream, run, name, *rest, **more)

        def attributes_at(address: int, count: int) -> Any:
            found = self._attributes(address, count)
            self.done.append(("attributes", repr(found)))
            return found

        self._queues.submit, self._launches.attributes_at = submit, attributes_at
        return self

    def __exit__(self, *_: object) -> None:
        del self._queues.submit
        self._launches.attributes_at = self._attributes


class World:
    """All that the steps of a sequence use and change. Two worlds are equal, but for their addresses."""

    def __init__(self, device: Any, loaded: Any, storage: Any, seed: object) -> None:
        self.device, self.module, self.storage, self.seed = device, loaded, storage, seed
        self.work: Work | None = None
        self.picks = self.differs = 0  # the choices of a step so far; which of them differs
        self.before: Callable[[], object] = device.synchronize  # before each step: in random mode, work has any order
        self.kernels = [
            loaded["note"],
            loaded.kernel("note", parameters=["pointer", "float32*", "int32", "float32", "complex64"]),
        ]
        self.host = ctypes.addressof(storage) + MIDDLE
        self.memory = device.allocate(SIZE)
        self.noted = device.allocate(NOTED)
        self.pinned, self.managed = (device.allocate(SIZE, kind=kind) for kind in ("pinned", "managed"))
        self.device_at = self.memory.handle + MIDDLE
        self.inner = device.allocate(64)
        self.borrowed = rawcuda.Memory.borrow(device, self.inner.handle, 64, owner=self.inner)
        self.stream, self.other = device.stream(), device.stream()
        self.classes = {
            protocol: [type(f"Exporter{n}", (), {}) for n in range(2)]
            for protocol in ("__array_interface__", "__cuda_array_interface__", "__dlpack__")
        }
        self.streams = [type("ForeignStream", (), {"__cuda_stream__": lambda it: (0, it.value)}) for _ in range(2)]
        self.number = type("Mutable", (), {"__index__": lambda it: 1})
        self.spec = Spec()
        self.examined = self._views()
        self.targets = [view for view in self.examined if not getattr(view, "readonly", False)]
        self.arrays = self._arrays()
        self.launches: list[Any] = []
        self.reset()

    def _views(self) -> list[Any]:
        words = self.memory.view("float32")
        table = words[:32].reshape(4, 8)
        made = [words[:8], words[8:16], words[16:32:2], table, table.T, table[1:3, 2:5], words[0:0], words[3]]
        made += [self.memory.view("int32")[:8], self.memory.view("uint8")[:16], self.memory.view("float16")[:8]]
        made += [self.memory.view("complex64")[:4], rawcuda.view(words[:8], writable=False), self.memory]
        made += [self.borrowed, self.borrowed.view("float32")[:8]]
        here = rawcuda.view(self.storage, protocol="buffer").reinterpret("float32")
        made += [here[:8], here[8:16], here[:32].reshape(4, 8).T, here[16:32:2], here.reinterpret("int32")[:8]]
        return made

    def _arrays(self) -> list[list[Any]]:
        flat = memoryview(array.array("f", range(6)))
        made: list[list[Any]] = [
            [array.array("f", [1, 2, 3]), array.array("i", [1, 2, 3]), b"1234", memoryview(b"1234"), flat[::2], flat],
            [(ctypes.c_float * 3)(1, 2, 3), (ctypes.c_int * 3)(1, 2, 3), Pair(1, 2.0), (Pair * 2)()],
            [[1.0], None, self.spec, 1.5, memoryview(bytes(24)).cast("f", (2, 3))],
        ]
        if np is not None:
            x = np.arange(24, dtype="f4")
            frozen = np.arange(3, dtype="f4")
            frozen.flags.writeable = False
            self.subclass = type("Sub", (np.ndarray,), {})
            made.append([x[:3], frozen, x[::2], x[:6].reshape(2, 3), x[:6].reshape(2, 3).T, x[0], x[:0], x[::-1]])
            made.append([x[:3].astype(t) for t in ("f8", "i4", "?", "M8[s]", "m8[s]", "M8[ms]", "S4", "f2", ">f4")])
            turned = {"names": ["f0", "f1"], "formats": ["f4", "i4"], "offsets": [4, 0]}
            titled = [(("t", "f0"), "f4"), ("f1", "i4")]
            fields = "f4,i4", "i4,f4", "f4,f4", turned, titled, [("f1", "f4"), ("f0", "i4")]
            made.append([np.zeros(2, each) for each in fields])
            made.append([x[:3].view(self.subclass), x[:4].view(self.subclass)])
            made.append([np.ma.masked_array([1.0], [True]), np.float32(2), np.datetime64("2020"), np.array(2.0)])
        return made

    def pick(self, chance: random.Random, choices: Any) -> Any:
        """Choose one; in a step that repeats an earlier one but for one choice, this may be the other choice."""
        chosen, other = chance.choice(choices), chance.choice(choices)
        self.picks += 1
        return other if self.picks == self.differs else chosen

    def reset(self) -> None:
        """Give all memory the contents that it has at the beginning of each sequence."""
        content = bytes([(7 * n) % 120 for n in range(SIZE)])
        ctypes.memmove(self.storage, content, SIZE)
        self.device.synchronize()
        for memory in (self.memory, self.pinned, self.managed, self.noted, self.inner):
            rawcuda.copy(memory, content[: memory.nbytes])

    def close(self) -> None:
        """Release everything."""
        self.launches.clear()
        for each in (self.stream, self.other, self.memory, self.noted, self.pinned, self.managed, self.inner):
            each.close()

    # -- results, without what differs from world to world

    def plain(self, result: Any) -> Any:
        """Return a result in a form that is equal in both worlds."""
        if isinstance(result, rawcuda.StridedView):
            owner = result.owner
            kept = next((name for name, one in vars(self).items() if one is owner), type(owner).__name__)
            facts = [self.place(result.ptr), result.shape, result.strides, str(result.dtype), result.dtype.format]
            facts += [result.readonly, result.device, result.protocol, self.plain(result.stream), kept]
            return tuple(facts) + (self.contents(result),)
        if result is self.stream or result is self.other:
            return "a stream"
        if isinstance(result, int) and not isinstance(result, bool) and result > 0xFFFFF:
            return self.place(result)
        if isinstance(result, (tuple, list)):
            return tuple(self.plain(each) for each in result)
        if isinstance(result, dict):
            return tuple((key, self.plain(each)) for key, each in result.items())
        return result if isinstance(result, (str, bytes, int, float, type(None))) else type(result).__name__

    def place(self, address: int) -> str:
        """Return an address as an offset, if it is one of ours."""
        for name, begin in (
            ("host", self.host),
            ("device", self.device_at),
            ("pinned", self.pinned.handle + MIDDLE),
            ("managed", self.managed.handle + MIDDLE),
            ("noted", self.noted.handle + MIDDLE),
            ("inner", self.borrowed.handle + MIDDLE),
        ):
            if -MIDDLE <= address - begin < SIZE - MIDDLE:
                return f"{name} + {address - begin}"
        return "somewhere" if address else "null"

    def contents(self, view: Any) -> Any:
        """Return the elements of a view, or the error."""
        if "somewhere" in self.place(view.ptr) and view.protocol in ("cuda_array_interface", "array_interface"):
            return "unknown"
        self.device.synchronize()
        try:
            return repr(view.tolist())
        except Exception as error:
            return self.error(error)

    def error(self, error: BaseException) -> Any:
        """Return an error as its type and its words, without numbers that are addresses."""
        said = re.sub(r"0x[0-9a-f]+|\b\d{6,}(\.\d+)?(e\+\d+)?\b", "N", str(error))
        return type(error).__name__, said


# -- the steps: functions of a world and a source of choices, which return what happened


def _exporter(world: World, chance: random.Random, device: float = 0.5) -> Any:
    protocol = "__cuda_array_interface__" if chance.random() < device else "__array_interface__"
    host = protocol == "__array_interface__"
    kind = world.pick(chance, world.classes[protocol])
    at = world.host if host else world.device_at
    if not host and chance.random() < 0.2:
        at = world.pick(chance, [world.pinned, world.managed]).handle + MIDDLE
    interface = dict(shape=(3,), typestr="<f4", data=(at, False), version=3)
    made = changes(world, host)
    for _ in range(world.pick(chance, (0, 0, 1, 1, 1, 2))):
        interface.update(world.pick(chance, world.pick(chance, made)))
    if chance.random() < 0.03:
        interface.pop(world.pick(chance, list(interface)))
    shown = (world.pick(chance, FORMS) if chance.random() < 0.1 else dict)(interface)
    exporter = kind()
    setattr(exporter, protocol, shown)
    return exporter


class _Tensors:
    """An exporter's tensor, in the world's memory."""

    def __init__(self, world: World, given: dict[str, Any]) -> None:
        self.world, self.given = world, given

    def __call__(self, legacy: bool) -> Any:
        return producers.Tensor(data=self.world.host, version=None if legacy else (1, 3), **self.given)


def _by_dlpack(world: World, chance: random.Random) -> Any:
    kind: Any = world.classes["__dlpack__"][chance.randrange(2)]
    if "__dlpack__" not in vars(kind) or chance.random() < 0.1:
        kind.__dlpack__ = dlpack_without if chance.random() < 0.5 else dlpack_with_keywords
        kind.__dlpack_device__ = lambda self: (1, 0)
    exporter = kind()
    shape = world.pick(chance, [(3,), (2, 3), (), (0,), (3, 1), (3,)])
    strides = world.pick(chance, [None, None, tuple(range(len(shape), 0, -1)), (2,) * len(shape)])
    dtypes = [(2, 32, 1), (0, 32, 1), (1, 8, 1), (2, 16, 1), (2, 32, 2), (4, 16, 1), (6, 8, 1), (9, 32, 1)]
    dtype = world.pick(chance, dtypes)
    given = {"shape": shape, "strides": strides, "dtype": dtype}
    if chance.random() < 0.3:
        given["flags"] = world.pick(chance, (0, 1, 2, 4))
    if chance.random() < 0.2:
        given["byte_offset"] = world.pick(chance, (0, 4, 8))
    exporter.tensor = _Tensors(world, given)
    return exporter


def _given(world: World, chance: random.Random) -> Any:
    draw = chance.random()
    if draw < 0.6:
        return _exporter(world, chance)
    if draw < 0.75:
        return _by_dlpack(world, chance)
    if draw < 0.95:
        return world.pick(chance, world.pick(chance, world.arrays))
    return world.pick(chance, world.examined)


def _stream(world: World, chance: random.Random) -> Any:
    foreign = world.pick(chance, world.streams)()
    foreign.value = world.pick(chance, (world.stream.handle, world.other.handle, 0, 1, 2))
    if chance.random() < 0.03:
        return world.pick(chance, [0, True, -2, 1.0, "1"])
    return world.pick(chance, [None, world.stream, world.other, world.stream.handle, 1, 2, foreign, foreign])


def viewed(world: World, chance: random.Random) -> Any:
    given, protocol = _given(world, chance), None
    if chance.random() < 0.2:
        protocol = world.pick(chance, ("dlpack", "cuda_array_interface", "array_interface", "buffer"))
    return rawcuda.view(given, stream=_stream(world, chance) if chance.random() < 0.3 else None, protocol=protocol)


def _facts(side: Any) -> Any:
    return (side.shape, side.dtype) if isinstance(side, rawcuda.StridedView) else side.nbytes


def copied(world: World, chance: random.Random) -> Any:
    target = world.pick(chance, world.targets)
    source = world.pick(chance, world.examined) if chance.random() < 0.8 else _given(world, chance)
    if chance.random() < 0.7:  # one that fits, if there is one
        alike = [each for each in world.examined if each is not target and _facts(each) == _facts(target)]
        source = world.pick(chance, alike or [source])
    rawcuda.copy(target, source, stream=_stream(world, chance) if chance.random() < 0.5 else None)
    return target if isinstance(target, rawcuda.StridedView) else target.view("uint8")[:32]


def filled(world: World, chance: random.Random) -> Any:
    target = world.pick(chance, world.targets)
    values: list[Any] = [0, 1, 1.0, True, -1, 255, 256, 1 + 0j, 1j, "1", None, Number(1), 2**40, 1e39, Level.ONE]
    values += [1.5, fractions.Fraction(1, 2), float("nan"), -0.0, 0.0, False]
    if np is not None:
        values += [np.float32(1), np.int64(1), np.bool_(True), np.uint8(255), np.complex64(1)]
    target.fill(world.pick(chance, values), stream=_stream(world, chance) if chance.random() < 0.5 else None)
    return target if isinstance(target, rawcuda.StridedView) else target.view("uint8")[:32]


def _arguments(world: World, chance: random.Random) -> list[Any]:
    number = world.number()
    numbers: list[Any] = [
        1,
        0,
        -1,
        255,
        2**31,
        2**32,
        2**63,
        True,
        1.0,
        1.5,
        None,
        "1",
        b"\1\0\0\0",
        Number(1),
        number,
        number,
    ]
    numbers += [Level.ONE, fractions.Fraction(1, 2), ctypes.c_int(1), ctypes.c_float(1), ctypes.c_uint8(1), [1], (1,)]
    numbers += [ctypes.c_uint32(1).__class__.__ctype_be__(1), ctypes.c_int64(1), 1j, Words("1"), 2**70, 1e39]
    wholes: list[Any] = [
        bytes(8),
        bytes(7),
        Pair(1, 2.0),
        (ctypes.c_float * 2)(1, 2),
        1.0,
        1,
        1j,
        None,
        number,
        "12345678",
    ]
    if np is not None:
        numbers += [np.int32(1), np.uint32(1), np.int64(1), np.float32(1), np.float64(1), np.bool_(True), np.int8(-1)]
        numbers += [np.datetime64("2020"), np.timedelta64(1), np.complex64(1), np.array(1), np.str_("1")]
        wholes += [np.complex64(1), np.int64(1), np.float32(1), np.zeros(1, "f4,i4")[0], np.zeros(1, "i4")[0]]
    usual: list[Any] = [world.memory, 1, 1.0, bytes(8)]
    if chance.random() < 0.6:
        usual[0] = world.pick(chance, [*world.examined, *numbers, *world.pick(chance, world.arrays)])
        if chance.random() < 0.5:
            usual[0] = _exporter(world, chance, 0.9) if chance.random() < 0.7 else number
        if chance.random() < 0.2:
            usual[0] = rawcuda.In(usual[0])
    for position, choices in ((1, numbers), (2, numbers), (3, wholes)):
        if chance.random() < 0.3:
            usual[position] = world.pick(chance, choices)
    return usual


def _noted(world: World) -> Any:
    world.device.synchronize()
    out = world.noted.view("uint8").download()
    seen = bytes(out.tolist())
    address, whole = (world.place(int.from_bytes(seen[at : at + 8], "little")) for at in (0, 16))
    return address, seen[8:16].hex(), seen[16:24].hex() if whole == "somewhere" else whole, seen[24:36].hex()


def _configuration(world: World, chance: random.Random) -> dict[str, Any]:
    extents: list[Any] = [1, 1, 2, (1,), [1], (1, 1), (2, 1, 1), True, 1.0, (True,), (1.0,), Number(1), 0, Level.ONE]
    extents += [world.number(), world.number(), "1", None, (1, 1, 1, 1)]
    if np is not None:
        extents += [np.int64(1), np.array([1, 2]), np.array(1), np.bool_(True), (np.int32(2),)]
    options: dict[str, Any] = {}
    if chance.random() < 0.3:
        options["shared_bytes"] = world.pick(chance, (0, 16, 16, 1024, 1024, True, 16.0, -1, Number(16), 2**30))
    if chance.random() < 0.4:
        name = world.pick(
            chance, ("priority", "cooperative", "preferred_shared_carveout", "cluster", *["preferred_cluster"] * 3)
        )
        given = [0, 1, True, False, 50, "0", 1.0, Number(1), (1, 1), (True, 1), Level.ONE, (1, 1, 1), None]
        if name == "preferred_cluster":
            options["cluster"], given = 1, [1, (1, 1), (True, 1), (1.0, 1)]
        options[name] = world.pick(chance, given)
    if chance.random() < 0.1:
        options["programmatic_stream_serialization"] = world.pick(chance, (True, False, 1, 0, None))
    grid, block = (world.pick(chance, extents) if chance.random() < 0.4 else 1 for _ in range(2))
    if chance.random() < 0.2:
        grid = world.number()
    return {"grid": grid, "block": block, "stream": _stream(world, chance), **options}


def launched(world: World, chance: random.Random) -> Any:
    kernel, arguments = world.pick(chance, world.kernels), _arguments(world, chance)
    kernel.launch(world.noted, *arguments, grid=1, block=1, stream=_stream(world, chance))
    return _noted(world)


def configured(world: World, chance: random.Random) -> Any:
    kernel = world.pick(chance, world.kernels)
    kernel.launch(world.noted, world.memory, 1, 1.0, bytes(8), **_configuration(world, chance))
    return _noted(world)


def bound(world: World, chance: random.Random) -> Any:
    if len(world.launches) < 6:
        stream = world.pick(chance, (None, world.stream, world.other, 1, 2))
        world.launches.append(world.pick(chance, world.kernels).configure(grid=1, block=1, stream=stream))
    if chance.random() < 0.05:  # some of the launches may know it
        world.other.close()
        world.other = world.device.stream()
    launch = world.pick(chance, world.launches)
    launch(world.noted, *_arguments(world, chance))
    return _noted(world)


def exported(world: World, chance: random.Random) -> Any:
    views = [each for each in world.examined if isinstance(each, rawcuda.StridedView)]
    if chance.random() < 0.5:
        views = [each for each in views if each.is_host_accessible]
    view = world.pick(chance, views)
    if chance.random() < 0.3:
        view = rawcuda.view(view, writable=False)
    if chance.random() < 0.3:
        view = view.reinterpret(world.pick(chance, ("int32", "uint32", "uint8", "|V4", "float16x2", "float32")))
    which = chance.randrange(4)
    if which == 0:
        options: dict[str, Any] = {
            "max_version": world.pick(chance, (None, (1, 0), (0, 8), (1, 99), [1, 0], (True, 0)))
        }
        if chance.random() < 0.3:
            options["copy"] = world.pick(chance, (None, True, False, 1))
        if chance.random() < 0.3:
            options["dl_device"] = world.pick(chance, (None, (1, 0), (2, 0), (1.0, 0)))
        capsule = view.__dlpack__(**options)
        address, versioned = module("dlpack").identify(capsule)
        flags = ctypes.c_uint64.from_address(address + 24).value if versioned else None
        return flags, rawcuda.view(capsule)
    if which == 1:
        return dict(view.__array_interface__)
    if which == 2:
        return dict(view.__cuda_array_interface__)
    seen = view.memoryview()
    return seen.format, seen.shape, seen.strides, seen.readonly, seen.itemsize


def named(world: World, chance: random.Random) -> Any:
    shapes: list[Any] = [2, (2,), [2], (2.0,), (True,), True, Number(2), "2", (2, 0), (), -1, (0,), {2}]
    dtypes: list[Any] = [
        "float32",
        "<f4",
        "f4",
        world.spec,
        world.spec,
        Spec,
        float,
        int,
        bool,
        "M8[s]",
        "float32x2",
        "?",
    ]
    if np is not None:
        shapes += [np.int64(2), np.array([2]), (np.int64(2),), (np.float64(2),)]
        dtypes += [np.float32, np.dtype("f4"), np.dtype(">f4"), np.dtype("f4,i4"), np.float32(1), np.dtype("M8[s]")]
    if chance.random() < 0.3:
        world.spec.name = world.pick(chance, ("float32", "int32"))
    made = world.device.empty(world.pick(chance, shapes), world.pick(chance, dtypes))
    try:
        return made.shape, made.strides, str(made.dtype), made.nbytes
    finally:
        made.owner.close()


def changed(world: World, chance: random.Random) -> Any:
    """Change what a later step uses: an attribute that is added, replaced or removed."""
    which = 6 if chance.random() < 0.4 else world.pick(chance, list(range(10)))
    kind: Any = world.pick(chance, [each for kinds in world.classes.values() for each in kinds])
    if which == 0:
        world.spec.name = world.pick(chance, ("float32", "int32", "float64", "nothing"))
    elif which == 1:
        Spec.name = world.pick(chance, ("float32", "int16"))
    elif which == 2:
        kind.__dlpack__ = world.pick(chance, (dlpack_with_keywords, dlpack_without))
        kind.__dlpack_device__ = lambda self: (1, 0)
        kind.tensor = _Tensors(world, {"shape": (2,), "dtype": (0, 32, 1)})
    elif which == 3:
        for name in ("__dlpack__", "__dlpack_device__", "tensor", "__array_interface__"):
            if name in vars(kind):
                delattr(kind, name)
    elif which == 4:
        kind.__array_interface__ = {"shape": (2,), "typestr": "<i2", "data": (world.host, False), "version": 3}
    elif which == 5:
        foreign: Any = world.pick(chance, world.streams)
        for name, value in (
            ("__cuda_stream__", lambda it: (0, it.value)),
            ("__index__", lambda it: world.other.handle),
        ):
            if chance.random() < 0.5:
                if name in vars(foreign):
                    delattr(foreign, name)
            else:
                setattr(foreign, name, value)
    elif which == 6:
        mutable: Any = world.number
        for name, value in (
            ("__index__", lambda it: 1),
            ("__float__", lambda it: 2.0),
            ("__len__", lambda it: 1),
            (
                "__cuda_array_interface__",
                {"shape": (1,), "typestr": "<f4", "data": (world.device_at, False), "version": 3},
            ),
        ):
            if chance.random() < 0.5:
                if name in vars(mutable):
                    delattr(mutable, name)
            else:
                setattr(mutable, name, value)
    elif which == 7:
        world.other.close()  # launches and copies may know it
        world.other = world.device.stream()
    elif which == 8:
        world.inner.close()  # the bytes that a borrowed Memory shows
    elif np is not None:
        if "__dlpack__" in vars(world.subclass):
            del world.subclass.__dlpack__
        else:
            world.subclass.__dlpack__ = lambda self, **keywords: (_ for _ in ()).throw(BufferError("not now"))
    return None


def alike(step: Callable[[World, random.Random], Any], times: int) -> Callable[[World, random.Random], Any]:
    """Return a step that does another one, does it with one choice changed, and does it again; each with its result."""

    def both(world: World, chance: random.Random) -> Any:
        results = []
        for _ in range(times):
            seed, differs = chance.randrange(1 << 30), 0
            for which in range(3):
                world.before()
                world.picks, world.differs = 0, differs if which == 1 else 0
                try:
                    with world.device.current() if seed % 2 else contextlib.nullcontext():
                        results.append(world.plain(step(world, random.Random(seed))))
                except Exception as error:
                    results.append(world.error(error))
                if which == 0:
                    differs = chance.randrange(1, world.picks + 2)
        return tuple(results)

    both.__name__ = step.__name__
    return both


STEPS: list[tuple[Callable[[World, random.Random], Any], int]] = [
    (alike(viewed, 8), 30),
    (alike(copied, 2), 14),
    (alike(filled, 1), 10),
    (alike(launched, 1), 8),
    (alike(configured, 2), 10),
    (alike(bound, 3), 12),
    (alike(exported, 6), 10),
    (alike(named, 4), 6),
    (changed, 10),
]


def drawn(seed: object, count: int) -> list[tuple[Callable[[World, random.Random], Any], int]]:
    """Draw the steps of a sequence: each is a function and the seed of its choices."""
    chance = random.Random(f"sequence {seed}")
    functions = chance.choices([step for step, _ in STEPS], [weight for _, weight in STEPS], k=count)
    return [(function, chance.randrange(1 << 30)) for function in functions]


def run(world: World, steps: list[Any]) -> list[Any]:
    """Do the steps, and return what each gave or raised."""
    found: list[Any] = []
    names: dict[int, tuple[str, object]] = {}  # with the streams: the id of one that is gone may be that of another
    for function, seed in steps:
        world.before()
        if world.work is not None:
            world.work.done.clear()
        try:
            result = function(world, random.Random(seed))
            world.before()
            outcome = world.plain(result)
        except Exception as error:
            outcome = world.error(error)
        work: list[Any] = []
        for name, where in () if world.work is None else world.work.done:
            if not isinstance(where, str):
                where = names.setdefault(id(where), (f"stream {len(names)}", where))[0]
            work.append((name, where))
        found.append((outcome, work))
    return found


def compare(device: Any, loaded: Any, tables: Tables, library: Any, seed: object, count: int) -> int:
    """Run a sequence in both worlds; fail where a result differs, or on the emulator the work of its streams.

    returns  the number of views, copies, fills, launches, exports and dtypes whose results were compared
    """
    steps, both = drawn(seed, count), []
    storage = (ctypes.c_char * SIZE)()
    for fresh in (False, True):
        gc.collect()  # what earlier tests left is not released meanwhile: that is work, too
        module("ownership").drain()
        device.synchronize()
        Spec.name = "float32"
        world = World(device, loaded, storage, seed)
        if fresh:
            world.before = lambda world=world: tables.forget(world)
        try:
            if library is None or library.mode == "random":  # a wait is left out if the work happens to be done
                both.append(run(world, steps))
            else:
                with Work(library) as world.work:
                    both.append(run(world, steps))
        finally:
            world.close()
    for number, (usual, anew) in enumerate(zip(*both)):
        function, chosen = steps[number]
        told = f"sequence {seed}, step {number}, {function.__name__}({chosen}): remembered, then anew"
        assert usual == anew, f"{told}:\n{usual}\n{anew}"
    return sum(len(outcome) if isinstance(outcome, tuple) else 1 for outcome, _ in both[0])
