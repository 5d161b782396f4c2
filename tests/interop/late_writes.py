"""A program that checks that a consumer never misses a write that is pending when an array is exported.

    python3 -m tests.interop.late_writes ROUNDS

It runs on the driver that RAWCUDA_DRIVER names, and prints the number of wrong values for each way of passing an array.
This number must be 0. The ways whose name contains "unordered" request no ordering. Their values must be wrong in some
rounds, in the random mode of the emulator and on a GPU where a kernel spins before each write; otherwise this program
could not find an error.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Callable

from tests.subject import module, rawcuda

SPIN = """
.version 6.3
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 cycles)
{
    .reg .u64 %r<4>;
    .reg .pred %p<2>;
    ld.param.u64 %r0, [cycles];
    mov.u64 %r1, %clock64;
AGAIN:
    mov.u64 %r2, %clock64;
    sub.u64 %r3, %r2, %r1;
    setp.lt.u64 %p0, %r3, %r0;
    @%p0 bra AGAIN;
    ret;
}
"""
N = 1000
CUstream = module("headers.cuda_h").CUstream


class Theirs:
    """An array of another library, whose work is on its own stream; it exports as the specifications require."""

    def __init__(self, array: Any, stream: Any, *, version: int = 3) -> None:
        self.array, self.stream, self.version = array, stream, version

    def write(self, value: int) -> None:
        self.array.fill(value, stream=self.stream)


class ByDlpack(Theirs):
    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if stream != -1:  # as in torch, CuPy and JAX, the consumer's stream waits for ours
            rawcuda.Stream.from_handle(1 if stream is None else stream).wait(self.stream)
        return self.array.__dlpack__(stream=-1, max_version=max_version)


class ByInterface(Theirs):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = {**self.array.__cuda_array_interface__, "version": self.version}
        del said["stream"]
        if self.version == 3:
            said["stream"] = self.stream.handle
        return said


def read_on(stream: Any, address: int, device: Any) -> list[int]:
    """Read as another library would: with a copy on its own stream."""
    target = device.empty(N, "int32")
    with device.current():
        rawcuda.cu.cuMemcpyDtoDAsync_v2(target.ptr, address, 4 * N, CUstream(stream.handle))
    stream.synchronize()
    values: list[int] = target.download().tolist()
    return values


def ways(device: Any, first: Any, second: Any) -> dict[str, Callable[[int, Callable[[], None]], list[int]]]:
    """Return every way of passing an array; each writes a value late, passes the array, and reads it."""

    def fresh() -> Any:
        array = device.empty(N, "int32").fill(-1)
        rawcuda.synchronize()
        return array

    def consume(
        kind: type[Theirs], use: str, stream: Any = second, **options: Any
    ) -> Callable[[int, Callable[[], None]], list[int]]:
        def way(value: int, late: Callable[[], None]) -> list[int]:
            theirs = kind(fresh(), first, **options)
            late()
            theirs.write(value)
            target = device.empty(N, "int32")
            if use == "argument":  # directly to a copy, which views it
                rawcuda.copy(target, theirs, stream=second)
            else:
                read = rawcuda.view(theirs, stream=stream)
                target.copy_from(read, stream=second)
            second.synchronize()
            values: list[int] = target.download().tolist()
            return values

        return way

    def produce(by: str, stream: int | None) -> Callable[[int, Callable[[], None]], list[int]]:
        def way(value: int, late: Callable[[], None]) -> list[int]:
            ours = fresh()
            ours.stream = first
            late()
            ours.fill(value, stream=first)
            if by == "dlpack":
                capsule = ours.__dlpack__(stream=stream, max_version=(1, 0))
                assert capsule is not None
            else:
                said = ours.__cuda_array_interface__
                if said["stream"] is not None:
                    second.wait(rawcuda.Stream.from_handle(said["stream"]))
            return read_on(rawcuda.Stream.legacy if stream == 1 else second, ours.ptr, device)

        return way

    def back_edge(value: int, late: Callable[[], None]) -> list[int]:
        """The stream of the exporter must wait for our use."""
        theirs = ByInterface(fresh().fill(value), first)
        rawcuda.synchronize()
        read = rawcuda.view(theirs, stream=second)
        target = device.empty(N, "int32")
        late_on(second, late)
        target.copy_from(read, stream=second)
        theirs.write(-7)
        rawcuda.synchronize()
        values: list[int] = target.download().tolist()
        return values

    def late_on(stream: Any, late: Callable[..., None]) -> None:
        late(stream)

    def host(kind: str) -> Callable[[int, Callable[[], None]], list[int]]:
        def way(value: int, late: Callable[[], None]) -> list[int]:
            with device.allocate(4 * N, kind=kind) as memory:
                ours = memory.view().reinterpret("int32").fill(-1)
                rawcuda.synchronize()
                ours.stream = first
                late()
                ours.fill(value, stream=first)
                values: list[int] = ours.memoryview().tolist()
                del ours
                return values

        return way

    return {
        "view of a foreign DLPack exporter": consume(ByDlpack, "view"),
        "argument of a foreign DLPack exporter": consume(ByDlpack, "argument"),
        "view of a foreign CUDA array interface": consume(ByInterface, "view"),
        "argument of a foreign CUDA array interface": consume(ByInterface, "argument"),
        "view of a foreign CUDA array interface, version 2": consume(ByInterface, "view", version=2),
        "ours by DLPack to a foreign stream": produce("dlpack", second.handle),
        "ours by DLPack to the legacy stream": produce("dlpack", 1),
        "ours by the CUDA array interface": produce("cai", None),
        "a foreign stream does not run ahead": back_edge,
        "ours in pinned memory, to the host": host("pinned"),
        "ours in managed memory, to the host": host("managed"),
        "unordered: view of a foreign DLPack exporter": consume(ByDlpack, "view", stream=-1),
        "unordered: ours by DLPack": produce("dlpack", -1),
    }


def main(rounds: int) -> dict[str, int]:
    """Return the number of rounds with wrong values, for each way."""
    device = rawcuda.Device(0)
    emulated = "emulator" in device.name.lower()
    wrong: dict[str, int] = {}
    with device.stream() as first, device.stream() as second, device.load(SPIN) as loaded:
        scratch = device.empty(1, "int32")

        def late(stream: Any = first) -> None:
            if emulated:  # each call may do a part of this work, so it must be more than the calls can do
                for _ in range(40):
                    scratch.fill(0, stream=stream)
            else:  # about 5 ms
                loaded["spin"].launch(10_000_000, grid=1, block=1, stream=stream)

        for name, way in ways(device, first, second).items():
            wrong[name] = 0
            for turn in range(rounds):
                values = way(turn, late)
                wrong[name] += values != [turn] * N
                rawcuda.synchronize()
    return wrong


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
