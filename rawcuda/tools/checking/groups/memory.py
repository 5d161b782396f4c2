"""The rows about memory: every kind is allocated, written, used by a kernel, read back and freed.

What it is   the group "memory".
What not     layouts and copies: copies.py.
Read next    copies.py
"""

from __future__ import annotations

from ....errors import OutOfMemory
from ....gpu.memory import Memory
from ..rows import Given, Missing, expect, floats, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []

_COUNT = 300


def _used(given: Given, memory: Any, stream: Any = None) -> None:
    """Write numbers to memory, double them with a kernel, read them back, and close the memory."""
    with memory:
        data = floats(_COUNT)
        memory.copy_from(data, stream=stream)
        given.scaled(memory.view("float32"), stream)
        back = floats(_COUNT)
        memory.copy_to(back, stream=stream)
        given.device.synchronize()
        expect("what a kernel left there", back, type(back)("f", [2 * each for each in data]))


@row("memory", "device memory")
def _device(given: Given) -> None:
    _used(given, given.device.allocate(4 * _COUNT))


@row("memory", "page-locked host memory")
def _pinned(given: Given) -> None:
    memory = given.device.allocate(4 * _COUNT, kind="pinned")
    view: Any = memory.view("float32").memoryview()
    view[7] = 2.5
    expect("what the host wrote", memory.view("float32")[7].tolist(), 2.5)
    view.release()
    _used(given, memory)


@row("memory", "managed memory", needs="MANAGED_MEMORY")
def _managed(given: Given) -> None:
    _used(given, given.device.allocate(4 * _COUNT, kind="managed"))


@row("memory", "memory in stream order", needs="MEMORY_POOLS_SUPPORTED", since=11020)
def _stream_ordered(given: Given) -> None:
    with given.device.stream() as stream:
        _used(given, given.device.allocate(4 * _COUNT, stream=stream), stream)


@row("memory", "a memory pool", needs="MEMORY_POOLS_SUPPORTED", since=11020)
def _pool(given: Given) -> str:
    with given.device.memory_pool() as pool, given.device.stream() as stream:
        memory = pool.allocate(4 * _COUNT, stream=stream)
        used = pool.attributes.used_mem_current
        if used < 4 * _COUNT:
            raise AssertionError(f"the pool says that {used} bytes are in use")
        _used(given, memory, stream)
    return f"{used} bytes for {4 * _COUNT}"


@row("memory", "host memory, page-locked in place")
def _registered(given: Given) -> None:
    data = floats(_COUNT)
    with Memory.register(data) as locked:
        given.scaled(locked.view("float32"))
    expect("what a kernel left there", data, type(data)("f", [2 * each for each in floats(_COUNT)]))


@row("memory", "virtual memory that grows", needs="VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", since=10020)
def _virtual(given: Given) -> str:
    growing = given.device.virtual_memory(1, reserve=1 << 30)
    start, size = growing.ptr, growing.nbytes
    growing.grow(2 * size)
    expect("its address", growing.ptr, start)
    _used(given, _Part(growing))
    return f"in steps of {size >> 10} KiB"


class _Part:
    """The first bytes of a range of virtual memory, used as memory."""

    def __init__(self, whole: Any) -> None:
        self._whole, self._bytes = whole, whole.view("float32")[:_COUNT]

    def view(self, _: str) -> Any:
        """Return the bytes as float32."""
        return self._bytes

    def copy_from(self, source: Any, stream: Any) -> None:
        """Write them."""
        self._bytes.copy_from(source, stream=stream)

    def copy_to(self, target: Any, stream: Any) -> None:
        """Read them."""
        self._bytes.copy_to(target, stream=stream)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_: object) -> None:
        del self._bytes
        self._whole.close()


@row("memory", "a large array, at both ends")
def _large(given: Given) -> str:
    size = min(256 << 20, given.device.free_memory // 4) // 4
    if not size:
        raise Missing("no memory is free")
    data = given.device.empty(size, "int32")
    data[:3].fill(1)
    data[-3:].fill(2)
    expect("its ends", [*data[:3].tolist(), *data[-3:].tolist()], [1, 1, 1, 2, 2, 2])
    return f"{4 * size >> 20} MiB"


@row("memory", "too much memory is refused")
def _too_much(given: Given) -> None:
    try:
        given.device.allocate(1 << 60).close()
    except OutOfMemory:
        _used(given, given.device.allocate(4 * _COUNT))  # and the device is as before
        return
    raise AssertionError("2**60 bytes were allocated")


@row("memory", "CUDA arrays")
def _array(given: Given) -> None:
    image = given.device.upload(floats(32)).reshape(4, 8)
    with given.device.array(image) as opaque:
        back = given.device.empty((4, 8), "float32").fill(0)
        opaque.copy_to(back)
        given.device.synchronize()
        expect("the image", back.tolist(), image.tolist())
