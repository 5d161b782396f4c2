"""Measure what only a GPU can show: launch rate, the first kernel, bandwidth, strided copies, allocation, graphs.

    python3 -m benchmarks.gpu

Rates of copies are compared with the rate of the driver's plain copy from device to device, which reads and writes each
byte once. Times are wall-clock times of the work and a synchronization; each is the median of several runs.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Callable

import rawcuda

from .things import ptx

MIB = 1 << 20
EMPTY = ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
FIRST_KERNEL = f"import rawcuda; d = rawcuda.Device(0); d.load({EMPTY!r})['k'].launch(grid=1, block=1); d.synchronize()"
FIRST_KERNEL_C = r"""
#include <stdio.h>
#include <dlfcn.h>
typedef void *H;
int main(void) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW);
  #define F(name) int (*name)() = (int (*)())dlsym(lib, #name)
  F(cuInit); F(cuDeviceGet); F(cuDevicePrimaryCtxRetain); F(cuCtxSetCurrent);
  F(cuModuleLoadData); F(cuModuleGetFunction); F(cuLaunchKernel); F(cuCtxSynchronize);
  int device; H context, module, kernel; void *none[1];
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
    return 1;
  if (cuModuleLoadData(&module, ".version 6.3\n.target sm_50\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"))
    return 2;
  if (cuModuleGetFunction(&kernel, module, "k")) return 3;
  return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, (H)0, none, (H)0) || cuCtxSynchronize();
}
"""


def has_gpu() -> bool:
    """Tell whether NVIDIA's driver is installed and finds a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1" if sys.platform != "win32" else "nvcuda.dll")
        count = ctypes.c_int()
        return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def tell(what: str, value: float, unit: str, note: str = "") -> None:
    """Print one result."""
    print(f"{what:70}{value:>12.3f} {unit}{'   ' + note if note else ''}", flush=True)


def seconds(work: Callable[[], object], finish: Callable[[], object], runs: int = 7) -> float:
    """Return the median time in seconds of some work and the wait for its end."""
    work(), finish()
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        work(), finish()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


class Setup:
    """A device, a stream, and a launch of four arguments."""

    def __init__(self) -> None:
        self.device = rawcuda.Device(0)
        self.stream = self.device.stream()
        kernel = self.device.load(ptx(k=".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n"))["k"]
        self.launch = kernel.configure(grid=5, block=32, stream=self.stream)
        self.arguments = [*(self.device.empty((64,), "float32") for _ in range(3)), 7]


def launches(setup: Setup) -> None:
    """Time launches one after the other, and a launch with the wait for it."""
    launch, arguments, wait = setup.launch, setup.arguments, setup.stream.synchronize

    def many() -> None:
        for _ in range(10_000):
            launch(*arguments)

    tell("launch rate, 4 arguments", 10_000 / seconds(many, wait) / 1e6, "million/s")
    took = seconds(lambda: [(launch(*arguments), wait()) for _ in range(1000)], lambda: None)
    tell("launch and wait", took * 1e3, "us")


def first_kernel() -> None:
    """Time whole processes, from their start to the end of the first kernel."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "rawcuda": [sys.executable, "-c", FIRST_KERNEL],
            "a bare interpreter": [sys.executable, "-c", "pass"],
        }
        if compiler:
            (Path(folder) / "first.c").write_text(FIRST_KERNEL_C)
            subprocess.run([compiler, "-O2", "-w", f"{folder}/first.c", "-o", f"{folder}/first", "-ldl"], check=True)
            commands["a C program"] = [f"{folder}/first"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(9):
            for name, command in commands.items():
                begun = time.perf_counter()
                subprocess.run(command, check=True)
                times[name].append(time.perf_counter() - begun)
    for name, taken in times.items():
        tell(f"process start to the first finished kernel: {name}", statistics.median(taken) * 1e3, "ms")


def bandwidth(setup: Setup) -> float:
    """Time plain copies of 256 MiB; return the device's own rate in GB/s, where bytes read and written both count."""
    device, stream, n = setup.device, setup.stream, 256 * MIB
    first, second = device.empty((n,), "uint8"), device.empty((n,), "uint8")
    pinned, pageable = device.allocate(n, kind="pinned").view(), bytearray(n)
    rates = []
    for name, target, source, factor in (
        ("device to device", second, first, 2),
        ("pinned to device", first, pinned, 1),
        ("device to pinned", pinned, first, 1),
        ("pageable to device", first, pageable, 1),
    ):
        took = seconds(lambda: [rawcuda.copy(target, source, stream=stream) for _ in range(4)], stream.synchronize) / 4
        rates.append(factor * n / took / 1e9)
        tell(f"bandwidth: {name}", rates[-1], "GB/s")
    return rates[0]


