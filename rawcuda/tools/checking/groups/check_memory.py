"""The rows about memory: every kind is allocated, written, used by a kernel, read back and freed.

What it is   the group "memory".
What not     layouts and copies: check_copies.py.
Read next    check_copies.py
"""

from __future__ import annotations

import os
import subprocess
import time
from functools import reduce
from operator import or_

from .... import driver
from ....errors import OutOfMemory, Unsupported
from ....gpu.memory.memory import Memory
from ....gpu.processes.shared_handles import SharedHandle
from ..rows import Given, Missing, NotAsked, expect, floats, python, row

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


def _scale_often(given: Given, other: Any, stream: Any) -> None:
    for _ in range(5):
        given.kernel("scale").launch(other, 1.0, other.size, grid=1, block=32, stream=stream)


def _write_for(seconds: float, seen: Any) -> None:
    """Write the numbers that are expected, again and again."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for at in range(_COUNT):
            seen[at] = 0.5 * at


@row("memory", "managed memory, used by the host meanwhile", needs="MANAGED_MEMORY", alone=True)
def _meanwhile(given: Given) -> None:
    """Where the host must not touch managed memory while a kernel runs, the view has to wait for all work.

    If it does not, the access ends the process.
    """
    memory = given.device.allocate(4 * _COUNT, kind="managed")
    wanted = [float(at) for at in range(_COUNT)]
    other = given.device.upload(floats(1 << (18 if given.on_gpu() else 9)))
    with memory, given.device.stream() as stream:
        stream.call(time.sleep, 0.02)
        _scale_often(given, other, stream)
        seen: Any = memory.view("float32").memoryview()
        _write_for(0.05, seen)
        stream.synchronize()
        given.scaled(memory.view("float32"))
        expect("what a kernel left there", memory.view("float32").tolist(), wanted)
        seen.release()


@row("memory", "memory that another process uses", needs="UNIFIED_ADDRESSING")
def _shared(given: Given) -> None:
    if given.device.attribute("COMPUTE_MODE"):
        raise NotAsked("the compute mode of the device keeps other processes from using it")
    path = getattr(driver.current().libcuda, "path", "")
    if driver.is_emulator(driver.current()):
        name = "emulator"
    elif os.path.isabs(path):
        name = path
    else:
        name = "nvidia"
    with given.device.allocate(4 * _COUNT) as memory:
        memory.copy_from(floats(_COUNT))
        given.device.synchronize()
        try:
            shared = memory.share()
        except Unsupported as error:
            raise Missing(str(error)) from None
        with shared:
            code = f"from {__name__} import use_shared; use_shared({name!r}, {bytes(shared).hex()!r})"
            done = subprocess.run(python(code), stdin=subprocess.DEVNULL, capture_output=True, timeout=50)
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
        expect(f"the other process's exit status ({''.join(said[-1:])})", done.returncode, 0)
        back = floats(_COUNT)
        memory.copy_to(back)
        expect("what the other process left there", back, type(back)("f", [2 * each for each in floats(_COUNT)]))


def use_shared(name: str, handle: str) -> None:
    """Double the numbers in memory of another process; the row above starts this in a process of its own."""
    driver.use(name)
    with Memory.from_handle(SharedHandle.from_bytes(bytes.fromhex(handle))) as memory:
        given = Given(memory.device)
        back = floats(_COUNT)
        memory.copy_to(back)
        expect("what the other process found", back, floats(_COUNT))
        given.scaled(memory.view("float32"))
        given.close()


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


@row("memory", "host memory, page-locked in place", needs="HOST_REGISTER_SUPPORTED")
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
    given.answers["granularity of virtual memory"] = size
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


@row("memory", "alignments")
def _alignments(given: Given) -> str:
    """The CUDA Programming Guide promises 256 bytes; the rest is for the report."""
    made = [given.device.allocate(1) for _ in range(8)]
    together = reduce(or_, (memory.ptr for memory in made))
    alignment = together & -together  # the largest power of 2 of which all are multiples
    for memory in made:
        memory.close()
    if alignment % 256:
        raise AssertionError(f"an allocation begins at a multiple of {alignment} only, and should at one of 256")
    pitched = given.device.empty_pitched((2, 1), "uint8")
    pitch = pitched.strides[0]
    given.answers.update({"alignment of an allocation": alignment, "pitch of a row of one byte": pitch})
    return f"allocations: {alignment}; pitches: {pitch}"