def strided(setup: Setup, rate: float) -> None:
    """Copy 256 MiB in layouts that no plain copy can handle, and compare with torch and CuPy on the same memory."""
    for dtype, size in (("uint8", 1), ("uint16", 2), ("float32", 4), ("float64", 8), ("complex128", 16)):
        side = int((256 * MIB / size) ** 0.5) // 64 * 64
        edge = int((256 * MIB / size) ** (1 / 3)) // 16 * 16
        flat, cube = setup.device.empty((side, side), dtype), setup.device.empty((edge, edge, edge), dtype)
        wide, holes = setup.device.empty((side, side + 3), dtype), setup.device.empty((side, 2 * side), dtype)
        other, box = setup.device.empty((side, side), dtype), setup.device.empty((edge, edge, edge), dtype)
        for name, target, source in (
            ("transpose 2-D", other, flat.T),
            ("transpose 3-D (2, 0, 1)", box, cube.transpose(2, 0, 1)),
            ("transpose 3-D (2, 1, 0)", box, cube.T),
            ("odd pitch", other, wide[:, 1 : side + 1]),
            ("every second element", other, holes[:, ::2]),
            ("rows reversed", other, flat[::-1]),
        ):

            def ours() -> None:
                for _ in range(4):
                    rawcuda.copy(target, source, stream=setup.stream)

            took = seconds(ours, setup.stream.synchronize) / 4
            note = "goal: at least 0.85" if size >= 4 and name != "every second element" else ""
            what = f"strided copy: {name}, {size} bytes"
            tell(what, 2 * target.nbytes / took / 1e9 / rate, "of the plain copy's rate", note)
            for peer in ("torch", "cupy"):
                try:
                    took = peer_copy(peer, target, source)
                    tell(f"{what}, {peer}", 2 * target.nbytes / took / 1e9 / rate, "of the plain copy's rate")
                except Exception as error:
                    print(f"left out: {what}, {peer}: {type(error).__name__}: {error}".splitlines()[0])


def peer_copy(peer: str, target: Any, source: Any) -> float:
    """Return the seconds in which another library copies between the same memory, which it gets through DLPack."""
    module = import_module(peer)
    to, source = module.from_dlpack(target), module.from_dlpack(source)
    if peer == "torch":
        return seconds(lambda: [to.copy_(source) for _ in range(4)], module.cuda.synchronize) / 4
    return seconds(lambda: [module.copyto(to, source) for _ in range(4)], module.cuda.Device().synchronize) / 4


def allocation_and_graphs(setup: Setup) -> None:
    """Time allocations in stream order, and the replay of recorded launches."""
    device, stream = setup.device, setup.stream
    took = seconds(lambda: [device.allocate(MIB, stream=stream).close() for _ in range(1000)], stream.synchronize)
    tell("allocate and free 1 MiB in stream order", took * 1e3, "us")
    with stream.capture() as graph:
        for _ in range(100):
            setup.launch(*setup.arguments)
    took = seconds(lambda: [graph.launch(stream) for _ in range(20)], stream.synchronize) / 2000
    tell("replay of a graph of 100 launches, one launch", took * 1e6, "us")


def main() -> None:
    """Measure everything; a part that fails is left out."""
    if not has_gpu():
        sys.exit("there is no GPU: NVIDIA's driver is missing, or finds no device")
    setup = Setup()
    for work in (
        lambda: launches(setup),
        first_kernel,
        lambda: strided(setup, bandwidth(setup)),
        lambda: allocation_and_graphs(setup),
    ):
        try:
            work()
        except Exception as error:
            print(f"left out: {type(error).__name__}: {error}".splitlines()[0])


if __name__ == "__main__":
    main()
